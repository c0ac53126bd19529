//! Limits that credentials carry. NATS enforces them.

/// The largest message of a service, in bytes: the largest command and room for headers. The server's `max_payload` has to
/// be as large.
pub const SERVICE_PAYLOAD_MAX: i64 = 9 << 20;
/// The largest message of a node, in bytes. Agents send reports and pieces of files of 256 KiB, and lists of 2,000 files.
pub const NODE_PAYLOAD_MAX: i64 = 2 << 20;
/// The most subscriptions of one connection of a node. An agent has five.
pub const NODE_SUBSCRIPTIONS_MAX: i64 = 32;
/// The most subscriptions of one connection of a service. An API process has one for each question to an agent.
pub const SERVICE_SUBSCRIPTIONS_MAX: i64 = 10_000;
/// The most connections of all services and nodes together.
pub const CONNECTIONS_MAX: i64 = 65_536;
/// The most subscriptions of all services and nodes together.
pub const SUBSCRIPTIONS_MAX: i64 = 1_000_000;
/// How long the JWT is good that an agent signs for itself, in seconds. NATS ends the connection then, and the agent
/// connects with a new one.
pub const NODE_JWT_SECS: i64 = 24 * 60 * 60;
