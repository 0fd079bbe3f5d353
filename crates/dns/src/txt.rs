//! What one server shows of the TXT records of a name, aliases followed.

use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record as DnsRecord};

use crate::question::Failure;
use crate::{Outcome, Record, value};

/// How many aliases are followed, one after the other.
const LINKS_MAX: usize = 8;
/// The largest time to live that DNS knows.
const TTL_MAX: u32 = i32::MAX.cast_unsigned();

/// What a server said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// There are TXT records.
    Values,
    /// There are none.
    NoRecord,
    /// There is no such name.
    NxDomain,
    /// It could not tell.
    ServFail,
    /// Nothing in time, or it was not reached.
    Timeout,
    /// Its address may not be called.
    Blocked,
    /// The name is an alias of one in another zone, for which it does not speak.
    Elsewhere,
    /// It does not speak for the zone.
    NotAuthoritative,
    /// One alias leads to the next, too often.
    TooManyLinks,
    /// Something that is no answer to the question.
    Garbled,
    /// This code.
    Code(ResponseCode),
}

/// What one server shows of the TXT records of a name.
#[derive(Debug, Clone)]
pub(crate) struct Sighting {
    /// What it said.
    pub(crate) said: Said,
    /// The records, each as one text.
    pub(crate) values: Vec<String>,
    /// The name that they were looked for at, where the name itself is an alias.
    pub(crate) alias: Option<Name>,
    /// Does every answer say that it was checked?
    pub(crate) authenticated: bool,
    /// For how many seconds the answer may be kept, also when it is a no; 0 when it does not say.
    pub(crate) ttl: u32,
    /// How long it took, when it was answered.
    pub(crate) latency: Option<Duration>,
}

impl Sighting {
    /// Without any answer.
    pub(crate) fn unanswered(said: Said) -> Self {
        Self { said, values: Vec::new(), alias: None, authenticated: false, ttl: 0, latency: None }
    }

    /// Is the record among them?
    pub(crate) fn proves(&self, record: &Record) -> bool {
        self.values.iter().any(|text| value::proves(record, text))
    }

    /// What it means for the record.
    pub(crate) fn outcome(&self, record: &Record) -> Outcome {
        match self.said {
            Said::Values if self.proves(record) => Outcome::Found,
            Said::Values => Outcome::OtherValue,
            Said::NoRecord => Outcome::NoRecord,
            Said::NxDomain => Outcome::NxDomain,
            Said::ServFail => Outcome::ServFail,
            Said::Timeout => Outcome::Timeout,
            Said::Blocked => Outcome::Blocked,
            Said::Elsewhere | Said::NotAuthoritative | Said::TooManyLinks | Said::Garbled | Said::Code(_) => {
                Outcome::Error
            }
        }
    }
}

/// The way along the aliases of a name at one server.
pub(crate) struct Walk<'a> {
    /// The name to ask for.
    pub(crate) at: Name,
    /// The zone that the server must speak for; a resolver speaks for all.
    zone: Option<&'a Name>,
    links: usize,
    values: Vec<String>,
    authenticated: bool,
    ttl: Option<u32>,
}

impl<'a> Walk<'a> {
    /// Begins at `name`.
    pub(crate) fn new(name: Name, zone: Option<&'a Name>) -> Self {
        Self { at: name, zone, links: 0, values: Vec::new(), authenticated: true, ttl: None }
    }

