//! Request paths: decoding of escapes, and redirects to the normalized path (http-api §1.2, §1.3).

use super::unescape;

/// Result of cleaning a request path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CleanPath {
    /// Normalized path without escapes, ready for routing.
    Path(String),
    /// The path is not normalized: redirect the client to this one, which is escaped.
    Redirect(String),
    /// The path is not valid text.
    Invalid,
}

/// Decodes the escapes of a path and checks that it is normalized.
pub(crate) fn clean(raw: &str) -> CleanPath {
    let Some(path) = unescape(raw, false) else { return CleanPath::Invalid };
    if path.contains('\0') {
        return CleanPath::Invalid;
    }
    let needs_normalizing =
        |path: &str| path.contains("//") || path.split('/').any(|segment| matches!(segment, "." | ".."));
    if path.starts_with('/') && !needs_normalizing(&path) {
        return CleanPath::Path(path);
    }
    CleanPath::Redirect(escape(&normalize(&path)))
}

/// Resolves `.` and `..`, and removes empty segments except the last.
fn normalize(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let mut normalized = format!("/{}", segments.join("/"));
    let ends_with_separator = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end));
    if ends_with_separator && !normalized.ends_with('/') {
        normalized.push('/');
    }
    normalized
}

/// Percent-encodes the bytes that may not occur in a path.
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
        assert_eq!(clean("/v1/job/a%2Fb%20c/summary"), CleanPath::Path("/v1/job/a/b c/summary".to_owned()));
        assert_eq!(clean("/v1/job/a+b"), CleanPath::Path("/v1/job/a+b".to_owned()));
        assert_eq!(clean("/v1/job/%ff"), CleanPath::Invalid);
        assert_eq!(clean("/v1/job/%00"), CleanPath::Invalid);
        assert_eq!(clean("/v1/job/%zz"), CleanPath::Invalid);
    }

    #[test]
    fn crooked_paths_lead_to_straight_ones() {
        let redirect = |path: &str| CleanPath::Redirect(path.to_owned());
        assert_eq!(clean("/v1//jobs"), redirect("/v1/jobs"));
        assert_eq!(clean("/v1/./jobs"), redirect("/v1/jobs"));
        assert_eq!(clean("/v1/x/../jobs"), redirect("/v1/jobs"));
        assert_eq!(clean("/v1/job/a%2F..%2F..%2F..%2Fetc"), redirect("/etc"));
        assert_eq!(clean("/../../x%20y//"), redirect("/x%20y/"));
        assert_eq!(clean("/.."), redirect("/"));
    }
}
