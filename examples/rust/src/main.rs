//! Invoices behind Portico:  cargo run
//!
//! It sees no token. Who calls stands in `portico-account`, and a request that is wrong was refused before it came here.
use std::{env, error::Error, sync::Mutex};

use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::{Json, Router, routing};
use serde_json::{Value, json};

type Failure = (StatusCode, Json<Value>);

/// Each with its account, oldest first; a real service has a database.
static INVOICES: Mutex<Vec<(Option<HeaderValue>, Value)>> = Mutex::new(Vec::new());

/// Tells the account's webhooks and streams. A repeat under the same id makes nothing.
async fn publish(event: Value) -> Result<(), Box<dyn Error>> {
    let base = env::var("PORTICO_BASE_URL").unwrap_or("http://127.0.0.1:8080".into());
    let auth = env::var("PORTICO_AUTH_URL").unwrap_or("http://localhost:8081".into());
    let http = reqwest::Client::new();
    // One that publishes often keeps the token until it ends.
    let form = [("grant_type", "client_credentials"), ("audience", "platform-api"), ("scope", "service:events")];
    let asked = http.post(format!("{auth}/oauth2/token")).form(&form);
    let asked = asked.basic_auth(env::var("PORTICO_CLIENT_ID")?, Some(env::var("PORTICO_CLIENT_SECRET")?));
    let token: Value = asked.send().await?.error_for_status()?.json().await?;
    let told = http.post(format!("{base}/v1/services/events")).json(&json!({ "events": [event] }));
    let told = told.bearer_auth(token["access_token"].as_str().unwrap_or_default());
    let told: Value = told.send().await?.error_for_status()?.json().await?;
    told["refused"].get(0).map_or(Ok(()), |refusal| Err(refusal["problem"]["error"].to_string().into()))
}

async fn list(headers: HeaderMap, RawQuery(query): RawQuery) -> Json<Value> {
    let (account, invoices) = (headers.get("portico-account"), INVOICES.lock().unwrap());
    let status = query.as_deref().and_then(|query| query.strip_prefix("status="));
    let wanted = |invoice: &Value| status.is_none_or(|status| invoice["status"] == status);
    let own = invoices.iter().rev().filter(|(owner, invoice)| owner.as_ref() == account && wanted(invoice));
    Json(json!({ "invoices": own.map(|(_, invoice)| invoice).collect::<Vec<_>>() }))
}

async fn create(headers: HeaderMap, Json(mut invoice): Json<Value>) -> (StatusCode, Json<Value>) {
    let lines = invoice["lines"].as_array().into_iter().flatten();
    let cents = lines.filter_map(|line| Some(line["quantity"].as_i64()? * line["cents"].as_i64()?));
    invoice["total_cents"] = cents.sum::<i64>().into();
    invoice["id"] = format!("in_{:016x}", rand::random::<u64>()).into();
    invoice["status"] = "open".into();
    INVOICES.lock().unwrap().push((headers.get("portico-account").cloned(), invoice.clone()));
    (StatusCode::CREATED, Json(invoice))
}

/// The invoice of the caller's account, with the status that it has from now on, if it is to change.
fn invoice(headers: &HeaderMap, id: &str, status: Option<&str>) -> Result<Json<Value>, Failure> {
    let (account, mut invoices) = (headers.get("portico-account"), INVOICES.lock().unwrap());
    let own = invoices.iter_mut().find(|(owner, invoice)| owner.as_ref() == account && invoice["id"] == id);
    let (_, invoice) = own.ok_or((StatusCode::NOT_FOUND, Json(json!({ "message": "There is no such invoice." }))))?;
    invoice["status"] = status.map_or(invoice["status"].take(), Value::from);
    Ok(Json(invoice.clone()))
}

async fn pay(headers: HeaderMap, Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    let Json(paid) = invoice(&headers, &id, Some("paid"))?;
    let data = json!({ "invoice_id": id, "total_cents": paid["total_cents"] });
    let account = headers["portico-account"].to_str().unwrap_or_default();
    let event = json!({ "id": format!("{id}.paid"), "account_id": account, "type": "invoice.paid", "data": data });
    let failed = |error: Box<dyn Error>| {
        eprintln!("{error}");
        (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "message": "Try again in a moment." })))
    };
    publish(event).await.map_err(failed).map(|()| Json(paid))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let read = async |headers: HeaderMap, Path(id): Path<String>| invoice(&headers, &id, None);
    let routes = Router::new()
        .route("/healthz", routing::get(Json(json!({}))))
        .route("/v1/invoices", routing::get(list).post(create))
        .route("/v1/invoices/{id}", routing::get(read))
        .route("/v1/invoices/{id}/pay", routing::post(pay));
    let port = env::var("PORT").unwrap_or("9000".into());
    Ok(axum::serve(tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?, routes).await?)
}