    /// Reads the answer to the question for the TXT records of [`Walk::at`]. `None`: the same server is to be asked again,
    /// for the name where the walk has come to.
    pub(crate) fn read(&mut self, reply: Result<&Message, Failure>) -> Option<Said> {
        let reply = match reply {
            Ok(reply) => reply,
            Err(Failure::Timeout) => return Some(Said::Timeout),
            Err(Failure::Garbled) => return Some(Said::Garbled),
        };
        let code = reply.metadata.response_code;
        match code {
            ResponseCode::NoError | ResponseCode::NXDomain => {}
            ResponseCode::ServFail => return Some(Said::ServFail),
            other => return Some(Said::Code(other)),
        }
        if self.zone.is_some() && !reply.metadata.authoritative {
            return Some(Said::NotAuthoritative);
        }
        self.authenticated &= reply.metadata.authentic_data;
        let links = self.links;
        while let Some((target, ttl)) = alias(reply, &self.at) {
            self.links += 1;
            if self.links > LINKS_MAX {
                return Some(Said::TooManyLinks);
            }
            self.keep_for(ttl);
            self.at = target;
            // What the server has of another zone may be a copy that is out of date.
            if self.zone.is_some_and(|zone| !zone.zone_of(&self.at)) {
                return Some(Said::Elsewhere);
            }
        }
        for (text, ttl) in texts(reply, &self.at) {
            self.keep_for(ttl);
            self.values.push(text);
        }
        if !self.values.is_empty() {
            return Some(Said::Values);
        }
        let start = start_of_zone(reply, &self.at);
        if code == ResponseCode::NoError && self.links > links && start.is_none() {
            return None;
        }
        if let Some(ttl) = start {
            self.keep_for(ttl);
        }
        Some(if code == ResponseCode::NXDomain { Said::NxDomain } else { Said::NoRecord })
    }

    /// The end of the walk.
    pub(crate) fn end(self, said: Said, latency: Duration) -> Sighting {
        let is_answered = !matches!(said, Said::Timeout);
        Sighting {
            said,
            values: self.values,
            alias: (self.links > 0).then_some(self.at),
            authenticated: self.authenticated
                && matches!(said, Said::Values | Said::NoRecord | Said::NxDomain),
            ttl: self.ttl.unwrap_or_default(),
            latency: is_answered.then_some(latency),
        }
    }

    fn keep_for(&mut self, ttl: u32) {
        self.ttl = Some(self.ttl.unwrap_or(TTL_MAX).min(ttl));
    }
}

/// Records of the internet at `name`.
fn at<'a>(records: &'a [DnsRecord], name: &'a Name) -> impl Iterator<Item = &'a DnsRecord> {
    records.iter().filter(move |record| record.dns_class == DNSClass::IN && record.name == *name)
}

fn alias(reply: &Message, name: &Name) -> Option<(Name, u32)> {
    at(&reply.answers, name).find_map(|record| match &record.data {
        RData::CNAME(target) => Some((target.0.clone(), record.ttl)),
        _ => None,
    })
}

/// Each record as one text: its pieces without a gap.
fn texts(reply: &Message, name: &Name) -> Vec<(String, u32)> {
    let read = |record: &DnsRecord| match &record.data {
        RData::TXT(text) => Some((String::from_utf8_lossy(&text.txt_data.concat()).into_owned(), record.ttl)),
        _ => None,
    };
    at(&reply.answers, name).filter_map(read).collect()
}

