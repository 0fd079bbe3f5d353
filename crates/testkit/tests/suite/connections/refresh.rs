//! Fresh tokens: one request for all, whoever asks, and what happens when there is none.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::clock::{Stopwatch, SystemClock};
use portico_kernel::{Clock, Code, seconds};
use portico_testkit::{Answer, ProviderAnswer, TestRequest, until};
use serde_json::json;

use super::{Place, id, options, reason};
use crate::with_a_provider;

with_a_provider! {
    a_thousand_calls_on_one_expired_token_ask_once,
    servers_beside_each_other_ask_once,
    a_token_is_refreshed_before_its_end,
    a_token_that_is_refused_is_refreshed_once,
    a_dead_token_needs_a_person,
    a_provider_that_fails_is_left_alone,
    a_provider_that_forgets_costs_a_sign_in,
    a_refresh_that_was_interrupted_is_counted,
    idle_tokens_are_refreshed,
    what_is_revoked_while_a_token_is_awaited_is_not_sent,
    a_call_goes_on_with_a_credential_that_came_meanwhile,
}

const TOKEN: &str = "/gl/oauth/token";

async fn signed_in(place: &Place) -> String {
    let con = id(&place.by_sign_in().await);
    place.grant(&con, json!({})).await;
    con
}

fn list() -> serde_json::Value {
    json!({ "project": "7" })
}

/// Calls until the connection is not busy, which is no failure but a matter of its bounds: whoever is told to come again does.
async fn call(place: &Place, con: &str) -> Answer {
    loop {
        let answer = place.act(con, "list_issues", list()).await;
        if answer.status != 429 {
            return answer;
        }
        reason(&answer, Code::RateLimited, "CONNECTION_BUSY");
        SystemClock.sleep(seconds(answer.header("retry-after").parse().unwrap())).await;
    }
}

async fn a_thousand_calls_on_one_expired_token_ask_once(place: Place) {
    let con = signed_in(&place).await;
    place.advance(seconds(3_601)).await;
    place.provider.end_access();
    place.provider.hold(TOKEN);
    let place = Arc::new(place);
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            let (place, con) = (place.clone(), con.clone());
            tokio::spawn(async move { call(&place, &con).await })
        })
        .collect();
    until("a fresh token is asked for", async || place.provider.calls(TOKEN).len() > 1).await;
    place.provider.hold("");
    for call in calls {
        call.await.unwrap().ok();
    }
    assert_eq!(place.provider.calls(TOKEN).len(), 2, "the exchange, and one refresh");
    assert_eq!(place.uses("status=failed").await.len(), 0);
    assert_eq!(place.read(&con).await["status"], "active");
}

async fn servers_beside_each_other_ask_once(place: Place) {
    let con = signed_in(&place).await;
    place.advance(seconds(3_601)).await;
    place.provider.end_access();
    let beside = [
        place.app.beside_with(options(&place.provider)).await,
        place.app.beside_with(options(&place.provider)).await,
    ];
    place.provider.hold(TOKEN);
    let path = place.path(&format!("/{con}/actions/list_issues"));
    let body = json!({ "params": list() });
    let sent = |app: &portico_testkit::TestApp| {
        let sent = TestRequest::new("POST", &path).bearer(&place.token).json(&body);
        let gateway = app.gateway.clone();
        (sent, gateway)
    };
    let mut calls = Vec::new();
    for app in beside.iter().chain([&place.app]) {
        for _ in 0..20 {
            let (sent, _) = sent(app);
            calls.push(app.send(sent));
        }
    }
    let release = async {
        until("a fresh token is asked for", async || place.provider.calls(TOKEN).len() > 1).await;
        place.provider.hold("");
    };
    let (answers, ()) = tokio::join!(futures_util::future::join_all(calls), release);
    for answer in answers {
        answer.ok();
    }
    assert_eq!(place.provider.calls(TOKEN).len(), 2);
}

async fn a_token_is_refreshed_before_its_end(place: Place) {
    let con = signed_in(&place).await;
    place.advance(seconds(3_299)).await;
    place.act(&con, "list_issues", list()).await.ok();
    assert_eq!(place.provider.calls(TOKEN).len(), 1);
    place.advance(seconds(1)).await;
    place.act(&con, "list_issues", list()).await.ok();
    assert_eq!(place.provider.calls(TOKEN).len(), 2, "five minutes are left");
    let ends = place.read(&con).await["token_expires_at"].clone();
    assert!(ends.as_str().unwrap() > place.clock_text().as_str());
    // A provider that does not say when a token ends is asked when it refuses it.
    place.provider.set_life(0);
    place.advance(seconds(3_600)).await;
    place.act(&con, "list_issues", list()).await.ok();
    assert_eq!(place.read(&con).await["token_expires_at"], "");
    place.advance(seconds(365 * 24 * 3_600 / 100)).await;
    place.act(&con, "list_issues", list()).await.ok();
    assert_eq!(place.provider.calls(TOKEN).len(), 3);
}

