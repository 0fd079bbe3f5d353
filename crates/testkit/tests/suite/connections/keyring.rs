//! The keyring gets another active key: what the older one wraps is wrapped anew, and then the older one can go.

use std::fs;

use portico::admin::{Admin, KeyringCommand};
use portico_engine::JobOutcome;
use portico_kernel::{SystemEntropy, Timestamp};
use portico_store::{Db, Keyring, Select, args};
use portico_testkit::{Database, TestApp, TestDatabase, TestRequest, turn};
use serde_json::{Value, json};

use super::{Place, beside_each_other, id, issue, options};
use crate::with_a_provider;

with_a_provider! {
    what_an_older_key_wraps_is_wrapped_anew,
    a_value_that_was_replaced_meanwhile_is_left_alone,
    what_does_not_open_keeps_its_key,
}

const JOB: &str = "engine.wrap_anew";

/// A line of a keyring with a key of its own: that of another database.
async fn new_key() -> String {
    let other = TestDatabase::create(Database::Sqlite).await;
    let db = Db::open(&other.url).await.unwrap();
    db.migrate(Timestamp::from_seconds(1)).await.unwrap();
    let path = other.folder.path().join("keyring");
    Keyring::open_for(&db, &path, &SystemEntropy).await.unwrap();
    fs::read_to_string(&path).unwrap().lines().last().unwrap().to_owned()
}

/// A server beside the others whose keyring has these lines.
async fn with_keys(place: &Place, lines: &[&str]) -> TestApp {
    fs::write(place.database.folder.path().join("keyring"), lines.join("\n")).unwrap();
    place.app.beside_with(options(&place.provider)).await
}

/// The keys and what they wrap, as the operator's command tells it.
async fn status(app: &TestApp) -> Vec<(String, bool, i64)> {
    let told = app.admin(Admin::Keyring(KeyringCommand::Status)).await;
    let keys = told["keys"].as_array().unwrap().iter();
    let key = |key: &Value| {
        let (id, active) = (key["id"].as_str().unwrap().to_owned(), key["active"].as_bool().unwrap());
        (id, active, key["rows"].as_i64().unwrap())
    };
    keys.map(key).collect()
}

/// The line of the key that there is, and one of a new key.
async fn two_keys(place: &Place) -> (String, String) {
    let text = fs::read_to_string(place.database.folder.path().join("keyring")).unwrap();
    (text.lines().last().unwrap().to_owned(), new_key().await)
}

/// The id of the key of that line.
fn id_of(line: &str) -> String {
    line.split(' ').next().unwrap().to_owned()
}

async fn what_an_older_key_wraps_is_wrapped_anew(place: Place) {
    let code = id(&place.by_key().await);
    place.by_sign_in().await;
    place.grant(&code, json!({})).await;
    let client = json!({ "client_id": "own", "client_secret": "s" });
    let path = place.path("/connectors/linear/client");
    place.call("PUT", &place.token, &path, &client).await.ok();
    place.as_owner("POST", "/connect", json!({ "connector": "gitlab" })).await.ok();
    let inbox = place.app.post("/v1/webhooks/inboxes", &json!({})).await.ok();
    let hook = json!({ "url": inbox["inbox"]["address"], "event_types": ["connection.deleted"] });
    let hook = id(&place.app.post("/v1/webhooks/endpoints", &hook).await.ok());
    place.app.post(&format!("/v1/webhooks/endpoints/{hook}/rotate"), &json!({})).await.ok();

    let (old, new) = two_keys(&place).await;
    let before = status(&place).await;
    let [(active, true, rows)] = &before[..] else { panic!("one key, and it is active: {before:?}") };
    assert_eq!(active, &id_of(&old));
    // Two credentials, a client, the sign-in that waits, two secrets of an endpoint, a signing key and the canary.
    assert_eq!(*rows, 8);

    let second = with_keys(&place, &[&new, &old]).await;
    assert_eq!(status(&second).await, [(id_of(&new), true, 0), (id_of(&old), false, *rows)]);
    assert_eq!(turn(&second, JOB).await, JobOutcome::Idle);
    assert_eq!(status(&second).await, [(id_of(&new), true, *rows), (id_of(&old), false, 0)]);
    assert_eq!(turn(&second, JOB).await, JobOutcome::Idle, "there is nothing left to do");
    // The first server, whose keyring is as it was, tells that a key is missing in it.
    assert_eq!(status(&place).await, [(id_of(&old), true, 0), (id_of(&new), false, *rows)]);

    let third = with_keys(&place, &[&new]).await;
    let (path, body) = (place.path(&format!("/{code}/actions/get_issue")), json!({ "params": issue() }));
    let act = async || third.send(TestRequest::new("POST", &path).bearer(&place.token).json(&body)).await;
    beside_each_other(&place.app, &third, act).await.ok();
}

/// What stands in the credential's row.
async fn sealed(place: &Place) -> Vec<u8> {
    let sealed = "select sealed as value from connection_credentials";
    place.app.app.engine.db.query().value(sealed, args![]).await.unwrap()
}

async fn a_value_that_was_replaced_meanwhile_is_left_alone(place: Place) {
    place.by_key().await;
    let (old, new) = two_keys(&place).await;
    let second = with_keys(&place, &[&new, &old]).await;
    let (engine, read) = (&second.app.engine, sealed(&place).await);
    let columns = engine.registry.sealed();
    let column = columns.iter().find(|column| column.name == "connection_credentials.sealed").unwrap();
    let replace = column.wrapping.unwrap().replace;
    let ids = "select id as value from connection_credentials";
    let id: String = engine.db.query().value(ids, args![]).await.unwrap();
    for (with, replaced) in [(&b"another"[..], 1), (&b"too late"[..], 0)] {
        let mut tx = engine.db.write().await.unwrap();
        let args = args![with.to_vec(), id.clone(), read.clone()];
        assert_eq!(tx.execute(replace, args).await.unwrap(), replaced);
        tx.commit().await.unwrap();
    }
    assert_eq!(sealed(&place).await, b"another");
}

async fn what_does_not_open_keeps_its_key(place: Place) {
    let con = id(&place.by_key().await);
    let other = id(&place.by_sign_in().await);
    let mut tx = place.app.app.engine.db.write().await.unwrap();
    tx.execute(
        "update connection_credentials set sealed = (select sealed from connection_credentials where connection_id = $2) \
         where connection_id = $1",
        args![con, other],
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let (old, new) = two_keys(&place).await;
    let second = with_keys(&place, &[&new, &old]).await;
    assert_eq!(turn(&second, JOB).await, JobOutcome::Idle, "it is not tried over and over");
    let left = status(&second).await;
    let [_, (key, false, 1)] = &left[..] else { panic!("one value is left: {left:?}") };
    assert_eq!(key, &id_of(&old));
}
