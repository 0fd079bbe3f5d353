//! What zones hold, and what a server says of it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::rdata::{CNAME, NS, SOA, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};

/// How many aliases a server follows.
const LINKS_MAX: usize = 32;
/// For how long a no may be kept.
const NEGATIVE_TTL: u32 = 60;

/// Zones and what they hold.
#[derive(Debug, Clone)]
pub struct World {
    zones: BTreeMap<Name, Zone>,
    /// The addresses of name servers.
    addresses: BTreeMap<Name, Vec<IpAddr>>,
    /// The time to live of what is added.
    ttl: u32,
}

#[derive(Debug, Clone, Default)]
struct Zone {
    hosts: Vec<Name>,
    records: Vec<Record>,
}

impl Default for World {
    fn default() -> Self {
        Self { zones: BTreeMap::new(), addresses: BTreeMap::new(), ttl: 300 }
    }
}

pub(super) fn read(text: &str) -> Name {
    let mut name = Name::from_ascii(text).unwrap();
    name.set_fqdn(true);
    name
}

impl World {
    /// Adds a zone, or changes who serves it.
    pub fn set_zone(&mut self, apex: &str, hosts: &[&str]) {
        self.zones.entry(read(apex)).or_default().hosts = hosts.iter().map(|host| read(host)).collect();
    }

    /// Removes a zone with all that it holds.
    pub fn remove_zone(&mut self, apex: &str) {
        self.zones.remove(&read(apex));
    }

    /// Says where a name server is.
    pub fn set_addresses(&mut self, host: &str, addresses: &[IpAddr]) {
        self.addresses.insert(read(host), addresses.to_vec());
    }

    /// The time to live of what is added from now on.
    pub const fn set_ttl(&mut self, seconds: u32) {
        self.ttl = seconds;
    }

    /// Lets these be all TXT records at this name, each of one piece. A name that begins with `*` stands for all that are not there.
    pub fn set_txt(&mut self, name: &str, values: &[&str]) {
        let pieces: Vec<_> = values.iter().map(|value| vec![*value]).collect();
        self.set_txt_pieces(name, &pieces);
    }

    /// The same of records of several pieces.
    pub fn set_txt_pieces(&mut self, name: &str, values: &[Vec<&str>]) {
        let data = values.iter().map(|pieces| {
            let pieces = pieces.iter().map(|piece| piece.as_bytes()).collect();
            RData::TXT(TXT::from_bytes(pieces))
        });
        self.set(name, RecordType::TXT, data.collect());
    }

    /// Makes a name an alias. Nothing else is at such a name.
    pub fn set_cname(&mut self, name: &str, target: &str) {
        self.clear(name);
        self.set(name, RecordType::CNAME, vec![RData::CNAME(CNAME(read(target)))]);
    }

    /// Removes everything at this name.
    pub fn clear(&mut self, name: &str) {
        let name = read(name);
        if let Some(apex) = self.apex_of(&name) {
            self.zones.get_mut(&apex).unwrap().records.retain(|record| record.name != name);
        }
    }

    fn set(&mut self, name: &str, kind: RecordType, data: Vec<RData>) {
        let (name, ttl) = (read(name), self.ttl);
        let apex = self.apex_of(&name).expect("a zone for the record");
        let records = &mut self.zones.get_mut(&apex).unwrap().records;
        records.retain(|record| record.name != name || record.record_type() != kind);
        records.extend(data.into_iter().map(|data| Record::from_rdata(name.clone(), ttl, data)));
    }

    /// The zone that is nearest to the name.
    fn apex_of(&self, name: &Name) -> Option<Name> {
        self.zones.keys().filter(|apex| apex.zone_of(name)).max_by_key(|apex| apex.num_labels()).cloned()
    }

    /// Answers into `reply`: as a resolver, or as the server `host` of the zones that are its own.
    pub(super) fn answer(&self, query: &Query, host: Option<&Name>, reply: &mut Message) {
        let mut at = query.name().clone();
        reply.metadata.authoritative = host.is_some();
        for link in 0..LINKS_MAX {
            if host.is_none() && self.answer_address(&at, query.query_type(), reply) {
                return;
            }
            let Some(apex) = self.apex_of(&at) else {
                // Of what lies outside of all zones, the root says that it does not exist.
                match (host, link) {
                    (None, _) => no(reply, ResponseCode::NXDomain, &Name::root()),
                    (Some(_), 0) => refuse(reply),
                    (Some(_), _) => {}
                }
                return;
            };
            let zone = &self.zones[&apex];
            if host.is_some_and(|host| !zone.hosts.contains(host)) {
                if link == 0 {
                    self.refer(&apex, host, reply);
                }
                return;
            }
            match zone.answer(&apex, &at, query.query_type(), self.ttl, reply) {
                Some(target) => at = target,
                None => return,
            }
        }
    }

