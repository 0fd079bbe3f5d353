//! Signing up by the link of the first start.

use portico::admin::{Admin, PersonCommand};
use portico_kernel::Code;
use portico_testkit::{Browser, TestApp, on_both_databases};

use crate::signin::PASSWORD;

async fn link(app: &TestApp) -> Option<String> {
    let link = app.app.identity.setup_link(&app.app.engine).await.unwrap()?;
    Some(link.expose().split("auth.test").nth(1).unwrap().to_owned())
}

on_both_databases! {
    the_first_link_makes_the_first_person_once,
    the_first_link_is_over_once_there_is_someone,
    of_two_who_use_one_link_one_gets_in,
    the_operators_link_gives_a_password,
}

async fn the_first_link_makes_the_first_person_once(app: TestApp) {
    let old = link(&app).await.unwrap();
    let path = link(&app).await.unwrap();
    assert_eq!(Browser::new(&app).get(&old).await.status, 404, "a new link replaces the one before");
    let mut browser = Browser::new(&app);
    let page = browser.get(&path).await;
    let fields = |email, password| [("email", email), ("name", "Ada <b>"), ("password", password)];
    for (email, password, words) in [
        ("ada@example.com", "password1", "too easy"),
        ("ada@example.com", "x", "8 to 256"),
        ("nowhere", PASSWORD, "e-mail"),
    ] {
        let refused = browser.submit(&page, "/signup", &fields(email, password)).await;
        assert_eq!(refused.status, 400);
        assert!(refused.alert().contains(words), "{}", refused.alert());
        assert!(
            !refused.text().contains("Ada <b>") && refused.text().contains("Ada &lt;b&gt;"),
            "what was typed stays, as text"
        );
    }
    let made = browser.submit(&page, "/signup", &fields("Ada@example.com", PASSWORD)).await;
    assert_eq!((made.status, made.header("location")), (303, "http://console.test/"));
    assert!(browser.get("/settings").await.text().contains("ada@example.com"));
    assert_eq!(Browser::new(&app).get(&path).await.status, 404, "used up");
    let again = Browser::new(&app).submit(&page, "/signup", &fields("eve@example.com", PASSWORD)).await;
    assert_eq!(again.status, 403, "another browser has no proof");
    assert_eq!(link(&app).await, None, "there is someone now");
}

async fn the_first_link_is_over_once_there_is_someone(app: TestApp) {
    let path = link(&app).await.unwrap();
    assert_eq!(Browser::new(&app).get(&path).await.status, 200);
    app.new_person("ada@example.com", None).await;
    assert_eq!(Browser::new(&app).get(&path).await.status, 404);
}

async fn of_two_who_use_one_link_one_gets_in(app: TestApp) {
    let path = link(&app).await.unwrap();
    let sign_up = |email: &'static str| {
        let (app, path) = (&app, path.clone());
        async move {
            let mut browser = Browser::new(app);
            let page = browser.get(&path).await;
            browser.submit(&page, "/signup", &[("email", email), ("password", PASSWORD)]).await.status
        }
    };
    let mut statuses =
        futures_util::future::join_all([sign_up("a@example.com"), sign_up("b@example.com")]).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 404]);
}

async fn the_operators_link_gives_a_password(app: TestApp) {
    let person = app.new_person("ada@example.com", None).await.id;
    let made = app.admin(Admin::Person(PersonCommand::PasswordLink { person })).await;
    let path = made["link"].as_str().unwrap().split("auth.test").nth(1).unwrap().to_owned();
    let mut browser = Browser::new(&app);
    let page = browser.get(&path).await;
    assert_eq!(browser.submit(&page, "/password", &[("password", "ada@example.com")]).await.status, 400);
    assert_eq!(
        browser.submit(&page, "/password", &[("password", PASSWORD)]).await.header("location"),
        "/signin"
    );
    assert_eq!(browser.submit(&page, "/password", &[("password", PASSWORD)]).await.status, 404, "once");
    assert_eq!(browser.sign_in("ada@example.com", PASSWORD).await.status, 303);
    assert_eq!(browser.get("/password/forgotten").await.status, 404, "no mail is sent here");
    app.send_auth(portico_testkit::TestRequest::new("GET", "/nowhere")).await.refused(Code::NotFound);
}