async fn a_token_that_is_refused_is_refreshed_once(place: Place) {
    let con = signed_in(&place).await;
    place.provider.end_access();
    let sent = place.provider.calls("/gl/api/v4/projects").len();
    place.act(&con, "list_issues", list()).await.ok();
    assert_eq!(place.provider.calls(TOKEN).len(), 2);
    assert_eq!(place.provider.calls("/gl/api/v4/projects").len(), sent + 2, "that call alone was sent again");
    assert_eq!(place.uses("action=list_issues").await.len(), 1);
    // A provider that refuses the fresh one too refuses the credential.
    let refusal = ProviderAnswer::Json(401, json!({}));
    place.provider.script("/gl/api/v4/projects/7/issues", Some(refusal));
    reason(&place.act(&con, "list_issues", list()).await, Code::FailedPrecondition, "CREDENTIAL_REFUSED");
    assert_eq!(place.provider.calls(TOKEN).len(), 3);
    assert_eq!(place.read(&con).await["status"], "needs_reconnect");
}

async fn a_dead_token_needs_a_person(place: Place) {
    let con = signed_in(&place).await;
    place.provider.set_dead(true);
    place.advance(seconds(3_601)).await;
    reason(&place.act(&con, "list_issues", list()).await, Code::FailedPrecondition, "NEEDS_RECONNECT");
    let used = place.uses("action=list_issues").await[0].clone();
    assert_eq!((&used["status"], &used["error_class"]), (&json!("refused"), &json!("needs_reconnect")));
    assert_eq!(place.read(&con).await["status"], "needs_reconnect");
    assert!(place.event_types().await.contains(&"connection.needs_reconnect".to_owned()));
    assert!(place.audited().await.contains(&"connection.needs_reconnect".to_owned()));
    let asked = place.provider.calls("/").len();
    reason(&place.act(&con, "list_issues", list()).await, Code::FailedPrecondition, "NEEDS_RECONNECT");
    assert_eq!(place.provider.calls("/").len(), asked);
    place.provider.set_dead(false);
    assert_eq!(place.by_sign_in().await["id"], json!(con), "signing in again heals it");
    place.act(&con, "list_issues", list()).await.ok();
}

async fn a_provider_that_fails_is_left_alone(place: Place) {
    let con = signed_in(&place).await;
    place.provider.script(TOKEN, Some(ProviderAnswer::Json(503, json!({}))));
    place.advance(seconds(3_400)).await;
    place.act(&con, "list_issues", list()).await.ok();
    assert_eq!(place.provider.calls(TOKEN).len(), 2, "the old token is still good");
    place.act(&con, "list_issues", list()).await.ok();
    assert_eq!(place.provider.calls(TOKEN).len(), 2, "and nobody is asked again so soon");
    place.advance(seconds(210)).await;
    let failed = place.act(&con, "list_issues", list()).await;
    reason(&failed, Code::Unavailable, "PROVIDER_FAILED");
    assert_eq!(place.provider.calls(TOKEN).len(), 3);
    let waiting = place.act(&con, "list_issues", list()).await;
    reason(&waiting, Code::Unavailable, "PROVIDER_FAILED");
    let wait: u64 = waiting.header("retry-after").parse().unwrap();
    assert!((50..=60).contains(&wait), "the second wait is twice as long: {wait}");
    assert_eq!(place.provider.calls(TOKEN).len(), 3);
    assert_eq!(place.read(&con).await["status"], "active");
    place.provider.script(TOKEN, None);
    place.advance(seconds(61)).await;
    place.act(&con, "list_issues", list()).await.ok();
}

async fn a_provider_that_forgets_costs_a_sign_in(place: Place) {
    let con = signed_in(&place).await;
    // It ends the old refresh token, and its answer never comes.
    place.provider.set_forgets(true);
    place.advance(seconds(3_601)).await;
    reason(&place.act(&con, "list_issues", list()).await, Code::Unavailable, "PROVIDER_FAILED");
    place.provider.set_forgets(false);
    place.advance(seconds(31)).await;
    reason(&place.act(&con, "list_issues", list()).await, Code::FailedPrecondition, "NEEDS_RECONNECT");
    assert_eq!(place.read(&con).await["status"], "needs_reconnect");
}

