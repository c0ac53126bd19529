//! Parser for version 1 of HCL and for the same structure in JSON. HCL 1 is the grammar of agent configuration files, ACL
//! policies, and namespace, node pool and quota files (`docs/rules/agent.md` A-33).
//!
//! The crate parses text into a tree of keys and values, each with its position. It does not interpret keys: duplicate keys
//! stay in the tree, and the letter case of keys is kept. Parsing takes time and memory proportional to the input, never
//! panics, and stops at the limits below.

mod hcl;
mod json;
mod number;
mod scanner;
mod tree;

pub use number::{Number, NumberKind};
pub use tree::{Body, Error, Item, Kind, Position, Value};

/// Maximum size of a text, in bytes.
pub const BYTES_MAX: usize = 1 << 20;
/// Maximum nesting of blocks, objects and lists.
pub const DEPTH_MAX: usize = 64;
/// Maximum number of keys, labels and values in a text.
pub const VALUES_MAX: usize = 1 << 16;

/// The notation of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// Version 1 of HCL.
    Hcl,
    /// JSON.
    Json,
}

impl Syntax {
    /// The notation of a file: JSON if its name ends in `.json`, or its text begins with a brace.
    pub fn of(file_name: &str, text: &[u8]) -> Self {
        let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
        if file_name.ends_with(".json") || first == Some(&b'{') { Syntax::Json } else { Syntax::Hcl }
    }
}

impl std::fmt::Display for Syntax {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Syntax::Hcl => "HCL",
            Syntax::Json => "JSON",
        })
    }
}

/// Parses a text.
///
/// # Errors
/// The first violation of the grammar or of a limit, with its position.
pub fn parse(text: &[u8], syntax: Syntax) -> Result<Body, Error> {
    if text.len() > BYTES_MAX {
        let text = format!("the text is larger than {BYTES_MAX} bytes");
        return Err(Error { at: Position::START, text });
    }
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let valid = std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default();
            let at = Position::START.after(valid);
            return Err(Error { at, text: "illegal UTF-8 encoding".to_owned() });
        }
    };
    match syntax {
        Syntax::Hcl => hcl::parse(text),
        Syntax::Json => json::parse(text),
    }
}
