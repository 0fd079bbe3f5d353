//! Strict input: one message from path, query and body.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Request;
use http_body_util::StreamBody;
use hyper::body::Frame;
use portico_kernel::Code;
use portico_testkit::{Answer, TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

async fn body(app: &TestApp, text: &str) -> Answer {
    app.send(TestRequest::new("POST", &app.things()).bearer(&app.token).text(text)).await
}

on_both_databases! {
    a_body_must_be_a_json_object,
    only_json_is_taken,
    unknown_names_are_refused_at_every_depth,
    an_object_is_an_object_and_its_names_are_known,
    a_null_character_is_refused_everywhere,
    a_refusal_stays_small_and_quick_however_large_the_request,
    names_given_twice_are_refused_at_every_depth,
    values_that_do_not_convert_are_refused,
    int64_travels_as_a_string_or_a_whole_number,
    null_is_absent_and_defaults_hold,
    depth_is_limited,
    the_number_of_values_is_limited,
    bodies_are_limited_to_two_mebibytes,
    bodies_are_limited_by_their_operation,
    a_request_without_a_body_is_an_empty_message,
    path_variables_override_the_body,
    queries_are_strict,
    a_write_takes_no_query_and_a_read_no_body,
    a_path_variable_may_hold_a_slash,
}

async fn a_body_must_be_a_json_object(app: TestApp) {
    for text in [
        "{",
        "{\"name\":\"a\"} x",
        "nul",
        "{\"name\":\"\\ud800\"}",
        "{\"size\":NaN,\"name\":\"a\"}",
        "{'name':'a'}",
        "{\"name\":\"a\",}",
        "\u{feff}{\"name\":\"a\"}",
    ] {
        let description = body(&app, text).await.refused_field("body");
        assert!(description.contains("JSON"), "{text}: {description}");
    }
    for text in ["[]", "5", "\"x\"", "null", "true"] {
        body(&app, text).await.refused_field("body");
    }
    let bytes =
        TestRequest::new("POST", &app.things()).bearer(&app.token).header("content-type", "application/json");
    app.send(bytes.bytes(b"{\"name\":\"\xff\xfe\"}".to_vec())).await.refused_field("body");
}

async fn only_json_is_taken(app: TestApp) {
    let post = |content_type: &str| {
        let sent =
            TestRequest::new("POST", &app.things()).bearer(&app.token).bytes(br#"{"name":"a"}"#.to_vec());
        if content_type.is_empty() { sent } else { sent.header("content-type", content_type) }
    };
    for refused in [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "application/json; charset=latin1",
        "application/problem+json",
    ] {
        app.send(post(refused)).await.refused(Code::UnsupportedMediaType);
    }
    for taken in [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
    ] {
        app.send(post(taken)).await.ok();
    }
    app.send(post("application/json").header("content-encoding", "gzip"))
        .await
        .refused(Code::UnsupportedMediaType);
    let twice = post("application/json").header("content-type", "application/json");
    app.send(twice).await.refused(Code::UnsupportedMediaType);
}

async fn unknown_names_are_refused_at_every_depth(app: TestApp) {
    body(&app, r#"{"name":"a","nope":1}"#).await.refused_field("nope");
    body(&app, r#"{"name":"a","look":{"nope":1}}"#).await.refused_field("look.nope");
    body(&app, r#"{"name":"a","look":{"edges":[{"width":1},{"width":2,"nope":3}]}}"#)
        .await
        .refused_field("look.edges[1].nope");
    body(&app, r#"{"name":"a","Name":"b"}"#).await.refused_field("Name");
    body(&app, r#"{"name":"a","filter.color":"red"}"#).await.refused_field("filter.color");
}

async fn an_object_is_an_object_and_its_names_are_known(app: TestApp) {
    body(&app, r#"{"name":"a","nope":null}"#).await.refused_field("nope");
    body(&app, r#"{"name":"a","look":{"nope":null}}"#).await.refused_field("look.nope");
    body(&app, r#"{"name":"a","look":{"edges":[[3,true,"surplus"]]}}"#).await.refused_field("look.edges[0]");
    body(&app, r#"{"name":"a","look":["red"]}"#).await.refused_field("look");
    body(&app, r#"{"name":"a","look":{"edges":[{"body":1,"body":2}]}}"#)
        .await
        .refused_field("look.edges[0].body");
}

async fn a_null_character_is_refused_everywhere(app: TestApp) {
    body(&app, r#"{"name":"a\u0000b"}"#).await.refused_field("name");
    body(&app, r#"{"name":"a","x\u0000":1}"#).await.refused_field("body");
    body(&app, r#"{"name":"a","tags":["x","\u0000"]}"#).await.refused_field("tags[1]");
    app.get(&format!("{}/a%00b", app.things())).await.refused_field("thing_id");
    app.get(&format!("{}?names=%00", app.things())).await.refused_field("names");
}

async fn a_refusal_stays_small_and_quick_however_large_the_request(app: TestApp) {
    let name = "n".repeat(1 << 20);
    let refused = body(&app, &format!(r#"{{"name":"a","{name}":1}}"#)).await;
    refused.refused(Code::BadRequest);
    assert!(refused.body.len() < 2_000);
    // Quadratic work would take minutes here.
    let nulls: Vec<_> = (0..150_000).map(|number| format!("\"{number}\":null")).collect();
    body(&app, &format!("{{{}}}", nulls.join(","))).await.refused(Code::BadRequest);
}

async fn names_given_twice_are_refused_at_every_depth(app: TestApp) {
    body(&app, r#"{"name":"a","name":"a"}"#).await.refused_field("name");
    body(&app, r#"{"name":"a","n\u0061me":"a"}"#).await.refused_field("name");
    body(&app, r#"{"name":null,"name":"a"}"#).await.refused_field("name");
    body(&app, r#"{"name":"a","look":{"color":"red","color":"red"}}"#).await.refused_field("look.color");
    body(&app, r#"{"name":"a","look":{"edges":[{"width":1,"width":1}]}}"#)
        .await
        .refused_field("look.edges[0].width");
    body(&app, r#"{"name":"a","other":{"x":[{"y":1,"y":2}]}}"#).await.refused_field("other.x[0].y");
}

async fn values_that_do_not_convert_are_refused(app: TestApp) {
    for (text, field) in [
        (r#"{"name":5}"#, "name"),
        (r#"{"name":["a"]}"#, "name"),
        (r#"{"name":""}"#, "name"),
        (r#"{"name":"a","tags":"x"}"#, "tags"),
        (r#"{"name":"a","tags":["x",5]}"#, "tags[1]"),
        (r#"{"name":"a","tags":["x",null]}"#, "tags[1]"),
        (r#"{"name":"a","size":1.5}"#, "size"),
        (r#"{"name":"a","size":"1.0"}"#, "size"),
        (r#"{"name":"a","size":"+1"}"#, "size"),
        (r#"{"name":"a","size":"01"}"#, "size"),
        (r#"{"name":"a","size":" 1"}"#, "size"),
        (r#"{"name":"a","size":9223372036854775808}"#, "size"),
        (r#"{"name":"a","size":"9223372036854775808"}"#, "size"),
        (r#"{"name":"a","size":true}"#, "size"),
        (r#"{"name":"a","look":[]}"#, "look"),
        (r#"{"name":"a","look":{"color":"green"}}"#, "look.color"),
        (r#"{"name":"a","look":{"color":0}}"#, "look.color"),
        (r#"{"name":"a","look":{"color":{"red":1,"blue":2}}}"#, "look.color"),
        (r#"{"name":"a","look":{"edges":[{"width":2147483648}]}}"#, "look.edges[0].width"),
        (r#"{"name":"a","look":{"edges":[{"width":"1"}]}}"#, "look.edges[0].width"),
        (r#"{"name":"a","look":{"edges":[{"straight":true}]}}"#, "look.edges[0].width"),
        (r#"{"name":"a","look":{"edges":[{"width":1,"straight":"true"}]}}"#, "look.edges[0].straight"),
    ] {
        let description = body(&app, text).await.refused_field(field);
        assert!(!["i32", "struct", "enum"].iter().any(|rust| description.contains(rust)), "{description}");
    }
    body(&app, "{}").await.refused_field("name");
}

async fn int64_travels_as_a_string_or_a_whole_number(app: TestApp) {
    for (sent, kept) in [
        ("\"9223372036854775807\"", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("7", "7"),
        ("\"-7\"", "-7"),
        ("\"0\"", "0"),
        ("null", "0"),
        ("3.0", "3"),
    ] {
        let made = body(&app, &format!(r#"{{"name":"a","size":{sent}}}"#)).await.ok();
        assert_eq!(made["thing"]["size"], kept);
    }
}

async fn null_is_absent_and_defaults_hold(app: TestApp) {
    let made = body(&app, r#"{"name":"a","tags":null,"look":null,"id":null,"size":null}"#).await.ok();
    assert_eq!(made["tags"], 0);
    body(&app, r#"{"name":null}"#).await.refused_field("name");
    let made =
        body(&app, r#"{"name":"a","look":{"edges":[{"width":3,"straight":true},{"width":4.0}]}}"#).await.ok();
    assert_eq!(made["straight_width"], 3);
}

async fn depth_is_limited(app: TestApp) {
    let nested = |depth: usize| format!(r#"{{"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    body(&app, &nested(63)).await.refused_field("x");
    body(&app, &nested(64)).await.refused_field("body");
    body(&app, &nested(100_000)).await.refused_field("body");
    let query = format!("{}?{}=1", app.things(), vec!["a"; 100].join("."));
    app.get(&query).await.refused_field("query");
}

async fn the_number_of_values_is_limited(app: TestApp) {
    // The object, its two fields, and what is in the list.
    let tags = |count: usize| json!({ "name": "a", "tags": vec![Value::Null; count] }).to_string();
    let description = body(&app, &tags(9_998)).await.refused_field("body");
    assert_eq!(description, "holds more than 10000 values, the maximum");
    let refused = body(&app, &tags(9_997)).await;
    assert!(refused.text().contains("tags[0]"), "it is read, and then refused: {}", refused.text());
    // Large bodies are parsed elsewhere, and refused in the same words.
    let many = format!("{{\"name\":\"a\",\"x\":[{}0]}}", "{\"\":0},".repeat(200_000));
    assert_eq!(body(&app, &many).await.refused_field("body"), description);
}

async fn bodies_are_limited_to_two_mebibytes(app: TestApp) {
    let body_of = |length: usize| {
        let frame = r#"{"name":"a","note":""}"#.len();
        format!(r#"{{"name":"a","note":"{}"}}"#, "x".repeat(length - frame))
    };
    let largest = body(&app, &body_of(2 << 20)).await.ok();
    assert_eq!(largest["note_bytes"], json!((2 << 20) - 22));
    body(&app, &body_of((2 << 20) + 1)).await.refused(Code::PayloadTooLarge);
    // Not declared: frames of 64 KiB, and the count of those that were taken tells that reading stopped.
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    let frames = (0..1_000).map(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; 64 << 10])))
    });
    let stream = StreamBody::new(Frames(frames.collect::<Vec<_>>().into_iter(), taken.clone()));
    taken.store(0, Ordering::SeqCst);
    let request = Request::post(app.things())
        .header("host", "test")
        .header("authorization", format!("Bearer {}", app.token))
        .header("content-type", "application/json")
        .body(stream)
        .unwrap();
    app.send_body(request).await.refused(Code::PayloadTooLarge);
    assert_eq!(taken.load(Ordering::SeqCst), 33, "2 MiB and the frame that was too many");
}

async fn bodies_are_limited_by_their_operation(app: TestApp) {
    app.post(&app.things(), &json!({ "name": "a", "id": "t" })).await.ok();
    let address = format!("{}/t", app.things());
    let frame = r#"{"name":""}"#.len();
    let of = |length: usize| format!(r#"{{"name":"{}"}}"#, "x".repeat(length - frame));
    let patch = |body: String| app.send(TestRequest::new("PATCH", &address).bearer(&app.token).text(&body));
    patch(of(64 << 10)).await.refused_field("name");
    for length in [(64 << 10) + 1, 2 << 20] {
        let description = patch(of(length)).await.refused_field("body");
        assert_eq!(description, "is larger than 65536 bytes, the most that this operation has a use for");
    }
    patch(of((2 << 20) + 1)).await.refused(Code::PayloadTooLarge);
    // The same where the length is not declared.
    let chunked = async |body: String| {
        let pieces = body.as_bytes().chunks(64 << 10);
        let frames: Vec<_> =
            pieces.map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(piece)))).collect();
        let request = Request::patch(&address)
            .header("host", "test")
            .header("authorization", format!("Bearer {}", app.token))
            .header("content-type", "application/json")
            .body(StreamBody::new(Frames(frames.into_iter(), Arc::default())))
            .unwrap();
        app.send_body(request).await
    };
    chunked(of(64 << 10)).await.refused_field("name");
    chunked(of((64 << 10) + 1)).await.refused_field("body");
    chunked(of(2 << 20)).await.refused_field("body");
    chunked(of((2 << 20) + 1)).await.refused(Code::PayloadTooLarge);
}

async fn a_request_without_a_body_is_an_empty_message(app: TestApp) {
    app.post(&app.things(), &json!({ "name": "a", "id": "t" })).await.ok();
    let address = format!("{}/t", app.things());
    let patch = |sent: TestRequest| app.send(sent.bearer(&app.token));
    assert_eq!(patch(TestRequest::new("PATCH", &address)).await.ok()["name"], "a");
    assert_eq!(
        patch(TestRequest::new("PATCH", &address).header("content-length", "0")).await.ok()["name"],
        "a"
    );
    patch(TestRequest::new("POST", &app.things())).await.refused_field("name");
}

async fn path_variables_override_the_body(app: TestApp) {
    let other = app.new_account("Other").await;
    let made = app.post(&app.things(), &json!({ "name": "a", "id": "o", "org_id": other })).await;
    made.ok();
    app.post(&app.things(), &json!({ "name": "b", "id": "p", "org_id": 5 })).await.ok();
    app.get(&format!("{}/o", app.things())).await.ok();
}

async fn queries_are_strict(app: TestApp) {
    let things = app.things();
    for (query, field) in [
        ("?nope=1", "nope"),
        ("?filter.nope=1", "filter.nope"),
        ("?other.kind=1", "other.kind"),
        ("?other.kind.first=1&other.kind.second=2", "other.kind.first"),
        ("?filter=red", "filter"),
        ("?filter.color=red&filter.color=blue", "filter.color"),
        ("?filter.color=green", "filter.color"),
        ("?filter.color=", "filter.color"),
        ("?filter.color=red&filter=x", "filter"),
        ("?filter=x&filter.color=red", "filter.color"),
        ("?filter.large=yes", "filter.large"),
        ("?filter.size_min=x", "filter.size_min"),
        ("?page_size=x", "page_size"),
        ("?page_size=", "page_size"),
        ("?page_size=-1", "page_size"),
        ("?page_size=1.5", "page_size"),
        ("?page_size=99999999999", "page_size"),
        ("?page_size=1&page_size=2", "page_size"),
        ("?limit=-1", "limit"),
        ("?limit=-1&page_size=5", "limit"),
        ("?limit=a&page_size=1", "limit"),
        ("?page_token=a&page_token=b", "page_token"),
        ("?names=%zz", "names"),
        ("?names=%ff", "names"),
        ("?%ff=1", "query"),
        ("?org_id=x", "org_id"),
        ("?=1", "query"),
        ("?.=1", "query"),
        ("?filter..color=red", "query"),
        ("?page_size=1e2", "page_size"),
        ("?page_size=5.0", "page_size"),
        ("?page_size=05", "page_size"),
        ("?page_size=%2B5", "page_size"),
    ] {
        app.get(&format!("{things}{query}")).await.refused_field(field);
    }
    for (name, color, size) in [("a b", "red", 5), ("c", "blue", 2_000), ("d", "red", 3_000)] {
        app.post(&things, &json!({ "name": name, "size": size, "look": { "color": color } })).await.ok();
    }
    for (query, names) in [
        ("", vec!["d", "c", "a b"]),
        ("?&&", vec!["d", "c", "a b"]),
        ("?filter.color=red", vec!["d", "a b"]),
        ("?names=a+b&names=c", vec!["c", "a b"]),
        ("?names=a%20b", vec!["a b"]),
        ("?filter.size_min=2000&filter.large=true", vec!["d", "c"]),
    ] {
        let list = app.get(&format!("{things}{query}")).await.ok();
        let got: Vec<_> =
            list["things"].as_array().unwrap().iter().map(|thing| thing["name"].as_str().unwrap()).collect();
        assert_eq!(got, names, "{query}");
    }
}

async fn a_write_takes_no_query_and_a_read_no_body(app: TestApp) {
    let path = format!("{}?name=a", app.things());
    app.post(&path, &json!({ "name": "a" })).await.refused_field("name");
    let read = TestRequest::new("GET", &app.things()).bearer(&app.token).json(&json!({ "filter": {} }));
    app.send(read).await.refused_field("body");
    let delete =
        TestRequest::new("DELETE", &format!("{}/a", app.things())).bearer(&app.token).json(&json!({}));
    app.send(delete).await.refused_field("body");
}

async fn a_path_variable_may_hold_a_slash(app: TestApp) {
    app.post(&app.things(), &json!({ "name": "a", "id": "docs/a b.md" })).await.ok();
    let found = app.get(&format!("{}/docs%2Fa%20b.md", app.things())).await.ok();
    assert_eq!(found["id"], "docs/a b.md");
    app.get(&format!("{}/docs/a", app.things())).await.refused(Code::NotFound);
    app.get(&format!("{}/%ff", app.things())).await.refused_field("thing_id");
    app.get("/v1/lab/orgs/zzz/things").await.refused_field("org_id");
    app.get("/v1/lab/orgs/%ff/things").await.refused_field("org_id");
}

/// Frames that are counted as they are taken.
struct Frames<I>(I, Arc<AtomicUsize>);

impl<I: Iterator + Unpin> futures_util::Stream for Frames<I> {
    type Item = I::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<I::Item>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        std::task::Poll::Ready(self.0.next())
    }
}
