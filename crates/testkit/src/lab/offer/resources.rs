//! Resources: two texts, an image, and one for each id.

use portico_engine::{OfferFault, OfferRequest};
use serde_json::{Map, Value, json};

use super::{PNG, wrong};

/// The older revisions' code for a resource that does not exist.
const NOT_FOUND: i32 = -32002;

const TEXT: &str = "test://static-text";
const IMAGE: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

pub(super) fn list() -> Value {
    json!({ "resources": [
        { "uri": TEXT, "name": "static-text", "description": "A text.", "mimeType": "text/plain" },
        { "uri": IMAGE, "name": "static-binary", "description": "An image.", "mimeType": "image/png" },
        { "uri": WATCHED, "name": "watched-resource", "description": "To be watched.", "mimeType": "text/plain" },
    ] })
}

pub(super) fn templates() -> Value {
    json!({ "resourceTemplates": [{
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "One for each id.",
        "mimeType": "application/json",
    }] })
}

pub(super) fn read(request: OfferRequest<'_>) -> Result<Value, OfferFault> {
    let uri = request.params["uri"].as_str().unwrap_or_default();
    let (mime_type, kind, content) = match uri {
        TEXT => ("text/plain", "text", "This is the content of the static text resource.".to_owned()),
        IMAGE => ("image/png", "blob", PNG.to_owned()),
        WATCHED => ("text/plain", "text", "Nothing happens here.".to_owned()),
        _ => match uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data")) {
            Some(id) => {
                let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                ("application/json", "text", data.to_string())
            }
            None => return Err(no_such(request, uri)),
        },
    };
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": mime_type, kind: content }] }))
}

fn no_such(request: OfferRequest<'_>, uri: &str) -> OfferFault {
    let fault = wrong("params.uri", "is no resource's");
    let code = if request.assistant.is_modern() { fault.code } else { NOT_FOUND };
    OfferFault { code, more: Map::from_iter([("uri".to_owned(), json!(uri))]), ..fault }
}
