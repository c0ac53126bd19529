//! Tests of the phases.

use super::*;
use crate::testing::{dead, failed, pending, running, tasks};

#[test]
fn phases_follow_the_states_of_tasks() {
    use Class as C;
    let group = |before, side, main, after, stop| {
        tasks([
            ("before", C::Prestart, before),
            ("side", C::PrestartSidecar, side),
            ("main", C::Main, main),
            ("after", C::Poststart, after),
            ("stop", C::Poststop, stop),
        ])
    };
    let (p, r, d) = (pending, running, dead);
    let steps = [
        (group(p(), p(), p(), p(), p()), Phase::Prestart),
        (group(d(), p(), p(), p(), p()), Phase::Prestart),
        (group(failed(), r(), p(), p(), p()), Phase::Prestart),
        (group(d(), r(), p(), p(), p()), Phase::Main),
        (group(d(), r(), r(), p(), p()), Phase::Poststart),
        (group(d(), r(), r(), failed(), p()), Phase::WaitAlloc),
        (group(d(), r(), d(), d(), p()), Phase::WaitAlloc),
        (group(d(), d(), d(), d(), p()), Phase::Poststop),
    ];
    for (number, (group, phase)) in steps.into_iter().enumerate() {
        assert_eq!(Phase::Prestart.advance(&group), phase, "step {number}");
    }
}

#[test]
fn without_tasks_of_a_class_its_phase_passes_at_once() {
    let group = tasks([("main", Class::Main, running())]);
    assert_eq!(Phase::Prestart.advance(&group), Phase::WaitAlloc);
}

#[test]
fn main_tasks_may_restart_while_others_run() {
    for phase in [Phase::Main, Phase::Poststart, Phase::WaitAlloc] {
        assert!(phase.opens(Class::Main) && phase.opens(Class::PrestartSidecar), "{phase:?}");
        assert!(!phase.opens(Class::Prestart) && !phase.opens(Class::Poststop), "{phase:?}");
    }
}

#[test]
fn poststop_tasks_do_not_wait_for_tasks_that_never_started() {
    let group = tasks([
        ("before", Class::Prestart, failed()),
        ("main", Class::Main, dead()),
        ("stop", Class::Poststop, pending()),
    ]);
    assert_eq!(Phase::Prestart.advance(&group), Phase::Poststop);
}
