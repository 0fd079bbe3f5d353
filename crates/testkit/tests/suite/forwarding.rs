//! A company's own service behind the gateway: what its document gives, what it is told, and what becomes of its answers.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body_util::StreamBody;
use hyper::body::{Body, Frame};
use portico::services::LoadedService;
use portico_kernel::{Code, ScopeSet};
use portico_testkit::{Receiver, ReceiverReply, TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};
use tokio::sync::oneshot;

on_both_databases!(
    a_document_gives_routes_scopes_prices_and_checks,
    a_service_is_told_who_calls_and_no_secret,
    errors_of_a_service_get_the_envelope,
    a_price_may_come_with_the_answer,
    a_plan_that_is_not_named_is_refused,
    a_path_that_leads_elsewhere_is_not_forwarded,
    a_call_by_name_is_a_request,
    services_are_read_anew_while_calls_run,
    what_a_document_must_not_change_is_refused,
    a_token_for_a_services_audience_opens_that_service_alone,
    what_is_published_of_a_service_refers_to_what_is_there,
    large_requests_of_an_account_leave_room_for_others,
);

/// The document of a service of invoices.
fn document() -> Value {
    let invoice = json!({
        "type": "object", "properties": { "id": { "type": "string" }, "total": { "type": "integer" } },
        "required": ["id"],
    });
    let ok =
        json!({ "200": { "description": "ok", "content": { "application/json": { "schema": invoice } } } });
    let id = json!([{ "name": "invoice_id", "in": "path", "required": true,
        "schema": { "type": "string", "pattern": "^in_[0-9]+$" } }]);
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Invoices", "version": "1" },
        "paths": {
            "/v1/invoices/{invoice_id}": { "get": {
                "operationId": "getInvoice", "summary": "Read an invoice", "parameters": id, "responses": ok,
                "security": [{ "oauth": ["invoices:read"] }],
                "x-portico-tool": { "name": "invoices_get_invoice", "title": "Read an invoice" },
            } },
            "/v1/invoices": {
                "get": {
                    "operationId": "listInvoices", "responses": ok,
                    "security": [{ "oauth": ["invoices:read"] }, { "oauth": ["invoices:write", "invoices:admin"] }],
                    "parameters": [{ "name": "limit", "in": "query", "schema": { "type": "integer", "minimum": 1 } }],
                },
                "post": {
                    "operationId": "createInvoice", "responses": ok, "x-portico-units": 40,
                    "security": [{ "oauth": ["invoices:write"] }],
                    "requestBody": { "required": true, "content": { "application/json": { "schema": {
                        "type": "object", "required": ["total"], "properties": {
                            "total": { "type": "integer", "minimum": 1 },
                            "lines": { "type": "array", "items": {
                                "type": "object", "properties": { "qty": { "type": "integer", "minimum": 1 } },
                            } },
                        },
                    } } } },
                },
            },
            "/v1/invoices/export": { "get": {
                "operationId": "exportInvoices", "responses": ok, "x-portico-plans": ["scale"],
                "security": [{ "oauth": ["invoices:read"] }],
            } },
            "/v1/invoices/about": { "get": { "operationId": "about", "responses": ok, "security": [] } },
        },
        "webhooks": { "invoice.paid": { "post": { "description": "An invoice was paid.", "requestBody": {
            "content": { "application/json": { "schema": {
                "type": "object", "required": ["invoice_id"], "properties": { "invoice_id": { "type": "string" } },
            } } },
        } } } },
        "components": { "securitySchemes": { "oauth": { "type": "oauth2", "flows": { "clientCredentials": {
            "tokenUrl": "/oauth2/token", "scopes": {
                "invoices:read": "Read invoices.", "invoices:write": "Make invoices.",
                "invoices:admin": "Do anything with invoices.",
            },
        } } } } },
    })
}

fn loaded(receiver: &Receiver, document: &Value, more: &str) -> LoadedService {
    let table = format!("openapi = \"invoices.json\"\ntargets = [\"{}\"]\n{more}", receiver.url(""));
    LoadedService::new("invoices", &table, &document.to_string()).unwrap()
}

async fn serve(app: &TestApp, service: LoadedService) {
    app.app.set_services(&[service], Some(&app.gateway)).await.unwrap();
}

