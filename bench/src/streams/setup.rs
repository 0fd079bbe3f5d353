//! A database with accounts, and servers on it.

use std::sync::Arc;

use portico_testkit::{Database, TestDatabase};

use crate::deliveries::setup::{self, Maker};
use crate::http::process::{Cluster, Process};

/// API tokens of an account: each has places for 32 streams, and the account for 128.
const TOKENS_EACH: usize = 5;

/// A database with accounts.
pub(crate) struct StreamSetup {
    pub(crate) database: TestDatabase,
    /// The processes of PostgreSQL.
    pub(crate) cluster: Option<Cluster>,
    accounts: Arc<Vec<Account>>,
}

struct Account {
    maker: Maker,
    tokens: Vec<String>,
}

/// A server, and the accounts that it finds.
pub(crate) struct Server {
    pub(crate) process: Process,
    accounts: Arc<Vec<Account>>,
}

impl StreamSetup {
    /// A new one, with so many accounts.
    pub(crate) async fn create(database: Database, accounts: usize) -> Self {
        let database = TestDatabase::create(database).await;
        let app = setup::open(&database).await;
        let mut made = Vec::new();
        for _ in 0..accounts {
            let maker = setup::new_maker(&app).await;
            let mut tokens = vec![maker.token.clone()];
            while tokens.len() < TOKENS_EACH {
                tokens.push(setup::new_token(&app, maker.account).await);
            }
            made.push(Account { maker, tokens });
        }
        let cluster = setup::cluster(&app.engine.db).await;
        app.engine.db.close().await;
        Self { database, cluster, accounts: Arc::new(made) }
    }

    /// Starts a server on it.
    pub(crate) fn serve(&self) -> Arc<Server> {
        Arc::new(Server { process: setup::serve(&self.database), accounts: self.accounts.clone() })
    }
}

impl Server {
    /// Something else that takes subscribers, and knows no accounts.
    pub(crate) fn without_accounts(process: Process) -> Arc<Self> {
        Arc::new(Self { process, accounts: Arc::default() })
    }

    /// The token of that client of the account: each of its tokens in turn. None where there are no accounts.
    pub(crate) fn token(&self, account: usize, client: usize) -> Option<&str> {
        self.accounts.get(account).map(|account| account.tokens[client % TOKENS_EACH].as_str())
    }

    /// Who makes the events of the account.
    pub(crate) fn maker(&self, account: usize) -> &Maker {
        &self.accounts[account].maker
    }
}
