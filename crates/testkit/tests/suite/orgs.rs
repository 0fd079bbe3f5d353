//! Accounts, teams and their members.

use portico::Environment;
use portico::admin::{Admin, PlanCommand};
use portico_accounts::FreeTeamsPerPerson;
use portico_kernel::{Code, PersonId, Role};
use portico_testkit::{Answer, TestApp, TestAppOptions, TestRequest, on_both_databases};
use serde_json::{Value, json};

/// A person with their token.
struct Person {
    id: PersonId,
    token: String,
}

async fn person(app: &TestApp, name: &str) -> Person {
    let made = app.new_person(&format!("{name}@example.com"), None).await;
    Person { id: made.id, token: app.person_token(made.id).await }
}

impl Person {
    async fn call(&self, app: &TestApp, method: &str, path: &str, body: &Value) -> Answer {
        let sent = TestRequest::new(method, &format!("/v1/accounts/orgs{path}")).bearer(&self.token);
        app.send(if ["POST", "PATCH"].contains(&method) { sent.json(body) } else { sent }).await
    }

    async fn team(&self, app: &TestApp, name: &str) -> String {
        self.call(app, "POST", "", &json!({ "name": name })).await.ok()["id"].as_str().unwrap().to_owned()
    }
}

async fn join(app: &TestApp, team: &str, who: &Person, role: Role) {
    app.join(team.parse().unwrap(), who.id, role).await;
}

on_both_databases! {
    a_person_makes_teams_and_names_them,
    roles_bind_people,
    a_team_is_never_without_an_owner,
    what_changed_while_a_call_waited_is_seen,
    every_account_has_its_entitlements,
    events_are_looked_back_at,
    a_person_owns_only_a_few_teams_on_the_first_plan,
    the_configuration_says_how_many,
}

async fn a_person_owns_only_a_few_teams_on_the_first_plan(app: TestApp) {
    let (ada, bea) = (person(&app, "ada").await, person(&app, "bea").await);
    let mut teams = Vec::new();
    for number in 0..5 {
        teams.push(ada.team(&app, &format!("Team {number}")).await);
    }
    let refused = |answer: Answer| {
        let problem = answer.refused(Code::FailedPrecondition);
        assert_eq!(
            (&problem["details"][0]["reason"], &problem["details"][0]["metadata"]["limit"]),
            (&json!("LIMIT_REACHED"), &json!("5"))
        );
        assert!(problem["error"].as_str().unwrap().contains("at most 5 teams"), "{problem}");
    };
    let one_more = json!({ "name": "One more" });
    refused(ada.call(&app, "POST", "", &one_more).await);
    // One that is about to be erased can be taken back.
    ada.call(&app, "DELETE", &format!("/{}", teams[0]), &json!(null)).await.ok();
    refused(ada.call(&app, "POST", "", &one_more).await);
    // Others cannot make her an owner either, neither of what she belongs to nor by an invitation.
    let theirs = bea.team(&app, "Theirs").await;
    join(&app, &theirs, &ada, Role::Member).await;
    let member = format!("/{theirs}/members/{}", ada.id);
    refused(bea.call(&app, "PATCH", &member, &json!({ "role": "owner" })).await);
    bea.call(&app, "PATCH", &member, &json!({ "role": "admin" })).await.ok();
    let other = bea.team(&app, "Other").await;
    let invitation = json!({ "email": "ada@example.com", "role": "owner" });
    let made = bea.call(&app, "POST", &format!("/{other}/invitations"), &invitation).await.ok();
    let token = made["link"].as_str().unwrap().split("invitation=").nth(1).unwrap();
    let accept = TestRequest::new("POST", "/v1/accounts/invitations/accept").bearer(&ada.token);
    refused(app.send(accept.json(&json!({ "token": token }))).await);
    // A team on another plan does not count.
    let (account, plan) = (teams[1].parse().unwrap(), "team".to_owned());
    app.admin(Admin::Plan(PlanCommand::Set { account, plan })).await;
    ada.team(&app, "One more").await;
}

async fn the_configuration_says_how_many(app: TestApp) {
    let environment = Environment { free_teams_per_person: FreeTeamsPerPerson(1), ..Environment::default() };
    let app = app.beside_with(TestAppOptions { environment, ..TestAppOptions::default() }).await;
    let ada = person(&app, "ada").await;
    ada.team(&app, "The first").await;
    ada.call(&app, "POST", "", &json!({ "name": "The next" })).await.refused(Code::FailedPrecondition);
}

