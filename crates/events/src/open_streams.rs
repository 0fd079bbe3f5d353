//! The open streams of this server, counted by who holds them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use portico_kernel::{AccountId, PersonId};

use crate::sql::StreamCounts;

/// Who holds a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamHolder {
    /// The account whose events it carries.
    pub account: AccountId,
    /// The key, API token or person that it was opened with.
    pub credential: Arc<str>,
    /// The person behind that: themselves, or whoever made the key or API token. `None` for what the operator made.
    pub person: Option<PersonId>,
}

/// How many streams are open on this server.
#[derive(Debug, Default)]
pub(crate) struct OpenStreams {
    holders: HashMap<StreamHolder, u32>,
    accounts: HashMap<AccountId, u32>,
    credentials: HashMap<Arc<str>, u32>,
    people: HashMap<PersonId, u32>,
}

fn add<K: Eq + Hash>(counts: &mut HashMap<K, u32>, key: K) {
    *counts.entry(key).or_default() += 1;
}

fn remove<K: Eq + Hash>(counts: &mut HashMap<K, u32>, key: &K) {
    let Some(count) = counts.get_mut(key) else { return };
    *count = count.saturating_sub(1);
    if *count == 0 {
        counts.remove(key);
    }
}

impl OpenStreams {
    /// How many there are that count together with one of `holder`.
    pub(crate) fn counts(&self, holder: &StreamHolder) -> StreamCounts {
        let count = |count: Option<&u32>| i64::from(count.copied().unwrap_or(0));
        StreamCounts {
            account: count(self.accounts.get(&holder.account)),
            credential: count(self.credentials.get(&holder.credential)),
            person: count(holder.person.as_ref().and_then(|person| self.people.get(person))),
        }
    }

    /// How many are exactly of `holder`: in that account, with that credential.
    pub(crate) fn held(&self, holder: &StreamHolder) -> i64 {
        self.holders.get(holder).copied().unwrap_or(0).into()
    }

    /// Everybody who holds one.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &StreamHolder> {
        self.holders.keys()
    }

    pub(crate) fn add(&mut self, holder: StreamHolder) {
        add(&mut self.accounts, holder.account);
        add(&mut self.credentials, holder.credential.clone());
        if let Some(person) = holder.person {
            add(&mut self.people, person);
        }
        add(&mut self.holders, holder);
    }

    pub(crate) fn remove(&mut self, holder: &StreamHolder) {
        remove(&mut self.accounts, &holder.account);
        remove(&mut self.credentials, &holder.credential);
        if let Some(person) = &holder.person {
            remove(&mut self.people, person);
        }
        remove(&mut self.holders, holder);
    }
}
