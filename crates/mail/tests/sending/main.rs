//! Mail from the commit to the mail server, on both databases.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod fixture;
mod server;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use portico_engine::JobOutcome;
use portico_engine::ports::{MailMessage, Mailer};
use portico_kernel::Brand;
use portico_mail::{Mail, Smtp, limits};
use portico_store::{Select, args};
use tracing::Level;

use fixture::Fixture;
use server::Server;

/// Makes a test on SQLite and a test on PostgreSQL of each story: an `async fn` of that name that takes a [`Fixture`].
macro_rules! on_both_databases {
    ($($story:ident),+ $(,)?) => {$(
        mod $story {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$story(super::Fixture::on_sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$story(super::Fixture::on_postgres().await).await;
            }
        }
    )+};
}

on_both_databases! {
    a_message_goes_out_with_its_commit,
    a_message_is_sealed_while_it_waits,
    a_message_that_was_put_off_is_tried_again,
    a_message_is_given_up_after_its_last_try,
    a_message_that_is_refused_for_good_is_given_up,
    a_message_without_an_address_is_given_up,
    a_server_that_does_not_let_us_in_loses_no_message,
    a_server_that_is_gone_loses_no_message,
    two_senders_send_each_message_once,
    a_sender_that_died_is_followed_by_another,
    a_sender_that_was_too_slow_changes_nothing,
    without_a_mail_server_messages_wait,
}

const A_MINUTE: Duration = Duration::from_mins(1);
const A_MOMENT: Duration = Duration::from_micros(1);

fn message(to: &str) -> MailMessage {
    let text = "Open https://portico.example/once/SECRET".to_owned();
    MailMessage { to: to.to_owned(), subject: "Sign in".to_owned(), text }
}

async fn post(fixture: &Fixture, mail: &Mail, to: &str) {
    let mut tx = fixture.engine.db.write().await.unwrap();
    mail.post(&fixture.engine, &mut tx, &message(to)).await.unwrap();
    tx.commit().await.unwrap();
}

/// How many messages wait, and how many are given up and empty.
async fn outbox(fixture: &Fixture) -> (i64, i64) {
    let mut tx = fixture.engine.db.read().await.unwrap();
    let waiting = "select count(*) as value from queue_items where failed_at is null and length(payload) > 0";
    let given_up =
        "select count(*) as value from queue_items where failed_at is not null and length(payload) = 0";
    let waiting: i64 = tx.value(waiting, args![]).await.unwrap();
    let given_up: i64 = tx.value(given_up, args![]).await.unwrap();
    (waiting, given_up)
}

/// The area with that server.
fn mail_to(server: &Server) -> Arc<Mail> {
    let (url, from) = (format!("smtp://{}", server.address), "Portico <no-reply@portico.example>".to_owned());
    Mail::new(Some(Smtp { url, from }), Brand::default()).unwrap()
}

/// Servers repeat addresses in what they say, so not even that is logged.
#[tokio::test]
async fn the_log_says_nothing_of_what_is_in_a_message() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let writer = Mutex::new(file.reopen().unwrap());
    let log = tracing_subscriber::fmt().with_max_level(Level::TRACE).with_writer(writer).finish();
    let _logging = tracing::subscriber::set_default(log);
    let fixture = Fixture::on_sqlite().await;
    let server = Server::start().await;
    let mail = mail_to(&server);
    server.will_say(["550 <ada@example.com> is nobody here", "451 <ada@example.com> is away", "250 ok"]);
    for _ in 0..3 {
        post(&fixture, &mail, "ada@example.com").await;
        mail.send_due(&fixture.engine).await.unwrap();
    }
    let lines = std::fs::read_to_string(file.path()).unwrap();
    for line in ["Gave up sending mail", "Failed to send mail", "Sent mail", "mail_", "550", "451"] {
        assert!(lines.contains(line), "{line} in {lines}");
    }
    for part in ["ada", "nobody", "Sign in", "SECRET"] {
        assert!(!lines.contains(part), "{part} in {lines}");
    }
}

