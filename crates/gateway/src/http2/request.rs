//! A request of HTTP/2 as the handlers know requests, and what is refused before they see it.

use http::header::HOST;
use http::{HeaderMap, HeaderValue, Request, Uri};
use portico_kernel::{Code, Problem};

/// The largest head that is taken, counted as HTTP/2 counts (RFC 9113, section 6.5.2), and the most fields in it. Both are
/// about what the library takes over HTTP/1.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;
const HEAD_FIELDS_MAX: usize = 100;
/// What each field counts beside its bytes.
const FIELD_BYTES: usize = 32;

/// Gives the request the form that it has over HTTP/1: the path alone as its address, and the host in `Host`.
pub(super) fn normalise<B>(request: &mut Request<B>) -> Result<(), Problem> {
    check_size(request.uri(), request.headers())?;
    let authority = request.uri().authority().map(|authority| HeaderValue::from_str(authority.as_str()));
    let authority = authority.transpose().map_err(Problem::internal)?;
    let hosts = request.headers().get_all(HOST);
    if let Some(authority) = &authority
        && hosts.iter().any(|host| !host.as_bytes().eq_ignore_ascii_case(authority.as_bytes()))
    {
        return Err(Problem::new(Code::BadRequest, "`:authority` and `Host` name different hosts."));
    }
    if let Some(authority) = authority
        && !request.headers().contains_key(HOST)
    {
        request.headers_mut().insert(HOST, authority);
    }
    if let Some(path) = request.uri().path_and_query().cloned() {
        *request.uri_mut() = path.into();
    }
    Ok(())
}

fn check_size(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let authority = uri.authority().map_or(0, |authority| authority.as_str().len());
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES);
    if headers.len() > HEAD_FIELDS_MAX || path + authority + fields.sum::<usize>() > HEAD_BYTES_MAX {
        return Err(Problem::new(Code::BadRequest, "The head of the request is too large."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let request = Request::builder().uri("http://a.example/v1/me?x=%20");
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(()).unwrap()
    }

    #[test]
    fn a_request_looks_as_over_http_1() {
        let mut plain = request(&[]);
        normalise(&mut plain).unwrap();
        assert_eq!(plain.uri(), "/v1/me?x=%20");
        assert_eq!(plain.headers()[HOST], "a.example");
        let mut same = request(&[("host", "A.EXAMPLE")]);
        normalise(&mut same).unwrap();
        assert_eq!(same.headers().get_all(HOST).iter().count(), 1);
    }

    #[test]
    fn two_hosts_and_large_heads_are_refused() {
        for bad in [
            request(&[("host", "b.example")]),
            request(&[("host", "a.example"), ("host", "b.example")]),
            request(&[("x", &"y".repeat(HEAD_BYTES_MAX))]),
            request(&[("x", "y"); HEAD_FIELDS_MAX + 1]),
        ] {
            let mut bad = bad;
            assert_eq!(normalise(&mut bad).unwrap_err().code(), Code::BadRequest);
        }
        let value = "y".repeat(600);
        let mut large = request(&[("x", value.as_str()); HEAD_FIELDS_MAX - 1]);
        normalise(&mut large).unwrap();
    }
}
