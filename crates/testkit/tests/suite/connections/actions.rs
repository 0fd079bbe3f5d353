//! Actions: what is refused, what providers answer, and what is told of it.

use bytes::Bytes;
use portico_engine::MetricValue;
use portico_kernel::{Code, seconds};
use portico_testkit::{ProviderAnswer, until};
use serde_json::{Value, json};

use super::{GOOD, Place, id, issue, reason, text};
use crate::with_a_provider;

with_a_provider! {
    an_answer_is_as_the_provider_wrote_it,
    refusals_come_in_one_order,
    what_a_provider_refuses_is_told,
    a_write_that_may_have_arrived_is_no_invitation,
    a_read_is_tried_once_more,
    an_answer_is_scrubbed,
    a_compressed_answer_is_not_told,
    calls_of_one_connection_are_bounded,
    history_is_filtered,
    a_use_is_on_record_also_when_its_caller_has_gone,
    numbers_are_counted,
}

const ISSUE: &str = "/gh/repos/acme/app/issues/1";
const ISSUES: &str = "/gh/repos/acme/app/issues";

fn new_issue() -> Value {
    json!({ "owner": "acme", "repo": "app", "title": "New" })
}

async fn granted(place: &Place) -> String {
    let con = id(&place.by_key().await);
    place.grant(&con, json!({ "max_class": "write_irreversible" })).await;
    con
}

