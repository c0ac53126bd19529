//! Indentation of JSON for people (http-api §1.7): four spaces for each level, and a newline at the end. The text is indented
//! as it passes by, without being parsed, so that a long one is never in memory as a whole.

/// Number of spaces for each level.
const SPACES: usize = 4;
/// Deepest level that is indented further, so that deeply nested values do not become many times as long.
const DEPTH_MAX: usize = 32;

/// Indents compact JSON, piece by piece.
#[derive(Debug, Default)]
pub(super) struct Indenter {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    /// Whether the last byte opened an object or a list, which may be empty.
    has_just_opened: bool,
}

impl Indenter {
    /// Indents the next bytes of the text.
    pub(super) fn indent(&mut self, json: &[u8], indented: &mut Vec<u8>) {
        for byte in json {
            self.push(*byte, indented);
        }
    }

    fn push(&mut self, byte: u8, indented: &mut Vec<u8>) {
        if self.in_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            indented.push(byte);
            return;
        }
        if matches!(byte, b'}' | b']') {
            self.depth = self.depth.saturating_sub(1);
            if !self.has_just_opened {
                self.new_line(indented);
            }
            self.has_just_opened = false;
            indented.push(byte);
            return;
        }
        if self.has_just_opened {
            self.new_line(indented);
            self.has_just_opened = false;
        }
        indented.push(byte);
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => {
                self.depth += 1;
                self.has_just_opened = true;
            }
            b',' => self.new_line(indented),
            b':' => indented.push(b' '),
            _ => {}
        }
    }

    fn new_line(&self, indented: &mut Vec<u8>) {
        indented.push(b'\n');
        indented.resize(indented.len() + SPACES * self.depth.min(DEPTH_MAX), b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text indented as a whole, which must make no difference to being indented in pieces.
    fn indented(json: &str) -> String {
        let mut whole = Vec::new();
        Indenter::default().indent(json.as_bytes(), &mut whole);
        let (mut indenter, mut in_pieces) = (Indenter::default(), Vec::new());
        json.as_bytes().chunks(3).for_each(|piece| indenter.indent(piece, &mut in_pieces));
        assert_eq!(whole, in_pieces);
        String::from_utf8(whole).unwrap()
    }

    #[test]
    fn levels_are_four_spaces() {
        assert_eq!(
            indented(r#"{"a":[1,{"b":"<"}],"c":null}"#),
            "{\n    \"a\": [\n        1,\n        {\n            \"b\": \"<\"\n        }\n    ],\n    \"c\": null\n}"
        );
        assert_eq!(
            indented(r#"{"a":{},"b":[],"c":[{}]}"#),
            "{\n    \"a\": {},\n    \"b\": [],\n    \"c\": [\n        {}\n    ]\n}"
        );
        assert_eq!(
            (indented("[]"), indented("7"), indented("null")),
            ("[]".into(), "7".into(), "null".into())
        );
    }

    #[test]
    fn texts_stay_as_they_are() {
        assert_eq!(indented(r#"["a,{\"[:\\",1]"#), "[\n    \"a,{\\\"[:\\\\\",\n    1\n]");
    }

    #[test]
    fn deep_values_are_not_much_longer() {
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert!(indented(&deep).len() < 2 * deep.len() * SPACES * DEPTH_MAX);
        let value: serde_json::Value = serde_json::from_str(&indented(&deep)).unwrap();
        assert_eq!(value.to_string(), deep);
    }
}
