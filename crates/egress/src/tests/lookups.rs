//! Names that lead where they should not, asked of a name server of our own.

use super::dns::{Dns, Says};
use super::receiver::{Does, OK, Receiver};
use super::*;

/// Asks `dns`, and keeps no answer.
fn asking(dns: &Dns, allow: &str) -> Egress {
    let resolver = Resolver::of_servers(&[dns.address], Duration::ZERO);
    Egress::with_roots(roots::public_roots(), allow.parse().unwrap(), resolver)
}

async fn status(egress: &Egress, url: &str) -> Result<u16, EgressError> {
    let post = Post { url, headers: HeaderMap::new(), body: Bytes::new(), limits: LIMITS };
    egress.post(post).await.map(|response| response.status.as_u16())
}

#[tokio::test]
async fn a_name_leads_to_its_addresses() {
    let mut receiver = Receiver::saying(OK).await;
    let dns = Dns::saying(Says::Addresses(&["127.0.0.1"])).await;
    let egress = asking(&dns, LOOPBACK);
    assert_eq!(status(&egress, &receiver.url_of("Hook.Example.")).await, Ok(200));
    assert_eq!(status(&egress, &receiver.url_of("hook.example")).await, Ok(200));
    assert_eq!(receiver.connections(), 1, "with the dot and without it is one place");
    let (_, request) = receiver.requests.recv().await.unwrap();
    assert!(request.contains(&format!("host: hook.example:{}\r\n", receiver.address.port())), "{request}");
    assert_eq!(dns.asked(), ["hook.example.", "hook.example."], "asked before every call");
    let response = egress.get(&receiver.url_of("hook.example"), "*/*", LIMITS).await.unwrap();
    assert_eq!(response.status, StatusCode::OK);
}

#[tokio::test]
async fn one_bad_address_is_enough() {
    for addresses in [
        &["10.0.0.1"][..],
        &["1.1.1.1", "10.0.0.1"],
        &["10.0.0.1", "1.1.1.1"],
        &["1.1.1.1", "::1"],
        &["1.1.1.1", "2606:4700::1", "fd00::1"],
        &["fd00::1"],
        &["::ffff:127.0.0.1"],
        &["::ffff:169.254.169.254", "1.1.1.1"],
        &["64:ff9b::7f00:1"],
        &["2002:7f00:1::"],
        &["169.254.169.254"],
        &["0.0.0.0"],
    ] {
        let dns = Dns::saying(Says::Addresses(addresses)).await;
        let egress = asking(&dns, "192.168.0.0/16");
        for url in ["https://hook.example/", "https://127.0.0.1.nip.example/", "http://hook.example/"] {
            assert_eq!(status(&egress, url).await, Err(EgressError::Blocked), "{addresses:?}");
            let response = egress.get(url, "*/*", LIMITS).await;
            assert_failed(response, EgressError::Blocked, url);
        }
    }
}

#[tokio::test]
async fn http_leads_to_nothing_public() {
    let dns = Dns::saying(Says::Addresses(&["1.1.1.1"])).await;
    let egress = asking(&dns, LOOPBACK);
    assert_eq!(status(&egress, "http://hook.example/").await, Err(EgressError::Blocked));
    assert_eq!(status(&asking(&dns, ""), "http://hook.example/").await, Err(EgressError::Blocked));
    assert_eq!(dns.asked().len(), 1, "where nothing is allowed, nobody is asked");
}

