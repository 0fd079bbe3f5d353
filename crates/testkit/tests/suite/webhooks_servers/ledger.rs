//! What the receiver knows, held against what the callers know and what is on record.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico_store::{Db, Select, Tx, args, from_row};
use portico_webhooks::limits;
use serde_json::Value;

use super::receiver::{Log, Mark};
use super::scene::{AUDIT, Scene, THING};

/// An event on record.
struct EventRow {
    id: String,
    r#type: String,
    sequence: i64,
    data: String,
}

impl portico_store::FromRow for EventRow {
    fn from_row(row: &portico_store::Row) -> Result<Self, portico_store::StoreError> {
        let (id, r#type) = (row.get("id")?, row.get("type")?);
        Ok(Self { id, r#type, sequence: row.get("sequence")?, data: row.get("data")? })
    }
}

/// A delivery on record.
struct DeliveryRow {
    id: String,
    endpoint_id: String,
    event_id: String,
    status: String,
}

from_row!(DeliveryRow { id, endpoint_id, event_id, status });

/// An attempt on record.
struct AttemptRow {
    delivery_id: String,
    number: i64,
    outcome: String,
}

from_row!(AttemptRow { delivery_id, number, outcome });

/// When an endpoint was made.
struct MadeRow {
    target: String,
    sequence: i64,
}

from_row!(MadeRow { target, sequence });

/// Everything on record.
struct Record {
    events: Vec<EventRow>,
    deliveries: HashMap<(String, String), DeliveryRow>,
    /// The outcomes of the attempts at each delivery.
    attempts: HashMap<String, Vec<String>>,
    made: HashMap<String, i64>,
}

impl Record {
    async fn read(tx: &mut Tx) -> Self {
        let events = "select id, type, sequence, data from events order by account_id, sequence";
        let events: Vec<EventRow> = tx.all(events, args![]).await.unwrap();
        let rows = "select id, endpoint_id, event_id, status from webhook_deliveries";
        let rows: Vec<DeliveryRow> = tx.all(rows, args![]).await.unwrap();
        let count = rows.len();
        let deliveries: HashMap<_, _> =
            rows.into_iter().map(|row| ((row.endpoint_id.clone(), row.event_id.clone()), row)).collect();
        assert_eq!(deliveries.len(), count, "an event and an endpoint have one delivery");
        let rows = "select delivery_id, number, outcome from webhook_attempts order by delivery_id, number";
        let rows: Vec<AttemptRow> = tx.all(rows, args![]).await.unwrap();
        let mut attempts: HashMap<String, Vec<String>> = HashMap::new();
        for row in rows {
            let of_one = attempts.entry(row.delivery_id).or_default();
            of_one.push(row.outcome);
            assert_eq!(usize::try_from(row.number).unwrap(), of_one.len(), "attempts are numbered");
        }
        let made = "select target, sequence from audit_entries where action = 'endpoint.created'";
        let made: Vec<MadeRow> = tx.all(made, args![]).await.unwrap();
        let made = made.into_iter().map(|row| (row.target, row.sequence)).collect();
        Self { events, deliveries, attempts, made }
    }
}

/// How much of what was taken came once more.
#[derive(Default)]
pub(crate) struct Findings {
    events: usize,
    deliveries: usize,
    requests: usize,
    abandoned: usize,
    /// Attempts that are not on record.
    unwritten: usize,
    /// How often something that was taken came again after each kill.
    again: BTreeMap<usize, usize>,
    /// What came again although no server had died in between.
    strange: Vec<String>,
    /// How many others had ended between the first of such and the kill, at most.
    longest_ago: usize,
}

impl std::fmt::Display for Findings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { events, deliveries, requests, abandoned, unwritten, again, longest_ago, .. } = self;
        let (twice, again) = (again.values().sum::<usize>(), again.values().collect::<Vec<_>>());
        write!(
            f,
            "{events} events, {deliveries} deliveries ({abandoned} abandoned), {requests} requests \
             ({unwritten} not on record); {twice} taken again {again:?}, at most {longest_ago} ends before the kill"
        )
    }
}

impl Findings {
    /// Nothing came twice that was taken, and every attempt is on record.
    pub(crate) fn nothing_again(&self) {
        assert_eq!(self.again.values().sum::<usize>(), 0, "taken again: {self}");
        assert_eq!(self.unwritten, 0, "{self}");
    }
}

/// Checks everything of a scene that has come to rest, in which a server died at each of `kills`.
pub(crate) async fn check(scene: &Scene, kills: &[Mark]) -> Findings {
    let db = Db::open(&scene.database.url).await.unwrap();
    let mut tx = db.read().await.unwrap();
    let record = Record::read(&mut tx).await;
    tx.rollback();
    db.close().await;
    let log = scene.receiver.log();
    assert_eq!(log.faults, Vec::<String>::new());
    signatures_are_good(scene, &log);
    events_are_there(scene, &record);
    let mut findings = Findings {
        events: record.events.len(),
        deliveries: record.deliveries.len(),
        requests: log.requests.len(),
        ..Findings::default()
    };
    let mut came: HashMap<(usize, &str), Vec<usize>> = HashMap::new();
    for (number, request) in log.requests.iter().enumerate() {
        came.entry((request.endpoint, &request.event)).or_default().push(number);
    }
    let mut expected = 0;
    for at in 0..scene.endpoints.len() {
        let events = subscribed(scene, &record, at);
        expected += events.len();
        for event in &events {
            let numbers = came.remove(&(at, event.id.as_str())).unwrap_or_default();
            check_one(scene, &record, (&log, &numbers), (at, event), kills, &mut findings);
        }
        order_is_kept(&log, at, &events);
    }
    assert_eq!(expected, record.deliveries.len(), "each event for each endpoint that subscribes it");
    assert!(came.is_empty(), "nobody asked for these: {came:?}");
    let strange = findings.strange.len();
    assert_eq!(strange, 0, "came again without a reason: {findings}; {:?}", findings.strange.first());
    // No more than may be under way or unwritten can come again after a kill.
    let most = findings.again.values().copied().max().unwrap_or(0);
    assert!(most <= limits::UNWRITTEN_MAX, "{most} came again after one kill: {findings}");
    findings
}

/// The events that the endpoint subscribes, since it was made.
fn subscribed<'a>(scene: &Scene, record: &'a Record, at: usize) -> Vec<&'a EventRow> {
    let endpoint = &scene.endpoints[at];
    let since = record.made[&endpoint.id];
    let mut types = vec![THING];
    types.extend(endpoint.audited.then_some(AUDIT));
    let wanted = |event: &&EventRow| event.sequence >= since && types.contains(&event.r#type.as_str());
    record.events.iter().filter(wanted).collect()
}

