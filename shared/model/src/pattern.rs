//! The cost of clients' regular expressions, measured before they are compiled or searched for. Searching takes linear
//! time, but the factor grows with the expression, and a short expression can expand to a large one.

use std::convert::Infallible;

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{self, Ast, ClassSetBinaryOp, ClassSetItem, Flag, Flags, GroupKind};
use regex_syntax::hir::translate::Translator;
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// Maximum length of an expression, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4 << 10;

/// Number of characters that a class of Unicode counts as.
const CLASS_CHARACTERS: u64 = 0x11_0000;
/// Number of characters of a class that can be looked up in the tables of letter case while one transition is compiled.
const FOLDED_PER_TRANSITION: u64 = 32;
/// Number of transitions that can be compiled while the table of one class such as `\w` is copied.
const TRANSITIONS_PER_TABLE: u64 = 100;
/// Number of transitions for a range of characters, which are up to four bytes long.
const TRANSITIONS_PER_RANGE: u64 = 4;
/// Number of states for a class of characters that are longer than one byte.
const STATES_PER_CLASS: u64 = 3;

/// The cost of an expression.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PatternCost {
    /// Number of transitions between states, with all repetitions expanded. Compiling takes some 100 ns for each.
    pub transitions: u64,
    /// Number of states in which a search may be at once. At worst, it takes some 5 ns for each at each byte of a text.
    pub states: u64,
    /// Maximum length of a match, in bytes; `None` if it is not limited.
    pub longest: Option<usize>,
}

/// An expression is too large to be compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternTooLarge {
    /// The text is too long.
    #[error("the expression has {0} bytes, more than the maximum of {max}", max = PATTERN_BYTES_MAX)]
    Length(usize),
    /// The text expands to too much.
    #[error(
        "the expression expands to more than {max} transitions between states; repeat less, or smaller classes"
    )]
    Transitions {
        /// Maximum number of transitions.
        max: u64,
    },
}

impl PatternCost {
    /// Measures an expression. An invalid one costs what it takes to find that out.
    ///
    /// # Errors
    /// If the expression is too long, or has more than `transitions_max` transitions.
    pub fn of(pattern: &str, transitions_max: u64) -> Result<Self, PatternTooLarge> {
        let too_large = PatternTooLarge::Transitions { max: transitions_max };
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternTooLarge::Length(pattern.len()));
        }
        let Ok(ast) = Parser::new().parse(pattern) else { return Ok(Self::default()) };
        let Ok(tables) = ast::visit(&ast, Tables::default());
        if tables > transitions_max {
            return Err(too_large);
        }
        let Ok(hir) = Translator::new().translate(pattern, &ast) else {
            return Ok(Self { transitions: tables, ..Self::default() });
        };
        let (transitions, states) = size(&hir);
        let transitions = transitions.saturating_add(tables);
        if transitions > transitions_max {
            return Err(too_large);
        }
        Ok(Self { transitions, states, longest: hir.properties().maximum_len() })
    }
}

/// Counts the look-ups in tables of characters, in transitions that could be compiled meanwhile. To ignore case, each
/// character of a class is looked up, and those of classes within classes again.
#[derive(Default)]
struct Tables {
    copied: u64,
    ignores_case: bool,
    characters: u64,
    nested_classes: u64,
}

impl Tables {
    fn read_flags(&mut self, flags: &Flags) {
        self.ignores_case |= flags.flag_state(Flag::CaseInsensitive) == Some(true);
    }

    fn copy(&mut self) {
        self.copied += 1;
        self.characters += CLASS_CHARACTERS;
    }
}

impl ast::Visitor for Tables {
    type Output = u64;
    type Err = Infallible;

