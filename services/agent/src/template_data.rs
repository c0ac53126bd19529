//! Where templates get the cluster's data from. Each query is asked once for the whole node, however many templates have
//! it.

use std::sync::Arc;

use go_template::{Service, ServiceName};
use model::Text;
use tokio::sync::watch;

/// A question about the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Query {
    /// The instances of a service.
    Service {
        /// The namespace.
        namespace: Text,
        /// The name of the service.
        name: String,
    },
    /// The services of a namespace.
    Services {
        /// The namespace.
        namespace: Text,
    },
}

/// The answer to a query at the moment.
#[derive(Debug, Clone, Default)]
pub(crate) enum Found {
    /// It is not known yet.
    #[default]
    Unknown,
    /// There is no such data here, with the reason.
    Refused(String),
    /// The instances of the service.
    Service(Arc<Vec<Service>>),
    /// The services of the namespace.
    Services(Arc<Vec<ServiceName>>),
}

/// Answers queries, and tells of changes.
pub(crate) trait TemplateData: Send + Sync {
    /// Follows the answer to a query, until the receiver is dropped.
    fn follow(&self, query: &Query) -> watch::Receiver<Found>;
}

/// The answer of a node that cannot ask for services.
pub(crate) struct NoServices;

impl TemplateData for NoServices {
    fn follow(&self, _: &Query) -> watch::Receiver<Found> {
        let reason = "services cannot be listed on this node yet".to_owned();
        watch::channel(Found::Refused(reason)).1
    }
}
