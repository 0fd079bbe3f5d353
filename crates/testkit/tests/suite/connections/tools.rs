//! Tools: by REST, and as assistants see them.

use portico_kernel::Code;
use portico_store::args;
use portico_testkit::{
    MqttClient, NEWEST, ProviderAnswer, SseClient, TestRequest, TestServer, old_rpc, rpc, turn,
};
use serde_json::{Value, json};

use super::{Place, SECRET, beside_each_other, id, issue, options, reason, text};
use crate::with_a_provider;

with_a_provider! {
    a_token_sees_the_tools_that_it_was_granted,
    a_tool_answers_as_the_action_on_every_door,
    assistants_are_asked_for_the_scopes_of_the_class,
    names_never_clash,
    a_refusal_is_a_result_to_assistants,
    whoever_is_not_admitted_asks_the_database_nothing,
    a_long_list_keeps_its_cursor_and_its_numbers,
    a_write_that_was_done_is_never_refused_for_its_answer,
    those_who_listen_hear_of_changes,
    a_revoked_grant_stops_every_door,
}

async fn names(place: &Place, token: &str) -> Vec<String> {
    let path = format!("/v1/connections/tools?page_size=200&account_id={}", place.account);
    let tools = place.call("GET", token, &path, &Value::Null).await.ok();
    tools["tools"].as_array().unwrap().iter().map(|tool| text(&tool["name"])).collect()
}

async fn a_token_sees_the_tools_that_it_was_granted(place: Place) {
    let con = id(&place.by_key().await);
    assert!(names(&place, &place.token).await.is_empty());
    let all = names(&place, &place.person_token(place.owner).await).await;
    assert!(all.contains(&"code_merge_pull_request".to_owned()), "a person has all: {all:?}");
    let grant =
        place.grant(&con, json!({ "actions": ["get_issue", "search_issues"] })).await["grant"].clone();
    let tools = place.app.get("/v1/connections/tools").await.ok();
    let tool = &tools["tools"][0];
    assert_eq!(
        (&tool["name"], &tool["action"], &tool["class"]),
        (&json!("code_get_issue"), &json!("get_issue"), &json!("read"))
    );
    assert_eq!((&tool["connection_id"], &tool["grant_id"]), (&json!(con), &grant["id"]));
    assert!(text(&tool["description"]).starts_with("acme-bot: "));
    assert_eq!(names(&place, &place.token).await, ["code_get_issue", "code_search_issues"]);
    let sent = json!({ "params": issue() });
    let called = place.call("POST", &place.token, "/v1/connections/tools/code_get_issue", &sent).await.ok();
    assert_eq!(called["result"]["title"], "First");
    let ungranted = place.call("POST", &place.token, "/v1/connections/tools/code_create_issue", &sent).await;
    ungranted.refused(Code::NotFound);
    place.patch(&con, json!({ "paused": true })).await.ok();
    assert!(names(&place, &place.token).await.is_empty(), "those of a paused connection are not shown");
    let paused = place.call("POST", &place.token, "/v1/connections/tools/code_get_issue", &sent).await;
    reason(&paused, Code::FailedPrecondition, "PAUSED");
    place.patch(&con, json!({ "paused": false, "name": "Renamed" })).await.ok();
    assert_eq!(names(&place, &place.token).await[0], "code_get_issue", "a name never changes");
}

