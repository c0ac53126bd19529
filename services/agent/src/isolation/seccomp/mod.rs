//! The filter of system calls, as a program for the kernel (seccomp, in the classic form of BPF). Pure.
//!
//! The kernel runs the program at each system call. It finds the number by bisection, in about nine steps; the kernel
//! remembers the calls that are always allowed, and does not run the program for them again.

mod profile;

use super::capabilities::CapabilitySet;

/// Loads a word of the description of the call: `ld [k]`.
const LOAD: u16 = 0x20;
/// Jumps to one of two places: `jeq`, `jge`, `jset`.
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
/// Jumps: `ja k`.
const JUMP: u16 = 0x05;
/// Ends with a decision: `ret k`.
const RETURN: u16 = 0x06;

/// Where the number and the architecture are in the description of the call.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// Where the first argument is, and the distance to the next. The lower half of each comes first.
const ARGUMENTS: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;

/// The decisions.
const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const FAIL: u32 = 0x0005_0000;

/// The errors of calls that are not allowed. The second is for calls that this filter does not know: programs then take an
/// older one.
const NOT_PERMITTED: u16 = nix::libc::EPERM as u16;
const NOT_KNOWN: u16 = nix::libc::ENOSYS as u16;

/// The architecture of this program, as the kernel numbers them.
#[cfg(target_arch = "x86_64")]
const OWN_ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OWN_ARCHITECTURE: u32 = 0xc000_00b7;

/// On x86_64, a bit that marks the calls of another interface (x32), which no program here uses.
const OTHER_INTERFACE: u32 = 0x4000_0000;

/// One step of the program, as the kernel reads it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u16,
    /// The number of steps to skip if the condition holds, and if it does not.
    pub(super) then: u8,
    pub(super) otherwise: u8,
    pub(super) value: u32,
}

/// What happens to a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    Fail(u16),
    /// It is allowed unless the argument at this position has one of these bits.
    WithoutBits(u32, u32),
    /// It is allowed if the argument at this position is one of these.
    Only(u32, &'static [u32]),
    /// It is allowed unless the argument at this position is one of these.
    Except(u32, &'static [u32]),
}

/// The filter for a task whose processes can have these capabilities.
pub(super) fn filter(capabilities: CapabilitySet, may_trace: bool) -> Vec<Instruction> {
    let rules = profile::rules(capabilities, may_trace);
    let verdict = |number: u32| rules.get(&number).copied().unwrap_or(Verdict::Fail(NOT_PERMITTED));
    // Neighbours with the same verdict are one range.
    let mut ranges: Vec<(u32, Verdict)> = vec![(0, verdict(0))];
    let last = profile::LAST;
    for (number, next) in (1..=last).map(|number| (number, verdict(number))) {
        if ranges.last().is_none_or(|(_, current)| *current != next) {
            ranges.push((number, next));
        }
    }
    ranges.push((last + 1, Verdict::Fail(NOT_KNOWN)));
    let mut program = vec![
        step(LOAD, ARCHITECTURE),
        Instruction { code: IF_EQUAL, then: 1, otherwise: 0, value: OWN_ARCHITECTURE },
        step(RETURN, KILL_PROCESS),
        step(LOAD, NUMBER),
        Instruction { code: IF_AT_LEAST, then: 0, otherwise: 1, value: OTHER_INTERFACE },
        step(RETURN, FAIL | u32::from(NOT_KNOWN)),
    ];
    program.extend(bisected(&ranges));
    program
}

const fn step(code: u16, value: u32) -> Instruction {
    Instruction { code, then: 0, otherwise: 0, value }
}

/// The steps that find the range of a number.
fn bisected(ranges: &[(u32, Verdict)]) -> Vec<Instruction> {
    let middle = ranges.len() / 2;
    if middle == 0 {
        return ranges.iter().flat_map(|(_, verdict)| decided(*verdict)).collect();
    }
    let (lower, upper) = (bisected(&ranges[..middle]), bisected(&ranges[middle..]));
    // The distance may be too long for the condition itself.
    let distance = u32::try_from(lower.len()).unwrap_or(u32::MAX);
    let mut steps = vec![
        Instruction { code: IF_AT_LEAST, then: 0, otherwise: 1, value: ranges[middle].0 },
        step(JUMP, distance),
    ];
    steps.extend(lower);
    steps.extend(upper);
    steps
}

fn decided(verdict: Verdict) -> Vec<Instruction> {
    let allowed = step(RETURN, ALLOW);
    let failed = |error: u16| step(RETURN, FAIL | u32::from(error));
    let argument = |position: u32| step(LOAD, ARGUMENTS + position * ARGUMENT_BYTES);
    match verdict {
        Verdict::Allow => vec![allowed],
        Verdict::Fail(error) => vec![failed(error)],
        Verdict::WithoutBits(position, bits) => vec![
            argument(position),
            Instruction { code: IF_ANY_BIT, then: 0, otherwise: 1, value: bits },
            failed(NOT_PERMITTED),
            allowed,
        ],
        Verdict::Only(position, values) => {
            compared(argument(position), values, allowed, failed(NOT_PERMITTED))
        }
        Verdict::Except(position, values) => {
            compared(argument(position), values, failed(NOT_PERMITTED), allowed)
        }
    }
}

/// The steps that compare an argument with a few values.
fn compared(
    load: Instruction,
    values: &[u32],
    found: Instruction,
    not_found: Instruction,
) -> Vec<Instruction> {
    let mut steps = vec![load];
    for (position, value) in values.iter().enumerate() {
        // Skips the comparisons that remain, and the decision if none holds.
        let then = u8::try_from(values.len() - position).unwrap_or(u8::MAX);
        steps.push(Instruction { code: IF_EQUAL, then, otherwise: 0, value: *value });
    }
    steps.extend([not_found, found]);
    steps
}

#[cfg(test)]
mod tests;
