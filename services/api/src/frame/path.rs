//! Paths: undoing escapes, and sending clients of crooked ones to the straight one (http-api §1.2, §1.3).

use super::unescape;

/// A path, ready to be routed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cleaned {
    /// The path, without escapes.
    Path(String),
    /// Ask again there; with escapes.
    Elsewhere(String),
    /// It is no text.
    Unreadable,
}

/// Undoes the escapes of a path and straightens it.
pub(crate) fn clean(raw: &str) -> Cleaned {
    let Some(path) = unescape(raw, false) else { return Cleaned::Unreadable };
    if path.contains('\0') {
        return Cleaned::Unreadable;
    }
    let is_crooked =
        |path: &str| path.contains("//") || path.split('/').any(|step| matches!(step, "." | ".."));
    if path.starts_with('/') && !is_crooked(&path) {
        return Cleaned::Path(path);
    }
    Cleaned::Elsewhere(escape(&straighten(&path)))
}

/// Follows `.` and `..`, and leaves out empty steps but the last.
fn straighten(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    let mut straight = format!("/{}", steps.join("/"));
    let ends_open = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end));
    if ends_open && !straight.ends_with('/') {
        straight.push('/');
    }
    straight
}

/// Escapes what may not stand in a path as it is.
pub(crate) fn escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b':' | b'@' => {
                escaped.push(char::from(byte));
            }
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(clean("/v1/job/a%2Fb%20c/summary"), Cleaned::Path("/v1/job/a/b c/summary".to_owned()));
        assert_eq!(clean("/v1/job/a+b"), Cleaned::Path("/v1/job/a+b".to_owned()));
        assert_eq!(clean("/v1/job/%ff"), Cleaned::Unreadable);
        assert_eq!(clean("/v1/job/%00"), Cleaned::Unreadable);
        assert_eq!(clean("/v1/job/%zz"), Cleaned::Unreadable);
    }

    #[test]
    fn crooked_paths_lead_to_straight_ones() {
        let elsewhere = |path: &str| Cleaned::Elsewhere(path.to_owned());
        assert_eq!(clean("/v1//jobs"), elsewhere("/v1/jobs"));
        assert_eq!(clean("/v1/./jobs"), elsewhere("/v1/jobs"));
        assert_eq!(clean("/v1/x/../jobs"), elsewhere("/v1/jobs"));
        assert_eq!(clean("/v1/job/a%2F..%2F..%2F..%2Fetc"), elsewhere("/etc"));
        assert_eq!(clean("/../../x%20y//"), elsewhere("/x%20y/"));
        assert_eq!(clean("/.."), elsewhere("/"));
    }
}
