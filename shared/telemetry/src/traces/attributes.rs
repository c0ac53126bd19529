//! Names of attributes: those of OpenTelemetry's semantic conventions (1.37 and later) that Drover's spans use, and
//! Drover's own, which begin with `drover.`.

/// Class of an error; low cardinality.
pub const ERROR_TYPE: &str = "error.type";

/// Method of an HTTP request.
pub const HTTP_REQUEST_METHOD: &str = "http.request.method";
/// Route of an HTTP request, with placeholders for the variable parts.
pub const HTTP_ROUTE: &str = "http.route";
/// Status of an HTTP response.
pub const HTTP_RESPONSE_STATUS_CODE: &str = "http.response.status_code";
/// Path of a URL.
pub const URL_PATH: &str = "url.path";
/// Scheme of a URL.
pub const URL_SCHEME: &str = "url.scheme";
/// Name or address that a client uses for a server.
pub const SERVER_ADDRESS: &str = "server.address";
/// Port that a client uses for a server.
pub const SERVER_PORT: &str = "server.port";
/// Name and version of an HTTP client, as sent by the client.
pub const USER_AGENT_ORIGINAL: &str = "user_agent.original";

/// Messaging system: `nats`.
pub const MESSAGING_SYSTEM: &str = "messaging.system";
/// Operation on a message: send or process.
pub const MESSAGING_OPERATION_NAME: &str = "messaging.operation.name";
/// Class of [`MESSAGING_OPERATION_NAME`].
pub const MESSAGING_OPERATION_TYPE: &str = "messaging.operation.type";
/// Subject of a message.
pub const MESSAGING_DESTINATION_NAME: &str = "messaging.destination.name";
/// Subject of a message, with placeholders for the variable parts.
pub const MESSAGING_DESTINATION_TEMPLATE: &str = "messaging.destination.template";
/// Id of a request, which its retries and its response share.
pub const MESSAGING_MESSAGE_CONVERSATION_ID: &str = "messaging.message.conversation_id";
/// Size of a message's body, in bytes.
pub const MESSAGING_MESSAGE_BODY_SIZE: &str = "messaging.message.body.size";
/// Number of messages in a batch.
pub const MESSAGING_BATCH_MESSAGE_COUNT: &str = "messaging.batch.message_count";

/// Database system: `postgresql`.
pub const DB_SYSTEM_NAME: &str = "db.system.name";
/// Name of a database operation.
pub const DB_OPERATION_NAME: &str = "db.operation.name";
/// Table of a database operation.
pub const DB_COLLECTION_NAME: &str = "db.collection.name";
/// Number of operations in a batch; only for batches of at least two.
pub const DB_OPERATION_BATCH_SIZE: &str = "db.operation.batch.size";

/// Kind of a command to the plan applier.
pub const COMMAND: &str = "drover.command";
/// Index of the change set that a command made, or of the last change set of a commit.
pub const INDEX: &str = "drover.index";
/// Id of an evaluation.
pub const EVAL_ID: &str = "drover.eval.id";
/// Trigger of an evaluation.
pub const EVAL_TRIGGERED_BY: &str = "drover.eval.triggered_by";
/// Id of a job.
pub const JOB_ID: &str = "drover.job.id";
/// Namespace of a job.
pub const JOB_NAMESPACE: &str = "drover.job.namespace";
/// Type of a job.
pub const JOB_TYPE: &str = "drover.job.type";
/// Id of an allocation.
pub const ALLOC_ID: &str = "drover.alloc.id";
/// Number of allocations that a span covers.
pub const ALLOCS: &str = "drover.allocs";
/// Name of a task group.
pub const TASK_GROUP: &str = "drover.task_group";
/// Name of a task.
pub const TASK_NAME: &str = "drover.task.name";
/// Name of a task's driver.
pub const TASK_DRIVER: &str = "drover.task.driver";
/// Number of previous restarts of a task.
pub const TASK_RESTARTS: &str = "drover.task.restarts";
/// Id of a node.
pub const NODE_ID: &str = "drover.node.id";
/// Number of nodes that a span covers.
pub const NODES: &str = "drover.nodes";
/// Id of a deployment.
pub const DEPLOYMENT_ID: &str = "drover.deployment.id";
/// Number of deployments that a span covers.
pub const DEPLOYMENTS: &str = "drover.deployments";
/// Number of previous plans of an evaluation that were refused.
pub const ATTEMPT: &str = "drover.scheduler.attempt";
