//! `portico services reload`: a socket in the data folder, by which a server that runs is told to read its services anew.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::config::Config;

/// How long a server may take to read everything anew.
const TIME_MAX: Duration = Duration::from_mins(2);
/// The answer of a server that has read everything anew; anything else says what is wrong.
const DONE: &str = "ok\n";

/// Where a server hears that its services are to be read anew. The file goes with it.
pub struct ReloadSocket {
    path: PathBuf,
    listener: UnixListener,
}

fn path(config: &Config) -> PathBuf {
    config.data_dir.join("reload.sock")
}

impl ReloadSocket {
    /// Listens in the data folder, for its owner alone.
    pub fn bind(config: &Config) -> io::Result<Self> {
        let path = path(config);
        // One that is left was a dead server's: two do not run on one folder.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(Self { path, listener })
    }

    /// Waits until somebody asks; they are answered with what comes of it.
    pub async fn next(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }

    /// Tells whoever asked what came of it.
    pub async fn answer(mut asking: UnixStream, result: &Result<(), Vec<String>>) {
        let text = match result {
            Ok(()) => DONE.to_owned(),
            Err(findings) => findings.join("\n") + "\n",
        };
        // Whoever has gone can look at the log.
        let _ = asking.write_all(text.as_bytes()).await;
    }
}

impl Drop for ReloadSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Asks the server that runs on the data folder to read its services anew; the error says why it did not.
pub async fn reload_by_socket(config: &Config) -> Result<(), String> {
    let path = path(config);
    let asking = ask(&path);
    let answered = tokio::time::timeout(TIME_MAX, asking).await;
    let text = answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let text = text.map_err(|error| format!("no server answers at {}: {error}", path.display()))?;
    if text == DONE { Ok(()) } else { Err(text.trim_end().to_owned()) }
}

async fn ask(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    UnixStream::connect(path).await?.read_to_string(&mut text).await?;
    Ok(text)
}
