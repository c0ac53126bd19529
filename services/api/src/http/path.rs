//! Request paths: decoding of escapes, also of those in queries, and redirects to the normalized path (http-api §1.2, §1.3).

/// Result of cleaning a request path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CleanPath {
    /// Path without escapes, ready for routing. An id in it may contain anything, also `//` and `..`.
    Path(String),
    /// The path is not normalized: redirect the client to this one, which is escaped as the client escaped it.
    Redirect(String),
    /// There is no path, or it is not valid text.
    Invalid,
}

/// Checks that a path is normalized, and decodes its escapes. The check comes first: what a client has escaped belongs to
/// an id, and must reach the handler as it was meant. A redirect to another id would make clients act on another object.
pub(crate) fn clean(raw: &str) -> CleanPath {
    let needs_normalizing = raw.contains("//") || raw.split('/').any(|segment| matches!(segment, "." | ".."));
    // `CONNECT host:port` and `OPTIONS *` have no path.
    if !raw.starts_with('/') {
        return CleanPath::Invalid;
    }
    if needs_normalizing {
        return CleanPath::Redirect(escape_forbidden(&normalize(raw)));
    }
    unescape(raw, false).map_or(CleanPath::Invalid, CleanPath::Path)
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

/// Percent-encodes the bytes of a decoded path that may not occur in a path.
pub(crate) fn escape(path: &str) -> String {
    escape_except(path, |byte| matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~' | b':' | b'@'))
}

/// Percent-encodes the bytes of an escaped path that may not occur in a path. Browsers read a backslash as a slash, so that
/// `/\host` would lead to another host.
fn escape_forbidden(path: &str) -> String {
    escape_except(path, |byte| b"/-_.~:@%!$&'()*+,;=".contains(&byte))
}

fn escape_except(path: &str, is_allowed: impl Fn(u8) -> bool) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || is_allowed(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Decodes percent escapes, and in a query also `+`. `None` if an escape is invalid, or the result is not UTF-8.
pub(crate) fn unescape(text: &str, in_query: bool) -> Option<String> {
    String::from_utf8(unescaped_bytes(text, in_query)?).ok()
}

/// Decodes percent escapes and `+` of a name or value in a query. What is not UTF-8 becomes U+FFFD, so that it equals no
/// name: a prefix of it selects nothing. `None` if an escape is invalid.
pub(crate) fn unescape_query(text: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&unescaped_bytes(text, true)?).into_owned())
}

fn unescaped_bytes(text: &str, in_query: bool) -> Option<Vec<u8>> {
    if !text.contains(['%', '+']) {
        return Some(text.as_bytes().to_vec());
    }
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if in_query => b' ',
            byte => byte,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(unescape("a+b%2Fc", false).as_deref(), Some("a+b/c"));
        assert_eq!(unescape("a+b", true).as_deref(), Some("a b"));
        assert_eq!(unescape("%", false), None);
        assert_eq!((unescape_query("%zz"), unescape_query("a%ff+")), (None, Some("a\u{fffd} ".to_owned())));
    }

    #[test]
    fn escapes_are_undone() {
        let path = |path: &str| CleanPath::Path(path.to_owned());
        assert_eq!(clean("/v1/job/a%2Fb%20c/summary"), path("/v1/job/a/b c/summary"));
        assert_eq!(clean("/v1/job/a+b"), path("/v1/job/a+b"));
        assert_eq!(clean("/v1/job/%ff"), CleanPath::Invalid);
        assert_eq!(clean("/v1/job/a%00b"), path("/v1/job/a\0b"), "nothing has such an id");
        assert_eq!(clean("/v1/job/%zz"), CleanPath::Invalid);
        assert_eq!(clean(""), CleanPath::Invalid, "CONNECT");
        assert_eq!(clean("*"), CleanPath::Invalid, "OPTIONS *");
    }

    #[test]
    fn escaped_slashes_belong_to_ids() {
        let path = |path: &str| CleanPath::Path(path.to_owned());
        assert_eq!(clean("/v1/job/%2Fa%2Fb"), path("/v1/job//a/b"));
        assert_eq!(clean("/v1/job/a%2F%2Fb"), path("/v1/job/a//b"));
        assert_eq!(clean("/v1/job/a%2F..%2F..%2Fb"), path("/v1/job/a/../../b"));
        assert_eq!(clean("/v1/job/%2e%2e"), path("/v1/job/.."));
        assert_eq!(clean("/v1/job/a%2F"), path("/v1/job/a/"));
    }

    #[test]
    fn crooked_paths_lead_to_straight_ones() {
        let redirect = |path: &str| CleanPath::Redirect(path.to_owned());
        assert_eq!(clean("/v1//jobs"), redirect("/v1/jobs"));
        assert_eq!(clean("/v1/./jobs"), redirect("/v1/jobs"));
        assert_eq!(clean("/v1/x/../jobs"), redirect("/v1/jobs"));
        assert_eq!(clean("/../../x%20y//"), redirect("/x%20y/"));
        assert_eq!(clean("/.."), redirect("/"));
        assert_eq!(clean("/v1//job/a%2F%2Fb"), redirect("/v1/job/a%2F%2Fb"), "escapes stay as they are");
        assert_eq!(clean("//\\elsewhere.example/"), redirect("/%5Celsewhere.example/"));
    }
}
