//! The console's listener: the files that were built into the binary, and the one page that they make.
//!
//! The page is an application in the browser. Every path that is no file answers the same page, which knows what to show
//! there. What the page must know of this server, such as the address of the API, stands in its `meta` elements, so that
//! no script is written into it and the policy can forbid every such script.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use portico_engine::Engine;
use portico_kernel::{Brand, Code, Logo, Problem, hex};

use crate::body::HttpBody;
use crate::cors::Origins;
use crate::incoming::{IncomingRequest, check_host};
use crate::response::Refusal;

/// The page itself, in the folder of the built files: as it is for the console, and for the reference, which begins with
/// other files.
const PAGE: &str = "/index.html";
const REFERENCE_PAGE: &str = "/reference.html";
/// Where the reference is.
const REFERENCE: &str = "/reference";
/// The files whose names hold a hash of what is in them.
const HASHED: &str = "/assets/";
const ETAG_BYTES: usize = 16;

const FOR_GOOD: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Where the brand's colour and its logo are.
const STYLE: &str = "/brand/style.css";
const LOGO: &str = "/brand/logo";
const STYLE_LINK: &str = "<link rel=\"stylesheet\" href=\"/brand/style.css\" /></head>";

/// What a binary without the console answers.
const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width\"><title>Portico</title>\
    <h1>The console is not part of this build</h1>\
    <p>The server runs; only its console is missing. <code>make run</code> builds it where Node 20 or later is \
    installed. By hand: <code>cd console &amp;&amp; npm ci &amp;&amp; npm run build</code>, then build the server again.</p>\
    </html>";

/// A file of the console, as it was built into the binary.
#[derive(Debug, Clone, Copy)]
pub struct ConsoleFile {
    /// Its path at the console's address, such as `/assets/index-4f2a.js`.
    pub path: &'static str,
    /// Its bytes.
    pub bytes: &'static [u8],
    /// The same, compressed with Brotli, where that is shorter.
    pub brotli: Option<&'static [u8]>,
    /// The same, compressed with gzip, where that is shorter.
    pub gzip: Option<&'static [u8]>,
}

/// What the console is told of this server.
#[derive(Debug, Clone, Default)]
pub struct ConsoleSettings {
    /// The API.
    pub base_url: String,
    /// The identity provider.
    pub auth_url: String,
    /// The console itself.
    pub console_url: String,
    /// What it is called, and how it looks.
    pub brand: Brand,
}

/// One body, in the encodings that there are.
struct Asset {
    content_type: HeaderValue,
    etag: HeaderValue,
    bytes: Bytes,
    brotli: Option<Bytes>,
    gzip: Option<Bytes>,
    is_hashed: bool,
    /// Its own, where that is not the page's.
    policy: Option<HeaderValue>,
}

/// Serves `{console_url}`.
pub struct ConsoleServer {
    engine: Arc<Engine>,
    page: Asset,
    reference: Asset,
    files: HashMap<&'static str, Asset>,
    policy: HeaderValue,
}

