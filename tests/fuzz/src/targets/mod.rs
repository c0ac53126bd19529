//! The targets, by what they test.

mod agent;
mod api;
mod cli;
mod commands;
mod constraints;
mod expressions;
mod job_files;
mod messages;
mod templates;
mod texts;

pub use agent::{AGENT_STATE, AGENT_WORK};
pub use api::{CRON, FILTER, HTTP_REQUEST, JOB_BODY};
pub use cli::{CONFIGURATION, GO_TEMPLATE, SERVER_ERRORS};
pub use commands::COMMAND;
pub use constraints::VERSIONS;
pub use expressions::{EXPRESSION, FUNCTION_DATA};
pub use job_files::{JOB_FILE, JOB_FILE_JSON, VARIABLES};
pub use messages::{CHANGE_SET, MESSAGE};
pub use templates::TASK_TEMPLATE;
pub use texts::{CREDENTIALS, DURATION, SUBJECT};

use crate::target::Target;

/// All targets.
pub static ALL: [&Target; 22] = [
    &AGENT_STATE,
    &AGENT_WORK,
    &CHANGE_SET,
    &COMMAND,
    &CONFIGURATION,
    &CREDENTIALS,
    &CRON,
    &DURATION,
    &EXPRESSION,
    &FILTER,
    &FUNCTION_DATA,
    &GO_TEMPLATE,
    &HTTP_REQUEST,
    &JOB_BODY,
    &JOB_FILE,
    &JOB_FILE_JSON,
    &MESSAGE,
    &SERVER_ERRORS,
    &SUBJECT,
    &TASK_TEMPLATE,
    &VARIABLES,
    &VERSIONS,
];
