//! One connection to PostgreSQL.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::TryStreamExt as _;
use futures_util::future::join_all;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Column, RowStream, Statement};

use super::tls::Tls;
use crate::placeholders::check;
use crate::row::Cell;
use crate::{Arg, Row, StoreError};

/// Statements that a connection keeps prepared. With more it forgets all and begins anew; the server's memory of them is
/// the reason for a limit.
const PREPARED_MAX: usize = 512;
/// How long we try to tell the server that nobody waits for a statement any more.
const CANCEL_MAX: Duration = Duration::from_secs(1);

/// What is sent to the server.
pub(super) enum Command {
    /// Statements without arguments, such as the beginning or the end of a transaction.
    Control(&'static str),
    Statement(&'static str, Vec<Arg>),
}

/// What a command touched and returned.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) touched: u64,
    pub(crate) rows: Vec<Row>,
}

/// A connection. Its socket is served by a task of its own, which ends with it.
pub(super) struct PgConnection {
    client: Client,
    driver: AbortHandle,
    tls: Tls,
    /// `None` behind a pooler, where the next transaction may run on another connection of the server.
    prepared: Option<HashMap<&'static str, Prepared>>,
}

#[derive(Clone)]
struct Prepared {
    statement: Statement,
    columns: Arc<[Box<str>]>,
}

impl PgConnection {
    pub(super) fn new(client: Client, driver: AbortHandle, tls: Tls, keeps_prepared: bool) -> Self {
        Self { client, driver, tls, prepared: keeps_prepared.then(HashMap::new) }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Sends all commands at once, and waits for all answers. Once one fails the server runs no other of the
    /// transaction; the first failure is the one that counts.
    pub(super) async fn run(&mut self, commands: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        // Not one by one: a statement that is prepared only when it is sent would run after those behind it.
        if let Some(prepared) = &mut self.prepared
            && prepared.len() + commands.len() > PREPARED_MAX
        {
            prepared.clear();
        }
        for command in &commands {
            if let Command::Statement(sql, args) = command {
                self.prepare(sql, args).await?;
            }
        }
        let answers = commands.iter().map(|command| self.send(command));
        // Each is sent when it is first polled, which is done in their order.
        let answers: Vec<_> = join_all(answers).await;
        answers.into_iter().collect()
    }

    async fn prepare(&mut self, sql: &'static str, args: &[Arg]) -> Result<(), StoreError> {
        if self.prepared.as_ref().is_none_or(|prepared| prepared.contains_key(sql)) {
            return Ok(());
        }
        let parsed = self.parse(sql, args).await?;
        if let Some(prepared) = &mut self.prepared {
            prepared.insert(sql, parsed);
        }
        Ok(())
    }

    async fn send(&self, command: &Command) -> Result<Answer, StoreError> {
        let (sql, args) = match command {
            Command::Control(statement) => {
                self.client.batch_execute(statement).await?;
                return Ok(Answer::default());
            }
            Command::Statement(sql, args) => (*sql, args),
        };
        let Some(prepared) = &self.prepared else {
            let args = args.iter().map(|arg| (arg, type_of(arg)));
            return answer(self.client.query_typed_raw(sql, args).await?, None).await;
        };
        let prepared = prepared.get(sql).cloned();
        let prepared =
            prepared.ok_or_else(|| StoreError::fault("a statement is sent before it is prepared"))?;
        answer(self.client.query_raw(&prepared.statement, args).await?, Some(prepared.columns)).await
    }

    async fn parse(&self, sql: &str, args: &[Arg]) -> Result<Prepared, StoreError> {
        check(sql, args)?;
        let types: Vec<_> = args.iter().map(type_of).collect();
        let statement = self.client.prepare_typed(sql, &types).await?;
        let columns = names(statement.columns());
        Ok(Prepared { statement, columns })
    }

    /// Sends a rollback that nobody waits for: what is sent later runs after it.
    pub(super) fn send_rollback(&self) {
        let mut rollback = std::pin::pin!(self.client.batch_execute("rollback"));
        // It is sent when it is first polled. If that fails the connection is closed, which rolls back too.
        let _ = futures_util::FutureExt::now_or_never(&mut rollback);
    }

    /// Closes it in the middle of a statement, and has the server stop that.
    pub(super) fn cut_off(self) {
        self.driver.abort();
        let (token, tls) = (self.client.cancel_token(), self.tls.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // The server also looks each second whether its client is there, so a lost word costs no more than that.
            runtime.spawn(async move { timeout(CANCEL_MAX, token.cancel_query(tls)).await });
        }
    }
}

/// Takes the answer to a statement. Where the names of its columns are not known yet, the first row has them.
async fn answer(rows: RowStream, columns: Option<Arc<[Box<str>]>>) -> Result<Answer, StoreError> {
    let mut stream = std::pin::pin!(rows);
    let (mut rows, mut columns) = (Vec::new(), columns);
    while let Some(row) = stream.try_next().await? {
        let cells = row.columns().iter().enumerate().map(|(at, column)| cell(&row, at, column.type_()));
        let columns = columns.get_or_insert_with(|| names(row.columns()));
        rows.push(Row::new(columns, cells.collect::<Result<_, _>>()?));
    }
    Ok(Answer { touched: stream.rows_affected().unwrap_or(0), rows })
}

fn names(columns: &[Column]) -> Arc<[Box<str>]> {
    columns.iter().map(|column| Box::from(column.name())).collect()
}

fn cell(row: &tokio_postgres::Row, at: usize, column: &Type) -> Result<Cell, StoreError> {
    Ok(match *column {
        Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map(Cell::Int),
        Type::INT4 => row.try_get::<_, Option<i32>>(at)?.map(|int| Cell::Int(int.into())),
        Type::BOOL => row.try_get::<_, Option<bool>>(at)?.map(Cell::Bool),
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at)?.map(Cell::Bytes),
        Type::VOID => None,
        Type::TEXT | Type::VARCHAR | Type::NAME => row.try_get::<_, Option<String>>(at)?.map(Cell::Text),
        ref other => return Err(StoreError::fault(format!("a column of the type {other} is not read"))),
    }
    .unwrap_or(Cell::Null))
}

fn type_of(arg: &Arg) -> Type {
    match arg {
        Arg::Text(_) => Type::TEXT,
        Arg::Int(_) => Type::INT8,
        Arg::Bool(_) => Type::BOOL,
        Arg::Bytes(_) => Type::BYTEA,
    }
}

impl ToSql for Arg {
    fn to_sql(
        &self,
        column: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Text(text) => text.to_sql(column, out),
            Self::Int(int) => int.to_sql(column, out),
            Self::Bool(value) => value.to_sql(column, out),
            Self::Bytes(bytes) => bytes.to_sql(column, out),
        }
    }

