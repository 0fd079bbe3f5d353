//! What is served at `{auth_url}`. Errors of OAuth's own endpoints have OAuth's own shape.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, PRAGMA, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use portico_engine::Engine;
use portico_engine::input::{decode_form, parse_form};
use portico_kernel::{Code, Problem};
use serde_json::{Value, json};

use crate::Identity;
use crate::exchange::{ClientCredentials, ExchangeError, ExchangeForm, OAuthError};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// How long the public keys may be cached.
const JWKS_CACHE: HeaderValue = HeaderValue::from_static("public, max-age=300");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"portico\", charset=\"UTF-8\"");

impl Identity {
    /// Answers a request to `{auth_url}`. What is outside of OAuth (an unknown path, a fault of ours) is a `Problem`.
    pub async fn answer(&self, engine: &Engine, request: Request<Bytes>) -> Result<Response<Bytes>, Problem> {
        match request.uri().path() {
            "/.well-known/jwks.json" => match *request.method() {
                Method::GET | Method::HEAD => {
                    let mut response = json_response(StatusCode::OK, &self.keys.jwks());
                    response.headers_mut().insert(CACHE_CONTROL, JWKS_CACHE);
                    Ok(response)
                }
                _ => Ok(method_not_allowed("GET, HEAD")),
            },
            "/oauth2/token" => match *request.method() {
                Method::POST => self.token(engine, &request).await,
                _ => Ok(method_not_allowed("POST")),
            },
            _ => Err(Problem::new(Code::NotFound, "There is nothing at this path.")),
        }
    }

    async fn token(&self, engine: &Engine, request: &Request<Bytes>) -> Result<Response<Bytes>, Problem> {
        let exchanged = async {
            let (client, form) = read_exchange(request)?;
            self.exchange(engine, &client, &form).await
        };
        let mut response = match exchanged.await {
            Ok(exchanged) => {
                let body = serde_json::to_value(exchanged).map_err(Problem::internal)?;
                json_response(StatusCode::OK, &body)
            }
            Err(ExchangeError::Refused(error)) => refuse(&error),
            Err(ExchangeError::Fault(problem)) => return Err(problem),
        };
        response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        response.headers_mut().insert(PRAGMA, HeaderValue::from_static("no-cache"));
        Ok(response)
    }
}

fn json_response(status: StatusCode, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// The edge writes the `Problem` that goes with the status.
fn method_not_allowed(allow: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

fn refuse(error: &OAuthError) -> Response<Bytes> {
    let body = json!({ "error": error.error, "error_description": error.description });
    let unauthorized = error.error == "invalid_client";
    let status = if unauthorized { StatusCode::UNAUTHORIZED } else { StatusCode::BAD_REQUEST };
    let mut response = json_response(status, &body);
    if unauthorized {
        response.headers_mut().insert(WWW_AUTHENTICATE, CHALLENGE);
    }
    response
}

fn invalid_request(description: impl Into<String>) -> OAuthError {
    OAuthError::new("invalid_request", description)
}

fn read_exchange(request: &Request<Bytes>) -> Result<(ClientCredentials, ExchangeForm), OAuthError> {
    let mut form = read_form(request)?;
    let grant = form.remove("grant_type").ok_or_else(|| invalid_request("grant_type is missing."))?;
    if grant != "client_credentials" {
        return Err(OAuthError::new("unsupported_grant_type", "The grant type must be client_credentials."));
    }
    if form.contains_key("client_secret") {
        return Err(invalid_request("The client authenticates with HTTP Basic, not in the form."));
    }
    let client = read_basic(request)?;
    Ok((client, ExchangeForm { audience: form.remove("audience"), scope: form.remove("scope") }))
}

/// The form's parameters, each given once. Parameters that nobody knows are ignored, as RFC 6749 demands.
fn read_form(request: &Request<Bytes>) -> Result<BTreeMap<String, String>, OAuthError> {
    let content_type =
        request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case(FORM) {
        return Err(invalid_request(format!("The content type must be {FORM}.")));
    }
    let text = str::from_utf8(request.body()).map_err(|_| invalid_request("The form is not UTF-8."))?;
    let mut form = BTreeMap::new();
    for (name, value) in parse_form(text).map_err(|_| invalid_request("The form is badly encoded."))? {
        // A parameter without a value counts as left out (RFC 6749, section 3.2).
        if !value.is_empty() && form.insert(name, value).is_some() {
            return Err(invalid_request("A parameter is given more than once."));
        }
    }
    Ok(form)
}

/// Id and secret from HTTP Basic; both were form-encoded before they were joined (RFC 6749, section 2.3.1).
fn read_basic(request: &Request<Bytes>) -> Result<ClientCredentials, OAuthError> {
    let missing = || OAuthError::new("invalid_client", "The client authenticates with HTTP Basic.");
    let mut headers = request.headers().get_all(AUTHORIZATION).iter();
    let header = headers.next().and_then(|value| value.to_str().ok()).ok_or_else(missing)?;
    if headers.next().is_some() {
        return Err(invalid_request("Authorization is given more than once."));
    }
    let (scheme, encoded) = header.split_once(' ').ok_or_else(missing)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(missing());
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.ok_or_else(missing)?;
    let (id, secret) = decoded.split_once(':').ok_or_else(missing)?;
    let part = |text: &str| decode_form(text).ok_or_else(missing);
    Ok(ClientCredentials { id: part(id)?, secret: part(secret)? })
}
