//! One line of what to look at, below errors that say little by themselves.

use super::client::Error;

/// What to look at after this error. `None` if the error says enough.
pub(crate) fn advice(error: &anyhow::Error) -> Option<String> {
    let error = error.chain().find_map(|cause| cause.downcast_ref::<Error>())?;
    match error {
        Error::Unreachable { .. } => Some(
            "Is a cluster running there? `drover dev` starts one on this machine; -address or NOMAD_ADDR name another."
                .to_owned(),
        ),
        Error::Refused { text, .. } => of_answer(text).map(str::to_owned),
        Error::DotSegment { .. } | Error::Unreadable { .. } => None,
    }
}

/// What to look at after an answer of the API.
fn of_answer(text: &str) -> Option<&'static str> {
    let known = [
        (
            "No cluster leader",
            "The API answers, but cannot reach the database, the bus or the plan applier: `drover health` on each host says \
             which.",
        ),
        (
            "No path to region",
            "The cluster has one region: see -region, NOMAD_REGION and the job's own `region`.",
        ),
        ("ACL token not found", "The cluster does not know the token: see -token and NOMAD_TOKEN."),
        (
            "Permission denied",
            "The token does not permit this, or none was given: see -token and NOMAD_TOKEN.",
        ),
    ];
    known.into_iter().find(|(part, _)| text.contains(part)).map(|(_, advice)| advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_say_little_get_a_line_of_advice() {
        let refused = |text: &str| {
            let error = Error::Refused { status: 500, text: text.to_owned() };
            advice(&anyhow::Error::from(error).context("Error querying jobs"))
        };
        assert!(refused("No cluster leader").is_some_and(|advice| advice.contains("`drover health`")));
        assert!(refused("No path to region").is_some_and(|advice| advice.contains("-region")));
        assert!(refused("Permission denied").is_some_and(|advice| advice.contains("NOMAD_TOKEN")));
        assert_eq!(refused("job not found"), None);
        assert_eq!(advice(&anyhow::anyhow!("no such file")), None);
    }
}