async fn an_answer_is_as_the_provider_wrote_it(place: Place) {
    let con = granted(&place).await;
    let answer = place.act(&con, "get_issue", issue()).await;
    assert!(answer.text().contains(r#""big":9007199254740993,"exact":1.10}"#), "{}", answer.text());
    let answer = answer.ok();
    assert_eq!((&answer["status_code"], &answer["next_cursor"]), (&json!(200), &json!("")));
    let fields: Vec<_> = answer.as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["next_cursor", "result", "status_code", "use_id"]);
    let used = &place.uses("action=get_issue").await[0];
    assert_eq!(used["id"], answer["use_id"]);
    assert_eq!(
        (&used["status"], &used["status_code"], &used["executor"]),
        (&json!("ok"), &json!(200), &json!("cloud"))
    );
    assert_eq!((&used["caller_kind"], &used["input_tokens"]), (&json!("key"), &json!(0)));
    let plain = vec![("content-type", "text/plain".to_owned())];
    place.provider.script(ISSUE, Some(ProviderAnswer::Whole(200, plain, Bytes::from_static(b"say \"hi\""))));
    assert_eq!(place.act(&con, "get_issue", issue()).await.ok()["result"], "say \"hi\"");
}

async fn refusals_come_in_one_order(place: Place) {
    let con = id(&place.by_key().await);
    let none = "con_00000000000000000000000000";
    place.act(none, "get_issue", issue()).await.refused(Code::NotFound);
    place.act(&con, "nope", issue()).await.refused(Code::NotFound);
    let before = place.uses("").await.len();
    // Each is wrong in every later way too.
    let bad = json!({ "owner": "acme", "repo": "..", "number": "x", "nope": 1 });
    place.patch(&con, json!({ "paused": true })).await.ok();
    reason(&place.act(&con, "get_issue", bad.clone()).await, Code::Forbidden, "NOT_GRANTED");
    place.grant(&con, json!({})).await;
    reason(&place.act(&con, "get_issue", bad.clone()).await, Code::FailedPrecondition, "PAUSED");
    place.provider.set_keys(&[]);
    place.to(&format!("/{con}/test"), json!({})).await.ok();
    place.patch(&con, json!({ "paused": false })).await.ok();
    reason(&place.act(&con, "get_issue", bad.clone()).await, Code::FailedPrecondition, "NEEDS_RECONNECT");
    place.provider.set_keys(&[GOOD]);
    place.to(&format!("/{con}/test"), json!({})).await.ok();
    let refused = place.act(&con, "get_issue", bad).await;
    refused.refused_field("params.number");
    refused.refused_field("params.nope");
    place
        .act(&con, "get_issue", json!({ "owner": "acme", "repo": "..", "number": 1 }))
        .await
        .refused_field("params.repo");
    place.act(&con, "get_issue", json!({ "owner": "acme" })).await.refused_field("params.repo");
    place.to(&format!("/{con}/actions/get_issue"), json!({ "params": [] })).await.refused_field("params");
    place.to(&format!("/{con}/actions/get_issue"), json!({ "nope": 1 })).await.refused_field("nope");
    let long = json!({ "owner": "a".repeat(300 << 10), "repo": "app", "number": 1 });
    place.act(&con, "get_issue", long).await.refused_field("body");
    let long = json!({ "owner": "a".repeat(257 << 10), "repo": "app", "number": 1 });
    place.act(&con, "get_issue", long).await.refused_field("params");
    assert!(place.provider.calls("/gh/repos").is_empty(), "nothing was sent");
    let uses = place.uses("status=refused").await;
    let mut classes: Vec<_> = uses.iter().map(|used| text(&used["error_class"])).collect();
    classes.reverse();
    assert_eq!(classes[..3], ["no_grant", "paused", "needs_reconnect"]);
    assert_eq!(classes[3..], ["bad_params"; 4]);
    assert_eq!(place.uses("").await.len(), before + classes.len() + 2, "and two tests");
}

async fn what_a_provider_refuses_is_told(place: Place) {
    let con = granted(&place).await;
    let answers = |status, body| Some(ProviderAnswer::Json(status, body));
    for (status, class) in [(403, "permission"), (404, "not_found"), (422, "provider_4xx"), (302, "redirect")]
    {
        place.provider.script(ISSUE, answers(status, json!({ "message": format!("no {GOOD} here") })));
        let metadata = reason(
            &place.act(&con, "get_issue", issue()).await,
            Code::FailedPrecondition,
            "PROVIDER_REFUSED",
        );
        assert_eq!(metadata["error_class"], class);
        assert_eq!(metadata["status_code"], status.to_string());
        assert_eq!(metadata["provider_message"], "no *** here");
        assert_eq!(place.uses("").await[0]["error_class"], class);
    }
    let wait = vec![("retry-after", "17".to_owned())];
    place.provider.script(ISSUE, Some(ProviderAnswer::Whole(429, wait, Bytes::new())));
    let limited = place.act(&con, "get_issue", issue()).await;
    limited.refused(Code::RateLimited);
    assert_eq!(limited.header("retry-after"), "17");
    place.provider.script(ISSUE, answers(500, json!({})));
    reason(&place.act(&con, "get_issue", issue()).await, Code::Unavailable, "PROVIDER_FAILED");
    place.provider.script(ISSUE, Some(ProviderAnswer::Broken));
    reason(&place.act(&con, "get_issue", issue()).await, Code::Unavailable, "PROVIDER_FAILED");
    assert_eq!(place.uses("").await[0]["error_class"], "network");
    let large = Bytes::from(vec![b'1'; (1 << 20) + 1]);
    place.provider.script(ISSUE, Some(ProviderAnswer::Whole(200, Vec::new(), large)));
    let metadata =
        reason(&place.act(&con, "get_issue", issue()).await, Code::FailedPrecondition, "PROVIDER_REFUSED");
    assert_eq!(metadata["error_class"], "too_large");
    // The connection itself is as good as before.
    assert_eq!(place.read(&con).await["status"], "active");
}

async fn a_write_that_may_have_arrived_is_no_invitation(place: Place) {
    let con = granted(&place).await;
    for (answer, class) in [
        (ProviderAnswer::Json(500, json!({})), "provider_5xx"),
        (ProviderAnswer::Json(503, json!({})), "provider_5xx"),
        (ProviderAnswer::Broken, "network"),
    ] {
        place.provider.script(ISSUES, Some(answer));
        let sent = place.provider.calls(ISSUES).len();
        let unknown = place.act(&con, "create_issue", new_issue()).await;
        let metadata = reason(&unknown, Code::FailedPrecondition, "OUTCOME_UNKNOWN");
        assert_eq!(metadata["error_class"], class);
        assert_eq!(unknown.header("retry-after"), "");
        assert_eq!(place.provider.calls(ISSUES).len(), sent + 1, "it is not sent again");
        assert_eq!(place.uses("").await[0]["status"], "failed");
    }
    // One that leads elsewhere may be done as well.
    place.provider.script(ISSUES, Some(ProviderAnswer::Json(303, json!({}))));
    let moved = place.act(&con, "create_issue", new_issue()).await;
    assert_eq!(reason(&moved, Code::FailedPrecondition, "PROVIDER_REFUSED")["error_class"], "redirect");
    assert!(moved.text().contains("It may have done it"), "{}", moved.text());
}

async fn a_read_is_tried_once_more(place: Place) {
    let con = granted(&place).await;
    place.provider.script(ISSUE, Some(ProviderAnswer::Json(502, json!({}))));
    reason(&place.act(&con, "get_issue", issue()).await, Code::Unavailable, "PROVIDER_FAILED");
    assert_eq!(place.provider.calls(ISSUE).len(), 2);
    assert_eq!(place.uses("action=get_issue").await.len(), 1, "one use all the same");
    place.provider.script(ISSUE, Some(ProviderAnswer::Json(500, json!({}))));
    place.act(&con, "get_issue", issue()).await;
    assert_eq!(place.provider.calls(ISSUE).len(), 3);
}

async fn an_answer_is_scrubbed(place: Place) {
    let con = granted(&place).await;
    let body = json!({ "title": format!("Bearer {GOOD}"), "headers": { "authorization": GOOD } });
    place.provider.script(ISSUE, Some(ProviderAnswer::Json(200, body)));
    let answer = place.act(&con, "get_issue", issue()).await;
    assert!(!answer.text().contains(GOOD));
    assert_eq!(
        answer.ok()["result"],
        json!({ "title": "Bearer ***", "headers": { "authorization": "***" } })
    );
}

async fn a_compressed_answer_is_not_told(place: Place) {
    let con = granted(&place).await;
    let packed = |status| {
        let headers =
            vec![("content-type", "application/json".to_owned()), ("content-encoding", "gzip".to_owned())];
        Some(ProviderAnswer::Whole(status, headers, Bytes::from_static(b"\x1f\x8b what it says")))
    };
    place.provider.script(ISSUE, packed(200));
    reason(&place.act(&con, "get_issue", issue()).await, Code::Unavailable, "PROVIDER_FAILED");
    place.provider.script(ISSUES, packed(201));
    reason(&place.act(&con, "create_issue", new_issue()).await, Code::FailedPrecondition, "OUTCOME_UNKNOWN");
    // Of a refusal, the status says enough.
    place.provider.script(ISSUE, packed(404));
    reason(&place.act(&con, "get_issue", issue()).await, Code::FailedPrecondition, "PROVIDER_REFUSED");
}

async fn calls_of_one_connection_are_bounded(place: Place) {
    let con = id(&place.by_sign_in().await);
    place.grant(&con, json!({})).await;
    // Each call waits for the provider.
    place.provider.hold("/gl/api/v4/projects");
    let place = std::sync::Arc::new(place);
    let call = |place: std::sync::Arc<Place>, con: String| async move {
        place.act(&con, "list_issues", json!({ "project": "7" })).await
    };
    let calls: Vec<_> = (0..111).map(|_| tokio::spawn(call(place.clone(), con.clone()))).collect();
    let is_busy = async || place.uses("status=refused").await.len() == 1;
    until("the one too many is refused", is_busy).await;
    assert_eq!(place.provider.calls("/gl/api/v4/projects").len(), 10);
    place.provider.hold("");
    let mut busy = 0;
    for call in calls {
        let answer = call.await.unwrap();
        if answer.status == 429 {
            reason(&answer, Code::RateLimited, "CONNECTION_BUSY");
            assert_eq!(answer.header("retry-after"), "1");
            busy += 1;
        } else {
            answer.ok();
        }
    }
    assert_eq!(busy, 1);
    assert_eq!(place.uses("action=list_issues&status=ok").await.len(), 110);
    assert_eq!(place.uses("status=refused").await[0]["error_class"], "rate_limited");
}

async fn history_is_filtered(place: Place) {
    let con = granted(&place).await;
    place.act(&con, "get_issue", issue()).await.ok();
    place.act(&con, "get_issue", json!({})).await.refused(Code::BadRequest);
    place.to(&format!("/{con}/test"), json!({})).await.ok();
    let count = async |filter: &str| place.uses(filter).await.len();
    assert_eq!(count(&format!("connection_id={con}")).await, 3, "that of the creation has none");
    assert_eq!(count("action=test").await, 2);
    assert_eq!(count("status=refused").await, 1);
    assert_eq!(count(&format!("consumer={}&status=ok&action=get_issue", place.consumer)).await, 1);
    assert_eq!(count("consumer=key:nobody").await, 0);
    for (filter, field) in
        [("status=maybe", "status"), ("consumer=nobody", "consumer"), ("connection_id=x", "connection_id")]
    {
        place.app.get(&place.path(&format!("/history?{filter}"))).await.refused_field(field);
    }
    let other = place.new_account("Other").await;
    let token = place.token_with(other, place.all_scopes()).await;
    let path = format!("/v1/accounts/orgs/{other}/connections/history");
    let theirs = place.call("GET", &token, &path, &Value::Null).await.ok();
    assert_eq!(theirs["uses"], json!([]));
    place.advance(seconds(91 * 24 * 3600)).await;
    while portico_testkit::turn(&place, "connections.prune_uses").await
        == portico_engine::JobOutcome::MoreWork
    {}
    assert_eq!(place.count("connection_uses").await, 0);
}

async fn a_use_is_on_record_also_when_its_caller_has_gone(place: Place) {
    let con = id(&place.by_sign_in().await);
    place.grant(&con, json!({})).await;
    let place = std::sync::Arc::new(place);
    place.provider.hold("/gl/oauth/token");
    place.provider.end_access();
    let calling = {
        let (place, con) = (place.clone(), con.clone());
        tokio::spawn(async move { place.act(&con, "list_issues", json!({ "project": "7" })).await })
    };
    until("a fresh token is asked for", async || place.provider.calls("/gl/oauth/token").len() == 2).await;
    calling.abort();
    place.provider.hold("");
    until("the use is on record", async || place.uses("action=list_issues").await.len() == 1).await;
    assert_eq!(place.uses("action=list_issues").await[0]["status"], "ok");
}

async fn numbers_are_counted(place: Place) {
    let con = granted(&place).await;
    place.act(&con, "get_issue", issue()).await.ok();
    place.act(&con, "get_issue", json!({})).await.refused(Code::BadRequest);
    let metrics = place.app.app.engine.registry.metrics();
    let calls = |status, class| {
        let labels =
            [("connector", "github"), ("executor", "cloud"), ("status", status), ("error_class", class)];
        let labels = labels.map(Some);
        let found =
            metrics.iter().find(|metric| metric.name == "connection_calls" && metric.labels == labels);
        found.map(|metric| metric.value.clone())
    };
    assert_eq!(calls("ok", ""), Some(MetricValue::Counter(2)), "the test and the action");
    assert_eq!(calls("refused", "bad_params"), Some(MetricValue::Counter(1)));
    let seconds = metrics.iter().find(|metric| metric.name == "connection_call_seconds").unwrap();
    let MetricValue::Histogram(seconds) = &seconds.value else { panic!("{seconds:?}") };
    assert_eq!(seconds.counts.iter().sum::<u64>(), 2);
}
