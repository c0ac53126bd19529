//! Limits in credentials, which NATS enforces.

/// Maximum size of a service's message, in bytes: the largest command, and room for headers. The server's `max_payload`
/// must be at least as large.
pub const SERVICE_PAYLOAD_MAX: i64 = 9 << 20;
/// Maximum size of a node's message, in bytes. Agents send reports, parts of files of up to 256 KiB, and lists of up to
/// 2,000 files.
pub const NODE_PAYLOAD_MAX: i64 = 2 << 20;
/// Maximum number of subscriptions of one connection of a node. An agent has five.
pub const NODE_SUBSCRIPTIONS_MAX: i64 = 32;
/// Maximum number of subscriptions of one connection of a service. An API process has one for each request to an agent.
pub const SERVICE_SUBSCRIPTIONS_MAX: i64 = 10_000;
/// Maximum number of connections of all services and nodes together.
pub const CONNECTIONS_MAX: i64 = 65_536;
/// Maximum number of subscriptions of all services and nodes together.
pub const SUBSCRIPTIONS_MAX: i64 = 1_000_000;
/// Lifetime of a JWT that an agent signs for itself, in seconds. When it expires, NATS closes the connection, and the
/// agent connects with a new JWT.
pub const NODE_JWT_SECS: i64 = 24 * 60 * 60;