/// A service that answers with an invoice, and a token with every scope of it.
async fn invoices(app: &TestApp) -> (Receiver, String) {
    let receiver = Receiver::start().await;
    for path in ["/v1/invoices/in_1", "/v1/invoices", "/v1/invoices/about", "/v1/invoices/export"] {
        let invoice = Bytes::from_static(b"{\"id\":\"in_1\",\"total\":5}");
        receiver.answer(path, ReceiverReply::Body(200, invoice));
    }
    serve(app, loaded(&receiver, &document(), "")).await;
    let token = app.token_with(app.account, app.all_scopes()).await;
    (receiver, token)
}

fn get(path: &str, token: &str) -> TestRequest {
    TestRequest::new("GET", path).bearer(token)
}

fn post(token: &str, body: &Value) -> TestRequest {
    TestRequest::new("POST", "/v1/invoices").bearer(token).json(body)
}

async fn a_document_gives_routes_scopes_prices_and_checks(app: TestApp) {
    let (receiver, token) = invoices(&app).await;
    assert_eq!(app.send(get("/v1/invoices/in_1", &token)).await.ok()["total"], 5);
    assert_eq!(receiver.received("/v1/invoices/in_1").len(), 1);
    receiver.clear();
    app.send(TestRequest::new("GET", "/v1/invoices/in_1")).await.refused(Code::Unauthenticated);
    let scopes = |names: &[&str]| names.iter().collect::<ScopeSet>();
    let weak = app.token_with(app.account, scopes(&["identity:read", "invoices:write"])).await;
    let refused = app.send(get("/v1/invoices/in_1", &weak)).await.refused(Code::Forbidden);
    assert_eq!(refused["details"][0]["metadata"]["scope"], "invoices:read");
    app.send(get("/v1/invoices", &weak)).await.refused(Code::Forbidden);
    app.send(get("/v1/invoices/nope", &token)).await.refused_field("invoice_id");
    app.send(get("/v1/invoices/in_1?x=1", &token)).await.refused_field("x");
    app.send(get("/v1/invoices?limit=0", &token)).await.refused_field("limit");
    app.send(post(&token, &json!({ "total": 0 }))).await.refused_field("total");
    app.send(post(&token, &json!({ "total": 1, "nope": 1 }))).await.refused_field("nope");
    app.send(post(&token, &json!({ "total": 1, "lines": [{ "qty": 0 }] })))
        .await
        .refused_field("lines[0].qty");
    app.send(TestRequest::new("POST", "/v1/invoices").bearer(&token)).await.refused_field("body");
    let text = TestRequest::new("POST", "/v1/invoices").bearer(&token).bytes(b"total=1".to_vec());
    app.send(text.header("content-type", "text/plain")).await.refused(Code::UnsupportedMediaType);
    app.send(TestRequest::new("DELETE", "/v1/invoices").bearer(&token)).await.refused(Code::MethodNotAllowed);
    assert!(receiver.received("/v1/invoices").is_empty(), "a refusal never reaches the service");
    // All of one requirement, any of several.
    let either = app.token_with(app.account, scopes(&["invoices:write", "invoices:admin"])).await;
    app.send(get("/v1/invoices?limit=2", &either)).await.ok();
    app.send(get("/v1/invoices/about", "")).await.ok();
    app.send(post(&token, &json!({ "total": 1 }))).await.ok();
    let units = format!("/v1/accounts/orgs/{}/units", app.account);
    let used = app.send(get(&units, &token)).await.ok();
    let row = used["usage"].as_array().unwrap().iter().find(|row| row["rpc"] == "invoices.createInvoice");
    assert_eq!(row.unwrap()["units"], "40");
}

