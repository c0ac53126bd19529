//! Tests of the table of sessions, and of what is refused before a command starts.

use bytes::Bytes;
use tokio::sync::watch;
use wire::exec::InputPart;

use super::*;
use crate::disk::store::Durability;
use crate::testing::{alloc_id, context, spec};

fn session_id(number: u128) -> RequestId {
    RequestId::from_bytes(number.to_le_bytes())
}

fn message(session: RequestId) -> ExecInput {
    ExecInput { session, number: 0, part: InputPart::Data(Bytes::from_static(b"x")) }
}

#[test]
fn an_allocation_has_so_many_sessions_and_a_node_has_more() {
    let sessions = Sessions::default();
    let admit = |number: usize, alloc: u8| sessions.admit(session_id(number as u128), alloc_id(alloc));
    let refused = |number: usize, alloc: u8| admit(number, alloc).err().unwrap().message;
    let mut admitted: Vec<_> = (0..ALLOC_SESSIONS_MAX).map(|number| admit(number, 1).unwrap()).collect();
    assert!(refused(1_000, 1).contains("32 commands run in tasks of an allocation"));
    let others = (ALLOC_SESSIONS_MAX..SESSIONS_MAX).map(|number| (number, number / ALLOC_SESSIONS_MAX + 1));
    admitted.extend(others.map(|(number, alloc)| admit(number, alloc.try_into().unwrap()).unwrap()));
    assert!(refused(1_000, 200).contains("256 commands run in tasks of a node"));
    admitted.pop();
    assert!(admit(1_000, 200).is_ok(), "one has ended");
}

#[test]
fn messages_reach_their_own_session_only() {
    let sessions = Sessions::default();
    let (first, mut first_input) = sessions.admit(session_id(1), alloc_id(1)).unwrap();
    let (_second, mut second_input) = sessions.admit(session_id(2), alloc_id(1)).unwrap();
    sessions.pass_on(message(session_id(1)));
    assert_eq!(first_input.try_recv().unwrap(), message(session_id(1)));
    assert!(second_input.try_recv().is_err());
    drop(first);
    sessions.pass_on(message(session_id(1)));
    assert!(first_input.try_recv().is_err(), "the session has ended");
}

#[tokio::test]
async fn a_command_needs_a_running_task() {
    let dir = tempfile::tempdir().unwrap();
    let context = context(dir.path(), watch::channel(false).1);
    let refused = async |task: &str, command: &[&str]| {
        let command: Vec<String> = command.iter().map(|part| (*part).to_owned()).collect();
        let outcome = running_task(&context, alloc_id(1), &task.into(), &command).await;
        outcome.err().unwrap().message.to_string()
    };
    assert!(refused("web", &["ls"]).await.starts_with("Unknown allocation \"01010101-"));
    let file = spec_file(&context, alloc_id(1));
    store::save(file, &spec(), Durability::Process).await.unwrap();
    assert_eq!(refused("", &["ls"]).await, "must provide task name");
    assert_eq!(refused("web", &[]).await, "command is not present");
    assert_eq!(refused("db", &["ls"]).await, "unknown task name \"db\"");
    assert_eq!(refused("web", &["ls"]).await, "task \"web\" not started yet.");
    assert_eq!(refused("web", &["a\0"]).await, "the command holds a null character");
}