/// The start of a zone that `name` is in comes with every no, and says for how long it may be kept.
fn start_of_zone(reply: &Message, name: &Name) -> Option<u32> {
    reply.authorities.iter().find_map(|record| match &record.data {
        RData::SOA(start) if record.name.zone_of(name) => Some(record.ttl.min(start.minimum)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::OpCode;
    use hickory_proto::rr::rdata::{CNAME, SOA, TXT};

    use super::*;
    use crate::names;
    use crate::tests::record;

    const NAME: &str = "_portico-challenge.example.com";

    fn name(text: &str) -> Name {
        names::read(text).unwrap()
    }

    fn reply(code: ResponseCode, answers: Vec<DnsRecord>) -> Message {
        let mut reply = Message::response(7, OpCode::Query);
        reply.metadata.response_code = code;
        reply.metadata.authoritative = true;
        reply.add_answers(answers);
        reply
    }

    fn text(at: &str, pieces: &[&str], ttl: u32) -> DnsRecord {
        let pieces = pieces.iter().map(|piece| (*piece).to_owned()).collect();
        DnsRecord::from_rdata(name(at), ttl, RData::TXT(TXT::new(pieces)))
    }

    fn cname(at: &str, target: &str) -> DnsRecord {
        DnsRecord::from_rdata(name(at), 600, RData::CNAME(CNAME(name(target))))
    }

    /// A no of the zone.
    fn no(code: ResponseCode, answers: Vec<DnsRecord>, zone: &str) -> Message {
        let mut reply = reply(code, answers);
        let start = SOA::new(name(zone), name(zone), 1, 1, 1, 1, 60);
        reply.add_authority(DnsRecord::from_rdata(name(zone), 3600, RData::SOA(start)));
        reply
    }

    fn read(walk: &mut Walk<'_>, reply: &Message) -> Option<Said> {
        walk.read(Ok(reply))
    }

    #[test]
    fn pieces_are_joined_without_a_gap() {
        let mut walk = Walk::new(name(NAME), None);
        let answers = vec![
            text("elsewhere.example.com", &["portico-verification=abc234"], 1),
            text(NAME, &["v=spf1 ", "-all"], 900),
            text(&NAME.to_uppercase(), &["portico-verif", "ication=", "abc234"], 300),
        ];
        assert_eq!(read(&mut walk, &reply(ResponseCode::NoError, answers)), Some(Said::Values));
        let sighting = walk.end(Said::Values, Duration::from_millis(5));
        assert_eq!(sighting.values, ["v=spf1 -all", "portico-verification=abc234"]);
        assert_eq!((sighting.ttl, sighting.authenticated, sighting.alias.is_none()), (300, false, true));
        assert_eq!(sighting.outcome(&record("example.com")), Outcome::Found);
    }

    #[test]
    fn what_is_no_text_is_read_without_harm() {
        let bytes = TXT::from_bytes(vec![b"\xff\xfe", b"", b"portico\0"]);
        let mut walk = Walk::new(name(NAME), None);
        let answer = DnsRecord::from_rdata(name(NAME), u32::MAX, RData::TXT(bytes));
        assert_eq!(read(&mut walk, &reply(ResponseCode::NoError, vec![answer])), Some(Said::Values));
        let sighting = walk.end(Said::Values, Duration::ZERO);
        assert_eq!(sighting.values, ["\u{fffd}\u{fffd}portico\0"]);
        assert_eq!(sighting.ttl, TTL_MAX, "as a number of 32 bits with a sign");
    }

    #[test]
    fn aliases_are_followed_within_an_answer_and_by_another_question() {
        let mut walk = Walk::new(name(NAME), None);
        let first = vec![cname(NAME, "a.example.net"), cname("a.example.net", "b.example.net")];
        assert_eq!(read(&mut walk, &reply(ResponseCode::NoError, first)), None);
        assert_eq!(walk.at, name("b.example.net"));
        let second = vec![text("b.example.net", &["abc234"], 900)];
        assert_eq!(read(&mut walk, &reply(ResponseCode::NoError, second)), Some(Said::Values));
        let sighting = walk.end(Said::Values, Duration::ZERO);
        assert_eq!(sighting.alias, Some(name("b.example.net")));
        assert_eq!(sighting.ttl, 600, "the least of all");
    }

    #[test]
    fn eight_aliases_are_followed_and_no_more() {
        let chain = |links: usize| {
            let at = |link: usize| if link == 0 { NAME.to_owned() } else { format!("a{link}.example.com") };
            let mut answers: Vec<_> = (0..links).map(|link| cname(&at(link), &at(link + 1))).collect();
            answers.push(text(&at(links), &["abc234"], 60));
            reply(ResponseCode::NoError, answers)
        };
        assert_eq!(read(&mut Walk::new(name(NAME), None), &chain(8)), Some(Said::Values));
        assert_eq!(read(&mut Walk::new(name(NAME), None), &chain(9)), Some(Said::TooManyLinks));
        let circle = reply(ResponseCode::NoError, vec![cname(NAME, NAME)]);
        assert_eq!(read(&mut Walk::new(name(NAME), None), &circle), Some(Said::TooManyLinks));
    }

    #[test]
    fn a_server_of_the_zone_speaks_for_the_zone_alone() {
        let zone = name("example.com");
        let of_zone = |message: &Message| read(&mut Walk::new(name(NAME), Some(&zone)), message);
        let out = vec![cname(NAME, "proof.example.net")];
        assert_eq!(of_zone(&reply(ResponseCode::NoError, out.clone())), Some(Said::Elsewhere));
        assert_eq!(of_zone(&no(ResponseCode::NXDomain, out, "example.com")), Some(Said::Elsewhere));
        let copied = vec![cname(NAME, "proof.example.net"), text("proof.example.net", &["old"], 60)];
        assert_eq!(of_zone(&reply(ResponseCode::NoError, copied)), Some(Said::Elsewhere), "it may be old");
        let back = vec![
            cname(NAME, "proof.example.net"),
            cname("proof.example.net", "proof.example.com"),
            text("proof.example.com", &["old"], 60),
        ];
        assert_eq!(
            of_zone(&reply(ResponseCode::NoError, back)),
            Some(Said::Elsewhere),
            "and so may the way back"
        );
        let inside = vec![cname(NAME, "proof.example.com")];
        assert_eq!(of_zone(&reply(ResponseCode::NoError, inside.clone())), None, "asked again");
        assert_eq!(of_zone(&no(ResponseCode::NoError, inside, "example.com")), Some(Said::NoRecord));
        let mut lame = reply(ResponseCode::NoError, vec![text(NAME, &["abc234"], 60)]);
        lame.metadata.authoritative = false;
        assert_eq!(of_zone(&lame), Some(Said::NotAuthoritative));
        assert_eq!(
            read(&mut Walk::new(name(NAME), None), &lame),
            Some(Said::Values),
            "a resolver need not be"
        );
    }

    #[test]
    fn every_no_has_its_own_name() {
        for (message, expected, ttl) in [
            (no(ResponseCode::NoError, Vec::new(), "example.com"), Said::NoRecord, 60),
            (reply(ResponseCode::NoError, Vec::new()), Said::NoRecord, 0),
            (no(ResponseCode::NXDomain, Vec::new(), "com"), Said::NxDomain, 60),
            (no(ResponseCode::NXDomain, Vec::new(), "example.net"), Said::NxDomain, 0),
            (reply(ResponseCode::ServFail, Vec::new()), Said::ServFail, 0),
            (reply(ResponseCode::Refused, Vec::new()), Said::Code(ResponseCode::Refused), 0),
        ] {
            let mut walk = Walk::new(name(NAME), None);
            assert_eq!(read(&mut walk, &message), Some(expected));
            assert_eq!(walk.end(expected, Duration::ZERO).ttl, ttl, "{expected:?}");
        }
        for (failure, expected) in [(Failure::Timeout, Said::Timeout), (Failure::Garbled, Said::Garbled)] {
            assert_eq!(Walk::new(name(NAME), None).read(Err(failure)), Some(expected));
        }
    }

    #[test]
    fn an_answer_is_authenticated_when_all_of_it_is() {
        let mut signed = reply(ResponseCode::NoError, vec![cname(NAME, "a.example.net")]);
        signed.metadata.authentic_data = true;
        let mut end = reply(ResponseCode::NoError, vec![text("a.example.net", &["abc234"], 60)]);
        for authentic in [false, true] {
            end.metadata.authentic_data = authentic;
            let mut walk = Walk::new(name(NAME), None);
            assert_eq!(read(&mut walk, &signed), None);
            assert_eq!(read(&mut walk, &end), Some(Said::Values));
            assert_eq!(walk.end(Said::Values, Duration::ZERO).authenticated, authentic);
        }
    }
}