async fn a_service_is_told_who_calls_and_no_secret(app: TestApp) {
    let (receiver, token) = invoices(&app).await;
    let sent = get("/v1/invoices/in_1", &token)
        .header("portico-account", "acc_forged")
        .header("portico_account", "acc_forged")
        .header("cookie", "a=b")
        .header("connection", "x-secret, portico-subject")
        .header("x-secret", "1")
        .header("x-forwarded-for", "10.1.1.1")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let answer = app.send(sent).await;
    let told = receiver.received("/v1/invoices/in_1").remove(0);
    assert_eq!(told.header("portico-account"), app.account.to_string());
    assert!(told.header("portico-subject").starts_with("tok_"));
    assert_eq!((told.header("portico-kind"), told.header("portico-plan")), ("client", "free"));
    assert!(told.header("portico-scopes").split(' ').any(|scope| scope == "invoices:read"));
    assert_eq!(told.header("x-request-id"), answer.header("x-request-id"));
    assert!(told.header("traceparent").starts_with("00-0af7"));
    assert!(
        told.header("forwarded").contains("for=127.0.0.1") && told.header("forwarded").contains("proto=")
    );
    for name in ["authorization", "cookie", "x-secret", "portico_account", "x-forwarded-for"] {
        assert!(told.headers.get(name).is_none(), "{name}");
    }
    assert_eq!(told.headers.get_all("portico-account").iter().count(), 1);
    assert!(!format!("{:?}", told.headers).contains(&token));
    let claims = told.header("portico-assertion").split('.').nth(1).unwrap().to_owned();
    let claims: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(
        (&claims["aud"], &claims["htm"], &claims["htp"]),
        (&json!("invoices"), &json!("GET"), &json!("/v1/invoices/in_1"))
    );
    assert_eq!(claims["org"], app.account.to_string());
    let refused = app.send(get("/v1/me", told.header("portico-assertion"))).await;
    refused.refused(Code::Unauthenticated);
    app.send(get("/v1/invoices/about", &token)).await.ok();
    let open = receiver.received("/v1/invoices/about").remove(0);
    assert!(open.headers.get("portico-subject").is_none() && open.headers.get("portico-assertion").is_some());
}

async fn errors_of_a_service_get_the_envelope(app: TestApp) {
    let (receiver, token) = invoices(&app).await;
    let at = |number: u32| format!("/v1/invoices/in_{number}");
    let body = |status, text: &'static [u8]| ReceiverReply::Body(status, Bytes::from_static(text));
    receiver.answer(&at(2), body(404, b"{\"message\":\"no such invoice\"}"));
    receiver.answer(&at(3), body(418, b"short and stout"));
    receiver.answer(&at(4), ReceiverReply::With(503, "retry-after", "7".to_owned()));
    let refused = app.send(get(&at(2), &token)).await;
    assert_eq!(refused.status, 404);
    let problem = refused.json();
    assert_eq!(problem["code"], "not_found");
    // The receiver says no type, so its text is not looked at.
    assert_eq!(problem["details"][0]["reason"], "UPSTREAM");
    assert_eq!(problem["request_id"], refused.header("x-request-id"));
    let odd = app.send(get(&at(3), &token)).await;
    assert_eq!((odd.status, &odd.json()["code"]), (418, &json!("bad_request")));
    let later = app.send(get(&at(4), &token)).await;
    assert_eq!((later.status, later.header("retry-after")), (503, "7"));
    serve(&app, loaded(&receiver, &document(), "errors = \"pass\"")).await;
    let passed = app.send(get(&at(2), &token)).await;
    assert_eq!((passed.status, &passed.json()["message"]), (404, &json!("no such invoice")));
}

async fn a_price_may_come_with_the_answer(app: TestApp) {
    let (receiver, token) = invoices(&app).await;
    let priced = |units: &str| ReceiverReply::With(200, "portico-units", units.to_owned());
    let used = async |app: &TestApp| {
        let path = format!("/v1/accounts/orgs/{}/units", app.account);
        let units = app.send(get(&path, &token)).await.ok();
        let rows = units["usage"].as_array().unwrap().clone();
        let row = rows.into_iter().find(|row| row["rpc"] == "invoices.createInvoice");
        row.map_or_else(String::new, |row| row["units"].as_str().unwrap().to_owned())
    };
    let mut sum = 0;
    for (told, cost) in [("7", 7), ("0", 0), ("1000000", 1_000_000), ("1000001", 40), ("-1", 40), ("x", 40)] {
        receiver.answer("/v1/invoices", priced(told));
        let answer = app.send(post(&token, &json!({ "total": 1 }))).await;
        assert_eq!((answer.status, answer.header("portico-units")), (200, ""), "{told}");
        sum += cost;
        assert_eq!(used(&app).await, sum.to_string(), "{told}");
    }
    receiver.answer("/v1/invoices", ReceiverReply::With(500, "portico-units", "9".to_owned()));
    assert_eq!(app.send(post(&token, &json!({ "total": 1 }))).await.status, 500);
    assert_eq!(used(&app).await, sum.to_string(), "a fault costs nothing");
}