async fn a_person_makes_teams_and_names_them(app: TestApp) {
    let ada = person(&app, "ada").await;
    let made = ada.call(&app, "POST", "", &json!({ "name": "Engines", "slug": "engines" })).await.ok();
    assert_eq!(
        (&made["kind"], &made["role"], &made["plan"], &made["status"]),
        (&json!("team"), &json!("owner"), &json!("free"), &json!("active"))
    );
    assert_eq!((&made["erase_after"], &made["probe"]), (&json!(""), &json!(false)));
    ada.call(&app, "POST", "", &json!({ "name": "Again", "slug": "engines" }))
        .await
        .refused(Code::AlreadyExists);
    for (body, field) in [
        (json!({ "name": "" }), "name"),
        (json!({}), "name"),
        (json!({ "name": "x".repeat(101) }), "name"),
        (json!({ "name": "x", "slug": "A" }), "slug"),
        (json!({ "name": "x", "slug": "-a-" }), "slug"),
        (json!({ "name": 5 }), "name"),
    ] {
        ada.call(&app, "POST", "", &body).await.refused_field(field);
    }
    let path = format!("/{}", made["id"].as_str().unwrap());
    let renamed = ada.call(&app, "PATCH", &path, &json!({ "name": "Machines" })).await.ok();
    assert_eq!((&renamed["name"], &renamed["slug"]), (&json!("Machines"), &json!("engines")));
    ada.call(&app, "PATCH", &path, &json!({ "status": "suspended" })).await.refused_field("status");
    let refused = ada
        .call(&app, "PATCH", &path, &json!({ "status": "active" }))
        .await
        .refused(Code::FailedPrecondition);
    assert_eq!(refused["details"][0]["reason"], "NOT_ERASING");
    let listed = ada.call(&app, "GET", "", &json!(null)).await.ok();
    assert_eq!(listed["orgs"].as_array().unwrap().len(), 2, "their own and the team");
    let me = app.send(TestRequest::new("GET", "/v1/accounts/me").bearer(&ada.token)).await.ok();
    assert_eq!(me["teams"][0]["id"], made["id"]);
}

async fn roles_bind_people(app: TestApp) {
    let (owner, admin, member, stranger) = (
        person(&app, "owner").await,
        person(&app, "admin").await,
        person(&app, "member").await,
        person(&app, "eve").await,
    );
    let team = owner.team(&app, "Engines").await;
    join(&app, &team, &admin, Role::Admin).await;
    join(&app, &team, &member, Role::Member).await;
    let (path, members) = (format!("/{team}"), format!("/{team}/members"));
    let of = |who: &Person| format!("{members}/{}", who.id);
    let listed = member.call(&app, "GET", &members, &json!(null)).await.ok();
    assert_eq!(listed["members"].as_array().unwrap().len(), 3);
    for who in [&admin, &member, &stranger] {
        who.call(&app, "PATCH", &path, &json!({ "name": "Mine" })).await.refused(Code::Forbidden);
        who.call(&app, "DELETE", &path, &json!(null)).await.refused(Code::Forbidden);
        who.call(&app, "PATCH", &of(who), &json!({ "role": "owner" })).await.refused(Code::Forbidden);
        who.call(&app, "DELETE", &of(&owner), &json!(null)).await.refused(Code::Forbidden);
    }
    stranger.call(&app, "GET", &members, &json!(null)).await.refused(Code::Forbidden);
    member.call(&app, "DELETE", &of(&admin), &json!(null)).await.refused(Code::Forbidden);
    owner.call(&app, "PATCH", &of(&member), &json!({ "role": "boss" })).await.refused_field("role");
    owner.call(&app, "PATCH", &of(&stranger), &json!({ "role": "member" })).await.refused(Code::NotFound);
    assert_eq!(
        owner.call(&app, "PATCH", &of(&member), &json!({ "role": "admin" })).await.ok()["role"],
        "admin"
    );
    member.call(&app, "GET", &format!("/{team}/keys"), &json!(null)).await.ok();
    admin.call(&app, "DELETE", &of(&member), &json!(null)).await.ok();
    member.call(&app, "GET", &members, &json!(null)).await.refused(Code::Forbidden);
    admin.call(&app, "DELETE", &of(&admin), &json!(null)).await.ok();
    admin.call(&app, "GET", &members, &json!(null)).await.refused(Code::Forbidden);
    let events =
        owner.call(&app, "GET", &format!("/{team}/events?type=member.removed"), &json!(null)).await.ok();
    let removed: Vec<_> =
        events["events"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect();
    assert_eq!(
        removed,
        [
            json!({ "user_id": admin.id, "actor": admin.id }),
            json!({ "user_id": member.id, "actor": admin.id })
        ]
    );
}

async fn a_team_is_never_without_an_owner(app: TestApp) {
    let (one, two) = (person(&app, "one").await, person(&app, "two").await);
    let team = one.team(&app, "Engines").await;
    let of = |who: &Person| format!("/{team}/members/{}", who.id);
    let refused = one.call(&app, "DELETE", &of(&one), &json!(null)).await.refused(Code::FailedPrecondition);
    assert_eq!(refused["details"][0]["reason"], "LAST_OWNER");
    one.call(&app, "PATCH", &of(&one), &json!({ "role": "member" })).await.refused(Code::FailedPrecondition);
    join(&app, &team, &two, Role::Owner).await;
    // Both leave at once; one of them stays.
    let (body, other) = (json!(null), of(&two));
    let own = of(&one);
    let (first, second) =
        tokio::join!(one.call(&app, "DELETE", &own, &body), two.call(&app, "DELETE", &other, &body));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
}

async fn what_changed_while_a_call_waited_is_seen(app: TestApp) {
    let (one, two, three) =
        (person(&app, "one").await, person(&app, "two").await, person(&app, "three").await);
    let team = one.team(&app, "Engines").await;
    join(&app, &team, &two, Role::Owner).await;
    join(&app, &team, &three, Role::Owner).await;
    // Two owners take each other's role at once: whoever is second is no owner any more.
    let body = json!({ "role": "member" });
    let (of_one, of_two) = (format!("/{team}/members/{}", one.id), format!("/{team}/members/{}", two.id));
    let (first, second) =
        tokio::join!(one.call(&app, "PATCH", &of_two, &body), two.call(&app, "PATCH", &of_one, &body));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 403]);
}