fn content_type(path: &str) -> HeaderValue {
    HeaderValue::from_static(match path.rsplit('.').next().unwrap_or_default() {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        "html" => "text/html; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    })
}

/// The text as the value of an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The address without its path, as a policy and a browser name it.
fn origin(address: &str) -> String {
    address.splitn(4, '/').take(3).collect::<Vec<_>>().join("/")
}

/// What the page may do: run its own files, and call the API and the identity provider.
fn policy(settings: &ConsoleSettings) -> HeaderValue {
    let api = origin(&settings.base_url);
    // The address of the socket has a scheme of its own.
    let socket = api.replacen("http", "ws", 1);
    let provider = origin(&settings.auth_url);
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self' {api} {socket} {provider}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy)
        .unwrap_or(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"))
}

impl Asset {
    fn new(content_type: HeaderValue, bytes: Bytes) -> Self {
        let tag = hex(&digest(&SHA256, &bytes).as_ref()[..ETAG_BYTES]);
        let etag = HeaderValue::from_str(&format!("\"{tag}\"")).unwrap_or(HeaderValue::from_static("\"\""));
        Self { content_type, etag, bytes, brotli: None, gzip: None, is_hashed: false, policy: None }
    }

    fn of_file(file: &ConsoleFile) -> Self {
        Self {
            brotli: file.brotli.map(Bytes::from_static),
            gzip: file.gzip.map(Bytes::from_static),
            is_hashed: file.path.starts_with(HASHED),
            ..Self::new(content_type(file.path), Bytes::from_static(file.bytes))
        }
    }

    /// The page with this server's addresses in it.
    fn of_page(files: &[ConsoleFile], path: &str, settings: &ConsoleSettings) -> Self {
        let page = files.iter().find(|file| file.path == path);
        let text = page.map_or(NOT_BUILT.into(), |file| String::from_utf8_lossy(file.bytes));
        let brand = &settings.brand;
        let text = text
            .replace("%base_url%", &escaped(&settings.base_url))
            .replace("%auth_url%", &escaped(&settings.auth_url))
            .replace("%console_url%", &escaped(&settings.console_url));
        let text = text
            .replace("%brand_name%", &escaped(&brand.name))
            .replace("%support_url%", &escaped(&brand.support_url))
            .replace("%terms_url%", &escaped(&brand.terms_url));
        // It stands in the head, and only where it says something, because the page waits for it.
        let text = if brand.accent.is_some() { text.replace("</head>", STYLE_LINK) } else { text };
        Self::new(HTML, Bytes::from(text))
    }

    fn answer(&self, asked: &HeaderMap) -> Response<Bytes> {
        let accepts = |encoding: &str| {
            asked.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|list| {
                list.split(',').map(str::trim).any(|word| {
                    word.split(';').next().is_some_and(|name| name.trim() == encoding)
                        && !word.replace(' ', "").ends_with(";q=0")
                })
            })
        };
        let brotli = self.brotli.as_ref().filter(|_| accepts("br")).map(|bytes| (bytes, "br"));
        let gzip = || self.gzip.as_ref().filter(|_| accepts("gzip")).map(|bytes| (bytes, "gzip"));
        let encoded = brotli.or_else(gzip);
        let mut response = Response::new(encoded.map_or(&self.bytes, |(bytes, _)| bytes).clone());
        let headers = response.headers_mut();
        headers.extend(encoded.map(|(_, name)| (CONTENT_ENCODING, HeaderValue::from_static(name))));
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        headers.insert(ETAG, self.etag.clone());
        headers.insert(CACHE_CONTROL, if self.is_hashed { FOR_GOOD } else { ASK_AGAIN });
        headers.extend(self.policy.clone().map(|policy| (CONTENT_SECURITY_POLICY, policy)));
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
        let has = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|tags| {
            tags.split(',').any(|tag| tag.trim().trim_start_matches("W/").as_bytes() == self.etag.as_bytes())
        });
        if has {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            *response.body_mut() = Bytes::new();
            response.headers_mut().remove(CONTENT_ENCODING);
        }
        response
    }
}

impl ConsoleServer {
    /// The listener of these files, which work with these settings.
    pub fn new(engine: Arc<Engine>, files: &[ConsoleFile], settings: &ConsoleSettings) -> Self {
        let Brand { logo, .. } = &settings.brand;
        let style = Asset::new(content_type(STYLE), Bytes::from(settings.brand.style()));
        let logo = Asset {
            policy: Some(HeaderValue::from_static(Logo::POLICY)),
            ..Asset::new(HeaderValue::from_static(logo.content_type), Bytes::from(logo.bytes.to_vec()))
        };
        Self {
            engine,
            page: Asset::of_page(files, PAGE, settings),
            reference: Asset::of_page(files, REFERENCE_PAGE, settings),
            files: files
                .iter()
                .filter(|file| file.path != PAGE && file.path != REFERENCE_PAGE)
                .map(|file| (file.path, Asset::of_file(file)))
                .chain([(STYLE, style), (LOGO, logo)])
                .collect(),
            policy: policy(settings),
        }
    }

    /// Answers a request.
    pub fn answer<B: HttpBody>(&self, request: Request<B>) -> Response<Bytes> {
        let incoming = IncomingRequest::new(request, &self.engine);
        let result = self.find(&incoming.parts).map(|asset| asset.answer(&incoming.parts.headers));
        let mut response = incoming.finish(result, &Origins::default());
        let headers = response.headers_mut();
        headers.entry(CONTENT_SECURITY_POLICY).or_insert_with(|| self.policy.clone());
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
        response
    }

    fn find(&self, parts: &Parts) -> Result<&Asset, Refusal> {
        check_host(parts.version, &parts.headers)?;
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return Err(Refusal::method_not_allowed(&HeaderValue::from_static("GET, HEAD")));
        }
        let path = parts.uri.path();
        match self.files.get(path) {
            Some(asset) => Ok(asset),
            None if path.starts_with(HASHED) => {
                Err(Problem::new(Code::NotFound, "There is no such file.").into())
            }
            None => {
                let rest = path.strip_prefix(REFERENCE);
                let is_reference = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                Ok(if is_reference { &self.reference } else { &self.page })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_origins_and_no_paths() {
        let settings = ConsoleSettings {
            base_url: "https://api.example/platform".to_owned(),
            auth_url: "https://auth.example".to_owned(),
            console_url: "https://console.example".to_owned(),
            ..ConsoleSettings::default()
        };
        let policy = policy(&settings);
        let policy = policy.to_str().unwrap();
        assert!(
            policy.contains("connect-src 'self' https://api.example wss://api.example https://auth.example;")
        );
        assert!(!policy.contains("unsafe") && !policy.contains('*'));
    }

    #[test]
    fn addresses_cannot_leave_their_attribute() {
        static FILES: [ConsoleFile; 1] = [ConsoleFile {
            path: PAGE,
            bytes: b"<meta name=\"base-url\" content=\"%base_url%\">",
            brotli: None,
            gzip: None,
        }];
        let base_url = "http://a.test/\"><script>".to_owned();
        let page = Asset::of_page(&FILES, PAGE, &ConsoleSettings { base_url, ..ConsoleSettings::default() });
        let text = String::from_utf8(page.bytes.to_vec()).unwrap();
        assert_eq!(text, "<meta name=\"base-url\" content=\"http://a.test/&quot;&gt;&lt;script&gt;\">");
    }

    #[test]
    fn an_encoding_is_sent_to_whoever_takes_it() {
        let file =
            ConsoleFile { path: "/assets/a-1.js", bytes: b"long", brotli: Some(b"b"), gzip: Some(b"g") };
        let asset = Asset::of_file(&file);
        let answer = |accepts: &'static str| {
            let asked = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(accepts))]);
            let response = asset.answer(&asked);
            assert!(response.headers()[CACHE_CONTROL].to_str().unwrap().contains("immutable"));
            response.into_body()
        };
        assert_eq!(answer("gzip, br"), "b");
        assert_eq!(answer("gzip;q=0.5, br;q=0"), "g");
        assert_eq!(answer("identity"), "long");
        let tag = asset.answer(&HeaderMap::new()).headers()[ETAG].clone();
        assert_eq!(asset.answer(&HeaderMap::from_iter([(IF_NONE_MATCH, tag)])).status(), 304);
    }
}