fn signatures_are_good(scene: &Scene, log: &Log) {
    let keys: Vec<_> = scene
        .endpoints
        .iter()
        .map(|endpoint| {
            let key = BASE64_STANDARD.decode(endpoint.secret.strip_prefix("whsec_").unwrap()).unwrap();
            hmac::Key::new(hmac::HMAC_SHA256, &key)
        })
        .collect();
    for request in &log.requests {
        let body = &log.bodies[&request.event];
        let content = [format!("{}.{}.", request.event, request.timestamp).as_bytes(), body].concat();
        let tag = request.signature.strip_prefix("v1,").and_then(|tag| BASE64_STANDARD.decode(tag).ok());
        let good = tag.is_some_and(|tag| hmac::verify(&keys[request.endpoint], &content, &tag).is_ok());
        assert!(good, "{request:?}");
        let off = request.timestamp.abs_diff(request.came_at);
        assert!(off <= limits::TIMESTAMP_TOLERANCE.as_secs(), "{request:?}");
    }
    for (event, body) in &log.bodies {
        let body: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body["id"], **event);
        assert_eq!(body["account_id"], *scene.target.org);
    }
}

/// Every call that was answered has made its event, and nothing else has.
fn events_are_there(scene: &Scene, record: &Record) {
    let things = record.events.iter().filter(|event| event.r#type == THING);
    let things: BTreeSet<_> = things
        .map(|event| {
            let data: Value = serde_json::from_str(&event.data).unwrap();
            data["thing_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let calls = scene.calls.lock().unwrap();
    let lost: Vec<_> = calls.answered.iter().filter(|name| !things.contains(*name)).collect();
    assert!(lost.is_empty(), "answered, and no event: {lost:?}");
    let known = |name: &&String| {
        [&calls.answered, &calls.in_doubt, &calls.turned_away].iter().any(|names| names.contains(*name))
    };
    assert_eq!(things.iter().find(|name| !known(name)), None, "nobody made this");
    println!(
        "{} calls answered, {} in doubt, {} turned away; {} things",
        calls.answered.len(),
        calls.in_doubt.len(),
        calls.turned_away.len(),
        things.len()
    );
}

/// Checks one event at one endpoint: it ended as it had to, it came, and came again only where it had to.
fn check_one(
    scene: &Scene,
    record: &Record,
    (log, numbers): (&Log, &[usize]),
    (at, event): (usize, &EventRow),
    kills: &[Mark],
    findings: &mut Findings,
) {
    let endpoint = &scene.endpoints[at];
    let name = format!("{} at {at} ({:?})", event.id, endpoint.manner);
    let delivery = record.deliveries.get(&(endpoint.id.clone(), event.id.clone()));
    let delivery = delivery.unwrap_or_else(|| panic!("{name} has no delivery"));
    let attempts = record.attempts.get(&delivery.id).map_or(&[][..], Vec::as_slice);
    let delivered = attempts.iter().filter(|outcome| *outcome == "delivered").count();
    let taken: Vec<_> = numbers.iter().copied().filter(|number| log.requests[*number].taken).collect();
    if endpoint.manner.refuses(&event.id) {
        findings.abandoned += 1;
        assert_eq!(delivery.status, "abandoned", "{name}");
        assert_eq!((attempts.len(), delivered), (8, 0), "{name}: {attempts:?}");
    } else {
        assert_eq!(delivery.status, "delivered", "{name}: {attempts:?}");
        assert!(!taken.is_empty(), "{name} never came");
        assert_eq!(delivered, 1, "{name}: {attempts:?}");
        assert_eq!(attempts.last().map(String::as_str), Some("delivered"), "{name}: nothing after it");
    }
    assert!(numbers.len() >= attempts.len(), "{name}: {attempts:?} and {numbers:?}");
    findings.unwritten += numbers.len() - attempts.len();
    for pair in taken.windows(2) {
        let (first, second) = (&log.requests[pair[0]], &log.requests[pair[1]]);
        // The server that had it taken died before it could write so; or it was under way when its server stood still.
        let between = |kill: &Mark| pair[0] < kill.requests && kill.requests <= pair[1];
        let under_way = |kill: &Mark| kill.still_at.is_some_and(|at| second.timestamp <= at);
        let kill = kills.iter().position(|kill| between(kill) || under_way(kill));
        let Some(kill) = kill else {
            findings.strange.push(format!("{name}: {first:?} and {second:?}"));
            continue;
        };
        let ago = first.ended.map_or(0, |ended| kills[kill].ends.saturating_sub(ended));
        // An answer may be overtaken by others on its way to the server, so this is no sharp bound; how many come again is.
        let most = limits::UNWRITTEN_MAX + limits::ACCOUNT_IN_FLIGHT_MAX;
        assert!(ago <= most, "{name} was taken {ago} ends before the server died");
        *findings.again.entry(kill).or_default() += 1;
        findings.longest_ago = findings.longest_ago.max(ago);
    }
}

/// The audit log comes in its order: the first time that each entry is taken, those before it were.
fn order_is_kept(log: &Log, at: usize, events: &[&EventRow]) {
    let mut first_taken: HashMap<&str, usize> = HashMap::new();
    for (number, request) in log.requests.iter().enumerate() {
        if request.endpoint == at && request.taken {
            first_taken.entry(&request.event).or_insert(number);
        }
    }
    let audit = events.iter().filter(|event| event.r#type == AUDIT);
    let taken: Vec<_> = audit.filter_map(|event| first_taken.get(event.id.as_str())).collect();
    assert!(taken.is_sorted(), "the audit log at {at} came in another order");
}
