//! Commands to the applier: each is judged on a state, and its changes must fit the replicas of that state.

use model::change::ChangeSet;
use model::{Nanos, RequestId};
use plan_applier::judge::{Inputs, Settings, Verdict, judge};
use serde::Deserialize as _;
use tests::build::NOW;
use wire::command::{Answer, Command};
use wire::{LogRow, Wire as _};

use super::messages::{MESSAGE_PACK, read};
use crate::target::Target;
use crate::world;

/// Commands, one after the other.
pub static COMMAND: Target = Target {
    name: "command",
    run: command,
    seeds: || {
        let commands: Vec<Vec<u8>> =
            world::samples_of(Command::KIND).into_iter().map(|sample| sample.bytes).collect();
        let pairs = commands.windows(2).map(|pair| pair.concat());
        commands.iter().cloned().chain(pairs).collect()
    },
    words: MESSAGE_PACK,
    repeated: &[],
    size_max: wire::envelope::COMMAND_BYTES_MAX,
};

/// Maximum number of commands in one input.
const COMMANDS_MAX: u8 = 8;

fn command(input: &[u8]) {
    let mut overlay = world::sampled();
    let mut decoder = rmp_serde::Deserializer::from_read_ref(input);
    for number in 0..COMMANDS_MAX {
        let Ok(command) = Command::deserialize(&mut decoder) else { return };
        let request_id = RequestId::from_bytes([number; 16]);
        let before = overlay.clone();
        let inputs = Inputs {
            index: before.index().next(),
            at: (NOW + Nanos::SECOND).max(before.at()),
            request_id,
            trace: None,
            is_live: &|_| false,
            settings: Settings::default(),
        };
        match judge(&mut overlay, command, &inputs, || before.clone()) {
            Verdict::Unchanged(_) | Verdict::Refused(_) => {
                assert_eq!(overlay.index(), before.index(), "a command without changes advances the overlay");
            }
            Verdict::Changed { cause, changes, done } => {
                let (index, at) = (inputs.index, inputs.at);
                assert_eq!(overlay.index(), index, "a command with changes advances the overlay by one");
                let result = wire::encode(&Answer::Done(done));
                let set = ChangeSet { index, at, request_id, cause, trace: None, result, changes };
                let row = LogRow::new(&set);
                let logged = row.change_set().expect("a row of the log is readable");
                assert_eq!(wire::encode(&logged), row.bytes, "decoding and encoding again changes a row");
                let mut replica = before.clone();
                replica.apply(&logged).expect("a change set fits the state that it was judged on");
                read(&replica);
            }
        }
    }
}
