//! What callers know of their calls, held against what the platform says of them.

use std::collections::HashMap;

use crate::metering::number;

use super::client::{Client, Target};

/// What became of a call, as its caller knows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    /// It was answered: it is counted, once, with what it costs.
    Answered(i64),
    /// The server went away: it is counted once or not at all.
    Unknown(i64),
    /// It came when the server was stopping: it is not counted.
    TurnedAway,
}

/// Every call so far, the looks included: they are calls like any other.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) calls: HashMap<String, Fate>,
    /// The units of the log's entries that were read.
    logged: HashMap<String, i64>,
    looks: usize,
}

impl Ledger {
    pub(crate) fn extend(&mut self, calls: impl IntoIterator<Item = (String, Fate)>) {
        for (id, fate) in calls {
            assert!(self.calls.insert(id, fate).is_none(), "an id is a call's own");
        }
    }

    pub(crate) fn summary(&self) -> String {
        let count = |is: fn(&Fate) -> bool| self.calls.values().filter(|fate| is(fate)).count();
        let lost =
            |(id, fate): &(&String, &Fate)| matches!(fate, Fate::Unknown(_)) && self.logged.contains_key(*id);
        format!(
            "{} calls answered, {} not answered, {} of these counted, {} turned away; {} units",
            count(|fate| matches!(fate, Fate::Answered(_))),
            count(|fate| matches!(fate, Fate::Unknown(_))),
            self.calls.iter().filter(lost).count(),
            count(|fate| matches!(fate, Fate::TurnedAway)),
            self.logged.values().sum::<i64>()
        )
    }

    fn next_id(&mut self) -> String {
        self.looks += 1;
        format!("look-{}", self.looks)
    }

    /// Looks at the account of an idle server: everything must agree. Reads the log back to what it has read before, or
    /// the `whole` of it.
    pub(crate) async fn check(&mut self, api: &str, target: &Target, whole: bool) {
        let mut client = Client::connect(api, target).await.unwrap();
        let first = self.next_id();
        let units = client.report("units", &first).await;
        self.calls.insert(first.clone(), Fate::Answered(1));
        let pages = self.read_log(&mut client, whole).await;

        let mut missing = Vec::new();
        for (id, fate) in &self.calls {
            match (self.logged.get(id), fate) {
                (Some(units), Fate::Answered(price) | Fate::Unknown(price)) => {
                    assert_eq!(units, price, "{id} cost something else");
                }
                (None, Fate::Answered(_)) => missing.push(id),
                (Some(_), Fate::TurnedAway) => panic!("{id} was turned away and is in the log"),
                (None, Fate::Unknown(_) | Fate::TurnedAway) => {}
            }
        }
        assert!(missing.is_empty(), "answered, and not in the log: {missing:?}");
        let strange = self.logged.keys().find(|id| !self.calls.contains_key(*id));
        assert_eq!(strange, None, "nobody made this call");
        // The look at the units is in the log, and not in what it saw itself.
        let logged: i64 = self.logged.values().sum();
        assert_eq!(number(&units["used"]), logged - 1, "units used, and units in the log");
        let rows = units["usage"].as_array().unwrap();
        let sum = |name: &str| rows.iter().map(|row| number(&row[name])).sum::<i64>();
        assert_eq!(sum("units"), logged - 1, "units by operation, and units in the log");
        assert_eq!(
            sum("calls"),
            i64::try_from(self.logged.len()).unwrap() - 1,
            "calls, and the log's length"
        );
        // The pages themselves show in the next look.
        self.extend(pages.into_iter().map(|id| (id, Fate::Answered(1))));
    }

    /// Reads the log; answers the ids of the calls that did so.
    async fn read_log(&mut self, client: &mut Client, whole: bool) -> Vec<String> {
        let (mut pages, mut token, mut read) = (Vec::new(), String::new(), HashMap::new());
        loop {
            let id = self.next_id();
            let page = client.report(&format!("requests?page_size=200&page_token={token}"), &id).await;
            pages.push(id);
            let mut is_known = false;
            for entry in page["requests"].as_array().unwrap() {
                let id = entry["request_id"].as_str().unwrap().to_owned();
                is_known |= self.logged.contains_key(&id);
                let twice = read.insert(id, number(&entry["units"]));
                assert!(twice.is_none(), "twice in the log: {entry}");
            }
            page["next_page_token"].as_str().unwrap().clone_into(&mut token);
            if token.is_empty() || (is_known && !whole) {
                break;
            }
        }
        for (id, units) in &read {
            let before = self.logged.insert(id.clone(), *units);
            assert!(before.is_none_or(|before| before == *units), "{id} has changed");
        }
        if whole {
            assert_eq!(read.len(), self.logged.len(), "entries are gone from the log");
        }
        pages
    }
}