async fn a_message_goes_out_with_its_commit(fixture: Fixture) {
    let server = Server::start().await;
    let mail = mail_to(&server);
    let mut tx = fixture.engine.db.write().await.unwrap();
    mail.post(&fixture.engine, &mut tx, &message("nobody@example.com")).await.unwrap();
    tx.rollback();
    assert_eq!(mail.send_due(&fixture.engine).await.unwrap(), JobOutcome::Idle);
    assert!(server.messages().is_empty(), "what was taken back is not sent");
    post(&fixture, &mail, "ada@example.com").await;
    assert_eq!(outbox(&fixture).await, (1, 0));
    mail.send_due(&fixture.engine).await.unwrap();
    let messages = server.messages();
    assert_eq!(messages.len(), 1);
    for part in ["To: ada@example.com\r\n", "Subject: Portico: Sign in\r\n", "/once/SECRET"] {
        assert!(messages[0].contains(part), "{part} in {}", messages[0]);
    }
    assert_eq!(outbox(&fixture).await, (0, 0), "it is gone with its message");
    mail.send_due(&fixture.engine).await.unwrap();
    assert_eq!(server.messages().len(), 1);
}

async fn a_message_is_sealed_while_it_waits(fixture: Fixture) {
    let server = Server::start().await;
    post(&fixture, &mail_to(&server), "ada@example.com").await;
    let mut tx = fixture.engine.db.read().await.unwrap();
    let sealed: Vec<u8> = tx.value("select payload as value from queue_items", args![]).await.unwrap();
    let readable = String::from_utf8_lossy(&sealed);
    for part in ["ada@", "Sign in", "SECRET"] {
        assert!(!readable.contains(part), "{part}");
    }
}

async fn a_message_that_was_put_off_is_tried_again(fixture: Fixture) {
    let server = Server::start().await;
    let mail = mail_to(&server);
    server.will_say(["451 4.7.1 come back later"]);
    post(&fixture, &mail, "ada@example.com").await;
    mail.send_due(&fixture.engine).await.unwrap();
    mail.send_due(&fixture.engine).await.unwrap();
    assert_eq!((server.tries(), outbox(&fixture).await), (1, (1, 0)), "not at once");
    fixture.clock.advance(A_MINUTE);
    mail.send_due(&fixture.engine).await.unwrap();
    assert_eq!((server.messages().len(), outbox(&fixture).await), (1, (0, 0)));
}

async fn a_message_is_given_up_after_its_last_try(fixture: Fixture) {
    let server = Server::start().await;
    let mail = mail_to(&server);
    server.will_say(["451 no"; 9]);
    post(&fixture, &mail, "ada@example.com").await;
    mail.send_due(&fixture.engine).await.unwrap();
    for (before, wait) in limits::WAITS.into_iter().enumerate() {
        fixture.clock.advance(wait.saturating_sub(A_MOMENT));
        mail.send_due(&fixture.engine).await.unwrap();
        assert_eq!(server.tries(), before + 1, "too early");
        fixture.clock.advance(A_MOMENT);
        mail.send_due(&fixture.engine).await.unwrap();
        assert_eq!(server.tries(), before + 2);
    }
    assert_eq!(outbox(&fixture).await, (0, 1));
    fixture.clock.advance(24 * 60 * A_MINUTE);
    mail.send_due(&fixture.engine).await.unwrap();
    assert_eq!(server.tries(), 6, "that was all");
}

async fn a_message_that_is_refused_for_good_is_given_up(fixture: Fixture) {
    let server = Server::start().await;
    let mail = mail_to(&server);
    server.will_say(["550 5.1.1 <ada@example.com> is nobody here"]);
    post(&fixture, &mail, "ada@example.com").await;
    mail.send_due(&fixture.engine).await.unwrap();
    assert_eq!(outbox(&fixture).await, (0, 1));
    fixture.clock.advance(24 * 60 * A_MINUTE);
    mail.send_due(&fixture.engine).await.unwrap();
    assert_eq!(server.tries(), 1);
}

async fn a_message_without_an_address_is_given_up(fixture: Fixture) {
    let server = Server::start().await;
    let mail = mail_to(&server);
    post(&fixture, &mail, "ada@example.com, eve@example.com").await;
    mail.send_due(&fixture.engine).await.unwrap();
    assert_eq!((server.tries(), outbox(&fixture).await), (0, (0, 1)));
}

