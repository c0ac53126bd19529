//! Tests of statuses and of reasons to end tasks.

use super::*;
use crate::testing::{dead, failed, member, pending, running, tasks};

fn status(states: &[TaskState]) -> ClientStatus {
    client_status(states.iter()).0
}

#[test]
fn the_worst_task_state_determines_the_status() {
    assert_eq!(status(&[dead(), failed(), running()]), ClientStatus::Failed);
    assert_eq!(status(&[dead(), running(), pending()]), ClientStatus::Running);
    assert_eq!(status(&[dead(), pending()]), ClientStatus::Pending);
    assert_eq!(status(&[dead(), dead()]), ClientStatus::Complete);
    assert_eq!(status(&[]), ClientStatus::Pending);
}

#[test]
fn a_failed_task_ends_its_siblings() {
    let group = tasks([("a", Class::Main, failed()), ("b", Class::Main, running())]);
    assert_eq!(reason_to_end(&group), Some(TaskEventKind::SiblingFailed { sibling: "a".into() }));
    let after = tasks([("a", Class::Poststop, failed()), ("b", Class::Main, running())]);
    assert_eq!(reason_to_end(&after), None, "a poststop task is no sibling");
    let over = tasks([("a", Class::Main, failed()), ("z", Class::Poststop, pending())]);
    assert_eq!(reason_to_end(&over), None, "no task is left to end");
}

#[test]
fn a_leaders_end_ends_the_others() {
    let mut group = tasks([("a", Class::Main, running())]);
    group.insert("boss".into(), Member { leader: true, ..member(Class::Main, dead()) });
    assert_eq!(reason_to_end(&group), Some(TaskEventKind::LeaderDead));
}

#[test]
fn sidecars_do_not_run_alone() {
    let alone = tasks([("a", Class::Main, dead()), ("side", Class::PrestartSidecar, running())]);
    assert_eq!(reason_to_end(&alone), Some(TaskEventKind::MainDead));
    let not_alone = tasks([
        ("a", Class::Main, dead()),
        ("b", Class::Main, pending()),
        ("side", Class::PoststartSidecar, running()),
    ]);
    assert_eq!(reason_to_end(&not_alone), None);
}

#[test]
fn the_leader_goes_first_and_sidecars_go_last() {
    let mut group = tasks([
        ("a", Class::Main, running()),
        ("after", Class::Poststop, pending()),
        ("side", Class::PrestartSidecar, running()),
    ]);
    group.insert("boss".into(), Member { leader: true, ..member(Class::Main, running()) });
    let mut ended = Vec::new();
    loop {
        let next = next_to_end(&group);
        if next.is_empty() {
            break;
        }
        for name in &next {
            group.get_mut(name).unwrap().state = dead();
        }
        ended.push(next.join(" "));
    }
    assert_eq!(ended, ["boss", "a", "side"]);
}
