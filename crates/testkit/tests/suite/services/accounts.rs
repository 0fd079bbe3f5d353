//! Accounts as services see them.

use std::collections::BTreeMap;
use std::time::Duration;

use portico::admin::{Admin, PlanCommand};
use portico_engine::Ctx;
use portico_kernel::{AccountId, Clock, Code, Role};
use portico_testkit::{TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

use super::{ACCOUNTS, get};

on_both_databases! {
    an_account_is_tagged_by_all_but_its_units,
    accounts_come_in_the_order_of_their_last_change,
    a_change_that_commits_late_is_not_missed,
    a_copy_is_whole_however_accounts_change,
}

async fn set_plan(app: &TestApp, account: AccountId, plan: &str) {
    app.admin(Admin::Plan(PlanCommand::Set { account, plan: plan.to_owned() })).await;
}

/// The names that changed since, and where to go on.
async fn changed(app: &TestApp, token: &str, after: Option<&str>) -> (Vec<Value>, String) {
    let path = after.map_or(ACCOUNTS.to_owned(), |after| format!("{ACCOUNTS}?after={after}"));
    let answer = get(app, token, &path).await.ok();
    let after = answer["after"].as_str().unwrap().to_owned();
    (answer["accounts"].as_array().unwrap().clone(), after)
}

fn names(accounts: &[Value]) -> Vec<&str> {
    accounts.iter().map(|each| each["account"]["name"].as_str().unwrap()).collect()
}

async fn an_account_is_tagged_by_all_but_its_units(app: TestApp) {
    let token = app.service_token("invoices").await;
    let path = format!("{ACCOUNTS}/{}", app.account);
    let first = get(&app, &token, &path).await;
    let seen = first.ok();
    assert_eq!((&seen["account"]["id"], &seen["account"]["name"]), (&json!(app.account), &json!("Acme")));
    assert_eq!((&seen["entitlements"]["plan"], &seen["at_zero"]), (&json!("free"), &json!("refuse")));
    app.get("/v1/me").await.ok();
    let again = get(&app, &token, &path).await;
    assert_eq!(again.header("etag"), first.header("etag"), "units do not count");
    assert_ne!(again.ok()["units"]["remaining"], seen["units"]["remaining"]);
    let asked = TestRequest::new("GET", &path).bearer(&token).header("if-none-match", first.header("etag"));
    assert_eq!(app.send(asked).await.status, 304);
    set_plan(&app, app.account, "open").await;
    let changed = get(&app, &token, &path).await;
    assert_ne!(changed.header("etag"), first.header("etag"));
    assert_eq!(changed.ok()["at_zero"], "allow");
    let nobody = AccountId::from_parts(app.clock.now(), [9; 10]);
    get(&app, &token, &format!("{ACCOUNTS}/{nobody}")).await.refused(Code::NotFound);
    get(&app, &token, &format!("{ACCOUNTS}/x")).await.refused_field("account_id");
}

async fn accounts_come_in_the_order_of_their_last_change(app: TestApp) {
    let token = app.service_token("invoices").await;
    let (all, after) = changed(&app, &token, None).await;
    assert_eq!(names(&all), ["Acme"]);
    assert_eq!(all[0]["entitlements"]["account_id"], json!(app.account));
    assert_eq!(changed(&app, &token, Some(&after)).await, (vec![], after.clone()), "nothing new");
    let (one, two) = (app.new_account("One").await, app.new_account("Two").await);
    let (both, next) = changed(&app, &token, Some(&after)).await;
    assert_eq!(names(&both).len(), 2);
    set_plan(&app, one, "team").await;
    let (changes, last) = changed(&app, &token, Some(&next)).await;
    assert_eq!((names(&changes), &changes[0]["account"]["plan"]), (vec!["One"], &json!("team")));
    set_plan(&app, two, "team").await;
    let owner = app.new_person("owner@test", None).await;
    app.join(one, owner.id, Role::Owner).await;
    let owner = app.person_token(owner.id).await;
    let path = format!("/v1/accounts/orgs/{one}");
    let mut seen = last;
    for (method, body, told) in [
        ("PATCH", json!({ "name": "Uno" }), ("Uno", "active")),
        ("DELETE", json!(null), ("Uno", "erasing")),
        ("PATCH", json!({ "status": "active" }), ("Uno", "active")),
    ] {
        let sent = TestRequest::new(method, &path).bearer(&owner);
        app.send(if method == "DELETE" { sent } else { sent.json(&body) }).await.ok();
        let (changes, after) = changed(&app, &token, Some(&seen)).await;
        let last = changes.iter().find(|each| each["account"]["id"] == json!(one)).unwrap();
        assert_eq!((&last["account"]["name"], &last["account"]["status"]), (&json!(told.0), &json!(told.1)));
        seen = after;
    }
    for unknown in ["x", "0", "chg_7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "chg_00000000000000000000000ZZZ", ""] {
        get(&app, &token, &format!("{ACCOUNTS}?after={unknown}")).await.refused_field("after");
    }
}

async fn a_change_that_commits_late_is_not_missed(app: TestApp) {
    let token = app.service_token("invoices").await;
    let slow = app.new_account("Slow").await;
    let (_, mut after) = changed(&app, &token, None).await;
    // On SQLite there is one writer, so nothing else can change meanwhile.
    let is_postgres = app.app.engine.db.file().is_none();
    let mut ctx = Ctx::operator(&app.app.engine);
    app.app.accounts.set_plan(&mut ctx, slow, "team").await.unwrap();
    if is_postgres {
        app.new_account("Quick").await;
        let (quick, next) = changed(&app, &token, Some(&after)).await;
        assert_eq!(names(&quick), ["Quick"]);
        after = next;
    }
    ctx.finish().await.unwrap();
    let (late, _) = changed(&app, &token, Some(&after)).await;
    assert_eq!((names(&late), &late[0]["account"]["plan"]), (vec!["Slow"], &json!("team")));
}

async fn a_copy_is_whole_however_accounts_change(app: TestApp) {
    let token = app.service_token("invoices").await;
    let mut accounts = Vec::new();
    for at in 0..230 {
        accounts.push(app.new_account(&format!("A{at}")).await);
    }
    let plans = ["team", "free"];
    let changing = async {
        for at in 0..60 {
            set_plan(&app, accounts[at * 3 % accounts.len()], plans[at % 2]).await;
        }
    };
    let reading = async {
        let (mut copy, mut after) = (BTreeMap::new(), None);
        for _ in 0..40 {
            let (changes, next) = changed(&app, &token, after.as_deref()).await;
            assert!(changes.len() <= 200);
            let plan =
                |each: &Value| (each["account"]["id"].clone().to_string(), each["account"]["plan"].clone());
            copy.extend(changes.iter().map(plan));
            after = Some(next);
        }
        (copy, after)
    };
    let ((), (mut copy, mut after)) = tokio::join!(changing, reading);
    loop {
        let (changes, next) = changed(&app, &token, after.as_deref()).await;
        if changes.is_empty() {
            break;
        }
        copy.extend(
            changes
                .iter()
                .map(|each| (each["account"]["id"].clone().to_string(), each["account"]["plan"].clone())),
        );
        after = Some(next);
    }
    app.advance(Duration::from_secs(1)).await;
    assert_eq!(copy.len(), accounts.len() + 1);
    for account in accounts {
        let mut tx = app.app.engine.db.read().await.unwrap();
        let plan = app.app.engine.memberships.plan(&mut tx, account).await.unwrap();
        tx.rollback();
        assert_eq!(copy[&json!(account).to_string()], json!(plan));
    }
}
