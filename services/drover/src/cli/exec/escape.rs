//! The escape character of commands with a terminal: at the beginning of a line and followed by a dot, it ends the
//! command. Pure.

/// The escape character, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Escape(pub(super) Option<u8>);

/// Parses the flag.
pub(super) fn read(text: &str) -> Result<Escape, String> {
    match text.as_bytes() {
        b"none" => Ok(Escape(None)),
        [character] => Ok(Escape(Some(*character))),
        _ => Err("-e requires 'none' or a single character".to_owned()),
    }
}

/// Where in a line the user is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// At its beginning.
    Begin,
    /// Behind an escape character at its beginning.
    Escape,
    /// Anywhere else.
    Middle,
}

/// Looks for the escape in what the user types.
#[derive(Debug)]
pub(super) struct EscapeFilter {
    escape: Escape,
    at: At,
}

impl EscapeFilter {
    /// At the beginning of a line.
    pub(super) fn new(escape: Escape) -> Self {
        Self { escape, at: At::Begin }
    }

    /// Returns what is passed on, and whether the user has ended the command. A doubled escape character is passed on once.
    pub(super) fn pass(&mut self, bytes: Vec<u8>) -> (Vec<u8>, bool) {
        let Escape(Some(escape)) = self.escape else { return (bytes, false) };
        let mut passed = Vec::with_capacity(bytes.len() + 1);
        for byte in bytes {
            match self.at {
                At::Begin if byte == escape => {
                    self.at = At::Escape;
                    continue;
                }
                At::Escape if byte == b'.' => return (passed, true),
                At::Escape if byte == escape => {}
                At::Escape => passed.push(escape),
                At::Begin | At::Middle => {}
            }
            passed.push(byte);
            self.at = if matches!(byte, b'\r' | b'\n') { At::Begin } else { At::Middle };
        }
        (passed, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is passed on of several reads, and whether the command was ended.
    fn typed(escape: &str, reads: &[&str]) -> (String, bool) {
        let mut filter = EscapeFilter::new(read(escape).unwrap());
        let mut all = Vec::new();
        for bytes in reads {
            let (passed, is_ended) = filter.pass(bytes.as_bytes().to_vec());
            all.extend(passed);
            if is_ended {
                return (String::from_utf8(all).unwrap(), true);
            }
        }
        (String::from_utf8(all).unwrap(), false)
    }

    #[test]
    fn the_escape_ends_the_command_at_the_beginning_of_a_line_only() {
        assert_eq!(typed("~", &["~."]), (String::new(), true));
        assert_eq!(typed("~", &["ls\r~", "."]), ("ls\r".to_owned(), true));
        assert_eq!(typed("~", &["ls ~.\n"]), ("ls ~.\n".to_owned(), false));
        assert_eq!(typed("~", &["~", "/x\n"]), ("~/x\n".to_owned(), false));
        assert_eq!(typed("~", &["~~.\n"]), ("~.\n".to_owned(), false), "doubled, it is passed on");
        assert_eq!(typed("none", &["~."]), ("~.".to_owned(), false));
        assert_eq!(typed("%", &["~.\n%."]), ("~.\n".to_owned(), true));
    }

    #[test]
    fn the_character_is_one_or_none() {
        assert_eq!(read("none"), Ok(Escape(None)));
        assert_eq!(read("~"), Ok(Escape(Some(b'~'))));
        for text in ["", "ab", "\u{e4}"] {
            assert_eq!(read(text), Err("-e requires 'none' or a single character".to_owned()), "{text}");
        }
    }
}