async fn a_plan_that_is_not_named_is_refused(app: TestApp) {
    let (receiver, token) = invoices(&app).await;
    let refused = app.send(get("/v1/invoices/export", &token)).await.refused(Code::Forbidden);
    assert_eq!(refused["details"][0]["reason"], "PLAN_REQUIRED");
    assert!(receiver.received("/v1/invoices/export").is_empty());
    let cut = app.send(get("/v1/openapi.json", &token)).await.ok();
    assert!(cut["paths"].get("/v1/invoices").is_some() && cut["paths"].get("/v1/invoices/export").is_none());
    let whole = app.get("/openapi.json").await.ok();
    assert_eq!(whole["paths"]["/v1/invoices"]["post"]["x-platform-rpc"], "invoices.createInvoice");
}

async fn a_path_that_leads_elsewhere_is_not_forwarded(app: TestApp) {
    let (receiver, token) = invoices(&app).await;
    for check in ["requests", "off"] {
        serve(&app, loaded(&receiver, &document(), &format!("check = \"{check}\""))).await;
        for id in ["..", "%2e%2E", "..%2Fabout", "..;", "..%5Cabout", "in_1%2F..%2F..", "..;a=b%2Fabout"] {
            app.send(get(&format!("/v1/invoices/{id}"), &token)).await.refused_field("invoice_id");
        }
    }
    serve(&app, loaded(&receiver, &document(), "check = \"off\"")).await;
    receiver.clear();
    // A service that decodes would take each for the route that is for other plans.
    for id in ["%65xport", "export;x", "EXPORT", "export%20", "%2565xport", "in_1%2Fx"] {
        app.send(get(&format!("/v1/invoices/{id}"), &token)).await.refused_field("invoice_id");
    }
    assert!(receiver.received("/v1/invoices/%65xport").is_empty());
    receiver.answer("/v1/invoices/a%20b", ReceiverReply::Status(204));
    assert_eq!(
        app.send(get("/v1/invoices/a%20b", &token)).await.status,
        204,
        "an answer without a body ends too"
    );
}

async fn a_call_by_name_is_a_request(app: TestApp) {
    let (receiver, token) = invoices(&app).await;
    let call = async |name: &str, arguments: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": name, "arguments": arguments } });
        let sent = TestRequest::new("POST", "/mcp").bearer(&token).json(&message);
        let sent = sent.header("accept", "application/json, text/event-stream");
        app.send(sent.header("mcp-protocol-version", "2025-11-25")).await.json()
    };
    let result = call("invoices_get_invoice", json!({ "invoice_id": "in_1" })).await;
    assert_eq!(result["result"]["structuredContent"]["total"], 5, "{result}");
    let told = receiver.received("/v1/invoices/in_1").remove(0);
    assert_eq!(told.header("portico-account"), app.account.to_string());
    let refused = call("invoices_get_invoice", json!({ "invoice_id": "nope" })).await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert_eq!(receiver.received("/v1/invoices/in_1").len(), 1);
}

async fn services_are_read_anew_while_calls_run(app: TestApp) {
    let (receiver, token) = invoices(&app).await;
    let app = Arc::new(app);
    let mut changed = document();
    changed["paths"]["/v1/bills"] = changed["paths"]["/v1/invoices/about"].clone();
    changed["paths"]["/v1/bills"]["get"]["operationId"] = json!("bills");
    receiver.answer("/v1/bills", ReceiverReply::Body(200, Bytes::from_static(b"{\"id\":\"b\"}")));
    let calling = {
        let (app, token) = (app.clone(), token.clone());
        tokio::spawn(async move {
            for _ in 0..200 {
                app.send(get("/v1/invoices/in_1", &token)).await.ok();
            }
        })
    };
    for round in 0..20 {
        let document = if round % 2 == 0 { &changed } else { &document() };
        serve(&app, loaded(&receiver, document, "")).await;
    }
    calling.await.unwrap();
    app.send(get("/v1/bills", &token)).await.refused(Code::NotFound);
    serve(&app, loaded(&receiver, &changed, "")).await;
    app.send(get("/v1/bills", &token)).await.ok();
    let documented = app.get("/openapi.json").await.ok();
    assert!(documented["paths"].get("/v1/bills").is_some(), "documents follow");
    // What is counted follows too, under the new name.
    let bad = loaded(&receiver, &document(), "");
    let mut clash = document();
    clash["paths"]["/v1/me"] = clash["paths"]["/v1/invoices/about"].clone();
    clash["paths"]["/v1/me"]["get"]["operationId"] = json!("me");
    let clashing = loaded(&receiver, &clash, "");
    let findings = app.app.set_services(&[clashing], Some(&app.gateway)).await.unwrap_err();
    assert!(findings[0].contains("identity.me.get") && findings[0].contains("invoices.me"), "{findings:?}");
    app.send(get("/v1/bills", &token)).await.ok();
    drop(bad);
}

