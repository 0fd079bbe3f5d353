//! Requests and answers, short enough for a story.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, Method, Request, Response};
use http_body_util::{BodyExt, Collected, Full};
use hyper::body::Body as _;
use portico_gateway::{Outgoing, PeerAddress};
use portico_kernel::Code;
use serde_json::Value;

/// A request on its way.
pub struct TestRequest {
    pub(crate) builder: http::request::Builder,
    pub(crate) body: Bytes,
}

impl TestRequest {
    /// A request without anything but its address.
    pub fn new(method: &str, path: &str) -> Self {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let builder = Request::builder().method(method).uri(path).header("host", "test");
        Self { builder, body: Bytes::new() }
    }

    /// With a token.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.builder = self.builder.header(name, value);
        self
    }

    /// From somewhere else than this machine.
    #[must_use]
    pub fn at(mut self, address: IpAddr) -> Self {
        self.builder = self.builder.extension(PeerAddress(address));
        self
    }

    /// With a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.text(&body.to_string())
    }

    /// With a body that says it is JSON.
    #[must_use]
    pub fn text(self, body: &str) -> Self {
        self.header("content-type", "application/json").bytes(body.as_bytes().to_vec())
    }

    /// With a form.
    #[must_use]
    pub fn form(self, body: &str) -> Self {
        self.header("content-type", "application/x-www-form-urlencoded").bytes(body.as_bytes().to_vec())
    }

    /// With a body of no declared type.
    #[must_use]
    pub fn bytes(mut self, body: Vec<u8>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn build(self) -> Request<Full<Bytes>> {
        self.builder.body(Full::new(self.body)).unwrap()
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl From<Response<Bytes>> for Answer {
    fn from(response: Response<Bytes>) -> Self {
        let (parts, body) = response.into_parts();
        Self { status: parts.status.as_u16(), headers: parts.headers, body }
    }
}

impl Answer {
    /// The answer with its whole body, where it is known how long that is; of a stream that goes on, the head alone.
    pub(crate) async fn read(response: Response<Outgoing>) -> Self {
        let (parts, body) = response.into_parts();
        let is_whole = parts.headers.contains_key(CONTENT_LENGTH) || body.size_hint().exact().is_some();
        let body = if is_whole {
            body.collect().await.map(Collected::to_bytes).unwrap_or_default()
        } else {
            body.into_bytes()
        };
        Response::from_parts(parts, body).into()
    }
}

impl Answer {
    /// Reads an answer as it came over the wire; `None` when it is not whole.
    pub fn from_wire(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = str::from_utf8(&bytes[..end]).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
        let headers =
            fields.filter_map(|(name, value)| Some((name.parse::<HeaderName>().ok()?, value.parse().ok()?)));
        let answer =
            Self { status, headers: headers.collect(), body: Bytes::copy_from_slice(&bytes[end + 4..]) };
        (answer.header("content-length").parse() == Ok(answer.body.len())).then_some(answer)
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The header's value; empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The JSON of a success.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Asserts that this is a refusal as the specification writes it, and returns it.
    #[track_caller]
    pub fn refused(&self, code: Code) -> Value {
        let problem = self.json();
        assert_eq!(problem["code"], code.name(), "{problem}");
        assert_eq!(self.status, code.status(), "{problem}");
        assert!(problem["error"].as_str().is_some_and(|words| !words.is_empty()), "{problem}");
        assert!(problem["details"].is_array(), "{problem}");
        assert_eq!(problem["request_id"], self.header("x-request-id"), "{problem}");
        assert_eq!(problem.as_object().unwrap().len(), 4, "{problem}");
        assert_eq!(self.header("content-type"), "application/json");
        problem
    }

    /// Asserts a 400 that names `field`, and returns what it says about it.
    #[track_caller]
    pub fn refused_field(&self, field: &str) -> String {
        let problem = self.refused(Code::BadRequest);
        let details = problem["details"].as_array().unwrap();
        let detail = details.iter().find(|detail| detail["type"] == "field" && detail["field"] == field);
        detail.unwrap_or_else(|| panic!("no detail for {field} in {problem}"))["description"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}
