//! Requests that change a deployment, and following their evaluations.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::Session;
use crate::cli::client::{Client, Error};
use crate::cli::monitor::Until;

/// The API's response to a change of a deployment.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Changed {
    #[serde(rename = "EvalID")]
    pub(super) eval_id: String,
    pub(super) reverted_job_version: Option<u64>,
}

/// Sends a request about a deployment. `members` are those of the body besides the deployment's id.
pub(super) async fn change(client: &Client, verb: &str, id: &str, members: Value) -> Result<Changed, Error> {
    let mut body = json!({ "DeploymentID": id });
    if let (Value::Object(body), Value::Object(members)) = (&mut body, members) {
        body.extend(members);
    }
    client.put(&format!("/v1/deployment/{verb}/{id}"), &body).await
}

/// Prints the id of an evaluation, or follows the evaluation and its deployment.
pub(super) async fn follow(
    session: &Session,
    eval: &str,
    detach: bool,
    verbose: bool,
) -> anyhow::Result<ExitCode> {
    if detach {
        session.output.line(&format!("Evaluation ID: {eval}"));
        return Ok(ExitCode::SUCCESS);
    }
    session.follow(eval, Until::Running, verbose).await
}
