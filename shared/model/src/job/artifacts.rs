//! Protocols of artifacts that are not built. Pure.

/// The protocols, as they are written before `::` or `://`.
const UNBUILT: [&str; 4] = ["s3", "gcs", "hg", "file"];

/// The protocol of an artifact's source, if it is not built.
pub fn unbuilt_protocol(source: &str) -> Option<&'static str> {
    let source = source.trim();
    let is_of = |protocol: &&&str| {
        source.strip_prefix(**protocol).is_some_and(|rest| rest.starts_with("::") || rest.starts_with("://"))
    };
    UNBUILT.iter().find(is_of).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    //
    #[test]
    fn protocols_that_are_not_built_are_known() {
        for (source, protocol) in [
            ("s3::https://example.org/a", Some("s3")),
            ("s3://bucket/a", Some("s3")),
            (" hg::https://example.org/a", Some("hg")),
            ("file:///etc/passwd", Some("file")),
            ("https://s3.example.org/file", None),
            ("git::https://example.org/a", None),
            ("${SOURCE}", None),
        ] {
            assert_eq!(unbuilt_protocol(source), protocol, "{source}");
        }
    }
}
