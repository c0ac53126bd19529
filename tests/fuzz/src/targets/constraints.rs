//! Constraints on nodes: versions by both rules, and the other operands on the same texts.

use std::sync::Arc;

use model::change::Change;
use model::job::{Constraint, JobSpec, Operand};
use model::node::{Node, NodeSpec};
use model::{NodeId, Text};
use scheduling::dry_run;
use state::State;
use tests::build::{self, Ids, NOW};

use crate::seeds::{self, SEPARATOR};
use crate::target::{Repeated, Target};
use crate::world;

/// A version of a node, and a bound of a job.
pub static VERSIONS: Target = Target {
    name: "versions",
    run: versions,
    seeds: || {
        let pairs = [
            "1.2.3\u{1e}1.2.3",
            "1.7.0-beta1\u{1e}1.7.0",
            "v1.3.0-rc.1+ent\u{1e}1.3",
            "1.2.9\u{1e}1.2.10",
            "5.10.0\u{1e}5.4, < 6",
            "10\u{1e}9.5",
            "x86\u{1e}^x[0-9]+$",
            "a, b\u{1e}b,c",
            "1.0.0~a-b\u{1e}1.0.0~a",
            "18446744073709551615\u{1e}18446744073709551616",
            "NaN\u{1e}inf",
            "\u{1e}${attr.kernel.name}",
        ];
        seeds::texts(pairs)
    },
    words: &[
        "\u{1e}",
        ".",
        "-",
        "+",
        "~",
        ",",
        "v",
        "~> ",
        ">= ",
        "!= ",
        "alpha",
        "beta.1",
        "0",
        "${attr.v}",
        "${meta.",
    ],
    repeated: &[
        Repeated { before: "1", open: ".1", middle: "\u{1e}1", close: ".1", after: "" },
        Repeated { before: "1-a", open: ".1", middle: "\u{1e}1-a", close: ".1", after: "" },
        Repeated { before: "1\u{1e}1", open: ",1", middle: "", close: "", after: "" },
        Repeated { before: "a\u{1e}", open: "(a*)*", middle: "", close: "", after: "b" },
        Repeated { before: "", open: "a", middle: "\u{1e}", close: "a*", after: "b" },
    ],
    size_max: 64 << 10,
};

/// The attribute with the node's version.
const ATTRIBUTE: &str = "v";

/// Operands whose outcome has no rule here.
const OTHERS: [Operand; 6] = [
    Operand::Version,
    Operand::Regexp,
    Operand::SetContains,
    Operand::SetContainsAny,
    Operand::Equal,
    Operand::NotEqual,
];

fn versions(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (left, right) = text.split_once(SEPARATOR).unwrap_or((text, ""));
    let node = with_node(left);
    for operand in OTHERS {
        is_placed(&node, operand, right);
    }
    for comparison in ["~>", "<=", ">=", "!="] {
        is_placed(&node, Operand::Version, &format!("{comparison} {right}"));
    }
    // A reference has the same text on every node, and a list consists of several bounds.
    if right.starts_with("${") || text.contains(|c: char| c == ',' || c.is_whitespace()) {
        return;
    }
    let other = with_node(right);
    let semver = |state: &State, comparison: &str, right: &str| {
        is_placed(state, Operand::Semver, &format!("{comparison} {right}"))
    };
    let [less, equal, greater] = ["<", "=", ">"].map(|comparison| semver(&node, comparison, right));
    let count = u8::from(less) + u8::from(equal) + u8::from(greater);
    assert!(
        count <= 1,
        "{left:?} is less than, equal to or greater than {right:?}, but has {count} of these"
    );
    let mirrored = ["<", "=", ">"].map(|comparison| semver(&other, comparison, left));
    let is_bound = |text: &str| text.starts_with(['<', '=', '>', '!', '~']);
    if !is_bound(left) && !is_bound(right) && !left.starts_with("${") {
        assert_eq!(mirrored, [greater, equal, less], "{left:?} and {right:?} are not ordered");
        let less = is_placed(&node, Operand::Less, right);
        assert_eq!(is_placed(&other, Operand::Greater, left), less, "{left:?} and {right:?} are not ordered");
    }
}

/// A cluster with one node that has this version.
fn with_node(version: &str) -> State {
    let built = build::node(NodeId::from_bytes([7; 16]), 1);
    let mut spec = NodeSpec::clone(&built.spec);
    spec.attributes.insert(ATTRIBUTE.into(), version.into());
    let mut state = world::empty();
    world::apply(&mut state, vec![Change::Node(Box::new(Node { spec: Arc::new(spec), ..built }))]);
    state
}

/// Whether a job with a constraint on the version is placed.
fn is_placed(state: &State, operand: Operand, right: &str) -> bool {
    let built = build::job(1, 1);
    let mut spec = JobSpec::clone(&built.spec);
    let l_target: Text = format!("${{attr.{ATTRIBUTE}}}").into();
    spec.task_groups[0].constraints = vec![Constraint { l_target, operand, r_target: right.into() }];
    let mut ids = Ids::default();
    let run = dry_run(state, &Arc::new(spec), NOW, true, &mut || ids.bytes());
    run.failed_groups.is_empty()
}
