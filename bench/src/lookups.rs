//! Looks for the record of a domain, beside questions alone. The name servers run in this process, so that their work counts on
//! both sides, and what they remember of questions is switched off.

use std::sync::Arc;

use hickory_net::runtime::TokioRuntimeProvider;
use hickory_net::udp::UdpClientStream;
use hickory_net::xfer::{DnsRequestSender, FirstAnswer};
use hickory_proto::op::{DnsRequest, DnsRequestOptions, Query};
use hickory_proto::rr::{Name, RecordType};
use portico_dns::{Dns, Record, Resolver, Settings, Verdict};
use portico_testkit::TestDns;

use crate::report::Report;
use crate::writes::rate;

const LOOKS: u32 = 10_000;
/// As many as a server makes at once.
const AT_ONCE: u32 = 16;
/// How many a server begins in a second.
const PACE: f64 = 8.0;
const RESOLVERS: usize = 4;
const QUESTIONS: u32 = 100_000;
const ROUNDS: usize = 3;
const NAME: &str = "_portico-challenge.example.com";
const VALUE: &str = "portico-verification=abc234";

/// The memory that this process holds, in megabytes.
fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0 / 1e6
}

/// Questions a second, each with a socket of its own, as hickory asks them when it is told nothing.
async fn questions(test: &TestDns) -> f64 {
    let resolvers = Arc::new(test.resolvers());
    rate(AT_ONCE, QUESTIONS, move |number| {
        let resolver = resolvers[number as usize % resolvers.len()];
        async move {
            let query = Query::query(Name::from_ascii(format!("{NAME}.")).unwrap(), RecordType::TXT);
            let request = DnsRequest::from_query(query, DnsRequestOptions::default());
            let mut server = UdpClientStream::builder(resolver, TokioRuntimeProvider::new()).build();
            let reply = server.send_message(request).first_answer().await.unwrap();
            assert_eq!(reply.answers.len(), 1);
        }
    })
    .await
}

/// Looks a second, how many questions each took, and how much the memory of this process has grown at most meanwhile.
async fn looks(dns: &Arc<Dns>) -> (f64, f64, f64) {
    let asked = |dns: &Dns| -> u64 {
        dns.figures().iter().flat_map(|figures| figures.questions.iter().map(|(_, count)| count)).sum()
    };
    let (before, memory) = (asked(dns), resident_mb());
    let most = Arc::new(std::sync::Mutex::new(memory));
    let (shared, seen) = (dns.clone(), most.clone());
    let rate = rate(AT_ONCE, LOOKS, move |number| {
        let (dns, most) = (shared.clone(), seen.clone());
        async move {
            let record = Record {
                domain: "example.com".to_owned(),
                registrable: "example.com".to_owned(),
                label: "_portico-challenge".to_owned(),
                other_label: "_portico-host-challenge".to_owned(),
                key: "portico-verification".to_owned(),
                token: "abc234".to_owned(),
            };
            assert_eq!(dns.look(&record).await.unwrap().verdict, Verdict::Seen);
            if number % 100 == 0 {
                let mut most = most.lock().unwrap();
                *most = most.max(resident_mb());
            }
        }
    })
    .await;
    #[expect(clippy::cast_precision_loss, reason = "a few hundred thousand")]
    let each = (asked(dns) - before) as f64 / f64::from(LOOKS);
    let most = *most.lock().unwrap();
    (rate, each, most - memory)
}

pub(crate) async fn measure(report: &mut Report) {
    let test = TestDns::start(RESOLVERS).await;
    test.serve("example.com", &["ns1.example.net", "ns2.example.net"]);
    test.set_txt(NAME, &[VALUE]);
    test.remember(false);
    let resolvers =
        test.resolvers().into_iter().map(|address| Resolver { name: address.to_string(), address });
    let settings = Settings { resolvers: resolvers.collect(), authoritative_port: test.authoritative_port() };
    let dns = Arc::new(Dns::new(settings, "127.0.0.0/8".parse().unwrap()));
    // Each round measures both, one after the other; the round in the middle counts. Memory is that of the first, which grows.
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let (rate, each, memory) = looks(&dns).await;
        let limit = questions(&test).await;
        rounds.push((rate * each / limit, rate, each, limit, memory));
    }
    let memory = rounds[0].4;
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (_, rate, each, limit, _) = rounds[ROUNDS / 2];
    let what = format!("looks for a record, {AT_ONCE} at once, against those that a server makes at most");
    report.ratio(&what, rate, PACE, "/s", "bar: 10");
    let what = format!("questions of those looks, {each:.0} each, against questions alone");
    report.ratio(&what, rate * each, limit, "/s", "no bar");
    report.figure(&format!("memory that {LOOKS} looks take at most, name servers and all"), memory, "MB");
}
