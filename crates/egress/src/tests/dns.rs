//! A name server that says what a test tells it to.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{CNAME, SOA};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;

/// What it says to one question.
#[derive(Clone, Copy)]
pub(crate) enum Says {
    /// These, if they are of the family that was asked for.
    Addresses(&'static [&'static str]),
    /// Another name.
    Alias(&'static str),
    /// There is no such name.
    Unknown,
    /// Nothing at all.
    Silence,
}

/// A name server on this machine. Its answers may be kept for an hour, for all it cares.
pub(crate) struct Dns {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, RecordType)>>>,
}

impl Dns {
    /// `says` gets the name, the family, and how often that was asked before.
    pub(crate) async fn start(says: impl Fn(&str, RecordType, usize) -> Says + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        tokio::spawn(async move {
            let mut bytes = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
                let question = Message::from_vec(&bytes[..length]).unwrap();
                let query = &question.queries[0];
                let about = (query.name().to_string(), query.query_type());
                let before = noted.lock().unwrap().iter().filter(|other| **other == about).count();
                let said = says(&about.0, about.1, before);
                noted.lock().unwrap().push(about);
                if let Some(answer) = answer(&question, said) {
                    socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
                }
            }
        });
        Self { address, asked }
    }

    /// Says the same of every name.
    pub(crate) async fn saying(said: Says) -> Self {
        Self::start(move |_, _, _| said).await
    }

    /// The names that it was asked for, by address of the old family.
    pub(crate) fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(_, family)| *family == RecordType::A).map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn questions(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn answer(question: &Message, said: Says) -> Option<Message> {
    let query = &question.queries[0];
    let mut answer = Message::response(question.metadata.id, OpCode::Query);
    answer.metadata.recursion_desired = true;
    answer.metadata.recursion_available = true;
    answer.add_query(query.clone());
    let record = |data| Record::from_rdata(query.name().clone(), 3600, data);
    match said {
        Says::Addresses(addresses) => {
            let addresses = addresses.iter().map(|address| RData::from(address.parse::<IpAddr>().unwrap()));
            answer.add_answers(addresses.filter(|data| data.record_type() == query.query_type()).map(record));
        }
        Says::Alias(name) => {
            answer.add_answer(record(RData::CNAME(CNAME(Name::from_ascii(name).unwrap()))));
        }
        Says::Unknown => answer.metadata.response_code = ResponseCode::NXDomain,
        Says::Silence => return None,
    }
    if answer.answers.is_empty() {
        // Says for how long a "no" may be kept.
        let root = Name::root();
        let start = SOA::new(root.clone(), root.clone(), 1, 3600, 3600, 3600, 3600);
        answer.add_authority(Record::from_rdata(root, 3600, RData::SOA(start)));
    }
    Some(answer)
}