async fn every_account_has_its_entitlements(app: TestApp) {
    let path = format!("/v1/accounts/orgs/{}/entitlements", app.account);
    let entitlements = app.get(&path).await.ok();
    assert_eq!(entitlements["account_id"], json!(app.account));
    assert_eq!((&entitlements["plan"], &entitlements["granted_by"]), (&json!("free"), &json!("plan")));
    assert!(entitlements["features"].as_array().unwrap().contains(&json!("webhooks")));
    assert_eq!(entitlements["extensions"], json!([]));
}

async fn events_are_looked_back_at(app: TestApp) {
    let ada = person(&app, "ada").await;
    let team = ada.team(&app, "Engines").await;
    for name in ["a", "b", "c"] {
        ada.call(&app, "PATCH", &format!("/{team}"), &json!({ "name": name })).await.ok();
    }
    let path = format!("/{team}/events");
    let all = ada.call(&app, "GET", &path, &json!(null)).await.ok()["events"].clone();
    let all = all.as_array().unwrap().clone();
    assert!(all.len() >= 5);
    for event in &all {
        assert_eq!(event["account_id"], json!(team));
        assert_eq!(
            event.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["account_id", "data", "id", "occurred_at", "type"]
        );
    }
    let (mut walked, mut page) = (Vec::new(), String::new());
    loop {
        let answer = ada.call(&app, "GET", &format!("{path}?page_size=2{page}"), &json!(null)).await.ok();
        walked.extend(answer["events"].as_array().unwrap().clone());
        let next = answer["next_page_token"].as_str().unwrap().to_owned();
        if next.is_empty() {
            break;
        }
        page = format!("&page_token={next}");
    }
    assert_eq!(walked, all);
    let after = all[2]["id"].as_str().unwrap();
    let newer = ada.call(&app, "GET", &format!("{path}?after={after}"), &json!(null)).await.ok();
    assert_eq!(newer["events"].as_array().unwrap(), &all[..2]);
    let none = ada.call(&app, "GET", &format!("{path}?type=domain.verified"), &json!(null)).await.ok();
    assert_eq!(none["events"], json!([]));
    ada.call(&app, "GET", &format!("{path}?after=evt_01KN2MGCG0B9D5MPJTB9D5MPJT"), &json!(null))
        .await
        .refused_field("after");
    let joined = ada.call(&app, "GET", &format!("{path}?type=member.joined"), &json!(null)).await.ok();
    assert_eq!(joined["events"][0]["data"], json!({ "user_id": ada.id, "actor": ada.id }));
}
