//! A PostgreSQL that a test may stop.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use portico_store::{Db, args};

use crate::root;

/// A PostgreSQL of the test's own: what it does to it must not meet the others.
pub(crate) struct Cluster {
    child: Child,
    pub(crate) url: String,
    ctl: String,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let mut child = Command::new(root().join("scripts/with-postgres"))
            .args(["sh", "-c", "echo $PORTICO_TEST_POSTGRES; echo $PORTICO_TEST_POSTGRES_CTL; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let mut line = || lines.next().unwrap().unwrap();
        let (url, ctl) = (line(), line());
        let db = Db::open(&url).await.unwrap();
        let mut tx = db.write().await.unwrap();
        // So that what was committed stays when the plug is pulled.
        tx.execute("alter role portico set synchronous_commit = on", args![]).await.unwrap();
        // A server that stands still in the middle of a transaction would hold its rows for ever.
        let most = "alter role portico set idle_in_transaction_session_timeout = '5s'";
        tx.execute(most, args![]).await.unwrap();
        tx.commit().await.unwrap();
        db.close().await;
        Self { child, url, ctl }
    }

    pub(crate) fn restart(&self, mode: &str) {
        assert!(Command::new(&self.ctl).args(["restart", mode]).status().unwrap().success(), "{mode}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It ends with its standard input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
