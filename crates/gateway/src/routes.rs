//! Which operation a request is for. Built from the registry; nobody lists a route.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use http::Method;
use percent_encoding::percent_decode_str;
use portico_engine::input::{Fields, InputError, decode_segment};
use portico_engine::{Catalog, Entry};

/// The operations of one path, by method.
pub(crate) struct Methods {
    entries: BTreeMap<&'static str, Arc<Entry>>,
    pub(crate) allow: HeaderValue,
    /// May pages of any origin read what is there?
    pub(crate) any_origin: bool,
}

/// The table of routes.
pub(crate) struct Routes(matchit::Router<Methods>);

/// A path that does not fit with the others.
#[derive(Debug)]
pub struct RouteError(String);

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RouteError {}

impl From<http::Error> for RouteError {
    fn from(error: http::Error) -> Self {
        Self(error.to_string())
    }
}

/// What a request asks for.
pub(crate) enum Route<'a> {
    /// No operation has this path.
    Nowhere,
    /// The path serves other methods.
    Wrong(&'a Methods),
    /// This operation, with these path variables.
    To(&'a Arc<Entry>, Result<Fields, InputError>),
}

impl Routes {
    pub(crate) fn new(catalog: &Catalog) -> Result<Self, RouteError> {
        let mut paths: BTreeMap<&'static str, BTreeMap<&'static str, Arc<Entry>>> = BTreeMap::new();
        for entry in catalog.entries() {
            paths.entry(entry.spec.path).or_default().insert(entry.spec.method.name(), entry.clone());
        }
        let mut router = matchit::Router::new();
        for (path, entries) in paths {
            let mut names: Vec<_> = entries.keys().copied().collect();
            if entries.contains_key("GET") {
                names.insert(names.iter().position(|name| *name == "GET").map_or(0, |at| at + 1), "HEAD");
            }
            let allow =
                HeaderValue::from_str(&names.join(", ")).map_err(|error| RouteError(error.to_string()))?;
            let any_origin = entries.values().any(|entry| entry.spec.is_public_document());
            let methods = Methods { entries, allow, any_origin };
            router.insert(path, methods).map_err(|error| RouteError(format!("{path}: {error}")))?;
        }
        Ok(Self(router))
    }

    /// Would a service that reads paths otherwise take it for a path of other operations? Some decode before they look, once
    /// or twice, and some do not mind case, blanks, or what stands behind a semicolon.
    pub(crate) fn is_ambiguous(&self, path: &str) -> bool {
        let may_differ = |byte: u8| matches!(byte, b'%' | b';') || byte.is_ascii_uppercase();
        if !path.bytes().any(may_differ) {
            return false;
        }
        let Ok(sent) = self.0.at(path) else { return false };
        let leads_elsewhere = |other: &str| {
            let other = self.0.at(other).ok().map(|found| std::ptr::from_ref(found.value));
            other.is_some_and(|other| other != std::ptr::from_ref(sent.value))
        };
        let once = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let twice = percent_decode_str(&once).decode_utf8_lossy().into_owned();
        [once, twice].iter().any(|decoded| {
            let segments =
                decoded.split('/').map(|segment| segment.split(';').next().unwrap_or_default().trim());
            let plain = segments.collect::<Vec<_>>().join("/");
            leads_elsewhere(decoded) || leads_elsewhere(&plain) || leads_elsewhere(&plain.to_lowercase())
        })
    }

    /// Matches the path as it was sent, so that a variable may hold `%2F`, and decodes afterwards.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Route<'_> {
        let Ok(found) = self.0.at(path) else { return Route::Nowhere };
        // HEAD is GET without a body.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let Some(entry) = found.value.entries.get(method.as_str()) else {
            return Route::Wrong(found.value);
        };
        let variables = found.params.iter();
        Route::To(
            entry,
            variables.map(|(name, text)| Ok((name.to_owned(), decode_segment(name, text)?))).collect(),
        )
    }
}
