//! Templates of tasks: the language of Go with the functions of consul-template. Pure: whatever a template asks
//! for comes from the caller ([`Data`]), and each rendering is bounded ([`limits`]).

mod arguments;
mod functions;
pub mod limits;
mod render;
mod steps;
mod value;

use std::collections::BTreeSet;

pub use self::functions::is_known;
pub use self::limits::Limit;
pub use self::render::render;

/// A template.
#[derive(Debug, Clone, Copy)]
pub struct Template<'a> {
    /// Its name in error messages.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
    /// The delimiter that begins an action; empty is `{{`.
    pub left: &'a str,
    /// The delimiter that ends an action; empty is `}}`.
    pub right: &'a str,
    /// Whether a missing key of a map is an error.
    pub error_on_missing_key: bool,
    /// The functions that the operator denies.
    pub denied: &'a [String],
}

/// The result of a rendering.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The text. It is of no use while data is missing.
    pub text: String,
    /// The data that is not known yet, as users see it: `nomad.service(web)`.
    pub missing: BTreeSet<String>,
}

/// Why a template cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is not valid. A retry does not help.
    #[error("{0}")]
    Invalid(String),
    /// It failed with the data of the moment.
    #[error("{0}")]
    Failed(String),
    /// It exceeds a limit.
    #[error("the template {0}")]
    Limit(Limit),
}

/// The answer to a question of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// The data.
    Known(T),
    /// The data is not known yet. The template is rendered again when it is.
    Unknown,
    /// There is no such data here, with the reason.
    Refused(String),
}

/// An instance of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// Id of the registration.
    pub id: String,
    /// Name of the service.
    pub name: String,
    /// Id of the node.
    pub node: String,
    /// Address of the instance.
    pub address: String,
    /// Port of the instance.
    pub port: i64,
    /// Datacenter of the node.
    pub datacenter: String,
    /// Tags of the instance.
    pub tags: Vec<String>,
    /// Id of the job.
    pub job_id: String,
    /// Id of the allocation.
    pub alloc_id: String,
}

/// The name of a service, with the tags of all its instances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceName {
    /// The name.
    pub name: String,
    /// The tags.
    pub tags: Vec<String>,
}

/// What templates ask for.
pub trait Data: Send + Sync {
    /// A variable of the task's environment.
    fn env(&self, name: &str) -> Option<String>;

    /// The instances of a service in the task's namespace.
    fn service(&self, name: &str) -> Answer<Vec<Service>>;

    /// The services of the task's namespace.
    fn services(&self) -> Answer<Vec<ServiceName>>;

    /// The text of a file, by a path relative to the task's directory.
    ///
    /// # Errors
    /// If the file cannot be read, or the template may not read it.
    fn file(&self, path: &str) -> Result<String, String>;

    /// The time, in seconds since 1970.
    fn now(&self) -> i64;

    /// Whether the rendering has taken too long.
    fn is_out_of_time(&self) -> bool;
}