async fn a_server_that_does_not_let_us_in_loses_no_message(fixture: Fixture) {
    let server = Server::start().await;
    let mail = mail_to(&server);
    server.will_say(["530 5.7.0 authentication required"]);
    post(&fixture, &mail, "ada@example.com").await;
    mail.send_due(&fixture.engine).await.unwrap();
    assert_eq!(outbox(&fixture).await, (1, 0));
}

async fn a_server_that_is_gone_loses_no_message(fixture: Fixture) {
    let gone = mail_to(&Server::gone().await);
    post(&fixture, &gone, "ada@example.com").await;
    gone.send_due(&fixture.engine).await.unwrap();
    assert_eq!(outbox(&fixture).await, (1, 0));
    let server = Server::start().await;
    fixture.clock.advance(A_MINUTE);
    mail_to(&server).send_due(&fixture.engine).await.unwrap();
    assert_eq!(server.messages().len(), 1);
}

async fn two_senders_send_each_message_once(fixture: Fixture) {
    let server = Server::start().await;
    let (one, other) = (mail_to(&server), mail_to(&server));
    let all = i64::try_from(3 * limits::PARALLEL).unwrap();
    for number in 0..all {
        post(&fixture, &one, &format!("{number}@example.com")).await;
    }
    assert_eq!(
        one.send_due(&fixture.engine).await.unwrap(),
        JobOutcome::MoreWork,
        "a full batch asks for more"
    );
    while outbox(&fixture).await.0 > 0 {
        let (one, other) = tokio::join!(one.send_due(&fixture.engine), other.send_due(&fixture.engine));
        one.unwrap();
        other.unwrap();
    }
    let mut messages = server.messages();
    messages.sort();
    messages.dedup();
    assert_eq!(i64::try_from(messages.len()), Ok(all), "each of them");
    assert_eq!(i64::try_from(server.tries()), Ok(all), "none twice");
}

async fn a_sender_that_died_is_followed_by_another(fixture: Fixture) {
    let server = Server::start().await;
    let mail = mail_to(&server);
    server.will_say([Server::SILENCE]);
    post(&fixture, &mail, "ada@example.com").await;
    tokio::select! {
        _ = mail.send_due(&fixture.engine) => panic!("the server keeps silent"),
        () = server.silence.notified() => {}
    }
    fixture.clock.advance(limits::LEASE.saturating_sub(A_MOMENT));
    mail.send_due(&fixture.engine).await.unwrap();
    assert_eq!((server.tries(), outbox(&fixture).await), (1, (1, 0)), "it may still be at it");
    fixture.clock.advance(A_MOMENT);
    mail.send_due(&fixture.engine).await.unwrap();
    assert_eq!((server.messages().len(), outbox(&fixture).await), (1, (0, 0)));
}

async fn a_sender_that_was_too_slow_changes_nothing(fixture: Fixture) {
    let server = Server::start().await;
    let mail = mail_to(&server);
    server.will_say([Server::SILENCE, "451 later"]);
    post(&fixture, &mail, "ada@example.com").await;
    let meanwhile = async {
        server.silence.notified().await;
        fixture.clock.advance(limits::LEASE);
        mail.send_due(&fixture.engine).await.unwrap();
        server.speak.notify_one();
    };
    let (slow, ()) = tokio::join!(mail.send_due(&fixture.engine), meanwhile);
    slow.unwrap();
    assert_eq!((server.tries(), server.messages().len()), (2, 1), "the slow one sent it after all");
    assert_eq!(outbox(&fixture).await, (1, 0), "the message is the other one's, who will try again");
}

async fn without_a_mail_server_messages_wait(fixture: Fixture) {
    let server = Server::start().await;
    let none = Mail::new(None, Brand::default()).unwrap();
    assert!(!none.is_configured());
    let mut tx = fixture.engine.db.write().await.unwrap();
    assert!(none.post(&fixture.engine, &mut tx, &message("ada@example.com")).await.is_err());
    tx.rollback();
    post(&fixture, &mail_to(&server), "ada@example.com").await;
    assert_eq!(none.send_due(&fixture.engine).await.unwrap(), JobOutcome::Idle);
    assert_eq!(outbox(&fixture).await, (1, 0));
}
