//! Answers the API's requests for the results of an allocation's checks.

use model::AllocId;
use model::text::quoted;
use wire::checks::{AllocChecks, CHECKS_BYTES_MAX, CheckState, GetAllocChecks};
use wire::{Refusal, RefusalKind};

use crate::alloc::runner::spec_file;
use crate::checks::Checks;
use crate::checks::check::Check;
use crate::checks::core::CheckResult;
use crate::context::Context;

/// The checks of an allocation with their results. An allocation that has no checks, or has ended, has none.
///
/// # Errors
/// If the allocation is not on this node.
pub(crate) async fn alloc_checks(context: &Context, ask: GetAllocChecks) -> Result<AllocChecks, Refusal> {
    let GetAllocChecks { alloc, after } = ask;
    if !tokio::fs::try_exists(spec_file(context, alloc)).await.unwrap_or(false) {
        let message = format!("Unknown allocation {}", quoted(&alloc.to_string())).into();
        return Err(Refusal { kind: RefusalKind::NotFound, message });
    }
    Ok(read(&context.checks, alloc, &after, CHECKS_BYTES_MAX))
}

/// As many checks with ids after `after` as fit into a response, and at least one if there are any.
fn read(checks: &Checks, alloc: AllocId, after: &str, bytes_max: usize) -> AllocChecks {
    let mut answer = AllocChecks::default();
    let mut bytes = 0usize;
    checks.read(alloc, after, |check, result| {
        let state = state(check, result);
        bytes = bytes.saturating_add(state.text_bytes());
        answer.more = bytes > bytes_max && !answer.checks.is_empty();
        if !answer.more {
            answer.checks.push(state);
        }
        !answer.more
    });
    answer
}

fn state(check: &Check, result: &CheckResult) -> CheckState {
    CheckState {
        id: check.id.clone(),
        mode: check.mode.as_str().into(),
        status: result.status.as_str().into(),
        status_code: result.code,
        output: result.output.clone(),
        at: result.at,
        group: check.group.clone(),
        task: check.task.clone(),
        service: check.service.clone(),
        check: check.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::checks::check::tests::tcp;
    use crate::testing::alloc_id;

    //
    #[test]
    fn many_checks_are_read_in_several_responses() {
        let checks = Checks::default();
        let all = ["c", "a", "b"].map(|id| tcp(id, "127.0.0.1:1".parse().unwrap()));
        let size = {
            let first = state(&all[0], &CheckResult::pending(model::Timestamp::UNSET));
            first.text_bytes()
        };
        checks.set(alloc_id(1), all.to_vec(), &BTreeMap::new());
        let ids =
            |answer: &AllocChecks| answer.checks.iter().map(|check| check.id.to_string()).collect::<String>();
        let first = read(&checks, alloc_id(1), "", size * 2);
        assert_eq!((ids(&first), first.more), ("ab".to_owned(), true));
        assert_eq!(
            (&*first.checks[0].status, &*first.checks[0].output),
            ("pending", "nomad: waiting to run")
        );
        let second = read(&checks, alloc_id(1), "b", size * 2);
        assert_eq!((ids(&second), second.more), ("c".to_owned(), false));
        let tiny = read(&checks, alloc_id(1), "", 1);
        assert_eq!((ids(&tiny), tiny.more), ("a".to_owned(), true), "a response has a check at least");
        assert_eq!(read(&checks, alloc_id(2), "", size), AllocChecks::default());
    }
}