/// The connection that waits leads where the name led before. It must not be taken, nor a new one made.
#[tokio::test]
async fn a_name_that_turns_bad_is_refused_at_the_next_call() {
    let good = Receiver::saying(OK).await;
    let bad_address = SocketAddr::new("127.0.0.2".parse().unwrap(), good.address.port());
    let bad = Receiver::start_at(bad_address, None, |_| Does::Answer(OK)).await;
    for turned in [&["127.0.0.2"][..], &["127.0.0.1", "127.0.0.2"], &["127.0.0.1", "::1"]] {
        let before = good.connections();
        let dns =
            Dns::start(
                move |_, _, times| {
                    if times < 2 { Says::Addresses(&["127.0.0.1"]) } else { Says::Addresses(turned) }
                },
            )
            .await;
        let egress = asking(&dns, "127.0.0.1, 127.0.0.3");
        let url = good.url_of("hook.example");
        assert_eq!(status(&egress, &url).await, Ok(200));
        assert_eq!(status(&egress, &url).await, Ok(200));
        assert_eq!(egress.pool.waiting(), 1);
        for _ in 0..3 {
            assert_eq!(status(&egress, &url).await, Err(EgressError::Blocked), "{turned:?}");
        }
        assert_eq!(good.connections(), before + 1);
        assert_eq!(bad.connections(), 0);
    }
}

#[tokio::test]
async fn a_name_that_moves_is_followed_by_a_new_connection() {
    let old = Receiver::saying("HTTP/1.1 201 Old\r\ncontent-length: 0\r\n\r\n").await;
    let new_address = SocketAddr::new("127.0.0.3".parse().unwrap(), old.address.port());
    let new = Receiver::start_at(new_address, None, |_| Does::Answer(OK)).await;
    let dns = Dns::start(|_, _, times| {
        if times == 0 { Says::Addresses(&["127.0.0.1"]) } else { Says::Addresses(&["127.0.0.3"]) }
    })
    .await;
    let egress = asking(&dns, LOOPBACK);
    let url = old.url_of("hook.example");
    assert_eq!(status(&egress, &url).await, Ok(201));
    assert_eq!(status(&egress, &url).await, Ok(200));
    assert_eq!((old.connections(), new.connections(), egress.pool.waiting()), (1, 1, 2));
}

/// Good when it is checked, bad when it is asked for again: nobody asks again.
#[tokio::test]
async fn what_was_checked_is_what_is_called() {
    let receiver = Receiver::saying(OK).await;
    let dns =
        Dns::start(
            |_, _, times| {
                if times == 0 { Says::Addresses(&["127.0.0.1"]) } else { Says::Addresses(&["10.0.0.1"]) }
            },
        )
        .await;
    let egress = asking(&dns, LOOPBACK);
    assert_eq!(status(&egress, &receiver.url_of("hook.example")).await, Ok(200));
    assert_eq!((dns.questions(), receiver.connections()), (2, 1), "once for each family");
}

#[tokio::test]
async fn an_alias_does_not_hide_where_it_leads() {
    let dns = Dns::start(|name, _, _| match name {
        "hook.example." => Says::Alias("inner.example."),
        "fine.example." => Says::Alias("home.example."),
        "home.example." => Says::Addresses(&["127.0.0.1"]),
        "round.example." => Says::Alias("round.example."),
        _ => Says::Addresses(&["10.0.0.1"]),
    })
    .await;
    let egress = asking(&dns, LOOPBACK);
    let receiver = Receiver::saying(OK).await;
    assert_eq!(status(&egress, "https://hook.example/").await, Err(EgressError::Blocked));
    assert_eq!(status(&egress, &receiver.url_of("fine.example")).await, Ok(200));
    assert_eq!(status(&egress, "https://round.example/").await, Err(EgressError::Dns));
    let own = Dns::saying(Says::Alias("localhost.")).await;
    let own = asking(&own, "10.0.0.0/8");
    assert_eq!(status(&own, "https://hook.example/").await, Err(EgressError::Blocked));
}

#[tokio::test]
async fn a_name_that_nobody_knows() {
    for said in [Says::Unknown, Says::Addresses(&[])] {
        let dns = Dns::saying(said).await;
        assert_eq!(status(&asking(&dns, ""), "https://hook.example/").await, Err(EgressError::Dns));
    }
    let silent = Dns::saying(Says::Silence).await;
    let post =
        Post { url: "https://hook.example/", headers: HeaderMap::new(), body: Bytes::new(), limits: SHORT };
    let response = asking(&silent, "").post(post).await;
    assert_eq!(response.map(|response| response.status), Err(EgressError::Timeout));
    let nobody = asking_nobody("");
    assert_eq!(status(&nobody, "https://hook.example/").await, Err(EgressError::Dns));
}

