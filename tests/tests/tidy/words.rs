//! Finds retired words: names for which the field has a plain term.

use crate::lexer;
use crate::sources::{Source, position};

/// Retired identifiers, each with what replaces it.
const RETIRED: &[(&str, &str)] = &[
    ("Asked", "CacheKey, Request"),
    ("Beside", "Concurrent"),
    ("Desk", "the name of what it holds"),
    ("GATHERED", "a name with DELAY"),
    ("Gathered", "Batched"),
    ("HandOut", "Lease"),
    ("Happening", "Event"),
    ("News", "Event"),
    ("Remembered", "RequestLog"),
    ("Saying", "Event, Outcome"),
    ("Shortly", "FastPath"),
    ("Surroundings", "Context, Inputs"),
    ("Told", "Outcome, Event, Report"),
    ("Which", "the name of what is chosen"),
    ("Whom", "the name of the recipient"),
    ("Wish", "PlacementRequest"),
    ("attend", "what the function does"),
    ("hand_out", "lease"),
    ("is_dear", "is_expensive"),
    ("keep_spec", "what the function does"),
    ("needless", "superseded"),
    ("pass_in_silence", "what the function does"),
    ("send_everybody_away", "what the function does"),
];

/// Retired words in the code of `sources`, as whole identifiers.
pub(crate) fn retired(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources {
        let code = source.code();
        let mut rest = 0;
        while let Some(start) = code[rest..].find(lexer::is_word) {
            let start = rest + start;
            let length = code[start..].find(|c| !lexer::is_word(c)).unwrap_or(code.len() - start);
            rest = start + length;
            let word = &code[start..rest];
            if let Some((_, instead)) = RETIRED.iter().find(|(retired, _)| *retired == word) {
                faults.push(format!("{}: {word}; say {instead}", position(source, code, start)));
            }
        }
    }
    faults
}

#[test]
fn finds_retired_words() {
    let text = "// Told in a comment\nlet told = Told::new(\"Told\");\nUntold::Told;\n";
    let source = Source::new("a.rs".into(), text.into());
    let instead = "say Outcome, Event, Report";
    assert_eq!(retired(&[source]), [format!("a.rs:2: Told; {instead}"), format!("a.rs:3: Told; {instead}")]);
}
