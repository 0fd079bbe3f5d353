//! Pages: keyset order, sealed tokens, `Link`.

use portico_kernel::seconds;
use portico_testkit::{Answer, TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

async fn make(app: &TestApp, count: usize) {
    for number in 0..count {
        app.post(&app.things(), &json!({ "name": "n", "id": format!("t{number}") })).await.ok();
    }
}

fn ids(page: &Value) -> Vec<String> {
    page["things"].as_array().unwrap().iter().map(|thing| thing["id"].as_str().unwrap().to_owned()).collect()
}

fn token(page: &Value) -> String {
    page["next_page_token"].as_str().unwrap().to_owned()
}

/// The address in the `Link` header.
fn next(answer: &Answer) -> Option<String> {
    let link = answer.header("link");
    let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
    assert_eq!(parameters, "; rel=\"next\"");
    Some(target.to_owned())
}

on_both_databases! {
    walking_meets_each_item_once_newest_first,
    sizes,
    a_token_continues_its_own_list_only,
    a_token_is_bound_to_the_account_and_ends,
    a_page_that_would_be_too_large_is_shorter,
    tokens_show_nothing,
}

async fn walking_meets_each_item_once_newest_first(app: TestApp) {
    make(&app, 7).await;
    let mut path = format!("{}?page_size=3", app.things());
    let mut walked = Vec::new();
    loop {
        let answer = app.get(&path).await;
        let page = answer.ok();
        walked.extend(ids(&page));
        // Something new arrives while we walk; it shifts nothing.
        app.post(&app.things(), &json!({ "name": "later" })).await.ok();
        let Some(link) = next(&answer) else {
            assert_eq!(token(&page), "");
            break;
        };
        let by_token = format!("{}?page_size=3&page_token={}", app.things(), token(&page));
        assert_eq!(app.get(&by_token).await.ok()["things"], app.get(&link).await.ok()["things"]);
        path = link;
    }
    assert_eq!(walked, ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]);
}

async fn sizes(app: TestApp) {
    make(&app, 60).await;
    let count = |query: &'static str| {
        let app = &app;
        async move { ids(&app.get(&format!("{}{query}", app.things())).await.ok()).len() }
    };
    assert_eq!(count("").await, 50);
    assert_eq!(count("?page_size=0").await, 50);
    assert_eq!(count("?page_size=7").await, 7);
    assert_eq!(count("?page_size=60").await, 60);
    assert_eq!(count("?page_size=2147483647").await, 60);
    assert_eq!(count("?limit=3").await, 3);
    assert_eq!(count("?limit=3&page_size=4").await, 4);
    let exact = app.get(&format!("{}?page_size=60", app.things())).await;
    assert_eq!(token(&exact.ok()), "", "a full last page is the last");
    assert_eq!(next(&exact), None);
}

async fn a_token_continues_its_own_list_only(app: TestApp) {
    make(&app, 5).await;
    let things = app.things();
    let first = app.get(&format!("{things}?page_size=2&filter.large=false")).await.ok();
    let token = token(&first);
    let with = |query: &str| format!("{things}?{query}&page_token={token}");
    app.get(&with("page_size=2&filter.large=false")).await.ok();
    app.get(&with("filter.large=false&page_size=2")).await.ok();
    for changed in [
        "page_size=3&filter.large=false",
        "page_size=2&filter.large=true",
        "page_size=2",
        "limit=2",
        "page_size=2&filter.large=false&names=a",
        "filter.large=false",
    ] {
        app.get(&with(changed)).await.refused_field("page_token");
    }
    app.get(&format!("/v1/lab/heavy?page_token={token}")).await.refused_field("page_token");
    app.get(&format!("/v1/events/types?page_token={token}")).await.refused_field("page_token");
    for garbage in ["abc", "%00", "=", &"x".repeat(5_000)] {
        app.get(&format!("{things}?page_token={garbage}")).await.refused_field("page_token");
    }
    let mut damaged = token.clone().into_bytes();
    damaged[30] = if damaged[30] == b'A' { b'B' } else { b'A' };
    let damaged = String::from_utf8(damaged).unwrap();
    app.get(&format!("{things}?page_size=2&filter.large=false&page_token={damaged}"))
        .await
        .refused_field("page_token");
    app.get(&format!("{things}?page_token=")).await.ok();
}

async fn a_token_is_bound_to_the_account_and_ends(app: TestApp) {
    let other = app.new_account("Other").await;
    let theirs = app.token_with(other, app.all_scopes()).await;
    let first = app.get("/v1/events/types?page_size=2").await.ok();
    let path = format!("/v1/events/types?page_size=2&page_token={}", token(&first));
    app.get(&path).await.ok();
    app.send(TestRequest::new("GET", &path).bearer(&theirs)).await.refused_field("page_token");
    let colleague = app.token_with(app.account, app.all_scopes()).await;
    app.send(TestRequest::new("GET", &path).bearer(&colleague)).await.ok();
    app.advance(seconds(3 * 24 * 3600)).await;
    app.get(&path).await.refused_field("page_token");
}

async fn a_page_that_would_be_too_large_is_shorter(app: TestApp) {
    let mut path = "/v1/lab/heavy?page_size=100".to_owned();
    let mut numbers = Vec::new();
    loop {
        let answer = app.get(&path).await;
        assert!(answer.body.len() <= 4 << 20);
        let page = answer.ok();
        numbers.extend(page["heavy"].as_array().unwrap().iter().map(|item| item["number"].as_i64().unwrap()));
        let Some(link) = next(&answer) else { break };
        path = link;
    }
    assert_eq!(numbers, (0..150).collect::<Vec<_>>());
}

async fn tokens_show_nothing(app: TestApp) {
    make(&app, 3).await;
    let first = app.get(&format!("{}?page_size=1", app.things())).await.ok();
    let again = app.get(&format!("{}?page_size=1", app.things())).await.ok();
    assert_ne!(token(&first), token(&again), "equal cursors do not look alike");
    assert_eq!(token(&first).len(), token(&again).len());
}
