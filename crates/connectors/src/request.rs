//! Requests, made from templates.

use std::fmt;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use portico_kernel::text_enum;
use url::Url;

use crate::address::{Destination, METHODS, Rest, parse_method};
use crate::body::{BodyTemplate, JSON_TYPE, Json, Pairs};
use crate::fault::Fault;
use crate::path::PathTemplate;
use crate::source::{Node, Table};
use crate::template::{Template, Variable};
use crate::text::{encode, header_name};
use crate::values::{Room, Scope};

/// The longest body that a request may have.
pub const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// How long all headers of a request may be together, and how long its query.
const HEAD_BYTES_MAX: usize = 24 * 1024;
/// The most headers that a manifest sets in one place.
const HEADERS_MAX: usize = 30;

/// A request to a provider.
#[derive(Clone)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// All headers but those that every call has: `host`, `user-agent` and the length of the body.
    pub headers: HeaderMap,
    /// The body, empty for none.
    pub body: Vec<u8>,
    /// Who chose the host.
    pub destination: Destination,
}

impl HttpRequest {
    /// The host, as the URL has it.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Does it go without TLS? Only the operator can allow that.
    pub fn is_plain(&self) -> bool {
        self.url.scheme() == "http"
    }
}

/// Says neither path nor header nor body: any of them can hold a credential.
impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.method, self.host())
    }
}

text_enum! {
    /// Where a value stands in a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Place {
        /// In a segment of the path.
        Path = "path",
        /// In the query.
        Query = "query",
        /// In a header.
        Headers = "headers",
        /// In a body of JSON.
        Json = "json",
        /// In a form.
        Form = "form",
    }
}

/// Headers and their values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Headers(Vec<(HeaderName, Template)>);

impl Headers {
    /// Reads a table of headers.
    pub(crate) fn read(node: &Node<'_>) -> Self {
        let mut headers: Vec<(HeaderName, Template)> = Vec::new();
        for (name, value) in node.entries(HEADERS_MAX) {
            let name = header_name(name).map_err(|message| value.fault(message)).ok();
            let template = value.parse(2_000, header_template);
            let (Some(name), Some(template)) = (name, template) else { continue };
            if headers.iter().any(|(known, _)| *known == name) {
                value.fault("is given twice");
            }
            headers.push((name, template));
        }
        Self(headers)
    }

    /// One header.
    pub(crate) fn one(name: HeaderName, template: Template) -> Self {
        Self(vec![(name, template)])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(HeaderName, Template)> {
        self.0.iter()
    }

    pub(crate) fn has(&self, name: &HeaderName) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Adds them to `headers`, in the place of those of the same name. What was not given leaves its header out.
    pub(crate) fn render(
        &self,
        headers: &mut HeaderMap,
        scope: &Scope<'_>,
        room: &Room,
    ) -> Result<(), Fault> {
        for (name, template) in &self.0 {
            let Some(text) = scope.text(template, room)? else { continue };
            let field = template.variables().last().map(Variable::field).unwrap_or_default();
            let mut value = header_value(&text).map_err(|message| Fault::new(field, message))?;
            value.set_sensitive(template.variables().next().is_some());
            headers.insert(name, value);
        }
        Ok(())
    }
}

/// A template of a header's value.
pub(crate) fn header_template(text: &str) -> Result<Template, String> {
    let template = Template::parse(text)?;
    template.literals().try_for_each(|literal| header_value(literal).map(|_| ()))?;
    Ok(template)
}

/// The value of a header; none can end it.
pub(crate) fn header_value(text: &str) -> Result<HeaderValue, String> {
    if !text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Err("must have no control characters and be ASCII, since it is sent as a header".to_owned());
    }
    HeaderValue::from_str(text).map_err(|_| "cannot be sent as a header".to_owned())
}

/// Method, path, query, headers and body of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestTemplate {
    pub(crate) method: Method,
    pub(crate) path: PathTemplate,
    pub(crate) query: Pairs,
    pub(crate) headers: Headers,
    pub(crate) body: BodyTemplate,
}

