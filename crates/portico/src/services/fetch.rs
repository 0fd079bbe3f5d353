//! A document from an address.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt, Empty};
use portico_egress::TrustedRoots;
use portico_openapi::DOCUMENT_BYTES_MAX;
use portico_upstream::{Target, Timing, Upstream, UpstreamConfig};
use url::Url;

/// How long a document may take to arrive.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Reads what is at that address.
pub(super) async fn get(address: &str, roots: &TrustedRoots) -> Result<Vec<u8>, String> {
    let reading = tokio::time::timeout(TIME_MAX, read(address, roots)).await;
    reading.unwrap_or_else(|_| Err(format!("did not arrive within {} seconds", TIME_MAX.as_secs())))
}

async fn read(address: &str, roots: &TrustedRoots) -> Result<Vec<u8>, String> {
    let address = Url::parse(address).map_err(|error| error.to_string())?;
    let target = Target::parse(&address.origin().ascii_serialization()).map_err(|error| error.to_string())?;
    let upstream = Upstream::new(UpstreamConfig {
        name: "document".into(),
        targets: vec![target],
        health: None,
        timeout: TIME_MAX,
        roots: roots.clone(),
        timing: Timing::default(),
    });
    let query = address.query().map(|query| format!("?{query}")).unwrap_or_default();
    let request = Request::get(format!("{}{query}", address.path())).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| error.to_string())?;
    let upstream = upstream.map_err(|error| error.to_string())?;
    let response = upstream.send(request).await.map_err(|failure| failure.to_string())?.response;
    if !response.status().is_success() {
        return Err(format!("answered with status {}", response.status().as_u16()));
    }
    let (mut body, mut text) = (response.into_body(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
        if text.len() + data.len() > DOCUMENT_BYTES_MAX {
            return Err(format!("has more than {DOCUMENT_BYTES_MAX} bytes"));
        }
        text.extend_from_slice(&data);
    }
    Ok(text.into())
}