fn asking_nobody(allow: &str) -> Egress {
    Egress::with_name_servers(allow.parse().unwrap(), &TrustedRoots::default(), &[])
}

/// A name of one label is looked up as it stands, and not below some domain of the machine.
#[tokio::test]
async fn a_name_is_whole() {
    let dns = Dns::saying(Says::Unknown).await;
    let egress = asking(&dns, LOOPBACK);
    assert_eq!(status(&egress, "http://intranet/").await, Err(EgressError::Dns));
    assert_eq!(dns.asked(), ["intranet."]);
}

#[tokio::test]
async fn an_answer_counts_for_a_moment() {
    let receiver = Receiver::saying(OK).await;
    let dns = Dns::saying(Says::Addresses(&["127.0.0.1"])).await;
    let egress =
        Egress::with_name_servers(LOOPBACK.parse().unwrap(), &TrustedRoots::default(), &[dns.address]);
    for _ in 0..10 {
        assert_eq!(status(&egress, &receiver.url_of("hook.example")).await, Ok(200));
    }
    assert!(
        dns.questions() <= 4,
        "twice for each family, should a second end in between: {}",
        dns.questions()
    );
}

#[tokio::test]
async fn a_number_needs_no_name_server() {
    let receiver = Receiver::saying(OK).await;
    let egress = asking_nobody(LOOPBACK);
    assert_eq!(status(&egress, &receiver.url()).await, Ok(200));
    assert_eq!(status(&egress, "https://10.0.0.1/").await, Err(EgressError::Blocked));
}

#[test]
fn an_address_is_checked_without_asking() {
    use EgressError::{BadAddress, Blocked};
    for (allow, url, said) in [
        ("", "https://example.com/", Ok(())),
        ("", "https://example.com:8443/a?b", Ok(())),
        ("", "https://1.1.1.1/", Ok(())),
        ("", "https://[2606:4700::1]/", Ok(())),
        ("", "https://127.0.0.1/", Err(Blocked)),
        ("", "https://0x7f.1/", Err(Blocked)),
        ("", "https://[::ffff:127.0.0.1]/", Err(Blocked)),
        ("", "https://169.254.169.254/", Err(Blocked)),
        ("", "https://localhost/", Err(Blocked)),
        ("", "https://intranet/", Err(Blocked)),
        ("", "https://metadata.google.internal/", Err(Blocked)),
        ("", "https://printer.local/", Err(Blocked)),
        ("", "http://example.com/", Err(Blocked)),
        ("", "http://1.1.1.1/", Err(Blocked)),
        ("127.0.0.1", "http://127.0.0.1:8080/", Ok(())),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/", Ok(())),
        ("127.0.0.1", "http://127.0.0.2/", Err(Blocked)),
        ("127.0.0.1", "http://1.1.1.1/", Err(Blocked)),
        ("127.0.0.1", "https://1.1.1.1/", Ok(())),
        ("127.0.0.1", "http://example.com/", Ok(())),
        ("127.0.0.1", "https://localhost/", Ok(())),
        ("", "ftp://example.com/", Err(BadAddress)),
        ("", "example.com", Err(BadAddress)),
        ("", "https://", Err(BadAddress)),
        ("", "https://user@example.com/", Err(BadAddress)),
        ("", "https://:word@example.com/", Err(BadAddress)),
        ("", "https://example.com/#part", Err(BadAddress)),
        ("", "https://example..com/", Err(BadAddress)),
        ("", "https://[fe80::1%25eth0]/", Err(BadAddress)),
        ("127.0.0.1", "http://user@127.0.0.1/", Err(BadAddress)),
    ] {
        assert_eq!(asking_nobody(allow).check(url), said, "{url} where {allow:?} is allowed");
    }
}
