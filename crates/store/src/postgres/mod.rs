//! PostgreSQL: a pool of connections, on each of which statements share round trips.

mod address;
mod connection;
mod listener;
mod pool;
mod session;
mod tls;

pub(crate) use listener::PgListener;
pub(crate) use pool::PgPool;
pub(crate) use session::PgSession;
