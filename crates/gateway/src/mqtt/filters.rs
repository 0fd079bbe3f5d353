//! What a client subscribed.

use portico_events::Filter;
use portico_events::limits::{TYPE_BYTES_MAX, TYPES_MAX};

use portico_mqtt::codec::SubackReasonCode as Suback;

/// The topics of events: one level below it is the type, which holds dots.
pub(super) const EVENTS: &str = "events/";
/// The topics of answers to calls.
pub(super) const REPLIES: &str = "rpc/reply/";
/// Subscriptions of a client.
const FILTERS_MAX: usize = TYPES_MAX;

/// A filter; the names of types are shorter.
const FILTER_BYTES_MAX: usize = 128;

/// The filters of a client, each with its quality of service. They are few.
#[derive(Debug, Default)]
pub(super) struct Filters(Vec<(String, u8)>);

/// What a filter asks for.
enum FilterTarget<'a> {
    Every,
    Type(&'a str),
    Replies,
}

fn read(filter: &str) -> Result<FilterTarget<'_>, Suback> {
    if filter.starts_with("$share/") {
        return Err(Suback::SharedSubscriptionsNotSupported);
    }
    if filter.len() > FILTER_BYTES_MAX {
        return Err(Suback::TopicFilterInvalid);
    }
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let wild = level.contains(['#', '+']);
        if (wild && level.len() > 1) || (level == "#" && levels.peek().is_some()) {
            return Err(Suback::TopicFilterInvalid);
        }
    }
    if let Some(event_type) = filter.strip_prefix(EVENTS) {
        return match event_type {
            "#" | "+" => Ok(FilterTarget::Every),
            name if name.is_empty() || name.len() > TYPE_BYTES_MAX => Err(Suback::TopicFilterInvalid),
            name if name.contains('/') => Err(Suback::NotAuthorized),
            name => Ok(FilterTarget::Type(name)),
        };
    }
    if filter.starts_with(REPLIES) { Ok(FilterTarget::Replies) } else { Err(Suback::NotAuthorized) }
}

impl Filters {
    /// Those that an earlier connection left.
    pub(super) fn kept(filters: Vec<(String, u8)>) -> Self {
        Self(filters.into_iter().filter(|(filter, _)| read(filter).is_ok()).take(FILTERS_MAX).collect())
    }

    /// All of them.
    pub(super) fn all(&self) -> &[(String, u8)] {
        &self.0
    }

    /// Subscribes, and returns the quality of service or why not. A filter that names a type must name one that is known.
    pub(super) fn add(&mut self, filter: String, qos: u8, is_type: impl Fn(&str) -> bool) -> Suback {
        match read(&filter) {
            Err(refused) => return refused,
            Ok(FilterTarget::Type(name)) if !is_type(name) => return Suback::TopicFilterInvalid,
            Ok(_) => {}
        }
        let qos = qos.min(1);
        let full = self.0.len() >= FILTERS_MAX;
        match self.0.iter_mut().find(|(known, _)| *known == filter) {
            Some(known) => known.1 = qos,
            None if full => return Suback::QuotaExceeded,
            None => self.0.push((filter, qos)),
        }
        if qos == 0 { Suback::GrantedQos0 } else { Suback::GrantedQos1 }
    }

    /// Ends a subscription; returns whether it was there.
    pub(super) fn remove(&mut self, filter: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _)| known != filter);
        self.0.len() < before
    }

    /// The types of events that are wanted; `None` when none are.
    pub(super) fn wanted(&self) -> Option<Filter> {
        let mut types = Vec::new();
        for (filter, _) in &self.0 {
            match read(filter) {
                Ok(FilterTarget::Every) => return Some(Filter::default()),
                Ok(FilterTarget::Type(name)) => types.push(name),
                Ok(FilterTarget::Replies) | Err(_) => {}
            }
        }
        (!types.is_empty()).then(|| Filter::types(types))
    }

    /// With which quality of service an event of that type is wanted, if it is.
    pub(super) fn qos(&self, event_type: &str) -> Option<u8> {
        let wants = |filter: &str| {
            let asked = filter.strip_prefix(EVENTS);
            asked.is_some_and(|asked| asked == "#" || asked == "+" || asked == event_type)
        };
        self.0.iter().filter(|(filter, _)| wants(filter)).map(|(_, qos)| *qos).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_and_answers_can_be_subscribed() {
        for (filter, code) in [
            ("events/#", Suback::GrantedQos1),
            ("events/+", Suback::GrantedQos1),
            ("events/token.revoked", Suback::GrantedQos1),
            ("events/no.such", Suback::TopicFilterInvalid),
            ("rpc/reply/me", Suback::GrantedQos1),
            ("rpc/reply/+/me/#", Suback::GrantedQos1),
            ("#", Suback::NotAuthorized),
            ("+/#", Suback::NotAuthorized),
            ("events", Suback::NotAuthorized),
            ("events/token/#", Suback::NotAuthorized),
            ("rpc/#", Suback::NotAuthorized),
            ("rpc/accounts.get", Suback::NotAuthorized),
            ("$SYS/#", Suback::NotAuthorized),
            ("", Suback::NotAuthorized),
            ("events/", Suback::TopicFilterInvalid),
            ("events/a+", Suback::TopicFilterInvalid),
            ("events/#/a", Suback::TopicFilterInvalid),
            ("$share/a/events/#", Suback::SharedSubscriptionsNotSupported),
        ] {
            assert_eq!(
                Filters::default().add(filter.to_owned(), 2, |name| name == "token.revoked"),
                code,
                "{filter}"
            );
        }
    }

    #[test]
    fn the_highest_quality_of_what_matches_counts() {
        let mut filters = Filters::default();
        assert!(filters.wanted().is_none());
        filters.add("rpc/reply/a".to_owned(), 1, |_| true);
        assert!(filters.wanted().is_none());
        filters.add("events/a.b".to_owned(), 1, |_| true);
        let wanted = filters.wanted().unwrap();
        assert!(wanted.passes("a.b") && !wanted.passes("c.d"));
        filters.add("events/#".to_owned(), 0, |_| true);
        assert!(filters.wanted().unwrap().passes("c.d"));
        assert_eq!((filters.qos("a.b"), filters.qos("c.d")), (Some(1), Some(0)));
        // Subscribed again, the last word counts.
        filters.add("events/a.b".to_owned(), 0, |_| true);
        assert_eq!(filters.qos("a.b"), Some(0));
        assert!(filters.remove("events/#") && !filters.remove("events/#"));
        assert_eq!((filters.qos("a.b"), filters.qos("c.d")), (Some(0), None));
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        let mut filters = Filters::default();
        for number in 0..FILTERS_MAX {
            assert_eq!(filters.add(format!("events/t{number}"), 0, |_| true), Suback::GrantedQos0);
        }
        assert_eq!(filters.add("events/one.more".to_owned(), 0, |_| true), Suback::QuotaExceeded);
        assert_eq!(filters.add("events/t0".to_owned(), 1, |_| true), Suback::GrantedQos1);
        assert!(filters.wanted().is_some());
    }
}
