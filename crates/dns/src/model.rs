//! What is looked for, and what a look finds. Values alone, without I/O.

/// A TXT record that proves control of a domain.
#[derive(Debug, Clone)]
pub struct Record {
    /// The domain, as A-labels.
    pub domain: String,
    /// The public suffix and one label of it: the zone's apex where no SOA tells a better one.
    pub registrable: String,
    /// The label that stands before the domain in the record's name, `_portico-challenge`.
    pub label: String,
    /// The label that a record of the other scope would have, which is a common mistake.
    pub other_label: String,
    /// What stands before the `=` of every value of this kind, `portico-verification`.
    pub key: String,
    /// What stands after it in this one.
    pub token: String,
}

/// What a look says of the record as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A quorum of resolvers has it, and one of the zone's own servers unless none was reached.
    Seen,
    /// It is not there.
    Gone {
        /// Whether other values stand at its name.
        other_value: bool,
    },
    /// Anything between.
    Unclear,
    /// No resolver answered any question of the look, which is our fault and not the domain's.
    Unreachable,
}

/// What the servers of the zone itself say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// None was reached, or none was asked.
    NotReached,
    /// One at least has the record.
    Found,
    /// One at least answered, and none has the record.
    Lacking,
}

/// Who serves the zone of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Zone {
    /// The name at which the zone begins.
    pub apex: String,
    /// Its name servers, sorted.
    pub name_servers: Vec<String>,
    /// Who runs them, in words; empty when it was not found out.
    pub provider: String,
}

/// Which kind of server gave an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// One of the configured resolvers.
    Public,
    /// One of the zone's own.
    Authoritative,
}

/// What came of one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The record is there.
    Found,
    /// Other TXT records are there.
    OtherValue,
    /// The name has no TXT record.
    NoRecord,
    /// There is no such name.
    NxDomain,
    /// The server could not tell.
    ServFail,
    /// No answer in time, or the server was not reached.
    Timeout,
    /// Any other answer.
    Error,
    /// The server's address may not be called.
    Blocked,
    /// It was not asked.
    NotAsked,
}

impl Outcome {
    /// Its name in answers and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::OtherValue => "other_value",
            Self::NoRecord => "no_record",
            Self::NxDomain => "nxdomain",
            Self::ServFail => "servfail",
            Self::Timeout => "timeout",
            Self::Error => "error",
            Self::Blocked => "blocked",
            Self::NotAsked => "not_asked",
        }
    }
}

/// A common mistake, by which a record is not where it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// The panel added the domain once more.
    DoubledName,
    /// The value stands at the domain itself.
    AtApex,
    /// The value stands beneath another label.
    WrongLabel,
    /// A CNAME stands at the record's name.
    CnameInTheWay,
    /// An earlier value, or another account's.
    StaleValue,
    /// The zone has it, the resolvers do not have it yet.
    NotPropagated,
    /// The signatures of the zone are broken.
    DnssecBroken,
    /// The domain does not exist.
    NoZone,
}

impl Hint {
    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DoubledName => "doubled_name",
            Self::AtApex => "at_apex",
            Self::WrongLabel => "wrong_label",
            Self::CnameInTheWay => "cname_in_the_way",
            Self::StaleValue => "stale_value",
            Self::NotPropagated => "not_propagated",
            Self::DnssecBroken => "dnssec_broken",
            Self::NoZone => "no_zone",
        }
    }
}

/// What one server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// `host:port` as configured, or the name of the zone's server.
    pub server: String,
    /// Which kind it is.
    pub kind: ServerKind,
    /// What came of the question.
    pub outcome: Outcome,
    /// TXT values at the record's name: at most 5, each cut at 255 characters.
    pub values: Vec<String>,
    /// Whether the answer says that its signatures were checked.
    pub authenticated: bool,
    /// In seconds; 0 when there is none.
    pub ttl: u32,
    /// How long the server took; 0 when it was not asked.
    pub latency_ms: u32,
    /// What it means, in one sentence for a person. A hint's sentence where there is a hint.
    pub message: String,
}

/// Others look, and it was nobody's turn in time. Nothing was asked, and nothing follows for the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

/// What one look found.
#[derive(Debug, Clone)]
pub struct Look {
    /// What follows from it.
    pub verdict: Verdict,
    /// What the zone's own servers say.
    pub authority: Authority,
    /// The zone, as far as it was found out.
    pub zone: Zone,
    /// The resolvers in their configured order, then the zone's own servers.
    pub answers: Vec<Answer>,
    /// The first mistake found; it stands at every answer but `Found`.
    pub hint: Option<Hint>,
    /// How many resolvers found the record.
    pub found: usize,
    /// How many of them must.
    pub needed: usize,
    /// How many were asked.
    pub asked: usize,
}
