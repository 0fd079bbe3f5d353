//! `portico doctor`: would it run here, and if not, why?

use std::sync::Arc;

use portico_blobs::{BlobReport, Blobs};
use portico_dns::{Answer, Outcome};
use portico_engine::clock::SystemClock;
use portico_gateway::Certificate;
use portico_kernel::{Clock, SystemEntropy};
use portico_store::{Db, Keyring};
use tokio::net::TcpListener;

use crate::config::Config;
use crate::make_folder;
use crate::tls_settings::host;

/// The result of one check.
pub struct Finding {
    /// What was checked.
    pub what: String,
    /// What is wrong; `None` when nothing is.
    pub fault: Option<String>,
    /// Does it run all the same?
    pub is_warning: bool,
}

impl Finding {
    /// Keeps this from running.
    pub fn is_fatal(&self) -> bool {
        self.fault.is_some() && !self.is_warning
    }
}

fn finding(what: impl Into<String>, result: Result<(), impl ToString>) -> Finding {
    Finding { what: what.into(), fault: result.err().map(|error| error.to_string()), is_warning: false }
}

/// Checks the folder, the database, the keyring, the blob store, the resolvers and the listeners. It changes nothing that a start would not.
pub async fn examine(config: &Config) -> Vec<Finding> {
    let folder = make_folder(&config.data_dir);
    let mut findings = vec![finding(format!("data folder {}", config.data_dir.display()), folder)];
    match Db::open(&config.database_url).await {
        Err(error) => findings.push(finding("database", Err(error))),
        Ok(db) => {
            findings.push(finding("database", Ok::<_, String>(())));
            findings.push(finding("migrations", db.migrate(SystemClock.now()).await.map(drop)));
            let keyring = Keyring::open_for(&db, &config.keyring_file, &SystemEntropy).await;
            if let Ok(keyring) = &keyring {
                findings.push(blobs(config, &db, keyring.clone()).await);
            }
            findings.push(finding(format!("keyring {}", config.keyring_file.display()), keyring.map(drop)));
            db.close().await;
        }
    }
    let roots = &config.environment.egress_roots;
    if roots.count() > 0 {
        // They were read with the configuration, which refuses what cannot be used.
        let what = format!("root certificates of {roots} ({})", roots.count());
        findings.push(finding(what, Ok::<_, String>(())));
    }
    findings.extend(resolvers(config).await);
    findings.extend(certificates(config));
    let Config { listen_api, listen_auth, listen_console, listen_mqtt, listen_mqtts, listen_metrics, .. } =
        config;
    let listeners = [listen_api, listen_auth, listen_console, listen_mqtt, listen_mqtts, listen_metrics];
    for address in listeners.into_iter().flatten() {
        findings.push(finding(format!("listen on {address}"), TcpListener::bind(address).await.map(drop)));
    }
    findings
}

/// So many resolvers must answer for one that lies, either way, to decide nothing.
const RESOLVERS_LEAST: usize = 3;

/// Asks each resolver for what all of them know. Too few that answer keep nothing from running but proofs of domains.
async fn resolvers(config: &Config) -> Vec<Finding> {
    let answers = config.environment.resolvers().roots().await;
    let answering = answers.iter().filter(|answer| answer.outcome == Outcome::Found).count();
    let warning = |what: String, fault: Option<String>| Finding { what, fault, is_warning: true };
    let one = |answer: Answer| {
        let fault = (answer.outcome != Outcome::Found).then_some(answer.message);
        let took = if fault.is_some() { String::new() } else { format!(" ({} ms)", answer.latency_ms) };
        warning(format!("resolver {}{took}", answer.server), fault)
    };
    let mut findings: Vec<_> = answers.into_iter().map(one).collect();
    if answering < RESOLVERS_LEAST {
        let fault = format!(
            "{answering} of them answer; with fewer than {RESOLVERS_LEAST}, one that lies decides what is proven"
        );
        findings.push(warning("resolvers for domains".to_owned(), Some(fault)));
    }
    findings
}

/// Reads the certificates as a start would, and holds them against the addresses that clients are told.
fn certificates(config: &Config) -> impl Iterator<Item = Finding> {
    let Config { tls, environment, .. } = config;
    let listeners = [
        ("the API", &tls.api, &config.listen_api, &environment.base_url),
        ("the identity provider", &tls.auth, &config.listen_auth, &environment.auth_url),
        ("the console", &tls.console, &config.listen_console, &environment.console_url),
        ("MQTT", &tls.mqtt, &config.listen_mqtts, &environment.base_url),
    ];
    listeners.into_iter().filter_map(|(listener, files, listen, address)| {
        let files = files.as_ref().filter(|_| listen.is_some())?;
        Some(match Certificate::read(&files.certificate, &files.key) {
            Err(error) => finding(format!("certificate of {listener}"), Err(error)),
            Ok(certificate) => {
                let fault = certificate.fault(&host(address), SystemClock.now());
                let fault = fault.or_else(|| {
                    let is_plain = listener != "MQTT" && !address.starts_with("https://");
                    is_plain.then(|| format!("clients are told {address}"))
                });
                Finding {
                    fault,
                    ..finding(format!("certificate of {listener} {certificate}"), Ok::<_, String>(()))
                }
            }
        })
    })
}

/// Writes, reads and deletes an object, and counts what is there.
async fn blobs(config: &Config, db: &Db, keyring: Keyring) -> Finding {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let report = async {
        let store = config.environment.blobs.store(&config.environment.egress_roots, &clock)?;
        Blobs::new(store, keyring, clock.clone(), Arc::new(SystemEntropy)).check(db).await
    };
    match report.await {
        Ok(BlobReport { blobs, bytes, orphans, missing: 0 }) => {
            let what = format!("blob store ({blobs} blobs, {bytes} bytes, {orphans} objects to sweep)");
            finding(what, Ok::<_, String>(()))
        }
        Ok(report) => {
            finding("blob store", Err(format!("the objects of {} blobs are missing", report.missing)))
        }
        Err(error) => finding("blob store", Err(error)),
    }
}
