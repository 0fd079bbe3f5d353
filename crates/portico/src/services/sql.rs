//! The documents that ran last, and the event types that there ever were, as the database keeps them.

use std::collections::BTreeMap;

use portico_kernel::Timestamp;
use portico_openapi::is_same_schema;
use portico_store::{Db, Select, StoreError, args, from_row};
use serde_json::Value;

use super::LoadedService;

/// A service's document.
pub(super) struct KeptDocument {
    pub(super) service: String,
    pub(super) document: String,
}

from_row!(KeptDocument { service, document });

struct KeptType {
    event_type: String,
    data_schema: String,
}

from_row!(KeptType { event_type, data_schema });

/// The documents that ran last.
pub(super) async fn documents(db: &Db) -> Result<Vec<KeptDocument>, StoreError> {
    let statement = "select service, document from service_documents order by service";
    db.query().all(statement, args![]).await
}

/// What the documents would change of event types that there were: a type's schema never changes.
pub(crate) async fn changed_types(db: &Db, loaded: &[LoadedService]) -> Result<Vec<String>, StoreError> {
    let kept = types(db).await?;
    let mut findings = Vec::new();
    for service in loaded {
        for event in &service.document.events {
            let before = kept.get(&event.name);
            if before.is_some_and(|before| !is_same_schema(before, &event.schema)) {
                findings.push(format!(
                    "{}: {}: the schema of the event type `{}` has changed; receivers rely on it, so a new shape is a \
                     new type",
                    service.settings.openapi, event.pointer, event.name
                ));
            }
        }
    }
    Ok(findings)
}

async fn types(db: &Db) -> Result<BTreeMap<String, Value>, StoreError> {
    let statement = "select event_type, data_schema from service_event_types";
    let rows: Vec<KeptType> = db.query().all(statement, args![]).await?;
    let value = |text: &str| serde_json::from_str(text).unwrap_or_default();
    Ok(rows.iter().map(|row| (row.event_type.clone(), value(&row.data_schema))).collect())
}

/// Keeps what runs now.
pub(crate) async fn keep(db: &Db, loaded: &[LoadedService], now: Timestamp) -> Result<(), StoreError> {
    let names: Vec<String> = loaded.iter().map(|service| service.settings.name.clone()).collect();
    let mut tx = db.write().await?;
    let gone: Vec<KeptDocument> =
        tx.all("select service, document from service_documents order by service", args![]).await?;
    for kept in gone.iter().filter(|kept| !names.contains(&kept.service)) {
        tx.execute("delete from service_documents where service = $1", args![kept.service.clone()]).await?;
    }
    for service in loaded {
        tx.execute(
            "insert into service_documents (service, document, loaded_at) values ($1, $2, $3) \
             on conflict (service) do update set document = excluded.document, loaded_at = excluded.loaded_at",
            args![service.settings.name.clone(), service.text.clone(), now],
        )
        .await?;
        for event in &service.document.events {
            tx.execute(
                "insert into service_event_types (event_type, service, data_schema) values ($1, $2, $3) \
                 on conflict (event_type) do nothing",
                args![event.name.clone(), service.settings.name.clone(), event.schema.to_string()],
            )
            .await?;
        }
    }
    tx.commit().await
}
