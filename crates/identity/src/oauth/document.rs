//! Client id metadata documents: the client id is an address, and what is there describes the client.

use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use portico_egress::Limits;
use portico_kernel::{Code, Problem};
use url::Url;

use super::client::{Client, Origin};
use super::register::ClientMetadata;
use crate::http::{RequestContext, header};
use crate::people::attempts::{self, DOCUMENTS};
use crate::sql::oauth::ClientRow;
use crate::{Identity, limits, sql};

fn refused(message: impl Into<String>) -> Problem {
    Problem::new(Code::BadRequest, message.into())
}

/// Can this be the address of a document? It has a path, and nothing that could be read in two ways.
pub(crate) fn is_address(id: &str) -> bool {
    let Ok(url) = Url::parse(id) else { return false };
    let plain = url.as_str() == id && url.username().is_empty() && url.password().is_none();
    let dots =
        url.path_segments().is_some_and(|mut segments| segments.any(|part| part == "." || part == ".."));
    matches!(url.scheme(), "https" | "http")
        && plain
        && !dots
        && url.fragment().is_none()
        && url.path() != "/"
}

impl Identity {
    /// The app of that id. The metadata document of one whose id is an address is fetched, unless it is cached.
    pub(crate) async fn client(&self, context: &RequestContext<'_>, id: &str) -> Result<Client, Problem> {
        let unknown = || refused("No app with this id is registered here.");
        if !is_address(id) {
            return self.known_client(context.engine, id).await?.ok_or_else(unknown);
        }
        let mut tx = context.engine.db.read().await?;
        let kept = sql::oauth::client(&mut tx, id).await?;
        tx.rollback();
        match kept {
            Some(row) if row.revoked_at.is_some() => Err(unknown()),
            Some(row) if row.expires_at.is_some_and(|end| context.now < end) => Ok(Client::from_row(row)?),
            _ => self.fetch(context, id).await,
        }
    }

    /// Fetches the client's metadata document. Nothing else that the document names is ever fetched.
    async fn fetch(&self, context: &RequestContext<'_>, id: &str) -> Result<Client, Problem> {
        let limits = [(DOCUMENTS, &*context.address_bucket())];
        if attempts::take(context.engine, context.now, &limits).await?.is_some() {
            return Err(refused("Too many apps were looked up from here; try again later."));
        }
        let bounds = Limits { time: limits::DOCUMENT_TIME_MAX, bytes: limits::DOCUMENT_BYTES_MAX };
        let fetched = self.egress.get(id, "application/json", bounds).await;
        // One sentence for whatever went wrong: a stranger learns nothing about what can be reached from here.
        let unread = || refused("The app's own description cannot be read.");
        let fetched =
            fetched.ok().filter(|fetched| fetched.status == http::StatusCode::OK).ok_or_else(unread)?;
        if !header(&fetched.headers, CONTENT_TYPE.as_str()).to_ascii_lowercase().contains("json") {
            return Err(unread());
        }
        let metadata: ClientMetadata = serde_json::from_slice(&fetched.body)
            .map_err(|_| refused("The app's own description is not the JSON it must be."))?;
        if metadata.client_id.as_deref() != Some(id) {
            return Err(refused("The app's own description is of another app."));
        }
        if metadata.asks_secret() {
            return Err(refused("The app's own description asks for a secret, which it could not keep."));
        }
        if metadata.client_name.as_deref().is_none_or(str::is_empty) {
            return Err(refused("The app's own description has no name."));
        }
        metadata.check_redirects().map_err(|error| refused(error.description))?;
        let row = ClientRow {
            id: id.to_owned(),
            origin: Origin::Document,
            name: metadata.shown_name().map_err(|error| refused(error.description))?,
            secret_hash: None,
            redirect_uris: serde_json::to_string(&metadata.redirect_uris).map_err(Problem::internal)?,
            scopes: metadata.granted_scopes().to_string(),
            created_at: context.now,
            expires_at: Some(context.now + life(header(&fetched.headers, CACHE_CONTROL.as_str()))),
            revoked_at: None,
        };
        let mut tx = context.engine.db.write().await?;
        sql::oauth::upsert_client(&mut tx, &row).await?;
        tx.commit().await?;
        Ok(Client::from_row(row)?)
    }
}

/// How long a document is good, within our own bounds.
fn life(cache_control: &str) -> Duration {
    let (least, most) = limits::DOCUMENT_LIFE;
    let mut parts = cache_control.split(',').map(|part| part.trim().to_ascii_lowercase());
    let seconds = parts.find_map(|part| part.strip_prefix("max-age=")?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0)).clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_kept_within_bounds() {
        assert_eq!(life(""), limits::DOCUMENT_LIFE.0);
        assert_eq!(life("public, max-age=3600"), Duration::from_hours(1));
        assert_eq!(life("max-age=99999999"), limits::DOCUMENT_LIFE.1);
        assert_eq!(life("no-store"), limits::DOCUMENT_LIFE.0);
    }

    #[test]
    fn an_id_is_an_address_in_one_spelling() {
        assert!(is_address("https://app.example/client.json"));
        for not in [
            "app_01",
            "https://app.example",
            "https://app.example/",
            "https://app.example/a/../b",
            "https://u@app.example/a",
            "https://app.example/a#b",
            "HTTPS://app.example/a",
            "ftp://app.example/a",
        ] {
            assert!(!is_address(not), "{not}");
        }
    }
}