    /// The address of a name server. Is the name one?
    fn answer_address(&self, at: &Name, kind: RecordType, reply: &mut Message) -> bool {
        let Some(addresses) = self.addresses.get(at) else { return false };
        let all = addresses.iter().map(|address| RData::from(*address));
        let of_kind = all.filter(|data| data.record_type() == kind);
        reply.add_answers(of_kind.map(|data| Record::from_rdata(at.clone(), self.ttl, data)));
        if reply.answers.is_empty() {
            no(reply, ResponseCode::NoError, &at.base_name());
        }
        true
    }

    /// A server that has the zone above says who serves the one below; others refuse.
    fn refer(&self, apex: &Name, host: Option<&Name>, reply: &mut Message) {
        let is_parent = |above: &Name, zone: &Zone| {
            above != apex && above.zone_of(apex) && host.is_some_and(|host| zone.hosts.contains(host))
        };
        if !self.zones.iter().any(|(above, zone)| is_parent(above, zone)) {
            return refuse(reply);
        }
        reply.metadata.authoritative = false;
        let hosts = self.zones[apex].hosts.iter();
        reply.add_authorities(
            hosts.map(|host| Record::from_rdata(apex.clone(), self.ttl, RData::NS(NS(host.clone())))),
        );
    }
}

impl Zone {
    /// Answers from this zone, or says where the name leads.
    fn answer(
        &self,
        apex: &Name,
        at: &Name,
        kind: RecordType,
        ttl: u32,
        reply: &mut Message,
    ) -> Option<Name> {
        if at == apex && kind == RecordType::SOA {
            reply.add_answer(start(apex));
            return None;
        }
        if at == apex && kind == RecordType::NS {
            let hosts = self.hosts.iter().map(|host| RData::NS(NS(host.clone())));
            reply.add_answers(hosts.map(|data| Record::from_rdata(apex.clone(), ttl, data)));
            return None;
        }
        let Some(owner) = self.owner(apex, at) else {
            no(reply, ResponseCode::NXDomain, apex);
            return None;
        };
        let here = self.records.iter().filter(|record| record.name == owner);
        let here = here.map(|record| Record::from_rdata(at.clone(), record.ttl, record.data.clone()));
        let target = |record: &Record| match &record.data {
            RData::CNAME(target) => Some(target.0.clone()),
            _ => None,
        };
        if let Some((alias, target)) =
            here.clone().find_map(|record| Some((record.clone(), target(&record)?)))
            && kind != RecordType::CNAME
        {
            reply.add_answer(alias);
            return Some(target);
        }
        let found: Vec<_> = here.filter(|record| record.record_type() == kind).collect();
        if found.is_empty() {
            no(reply, ResponseCode::NoError, apex);
        }
        reply.add_answers(found);
        None
    }

    /// Whose records answer for the name: its own, or those of the wildcard at the nearest name that exists.
    fn owner(&self, apex: &Name, at: &Name) -> Option<Name> {
        let exists =
            |name: &Name| name == apex || self.records.iter().any(|record| name.zone_of(&record.name));
        if exists(at) {
            return Some(at.clone());
        }
        let mut above = at.base_name();
        while !exists(&above) {
            above = above.base_name();
        }
        let wildcard = above.prepend_label("*").unwrap();
        exists(&wildcard).then_some(wildcard)
    }
}

fn start(apex: &Name) -> Record {
    let start = SOA::new(apex.clone(), apex.clone(), 1, 3600, 600, 86400, NEGATIVE_TTL);
    Record::from_rdata(apex.clone(), 3600, RData::SOA(start))
}

fn no(reply: &mut Message, code: ResponseCode, apex: &Name) {
    reply.metadata.response_code = code;
    reply.add_authority(start(apex));
}

fn refuse(reply: &mut Message) {
    reply.metadata.response_code = ResponseCode::Refused;
    reply.metadata.authoritative = false;
}