async fn what_a_document_must_not_change_is_refused(app: TestApp) {
    let (receiver, token) = invoices(&app).await;
    let types = app.send(get("/v1/events/types?page_size=200", &token)).await.ok();
    let types = types["types"].as_array().unwrap().clone();
    let paid = types.iter().find(|one| one["type"] == "invoice.paid").unwrap();
    assert_eq!(paid["schema"]["properties"]["data"]["required"], json!(["invoice_id"]));
    let mut changed = document();
    let schema =
        &mut changed["webhooks"]["invoice.paid"]["post"]["requestBody"]["content"]["application/json"];
    schema["schema"]["required"] = json!([]);
    let service = loaded(&receiver, &changed, "");
    let findings = app.app.set_services(&[service], Some(&app.gateway)).await.unwrap_err();
    assert!(findings[0].contains("invoice.paid"), "{findings:?}");
    let mut gone = document();
    gone.as_object_mut().unwrap().remove("webhooks");
    serve(&app, loaded(&receiver, &gone, "")).await;
    let service = loaded(&receiver, &changed, "");
    app.app.set_services(&[service], Some(&app.gateway)).await.unwrap_err();
}

const AUDIENCE: &str = "https://api.acme.example";

async fn a_token_for_a_services_audience_opens_that_service_alone(app: TestApp) {
    let receiver = Receiver::start().await;
    serve(&app, loaded(&receiver, &document(), &format!("audience = \"{AUDIENCE}\""))).await;
    let key = app.new_key(app.account, app.all_scopes()).await;
    let exchange = |form: &str| {
        let text = |name: &str| key[name].as_str().unwrap().to_owned();
        let basic = BASE64_STANDARD.encode(format!("{}:{}", text("client_id"), text("client_secret")));
        let sent =
            TestRequest::new("POST", "/oauth2/token").header("authorization", &format!("Basic {basic}"));
        app.send_auth(sent.form(&format!("grant_type=client_credentials&{form}")))
    };
    let granted = exchange(&format!("resource={AUDIENCE}/")).await.json();
    assert_eq!(granted["scope"], "invoices:admin invoices:read invoices:write");
    let token = granted["access_token"].as_str().unwrap().to_owned();
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&claims).unwrap()["aud"], AUDIENCE);
    // Nothing of the platform, not even the service's own routes there.
    for path in ["/v1/me", "/v1/invoices/in_1"] {
        app.send(get(path, &token)).await.refused(Code::Unauthenticated);
    }
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let tools = TestRequest::new("POST", "/mcp").bearer(&token).json(&ping);
    app.send(tools.header("accept", "application/json, text/event-stream"))
        .await
        .refused(Code::Unauthenticated);
    assert!(receiver.received("/v1/invoices/in_1").is_empty());
    let narrow = exchange(&format!("audience={AUDIENCE}&scope=invoices:read")).await.json();
    assert_eq!(narrow["scope"], "invoices:read");
    for (form, error) in [
        (format!("audience={AUDIENCE}&scope=identity:read"), "invalid_scope"),
        ("audience=https://api.other.example".to_owned(), "invalid_target"),
        (format!("audience=platform-api&resource={AUDIENCE}"), "invalid_target"),
    ] {
        assert_eq!(exchange(&form).await.json()["error"], error, "{form}");
    }
    // The service may have it verified, and looks it up with its credential.
    let credential = app.service_credential("invoices").await;
    let service = app.exchange_service(&credential, "").await.ok();
    let question = json!({ "token": token, "scopes": ["invoices:read"] });
    let sent = TestRequest::new("POST", "/v1/services/verify").json(&question);
    let verdict = app.send(sent.bearer(service["access_token"].as_str().unwrap())).await.ok();
    assert_eq!((&verdict["valid"], &verdict["account_id"]), (&json!(true), &json!(app.account.to_string())));
    let text = |name: &str| credential[name].as_str().unwrap().to_owned();
    let basic = BASE64_STANDARD.encode(format!("{}:{}", text("client_id"), text("client_secret")));
    let sent =
        TestRequest::new("POST", "/oauth2/introspect").header("authorization", &format!("Basic {basic}"));
    assert_eq!(app.send_auth(sent.form(&format!("token={token}"))).await.json()["active"], true);
    // A service that is not configured any more has no tokens.
    serve(&app, loaded(&receiver, &document(), "")).await;
    assert_eq!(exchange(&format!("audience={AUDIENCE}")).await.json()["error"], "invalid_target");
}