async fn a_tool_answers_as_the_action_on_every_door(place: Place) {
    let con = id(&place.by_key().await);
    place.grant(&con, json!({})).await;
    let action = place.act(&con, "get_issue", issue()).await.ok();
    let mcp = place.tool(&place.token, "code_get_issue", issue()).await;
    let old = old_rpc(&place.token, "tools/call", &json!({ "name": "code_get_issue", "arguments": issue() }));
    let old = place.send(old).await;
    assert!(old.text().contains(r#""big":9007199254740993,"exact":1.10}"#), "{}", old.text());
    for structured in [&mcp["structuredContent"], &old.ok()["result"]["structuredContent"]] {
        assert_eq!(structured["result"], action["result"]);
        assert!(text(&structured["use_id"]).starts_with("use_"));
    }
    assert_eq!(mcp["isError"], false);
    assert_eq!(place.uses("action=get_issue").await.len(), 3, "one use each");
    let listed = place.tools(&place.token).await;
    let tool = listed.iter().find(|tool| tool["name"] == "code_get_issue").unwrap();
    assert_eq!(
        tool["annotations"],
        json!({
            "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true,
        })
    );
    assert_eq!(
        tool["_meta"],
        json!({
            "class": "read", "reads_private": true, "reads_untrusted": true, "sends_out": false,
        })
    );
    assert_eq!(tool["inputSchema"]["required"], json!(["owner", "repo", "number"]));
    // Units are those of an action, whoever asks.
    let path = format!("/v1/accounts/orgs/{}/usage", place.account);
    place.catch_up().await;
    let usage = place.app.get(&path).await.ok();
    let rows = usage["rows"].as_array().unwrap();
    let units = |rpc: &str| rows.iter().find(|row| row["rpc"] == rpc).map(|row| text(&row["units"]));
    assert_eq!(units("connections.tools.call"), Some("20".to_owned()));
    assert_eq!(units("connections.actions.call"), Some("10".to_owned()));
}

async fn assistants_are_asked_for_the_scopes_of_the_class(place: Place) {
    let con = id(&place.by_key().await);
    place.grant(&con, json!({ "max_class": "write_irreversible" })).await;
    for (scopes, tool, missing) in [
        ("mcp:read", "code_get_issue", "connections:use"),
        ("connections:use mcp:write", "code_get_issue", "mcp:read"),
        ("connections:use mcp:read", "code_create_issue", "mcp:write"),
    ] {
        let scopes = scopes.split(' ').collect::<portico_kernel::ScopeSet>();
        let made = place.new_token(place.account, scopes, 7).await;
        let consumer = format!("key:{}", text(&made["token_id"]));
        let grants = format!("/{con}/grants");
        let body = json!({ "consumer": consumer, "max_class": "write_irreversible" });
        place.as_owner("POST", &grants, body).await.ok();
        let token = text(&made["token"]);
        let listed = place.tools(&token).await;
        assert!(listed.iter().all(|listed| listed["name"] != tool), "{tool} is shown without {missing}");
        let refused = place.send(rpc(&token, "tools/call", json!({ "name": tool, "arguments": {} }))).await;
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert!(refused.header("www-authenticate").contains("insufficient_scope"));
        assert!(refused.header("www-authenticate").contains(missing));
    }
    let shown = place.tools(&place.token).await;
    let merge = shown.iter().find(|tool| tool["name"] == "code_merge_pull_request").unwrap();
    assert_eq!(merge["annotations"]["destructiveHint"], true);
    let without = place.tools(&place.token_with(place.account, place.all_scopes()).await).await;
    assert!(without.len() <= 30 + 30, "the platform's own, and those of the lab");
}

async fn names_never_clash(place: Place) {
    let own = place.provider.own();
    let mut handles = Vec::new();
    // The platform has tools that begin with `webhooks_`, and the others would take each other's names.
    for name in ["Own", "own", "Webhooks", "connections", "own get", "\u{4e2d}\u{6587}"] {
        let body = json!({
            "kind": "endpoint", "name": name, "secret": "s", "config": { "base_url": own },
        });
        handles.push(id(&place.to("", body).await.ok()["connection"]));
    }
    let names = names(&place, &place.person_token(place.owner).await).await;
    let expected = [
        "connection_get",
        "connection_send",
        "connections_2_get",
        "connections_2_send",
        "own_2_get",
        "own_2_send",
        "own_get",
        "own_get_get",
        "own_get_send",
        "own_send",
        "webhooks_2_get",
        "webhooks_2_send",
    ];
    assert_eq!(names, expected);
}

async fn a_refusal_is_a_result_to_assistants(place: Place) {
    let con = id(&place.by_key().await);
    place.grant(&con, json!({})).await;
    let refused = place.tool(&place.token, "code_get_issue", json!({ "owner": "acme" })).await;
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["structuredContent"]["code"], "bad_request");
    let unknown =
        place.send(rpc(&place.token, "tools/call", json!({ "name": "code_nope", "arguments": {} }))).await;
    assert_eq!(unknown.json()["error"]["code"], -32602, "{}", unknown.text());
    place.provider.set_keys(&[]);
    let refused = place.tool(&place.token, "code_get_issue", issue()).await;
    assert_eq!(refused["structuredContent"]["details"][0]["reason"], "CREDENTIAL_REFUSED");
}

/// Puts what grants are read from out of reach, or back.
async fn rename(place: &Place, statement: &'static str) {
    let mut tx = place.app.app.engine.db.write().await.unwrap();
    tx.execute(statement, args![]).await.unwrap();
    tx.commit().await.unwrap();
}

async fn whoever_is_not_admitted_asks_the_database_nothing(place: Place) {
    let con = id(&place.by_key().await);
    place.grant(&con, json!({})).await;
    let call = |token: &str, name: &str| rpc(token, "tools/call", json!({ "name": name, "arguments": {} }));
    let mut tokens = Vec::new();
    for scopes in ["mcp:read mcp:write", "connections:use mcp:read"] {
        let token = place.token_with(place.account, scopes.split(' ').collect()).await;
        // Who it is, is known from here on.
        place.tools(&token).await;
        tokens.push(token);
    }
    rename(&place, "alter table connection_grants rename to connection_grants_away").await;
    for (token, name, missing) in [
        (&tokens[0], "code_get_issue", "connections:use"),
        // Nor is it told whether there is such a connection.
        (&tokens[0], "nowhere_get_issue", "connections:use"),
        (&tokens[1], "code_create_issue", "mcp:write"),
    ] {
        let refused = place.send(call(token, name)).await;
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert!(refused.header("www-authenticate").contains(missing));
    }
    rename(&place, "alter table connection_grants_away rename to connection_grants").await;
    let unknown = place.send(call(&place.token, "nowhere_get_issue")).await;
    assert_eq!(unknown.json()["error"]["code"], -32602, "{}", unknown.text());
    assert!(unknown.text().contains("nowhere_get_issue"), "{}", unknown.text());
    // Each stands in the log as the call that it was to be, and cost nothing.
    let requests = place.tool(&place.token, "metering_list_requests", json!({})).await;
    let rows = requests["structuredContent"]["requests"].as_array().unwrap();
    let ends: Vec<_> = rows[..4].iter().map(|row| (&row["rpc"], &row["status"], &row["units"])).collect();
    let (rpc, units) = (json!("connections.tools.call"), json!("0"));
    let (forbidden, missing) = (json!(403), json!(404));
    let expected = [&missing, &forbidden, &forbidden, &forbidden].map(|status| (&rpc, status, &units));
    assert_eq!(ends, expected);
}

/// An answer of JSON, as it is written.
fn answering(text: String) -> ProviderAnswer {
    let kind = ("content-type", "application/json".to_owned());
    ProviderAnswer::Whole(200, vec![kind], text.into())
}

async fn a_long_list_keeps_its_cursor_and_its_numbers(place: Place) {
    let body = json!({
        "kind": "jira", "name": "Jira", "config": { "site": "acme" },
        "credentials": { "email": "a@b.example", "token": SECRET },
    });
    place.grant(&id(&place.to("", body).await.ok()["connection"]), json!({})).await;
    let one = format!(r#"{{"big":18446744073709551617,"exact":1.10,"text":"{}"}}"#, "t".repeat(300));
    let (issues, cursor) = (vec![one; 200].join(","), "c".repeat(1_500));
    let page = format!(r#"{{"issues":[{issues}],"nextPageToken":"{cursor}"}}"#);
    place.provider.script("/ji/rest/api/3/search/jql", Some(answering(page)));
    let sent = json!({ "name": "jira_search", "arguments": { "jql": "project = APP" } });
    let answer = place.send(rpc(&place.token, "tools/call", sent)).await;
    assert!(answer.body.len() <= 64 << 10, "{}", answer.body.len());
    assert!(answer.text().contains(r#"{"big":18446744073709551617,"exact":1.10,"text":"ttt"#));
    let result = answer.ok()["result"].clone();
    let structured = &result["structuredContent"];
    assert_eq!((&result["isError"], &structured["next_cursor"]), (&json!(false), &json!(cursor)));
    assert!(text(&structured["use_id"]).starts_with("use_"));
    assert_eq!(structured["result"].as_array().unwrap().len(), 100);
    let note = text(&result["content"][1]["text"]);
    assert!(note.contains("`result` holds 100 of 200") && note.contains("REST API"), "{note}");
}

async fn a_write_that_was_done_is_never_refused_for_its_answer(place: Place) {
    let body = json!({
        "kind": "endpoint", "name": "Own", "secret": SECRET, "config": { "base_url": place.provider.own() },
    });
    let con = id(&place.to("", body).await.ok()["connection"]);
    place.grant(&con, json!({ "max_class": "write_irreversible" })).await;
    let many = (0..4_000).map(|at| format!(r#""name {at}":{at}"#)).collect::<Vec<_>>().join(",");
    // The second one has nothing that could be cut.
    let long = format!(r#""{}":1"#, "n".repeat(30_000));
    for (at, fields) in [many, long].into_iter().enumerate() {
        let path = format!("/long/{at}");
        place.provider.script(&format!("/own{path}"), Some(answering(format!("{{{fields}}}"))));
        let sent = json!({ "method": "PUT", "path": path, "body": {} });
        let done = place.tool(&place.token, "own_send", sent).await;
        let structured = &done["structuredContent"];
        assert_eq!((&done["isError"], &structured["status_code"]), (&json!(false), &json!(200)), "{done}");
        assert!(text(&structured["use_id"]).starts_with("use_"));
        let left = structured["result"]["body"].as_object().map(serde_json::Map::len);
        assert_eq!(left, [Some(100), None][at], "{done}");
        let note = text(&done["content"][1]["text"]);
        assert!(note.contains("do not call again"), "{note}");
        assert_eq!(place.provider.calls(&format!("/own{path}")).len(), 1);
    }
}

/// Listens to changes of the list of tools, on a connection of its own.
fn listening(token: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST, "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    let body =
        json!({ "jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": params }).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: {NEWEST}\r\n\
         mcp-method: subscriptions/listen\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn those_who_listen_hear_of_changes(place: Place) {
    let con = id(&place.by_key().await);
    let grants = place.path(&format!("/{con}/grants"));
    let Place { app, provider, owner, consumer } = place;
    let served = TestServer::new(app).await;
    let app = &served.app;
    // What changed before is told once, to be sure.
    turn(app, "connections.spread_changes").await;
    let mut stream = SseClient::ask(served.address, &listening(&app.token)).await.unwrap();
    let acknowledged = stream.first.json();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    assert_eq!(acknowledged["params"]["notifications"], json!({ "toolsListChanged": true }));
    let body = json!({ "consumer": consumer });
    let owner = app.person_token(owner).await;
    let made = TestRequest::new("POST", &grants).bearer(&owner).json(&body);
    let grant = id(&app.send(made).await.ok()["grant"]);
    let told = stream.event().await.json();
    assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 9);
    assert!(app.tools(&app.token).await.iter().any(|tool| tool["name"] == "code_get_issue"));
    // Another server revokes it.
    let beside = app.beside_with(options(&provider)).await;
    let path = format!("{grants}/{grant}");
    let revoke = async || beside.send(TestRequest::new("DELETE", &path).bearer(&app.token)).await;
    beside_each_other(app, &beside, revoke).await.ok();
    turn(app, "connections.spread_changes").await;
    assert_eq!(stream.event().await.json()["method"], "notifications/tools/list_changed");
    let list = async || app.send(rpc(&app.token, "tools/list", json!({}))).await;
    let listed = beside_each_other(app, &beside, list).await.ok();
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(!tools.iter().any(|tool| tool["name"] == "code_get_issue"));
}

async fn a_revoked_grant_stops_every_door(place: Place) {
    let con = id(&place.by_key().await);
    let grant = id(&place.grant(&con, json!({})).await["grant"]);
    let path_of_grant = place.path(&format!("/{con}/grants/{grant}"));
    let path_of_action = place.path(&format!("/{con}/actions/get_issue"));
    let (account, Place { app, provider, .. }) = (place.account, place);
    let served = TestServer::new(app).await;
    let (app, token) = (&served.app, &served.app.token);
    let mut socket = served.ready_socket().await;
    let (mut mqtt, _) = MqttClient::open(served.mqtt, 5, "caller", token, 2, &[]).await.unwrap();
    let action = json!({
        "org_id": account, "connection_id": con, "action": "get_issue", "params": issue(),
    });
    let tool = json!({ "name": "code_get_issue", "params": issue() });
    let asked = json!({ "name": "code_get_issue", "arguments": issue() });
    let post = |path: &str| TestRequest::new("POST", path).bearer(token).json(&json!({ "params": issue() }));
    // What each door says, in words that are the same for all.
    let mut doors = async || {
        let rest = [post(&path_of_action), post("/v1/connections/tools/code_get_issue")];
        let mut said = Vec::new();
        for sent in rest {
            said.push(app.send(sent).await.status.to_string());
        }
        said.push(
            app.send(rpc(token, "tools/call", asked.clone())).await.json()["error"]["code"].to_string(),
        );
        for (method, params) in [("connections.actions.call", &action), ("connections.tools.call", &tool)] {
            said.push(socket.call(method, params.clone()).await["problem"]["code"].to_string());
            said.push(mqtt.call(method, &params.to_string(), None).await.payload["code"].to_string());
        }
        said
    };
    assert_eq!(doors().await, ["200", "200", "null", "null", "null", "null", "null"]);
    let sent = provider.calls("/gh/repos").len();
    app.send(TestRequest::new("DELETE", &path_of_grant).bearer(token)).await.ok();
    let (forbidden, missing) = ("\"forbidden\"", "\"not_found\"");
    assert_eq!(doors().await, ["403", "404", "-32602", forbidden, forbidden, missing, missing]);
    assert_eq!(provider.calls("/gh/repos").len(), sent);
}
