//! What admission, limits and metering cost in terms that people know: a call that Portico admits, meters and answers, beside
//! one that a proxy which does none of this hands on to a bare server.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::load::{self, Requests};
use super::process::{Process, free_address, installed};
use super::{ROUTE, bare_server, in_turns, portico, request, stock};
use crate::report::Report;

/// A proxy, its name, and the file and arguments that make it hand everything on from one address to another.
pub(super) struct Peer {
    pub(super) name: &'static str,
    arguments: &'static [&'static str],
    config: fn(&Path, SocketAddr, SocketAddr) -> String,
}

/// Each in one process, with connections kept to the server behind it.
pub(super) const PEERS: [Peer; 2] = [
    Peer { name: "nginx", arguments: &["-c"], config: nginx },
    Peer { name: "haproxy", arguments: &["-db", "-f"], config: haproxy },
];

/// It logs each call into a file, as Portico does.
fn nginx(folder: &Path, listen: SocketAddr, server: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
         access_log {folder}/nginx.access.log; client_body_temp_path {folder}; proxy_temp_path {folder};\n\
         fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};\n\
         keepalive_requests 1000000000;\n\
         upstream bare {{ server {server}; keepalive 128; keepalive_requests 1000000000; }}\n\
         server {{ listen {listen}; location / {{ proxy_pass http://bare; proxy_http_version 1.1; \
         proxy_set_header Connection \"\"; }} }}\n\
         }}\n"
    )
}

/// It has nowhere to log to but another process, so it logs nothing.
fn haproxy(_: &Path, listen: SocketAddr, server: SocketAddr) -> String {
    format!(
        "global\n    maxconn 1024\n\
         defaults\n    mode http\n    timeout connect 5s\n    timeout client 30s\n    timeout server 30s\n\
         http-reuse always\n\
         frontend calls\n    bind {listen}\n    default_backend bare\n\
         backend bare\n    server bare {server}\n"
    )
}

impl Peer {
    /// Starts it in front of `server`, if it is installed.
    pub(super) fn start(&self, folder: &Path, server: SocketAddr) -> Option<Process> {
        let program = installed(self.name)?;
        let (file, address) = (folder.join(format!("{}.conf", self.name)), free_address());
        std::fs::write(&file, (self.config)(folder, address, server)).unwrap();
        let mut command = Command::new(program);
        command.args(self.arguments).arg(file);
        Some(Process::start_at(command, &folder.join(format!("{}.log", self.name)), address))
    }
}

pub(crate) async fn measure(report: &mut Report) {
    let folder = tempfile::tempdir().unwrap();
    let tokens = stock::fill(folder.path(), 1, 1).await;
    let one: Requests = Arc::new(vec![request(&tokens[0], ROUTE)]);
    let ours = portico(folder.path());
    let answer = load::fetch(ours.address, &one[0]).await;
    let bare = bare_server(folder.path(), &answer);
    for peer in PEERS {
        let what = |figure: &str| format!("GET /v1/me, against {} before a bare server: {figure}", peer.name);
        let Some(proxy) = peer.start(folder.path(), bare.address) else {
            report.words(&what("calls"), "it is not installed");
            continue;
        };
        let said = load::fetch(proxy.address, &one[0]).await;
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
        let (of_ours, of_peer) = in_turns((&ours, &one), (&proxy, &one)).await;
        report.ratio(&what("calls"), of_ours.round.rate, of_peer.round.rate, "/s", "no bar");
        let cpu = "processor time for each, without the bare server's";
        report.ratio(&what(cpu), of_ours.cpu_ns, of_peer.cpu_ns, "ns", "no bar");
        for hundredth in [50, 99] {
            let us = [&of_ours, &of_peer].map(|measured| measured.round.percentile_us(hundredth));
            report.ratio(&what(&format!("p{hundredth}")), us[0], us[1], "µs", "no bar");
        }
    }
}