    fn accepts(column: &Type) -> bool {
        [Type::TEXT, Type::INT8, Type::BOOL, Type::BYTEA].contains(column)
    }

    to_sql_checked!();
}

/// Classes of codes of a server that cannot be used now: connection, resources, operator intervention, system, rolled back
/// by it.
const UNUSABLE: [&str; 5] = ["08", "53", "57", "58", "40"];

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        let cause: Box<dyn std::error::Error + Send + Sync> = said(&error).into();
        let cause = Arc::from(cause);
        match error.code() {
            // No statement of ours divides, but for the one that must touch a row.
            Some(code) if *code == SqlState::DIVISION_BY_ZERO => Self::NoRow,
            Some(code) if *code == SqlState::UNIQUE_VIOLATION => Self::Conflict(cause),
            Some(code)
                if UNUSABLE.iter().any(|class| code.code().starts_with(class))
                    || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT =>
            {
                Self::Unavailable(cause)
            }
            None if error.is_closed() || is_io(&error) => Self::Unavailable(cause),
            _ => Self::Fault(cause),
        }
    }
}

/// What the error says, with what the server said. Its details are left out: they hold values of rows.
fn said(error: &tokio_postgres::Error) -> String {
    if let Some(server) = error.as_db_error() {
        return format!("{} ({})", server.message(), server.code().code());
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
}