/// The references within `root` that lead nowhere.
fn dangling(root: &Value) -> Vec<String> {
    fn walk(root: &Value, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                let reference = object.get("$ref").and_then(Value::as_str);
                let leads = |reference: &&str| root.pointer(reference.trim_start_matches('#')).is_none();
                found.extend(reference.filter(leads).map(str::to_owned));
                object.values().for_each(|inner| walk(root, inner, found));
            }
            Value::Array(items) => items.iter().for_each(|inner| walk(root, inner, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found
}

async fn what_is_published_of_a_service_refers_to_what_is_there(app: TestApp) {
    let mut document = document();
    let line = json!({ "type": "object", "properties": { "next": { "$ref": "#/components/schemas/Line" } } });
    document["components"]["schemas"] = json!({ "Line": line });
    let data = "/webhooks/invoice.paid/post/requestBody/content/application~1json/schema/properties";
    document.pointer_mut(data).unwrap()["line"] = json!({ "$ref": "#/components/schemas/Line" });
    let receiver = Receiver::start().await;
    serve(&app, loaded(&receiver, &document, "")).await;
    for path in ["/openapi.json", "/asyncapi.json"] {
        let published = app.send(TestRequest::new("GET", path)).await.ok();
        assert_eq!(dangling(&published), Vec::<String>::new(), "{path}");
        let is_named = published["info"]["x-platform-services"]["invoices"]["title"] == "Invoices";
        assert_eq!(is_named, path == "/openapi.json");
    }
    let types = app.get("/v1/events/types?page_size=200").await.ok();
    let types = types["types"].as_array().unwrap();
    assert!(types.iter().any(|each| each["type"] == "invoice.paid"));
    assert!(types.iter().all(|each| dangling(&each["schema"]).is_empty()), "{types:?}");
}

/// A request whose body never ends, and what tells that it is read.
fn endless(
    token: &str,
) -> (Request<impl Body<Data = Bytes, Error = Infallible> + Unpin + use<>>, oneshot::Receiver<()>) {
    let (reading, is_read) = oneshot::channel();
    let frames = stream::once(async move {
        reading.send(()).unwrap();
        pending::<Result<Frame<Bytes>, Infallible>>().await
    });
    let request = Request::post("/v1/invoices")
        .header("host", "test")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json");
    (request.body(StreamBody::new(Box::pin(frames))).unwrap(), is_read)
}

async fn large_requests_of_an_account_leave_room_for_others(app: TestApp) {
    let (receiver, token) = invoices(&app).await;
    serve(&app, loaded(&receiver, &document(), "body_max = \"16 MiB\"")).await;
    let other = app.new_account("Other").await;
    let other = app.token_with(other, app.all_scopes()).await;
    let large = |token: &str| {
        let padded = format!("{{\"total\":1{}}}", " ".repeat(100_000));
        TestRequest::new("POST", "/v1/invoices").bearer(token).text(&padded)
    };
    let mut uploads = Vec::new();
    for _ in 0..2 {
        let (request, is_read) = endless(&token);
        let mut upload = Box::pin(app.send_body(request));
        tokio::select! {
            answer = &mut upload => panic!("{answer:?}"),
            read = is_read => read.unwrap(),
        }
        uploads.push(upload);
    }
    let refusal = app.send(large(&token)).await;
    assert_eq!(refusal.refused(Code::RateLimited)["details"][0]["reason"], "HELD_BYTES");
    assert_eq!(refusal.header("retry-after"), "1");
    app.send(post(&token, &json!({ "total": 1 }))).await.ok();
    app.send(large(&other)).await.ok();
    uploads.pop();
    app.send(large(&token)).await.ok();
}
