//! Every service's side: the newest durable state, the log behind it, and the head.

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

/// The most change sets that one page of the log has.
const PAGE_ROWS_MAX: u32 = 4_096;
/// How often a load begins again because the log was trimmed while it was read.
const LOADS_MAX: u32 = 3;

/// For looking up a head or a page of the log.
const READING: Limits = Limits {
    name: "drover reader",
    statement: Duration::from_secs(30),
    lock: Duration::from_secs(10),
    idle_in_transaction: Duration::from_secs(10),
    patience: Duration::from_secs(40),
    // A plan that is kept from when a part of the log was empty reads all of it for a page.
    settings: &[("plan_cache_mode", "force_custom_plan")],
};

/// For reading everything, at the pace at which it can be taken in.
const LOADING: Limits = Limits {
    name: "drover load",
    statement: Duration::from_mins(10),
    idle_in_transaction: Duration::from_mins(1),
    patience: Duration::from_mins(15),
    ..READING
};

/// Reads the database, for any service. Clones are the same reader.
#[derive(Debug, Clone)]
pub struct Database {
    connections: Connections,
    loads: Connections,
}

impl Database {
    /// Waits, no longer than the settings say, until the database answers and has the schema that this program needs.
    ///
    /// # Errors
    /// [`Error::NotReady`], with what was wrong last.
    pub async fn connect(args: &Args) -> Result<Self, Error> {
        let server = Server::new(args)?;
        let attempt = || async {
            let mut connection = server.open(&READING).await?;
            schema::check(&mut connection).await
        };
        server.ready(attempt).await?;
        Ok(Self {
            connections: Connections::new(&server, READING),
            loads: Connections::new(&server, LOADING),
        })
    }

    /// The newest durable state, as far as `scope` goes: the object tables, and the log from there.
    ///
    /// # Errors
    /// If the database fails, or what it holds does not fit together.
    pub async fn load(&self, scope: Scope) -> Result<Loaded, Error> {
        let mut loads = 1;
        loop {
            let loaded = self
                .loads
                .run("load the state", move |connection| load::load(connection, scope).boxed())
                .await?;
            match loaded {
                Some(loaded) => {
                    self.saw(&loaded.head);
                    return Ok(loaded);
                }
                None if loads == LOADS_MAX => return Err(Error::TrimmedWhileLoading),
                None => loads += 1,
            }
        }
    }

    /// Change sets after `index`, about `bytes_max` bytes of them, and at least one if there is any.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn changes_after(&self, index: Index, bytes_max: usize) -> Result<Tail, Error> {
        let work = self.connections.run("read the log", move |connection| {
            log::after(connection, index, PAGE_ROWS_MAX, bytes_max).boxed()
        });
        let tail = work.await?;
        fail_point!("log.read");
        if let Tail::Page { head, .. } = &tail {
            self.saw(head);
        }
        Ok(tail)
    }

    /// The requests whose change sets are of `since` or later, as far as the log goes back, with index and time; the
    /// oldest first.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn requests_since(
        &self,
        since: Timestamp,
    ) -> Result<Vec<(RequestId, Index, Timestamp)>, Error> {
        let action = "read the log's requests";
        fail_point!("take-over.caught-up");
        self.connections.run(action, move |connection| log::requests_since(connection, since).boxed()).await
    }

    /// The head.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn head(&self) -> Result<Head, Error> {
        let head = self.connections.run("read the head", |connection| head::read(connection).boxed()).await?;
        self.saw(&head);
        Ok(head)
    }

    fn saw(&self, head: &Head) {
        self.connections.server().saw(head.history, head.index);
    }
}
