//! [`Database`]: read access for every service to the newest durable state, the log and the head.

use std::time::Duration;

use fail::fail_point;
use futures::FutureExt;
use model::{Index, RequestId, Timestamp};
use state::Scope;
use wire::feed::Head;

use crate::args::Args;
use crate::error::Error;
use crate::head;
use crate::load::{self, Loaded};
use crate::log::{self, Tail};
use crate::schema;
use crate::server::{Connections, Limits, Server};

/// Maximum number of change sets in one page of the log.
const PAGE_ROWS_MAX: u32 = 4_096;
/// Maximum number of attempts of one load, which fail if the log is trimmed meanwhile.
const LOAD_ATTEMPTS_MAX: u32 = 3;

/// Limits for reading the head or a page of the log.
const READING: Limits = Limits {
    name: "drover reader",
    statement: Duration::from_secs(30),
    lock: Duration::from_secs(10),
    idle_in_transaction: Duration::from_secs(10),
    timeout: Duration::from_secs(40),
    durable: false,
    // A generic plan that was made when a partition of the log was empty reads the whole partition for one page.
    settings: &[("plan_cache_mode", "force_custom_plan")],
};

/// Limits for loading the whole state, at the speed at which the caller consumes rows.
const LOADING: Limits = Limits {
    name: "drover load",
    statement: Duration::from_mins(10),
    idle_in_transaction: Duration::from_mins(1),
    timeout: Duration::from_mins(15),
    ..READING
};

/// Reads the database. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Database {
    connections: Connections,
    load_connections: Connections,
}

impl Database {
    /// Waits until the database answers and has the schema that this program needs, at most for
    /// [`Args::database_wait_secs`].
    ///
    /// # Errors
    /// [`Error::NotReady`], with the last failure as its source.
    pub async fn connect(args: &Args) -> Result<Self, Error> {
        let server = Server::new(args)?;
        let attempt = || async {
            let mut connection = server.open(&READING).await?;
            schema::check(&mut connection).await
        };
        server.ready(attempt).await?;
        Ok(Self {
            connections: Connections::new(&server, READING),
            load_connections: Connections::new(&server, LOADING),
        })
    }

    /// Loads the newest durable state within `scope`: the object tables, and the log after them.
    ///
    /// # Errors
    /// If the database fails, or if its tables and log are inconsistent.
    pub async fn load(&self, scope: Scope) -> Result<Loaded, Error> {
        let mut attempts = 1;
        loop {
            let loaded = self
                .load_connections
                .run("load the state", move |connection| load::load(connection, scope).boxed())
                .await?;
            match loaded {
                Some(loaded) => {
                    self.observe(&loaded.head);
                    return Ok(loaded);
                }
                None if attempts == LOAD_ATTEMPTS_MAX => return Err(Error::TrimmedWhileLoading),
                None => attempts += 1,
            }
        }
    }

    /// Reads change sets after `index`: about `bytes_max` bytes, and at least one change set if there is any.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn changes_after(&self, index: Index, bytes_max: usize) -> Result<Tail, Error> {
        let work = self.connections.run("read the log", move |connection| {
            log::read_after(connection, index, PAGE_ROWS_MAX, bytes_max).boxed()
        });
        let tail = work.await?;
        fail_point!("log.read");
        if let Tail::Page { head, .. } = &tail {
            self.observe(head);
        }
        Ok(tail)
    }

    /// Reads the newest `max` requests that were committed at or after `since`, as far as the log goes back. Each comes with
    /// its index and time; the oldest comes first.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn requests_since(
        &self,
        since: Timestamp,
        max: usize,
    ) -> Result<Vec<(RequestId, Index, Timestamp)>, Error> {
        let action = "read the log's requests";
        fail_point!("take-over.caught-up");
        let work = self
            .connections
            .run(action, move |connection| log::requests_since(connection, since, max).boxed());
        work.await
    }

    /// Reads the head.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn head(&self) -> Result<Head, Error> {
        let head = self.connections.run("read the head", |connection| head::read(connection).boxed()).await?;
        self.observe(&head);
        Ok(head)
    }

    /// Host, port and name of the database, for messages.
    pub fn address(&self) -> String {
        self.connections.server().address()
    }

    fn observe(&self, head: &Head) {
        self.connections.server().observe(head.history, head.index);
    }
}
