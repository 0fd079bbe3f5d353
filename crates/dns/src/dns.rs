//! The resolvers, and what can be asked of them.

use std::net::SocketAddr;

use portico_egress::Networks;

use crate::{Answer, Figures, Look, Record, Zone};

/// Whom to ask.
#[derive(Debug, Clone)]
pub struct Settings {
    /// In their configured order; 1 to 8.
    pub resolvers: Vec<Resolver>,
    /// The port of the servers of zones; 0 asks none of them.
    pub authoritative_port: u16,
}

/// A resolver that the operator chose.
#[derive(Debug, Clone)]
pub struct Resolver {
    /// `host:port` as configured.
    pub name: String,
    /// Where it is.
    pub address: SocketAddr,
}

/// Looks for records. Cheap to build: each question has sockets of its own.
pub struct Dns {
    settings: Settings,
    allow: Networks,
}

impl Dns {
    /// Asks the resolvers of `settings`, and servers of zones at public addresses or those in `allow`.
    pub fn new(settings: Settings, allow: Networks) -> Self {
        Self { settings, allow }
    }

    /// Where is the record? Takes at most 10 s.
    pub async fn look(&self, record: &Record) -> Look {
        let _ = (record, &self.settings, &self.allow);
        unimplemented!()
    }

    /// Who serves `domain`? The caller bounds its time; a look bounds its own.
    pub async fn zone(&self, domain: &str, registrable: &str) -> Zone {
        let _ = (domain, registrable);
        unimplemented!()
    }

    /// What each resolver says of the root's SOA: `Found` if it answers.
    pub async fn roots(&self) -> Vec<Answer> {
        unimplemented!()
    }

    /// What was counted of each resolver, in their order, and of the servers of zones.
    pub fn figures(&self) -> Vec<Figures> {
        unimplemented!()
    }
}