async fn a_refresh_that_was_interrupted_is_counted(place: Place) {
    let con = signed_in(&place).await;
    place.advance(seconds(3_601)).await;
    // A server began, and was killed.
    let until = (place.clock.now() + seconds(30)).as_micros();
    let claim = "update connection_credentials set claim = 'gone', claimed_until = $1";
    let mut tx = place.app.app.engine.db.write().await.unwrap();
    tx.execute(claim, portico_store::args![until]).await.unwrap();
    tx.commit().await.unwrap();
    place.advance(seconds(31)).await;
    place.act(&con, "list_issues", list()).await.ok();
    let metrics = place.app.app.engine.registry.metrics();
    let interrupted = metrics.iter().find(|metric| metric.labels[0] == Some(("outcome", "interrupted")));
    assert_eq!(interrupted.unwrap().value, portico_engine::MetricValue::Counter(1));
}

async fn idle_tokens_are_refreshed(place: Place) {
    let con = signed_in(&place).await;
    place.provider.set_life(2 * 24 * 3_600);
    place.advance(seconds(3_601)).await;
    place.act(&con, "list_issues", list()).await.ok();
    let asked = place.provider.calls(TOKEN).len();
    portico_testkit::turn(&place, "connections.refresh_idle").await;
    assert_eq!(place.provider.calls(TOKEN).len(), asked);
    place.advance(seconds(24 * 3_600 + 1)).await;
    portico_testkit::turn(&place, "connections.refresh_idle").await;
    assert_eq!(place.provider.calls(TOKEN).len(), asked + 1);
    // As many as there are, none waits for the others.
    for workspace in 78..90 {
        place.provider.set_workspace(workspace);
        place.by_sign_in().await;
    }
    let asked = place.provider.calls(TOKEN).len();
    place.advance(seconds(24 * 3_600 + 1)).await;
    let refresh = async || portico_testkit::turn(&place, "connections.refresh_idle").await;
    while refresh().await == portico_engine::JobOutcome::MoreWork {}
    assert_eq!(place.provider.calls(TOKEN).len(), asked + 13);
    place.provider.set_dead(true);
    place.advance(seconds(24 * 3_600 + 1)).await;
    portico_testkit::turn(&place, "connections.refresh_idle").await;
    assert_eq!(place.read(&con).await["status"], "needs_reconnect", "it is told before anybody needs it");
}

/// Calls while a fresh token is awaited, does something meanwhile, and lets the provider answer.
async fn meanwhile(place: &Arc<Place>, con: &str, work: impl AsyncFnOnce()) -> Answer {
    let asked = place.provider.calls(TOKEN).len();
    place.provider.end_access();
    place.provider.hold(TOKEN);
    let calling = {
        let (place, con) = (place.clone(), con.to_owned());
        tokio::spawn(async move { place.act(&con, "list_issues", list()).await })
    };
    until("a fresh token is asked for", async || place.provider.calls(TOKEN).len() > asked).await;
    work().await;
    place.provider.hold("");
    calling.await.unwrap()
}

async fn what_is_revoked_while_a_token_is_awaited_is_not_sent(place: Place) {
    let con = id(&place.by_sign_in().await);
    let grant = id(&place.grant(&con, json!({})).await["grant"]);
    let place = Arc::new(place);
    let path = format!("/{con}/grants/{grant}");
    let refused = meanwhile(&place, &con, async || {
        let watch = Stopwatch::start();
        place.delete(&path).await.ok();
        // For so long it may still be sent.
        until("a second has gone by", async || watch.elapsed() > Duration::from_millis(1_100)).await;
    })
    .await;
    reason(&refused, Code::Forbidden, "NOT_GRANTED");
    assert_eq!(place.provider.calls("/gl/api/v4/projects").len(), 1, "only that which was refused");
    assert_eq!(place.uses("action=list_issues").await[0]["error_class"], "no_grant");
}

async fn a_call_goes_on_with_a_credential_that_came_meanwhile(place: Place) {
    let con = signed_in(&place).await;
    let place = Arc::new(place);
    let answer = meanwhile(&place, &con, async || {
        place.provider.let_in("gl-key-canary");
        let key = json!({ "credentials": { "api_key": "gl-key-canary" } });
        place.patch(&con, key).await.ok();
    })
    .await;
    answer.ok();
    assert_eq!(place.read(&con).await["auth_mode"], "api_key");
    // And one that was deleted meanwhile is not there.
    assert_eq!(id(&place.by_sign_in().await), con);
    let gone = meanwhile(&place, &con, async || {
        place.delete(&format!("/{con}")).await.ok();
    })
    .await;
    gone.refused(Code::NotFound);
}