    fn finish(self) -> Result<u64, Infallible> {
        let characters = if self.ignores_case { self.characters } else { 0 };
        let folded = characters.saturating_mul(1 + self.nested_classes) / FOLDED_PER_TRANSITION;
        Ok(folded.saturating_add(TRANSITIONS_PER_TABLE * self.copied))
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Infallible> {
        if let Ast::Flags(set) = ast {
            self.read_flags(&set.flags);
        } else if let Ast::Group(group) = ast
            && let GroupKind::NonCapturing(flags) = &group.kind
        {
            self.read_flags(flags);
        } else if let Ast::ClassUnicode(_) = ast {
            self.copy();
        } else if let Ast::ClassPerl(_) = ast {
            self.copied += 1;
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Infallible> {
        if let ClassSetItem::Range(range) = item {
            self.characters += u64::from(u32::from(range.end.c).saturating_sub(u32::from(range.start.c))) + 1;
        } else if let ClassSetItem::Unicode(_) | ClassSetItem::Perl(_) = item {
            self.copy();
        } else if let ClassSetItem::Bracketed(_) = item {
            self.nested_classes += 1;
        }
        Ok(())
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), Infallible> {
        self.nested_classes += 1;
        Ok(())
    }
}

/// The number of transitions and of states. The parser limits the nesting.
fn size(hir: &Hir) -> (u64, u64) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => (1, 1),
        HirKind::Literal(literal) => (literal.0.len() as u64, literal.0.len() as u64),
        HirKind::Class(Class::Bytes(class)) => (1 + class.ranges().len() as u64, 1),
        HirKind::Class(Class::Unicode(class)) => {
            (1 + TRANSITIONS_PER_RANGE * class.ranges().len() as u64, STATES_PER_CLASS)
        }
        HirKind::Repetition(Repetition { min, max, sub, .. }) => {
            let times = u64::from(max.unwrap_or(min.saturating_add(1)).max(1));
            let (transitions, states) = size(sub);
            (transitions.saturating_add(1).saturating_mul(times), states.saturating_mul(times))
        }
        HirKind::Capture(capture) => size(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(size).fold((0, 0), |(transitions, states), (more_transitions, more_states)| {
                (transitions.saturating_add(more_transitions), states.saturating_add(more_states))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 200_000;

    fn cost(pattern: &str) -> PatternCost {
        PatternCost::of(pattern, MAX).unwrap()
    }

    #[test]
    fn usual_expressions_cost_little() {
        for pattern in ["^web-[0-9]+$", "(?i)^[a-z0-9.-]{1,63}$", r"\s+", "a|b|c", "", r"(\d+)\.(\d+)"] {
            let cost = cost(pattern);
            assert!(cost.transitions < 10_000 && cost.states < 300, "{pattern}: {cost:?}");
        }
        assert_eq!(cost("abc").longest, Some(3));
        assert_eq!(cost("ab*").longest, None);
    }

    #[test]
    fn repetitions_are_expanded() {
        assert!(cost("(abc){50}").states >= 150);
        assert!(cost(r"\w{20}").transitions > 10 * cost(r"\w").transitions);
        for pattern in ["(a{1000}){1000}", "((a{1000}){1000}){1000}", r"\w{1000}", "(a?){1000}{1000}"] {
            assert_eq!(
                PatternCost::of(pattern, MAX),
                Err(PatternTooLarge::Transitions { max: MAX }),
                "{pattern}"
            );
        }
    }

    #[test]
    fn ignoring_the_case_of_large_classes_is_counted() {
        for class in [r"\p{L}", r"[\x{0}-\x{10FFFF}]", r"[\p{L}&&\p{Lu}]"] {
            assert!(PatternCost::of(&format!("(?i){class}"), MAX).is_ok(), "{class}");
            let many = class.repeat(100);
            assert!(PatternCost::of(&format!("(?i){many}"), MAX).is_err(), "{class}");
            assert!(PatternCost::of(&format!("(?i:{many})"), MAX).is_err(), "{class}");
        }
    }

    #[test]
    fn an_invalid_pattern_costs_the_part_before_its_error() {
        let invalid = format!(r"{}\pX", r"\w".repeat(100));
        assert_eq!(cost(&invalid).transitions, 100 * TRANSITIONS_PER_TABLE + TRANSITIONS_PER_TABLE);
        assert_eq!(cost(&invalid).states, 0);
        let long = format!(r"{}\pX", r"\w".repeat(2_040));
        assert_eq!(PatternCost::of(&long, MAX), Err(PatternTooLarge::Transitions { max: MAX }));
    }

    #[test]
    fn an_unparsable_pattern_costs_nothing_and_a_long_one_is_refused() {
        for pattern in ["(", "[", "a{2,1}", r"\y"] {
            assert_eq!(cost(pattern), PatternCost::default(), "{pattern}");
        }
        let long = "a".repeat(PATTERN_BYTES_MAX + 1);
        assert_eq!(PatternCost::of(&long, MAX), Err(PatternTooLarge::Length(long.len())));
        let nested = format!("{}a{}", "(".repeat(2_000), ")".repeat(2_000));
        assert_eq!(cost(&nested), PatternCost::default());
    }
}