impl RequestTemplate {
    /// Reads the fields of a request from a table that may have others.
    pub(crate) fn read(table: &Table<'_>) -> Option<Self> {
        let methods = METHODS.map(|(name, _)| name);
        let method = match table.get("method") {
            Some(node) => node.choice(&methods, parse_method),
            None => Some(Method::GET),
        };
        let path = table.required("path").and_then(|node| {
            let path = node.text(1..=2_000)?;
            PathTemplate::parse(path).map_err(|message| node.fault(message)).ok()
        });
        let query = table.get("query").map(|node| Pairs::read(&node)).unwrap_or_default();
        let headers = table.get("headers").map(|node| Headers::read(&node)).unwrap_or_default();
        let json = table.get("json").map(|node| Json::read(&node));
        let form = table.get("form").map(|node| Pairs::read(&node));
        if json.is_some() && form.is_some() {
            table.fault("form", "stands beside json; a request has one body");
        }
        let body = match (json, form) {
            (Some(json), _) => BodyTemplate::Json(json?),
            (None, Some(form)) => BodyTemplate::Form(form),
            (None, None) => BodyTemplate::Empty,
        };
        let method = method?;
        if method == Method::GET && body != BodyTemplate::Empty {
            table.fault("method", "GET has no body");
        }
        Some(Self { method, path: path?, query, headers, body })
    }

    /// Every variable, where it stands, and whether it stands there alone.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(Place, bool, &Variable)) {
        for variable in self.path.variables() {
            visit(Place::Path, !self.path.is_mixed(variable), variable);
        }
        let mut visit_all = |place, template: &Template| {
            let alone = template.only().is_some();
            template.variables().for_each(|variable| visit(place, alone, variable));
        };
        self.query.iter().for_each(|(_, template)| visit_all(Place::Query, template));
        self.headers.iter().for_each(|(_, template)| visit_all(Place::Headers, template));
        match &self.body {
            BodyTemplate::Empty => {}
            BodyTemplate::Form(pairs) => {
                pairs.iter().for_each(|(_, template)| visit_all(Place::Form, template));
            }
            BodyTemplate::Json(json) => json.visit(&mut |variable| visit(Place::Json, true, variable)),
        }
    }

    /// What follows the base URL.
    pub(crate) fn rest(&self, scope: &Scope<'_>) -> Result<Rest, Fault> {
        let room = Room::new(HEAD_BYTES_MAX);
        let path = self.path.render(scope, &room)?;
        Ok(Rest { path, query: query(&self.query.render(scope, &room)?) })
    }

    /// The request to an address. Of headers with the same name the last one counts.
    pub(crate) fn render(
        &self,
        (url, destination): (Url, Destination),
        headers: &[&Headers],
        scope: &Scope<'_>,
    ) -> Result<HttpRequest, Fault> {
        let mut all = HeaderMap::new();
        all.insert(ACCEPT, HeaderValue::from_static(JSON_TYPE));
        let body = self.body.render(scope, &Room::new(REQUEST_BYTES_MAX))?;
        if let Some((media_type, _)) = &body {
            all.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        let room = Room::new(HEAD_BYTES_MAX);
        for each in headers.iter().copied().chain([&self.headers]) {
            each.render(&mut all, scope, &room)?;
        }
        let body = body.map(|(_, bytes)| bytes).unwrap_or_default();
        if body.len() > REQUEST_BYTES_MAX {
            return Err(Fault::new("params", "make the request too large"));
        }
        Ok(HttpRequest { method: self.method.clone(), url, headers: all, body, destination })
    }
}

/// A query as it is sent: only what RFC 3986 leaves unreserved stands for itself.
pub(crate) fn query(pairs: &[(String, String)]) -> String {
    let pairs: Vec<_> =
        pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join("&")
}

/// The value of `authorization` for Basic authentication, marked as not to be shown.
pub(crate) fn basic_header(user: &str, password: &str) -> HeaderValue {
    let text = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    let mut value = HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}
