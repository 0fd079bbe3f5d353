//! What is counted of services and their targets, as Prometheus reads it.

use std::net::SocketAddr;
use std::sync::Arc;

use portico::services::LoadedService;
use portico_kernel::Code;
use portico_testkit::{Answer, Database, Receiver, ReceiverReply, TestApp, TestRequest, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const DOCUMENT: &str = r#"
openapi: 3.1.0
info: { title: Parcels, version: "1" }
security: [{ parcels: ["parcels:read"] }]
paths:
  /v1/parcels/{number}:
    get:
      operationId: get
      parameters: [{ name: number, in: path, required: true, schema: { type: integer } }]
      responses: { "200": { description: A parcel. } }
components:
  securitySchemes:
    parcels:
      type: oauth2
      flows: { clientCredentials: { tokenUrl: "https://a.test/token", scopes: { "parcels:read": Read parcels. } } }
"#;

/// A platform with a service, and the listener of its numbers.
struct Setup {
    app: Arc<TestApp>,
    token: String,
    metrics: SocketAddr,
    // Ends the listener.
    _stop: watch::Sender<bool>,
}

impl Setup {
    async fn new(targets: &[&str]) -> Self {
        let app = Arc::new(TestApp::new(Database::Sqlite).await);
        set_targets(&app, targets).await;
        let token = app.token_with(app.account, app.all_scopes()).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let metrics = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let (handler, engine) = (app.metrics.clone(), app.app.engine.clone());
        let limits = app.app.connections.limits.clone();
        tokio::spawn(portico_gateway::serve(listener, handler, engine, None, limits, stopped));
        Self { app, token, metrics, _stop: stop }
    }

    async fn get(&self, number: u32) -> Answer {
        let path = format!("/v1/parcels/{number}");
        self.app.send(TestRequest::new("GET", &path).bearer(&self.token)).await
    }

    /// The page of metrics.
    async fn page(&self) -> String {
        let mut stream = TcpStream::connect(self.metrics).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        page
    }

    /// The numbers of services, a line for each.
    async fn lines(&self) -> Vec<String> {
        let page = self.page().await;
        page.lines().filter(|line| line.starts_with("portico_service_")).map(str::to_owned).collect()
    }

    /// The value of that name and target, with these labels behind.
    async fn value(&self, name: &str, target: &str, more: &str) -> Option<String> {
        let begin = format!("portico_service_{name}{{service=\"parcels\",target=\"{target}\"{more}}} ");
        let lines = self.lines().await;
        lines.iter().find_map(|line| line.strip_prefix(&begin)).map(str::to_owned)
    }

    /// How many calls are on their way to that target; nothing if it is none of the service's.
    async fn in_flight(&self, target: &str) -> Option<String> {
        self.value("in_flight", target, "").await
    }

    /// Is that target left out?
    async fn is_left_out(&self, target: &str) -> bool {
        self.value("left_out", target, "").await.unwrap() == "1"
    }

    /// How many calls of that target ended so.
    async fn calls(&self, target: &str, class: &str) -> u64 {
        let value = self.value("calls_total", target, &format!(",class=\"{class}\"")).await;
        value.unwrap().parse().unwrap()
    }
}

async fn set_targets(app: &TestApp, targets: &[&str]) {
    let table = format!("openapi = \"parcels.yaml\"\ntargets = {targets:?}\nrequired = false");
    let loaded = LoadedService::new("parcels", &table, DOCUMENT).unwrap();
    app.app.set_services(&[loaded], Some(&app.gateway)).await.unwrap();
}

/// An address at which nobody listens.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// Without the bucket of everything, nobody can compute a quantile.
#[tokio::test]
async fn the_last_bucket_of_an_area_has_no_bound() {
    let setup = Setup::new(&[&nobody().await]).await;
    let page = setup.page().await;
    let bounds: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("portico_connection_call_seconds_bucket")).collect();
    assert_eq!(bounds.last(), Some(&"{le=\"+Inf\"} 0"), "{bounds:?}");
}

#[tokio::test]
async fn calls_are_counted_by_target_and_class() {
    let (receiver, nobody) = (Receiver::start().await, nobody().await);
    let good = receiver.url("");
    let setup = Setup::new(&[&good, &nobody]).await;
    receiver.answer("/v1/parcels/404", ReceiverReply::Status(404));
    receiver.answer("/v1/parcels/500", ReceiverReply::Status(500));
    // Those that come to the target that is not there are answered by the other one; after five it is left out.
    for number in [1, 1, 1, 1, 1, 1, 1, 1, 404, 500] {
        let status = setup.get(number).await.status;
        assert_eq!(u32::from(status), if number == 1 { 200 } else { number });
    }
    for (class, count) in [("1xx", 0), ("2xx", 8), ("3xx", 0), ("4xx", 1), ("5xx", 1), ("failure", 0)] {
        assert_eq!(setup.calls(&good, class).await, count, "{class}");
    }
    assert_eq!((setup.calls(&nobody, "2xx").await, setup.calls(&nobody, "failure").await), (0, 5));
    for name in ["seconds", "gateway_seconds"] {
        let count = setup.value(&format!("{name}_count"), &good, "").await;
        assert_eq!(count.unwrap(), "10", "{name}");
        let sum: f64 = setup.value(&format!("{name}_sum"), &good, "").await.unwrap().parse().unwrap();
        assert!(sum > 0.0, "{name}");
        let begin = format!("portico_service_{name}_bucket{{");
        let lines = setup.lines().await;
        let buckets: Vec<u64> = lines
            .iter()
            .filter(|line| line.starts_with(&begin) && line.contains(&good))
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(buckets.len() == 22 && buckets.is_sorted() && buckets.last() == Some(&10), "{buckets:?}");
        assert_eq!(setup.value(&format!("{name}_count"), &nobody, "").await.unwrap(), "0", "{name}");
    }
    assert!(!setup.is_left_out(&good).await && setup.is_left_out(&nobody).await);
}

#[tokio::test]
async fn a_call_is_in_flight_until_its_answer_ends() {
    let receiver = Receiver::start().await;
    let target = receiver.url("");
    let setup = Setup::new(&[&target]).await;
    receiver.answer("/v1/parcels/1", ReceiverReply::Never);
    {
        let mut call = std::pin::pin!(setup.get(1));
        let is_there = async || setup.in_flight(&target).await.as_deref() == Some("1");
        let waiting = until("the call at its target", is_there);
        tokio::select! {
            answer = &mut call => panic!("{answer:?}"),
            () = waiting => {}
        }
    }
    assert_eq!(setup.in_flight(&target).await.unwrap(), "0", "whoever asked has left");
    assert_eq!(setup.calls(&target, "failure").await, 0);
}

#[tokio::test]
async fn a_target_stays_as_it_is_when_services_are_read_anew() {
    let (receiver, nobody) = (Receiver::start().await, nobody().await);
    let good = receiver.url("");
    let setup = Setup::new(&[&nobody]).await;
    for _ in 0..5 {
        setup.get(1).await.refused(Code::Unavailable);
    }
    set_targets(&setup.app, &[&nobody, &good]).await;
    assert!(setup.is_left_out(&nobody).await);
    assert_eq!(setup.get(1).await.status, 200);
    assert_eq!((setup.calls(&nobody, "failure").await, setup.calls(&good, "2xx").await), (5, 1));
    set_targets(&setup.app, &[&good]).await;
    assert_eq!(setup.in_flight(&nobody).await, None, "it is none of them any more");
    assert_eq!(setup.calls(&good, "2xx").await, 1);
}
