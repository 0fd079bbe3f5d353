//! DNS on this machine: zones that a test changes while they are served, by their own servers and by resolvers.
//!
//! Servers of zones stand at addresses of 127.0.0.0/8, all at one port, and resolvers at ports of their own. What the zones hold is
//! the [`World`]. Each server follows it, until a test lets it fail, or gives it a world of its own: one of before, as a resolver
//! has that has not heard of a change, or one that is a lie.

mod server;
mod world;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, UdpSocket};

use server::Role;

pub use server::{DnsFault, DnsQuestion, NameServer};
pub use world::World;

/// How many servers of zones there can be.
const HOSTS_MAX: u8 = 6;
/// The last part of the address of the first of them.
const FIRST_HOST: u8 = 11;

/// DNS on this machine.
pub struct TestDns {
    world: Arc<Mutex<World>>,
    resolvers: Vec<NameServer>,
    /// Those of zones, whether they have a name yet or not.
    hosts: Vec<NameServer>,
    /// Which of them has which name.
    names: Mutex<BTreeMap<String, usize>>,
    port: u16,
}

impl TestDns {
    /// Starts so many resolvers, in a world without any zone.
    pub async fn start(resolvers: usize) -> Self {
        let world = Arc::new(Mutex::new(World::default()));
        let mut ours = Vec::new();
        for _ in 0..resolvers {
            let sockets = loop {
                // A port that is free for UDP may be taken for TCP.
                if let Ok(sockets) = bind(Ipv4Addr::LOCALHOST, 0).await {
                    break sockets;
                }
            };
            ours.push(NameServer::start(sockets, world.clone(), Role::Resolver));
        }
        let (sockets, port) = host_sockets().await;
        let hosts = sockets
            .into_iter()
            .map(|sockets| NameServer::start(sockets, world.clone(), Role::Host(Mutex::default())))
            .collect();
        Self { world, resolvers: ours, hosts, names: Mutex::default(), port }
    }

    /// Where the resolvers are.
    pub fn resolvers(&self) -> Vec<SocketAddr> {
        self.resolvers.iter().map(NameServer::address).collect()
    }

    /// The port of the servers of zones.
    pub const fn authoritative_port(&self) -> u16 {
        self.port
    }

    /// One of the resolvers.
    pub fn resolver(&self, at: usize) -> &NameServer {
        &self.resolvers[at]
    }

    /// The server of zones of this name. It is there from the first time that it is named.
    pub fn host(&self, name: &str) -> &NameServer {
        let mut names = self.names.lock().unwrap();
        let next = names.len();
        let at = *names.entry(name.to_owned()).or_insert(next);
        let host = self.hosts.get(at).expect("there are only so many servers of zones");
        host.set_name(name);
        drop(names);
        host
    }

    /// Changes what all servers serve, but for those with a world of their own.
    pub fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.world.lock().unwrap());
    }

    /// Adds an empty zone, served by these hosts.
    pub fn serve(&self, apex: &str, hosts: &[&str]) {
        for host in hosts {
            let address = self.host(host).address().ip();
            self.change(|world| world.set_addresses(host, &[address]));
        }
        self.change(|world| world.set_zone(apex, hosts));
    }

    /// Lets these be all TXT records at this name; without any there are none.
    pub fn set_txt(&self, name: &str, values: &[&str]) {
        self.change(|world| world.set_txt(name, values));
    }

    /// Says whether servers remember what they are asked. They do, until they are told otherwise.
    pub fn remember(&self, remembers: bool) {
        for server in self.resolvers.iter().chain(&self.hosts) {
            server.remember(remembers);
        }
    }
}

/// The sockets of one server, both at one port.
type Sockets = (UdpSocket, TcpListener);

async fn bind(address: impl Into<IpAddr>, port: u16) -> std::io::Result<Sockets> {
    let udp = UdpSocket::bind((address.into(), port)).await?;
    let tcp = TcpListener::bind(udp.local_addr()?).await?;
    Ok((udp, tcp))
}

/// One port at all addresses. The system chooses it, and again when somebody else has it at one of them.
async fn host_sockets() -> (Vec<Sockets>, u16) {
    for _ in 0..100 {
        let mut sockets = Vec::new();
        let mut port = 0;
        for number in 0..HOSTS_MAX {
            let Ok(pair) = bind(Ipv4Addr::new(127, 0, 0, FIRST_HOST + number), port).await else { break };
            port = pair.0.local_addr().unwrap().port();
            sockets.push(pair);
        }
        if sockets.len() == usize::from(HOSTS_MAX) {
            return (sockets, port);
        }
    }
    panic!("no port is free at {HOSTS_MAX} addresses");
}
