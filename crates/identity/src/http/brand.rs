//! The brand's files: its colour and its logo.

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use portico_kernel::{Brand, Logo, hex};

use super::response::{AuthResponse, asset, new, no_sniffing, with};

const ETAG_BYTES: usize = 16;

/// The brand's files, as they are sent.
pub(crate) struct BrandFiles {
    style: Bytes,
    logo: Bytes,
    content_type: &'static str,
    etag: HeaderValue,
}

impl BrandFiles {
    pub(crate) fn new(brand: &Brand) -> Self {
        let logo = Bytes::from(brand.logo.bytes.to_vec());
        let tag = hex(&digest(&SHA256, &logo).as_ref()[..ETAG_BYTES]);
        Self {
            style: brand.style().into(),
            logo,
            content_type: brand.logo.content_type,
            etag: HeaderValue::from_str(&format!("\"{tag}\"")).unwrap_or(HeaderValue::from_static("\"\"")),
        }
    }

    pub(super) fn style(&self) -> AuthResponse {
        asset("text/css; charset=utf-8", self.style.clone())
    }

    /// The logo, unless the browser has it.
    pub(super) fn logo(&self, asked: &HeaderMap) -> AuthResponse {
        let tags = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let has = tags
            .flat_map(|tags| tags.split(','))
            .any(|tag| tag.trim().trim_start_matches("W/").as_bytes() == self.etag.as_bytes());
        let response = if has {
            new(StatusCode::NOT_MODIFIED, "")
        } else {
            with(
                new(StatusCode::OK, self.logo.clone()),
                CONTENT_TYPE,
                HeaderValue::from_static(self.content_type),
            )
        };
        let response = with(response, ETAG, self.etag.clone());
        let response = with(response, CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        no_sniffing(with(response, CONTENT_SECURITY_POLICY, HeaderValue::from_static(Logo::POLICY)))
    }
}
