//! Guesses the content type of a file from its first bytes, as browsers do (WHATWG MIME Sniffing). Pure.

/// The content type of what cannot be told, and of nothing.
const UNKNOWN: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";

/// The first bytes of formats that are known by them.
const KNOWN: [(&[u8], &str); 19] = [
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"\xfe\xff", "text/plain; charset=utf-16be"),
    (b"\xff\xfe", "text/plain; charset=utf-16le"),
    (b"\xef\xbb\xbf", TEXT),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"\x00\x00\x02\x00", "image/x-icon"),
    (b"BM", "image/bmp"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"ID3", "audio/mpeg"),
    (b"OggS\x00", "application/ogg"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    (b"\x1f\x8b\x08", "application/x-gzip"),
    (b"PK\x03\x04", "application/zip"),
    (b"Rar!\x1a\x07", "application/x-rar-compressed"),
    (b"\x00asm", "application/wasm"),
];

/// Formats in a RIFF container, whose name is behind its tag and its length.
const RIFF: [(&[u8], &str); 3] = [(b"WEBPVP", "image/webp"), (b"AVI ", "video/avi"), (b"WAVE", "audio/wave")];
/// Length of the tag and the length of a RIFF container, in bytes.
const RIFF_HEAD_BYTES: usize = 8;

/// Beginnings of HTML documents, in capital letters. A space or `>` follows each.
const HTML: [&str; 17] = [
    "<!DOCTYPE HTML",
    "<HTML",
    "<HEAD",
    "<SCRIPT",
    "<IFRAME",
    "<H1",
    "<DIV",
    "<FONT",
    "<TABLE",
    "<A",
    "<STYLE",
    "<TITLE",
    "<B",
    "<BODY",
    "<BR",
    "<P",
    "<!--",
];

/// The content type of a file that begins with these bytes.
pub(super) fn content_type(start: &[u8]) -> &'static str {
    if start.is_empty() {
        return UNKNOWN;
    }
    let trimmed = start.trim_ascii_start();
    if HTML.iter().any(|tag| begins_with_tag(trimmed, tag.as_bytes())) {
        return "text/html; charset=utf-8";
    }
    if trimmed.starts_with(b"<?xml") {
        return "text/xml; charset=utf-8";
    }
    if let Some((_, known)) = KNOWN.into_iter().find(|(magic, _)| start.starts_with(magic)) {
        return known;
    }
    if start.starts_with(b"RIFF") {
        let inner = start.get(RIFF_HEAD_BYTES..).unwrap_or_default();
        if let Some((_, known)) = RIFF.into_iter().find(|(magic, _)| inner.starts_with(magic)) {
            return known;
        }
    }
    let is_binary = |byte: &u8| matches!(byte, 0x00..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    if start.iter().any(is_binary) { UNKNOWN } else { TEXT }
}

fn begins_with_tag(text: &[u8], tag: &[u8]) -> bool {
    let begins = text.get(..tag.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(tag));
    begins && matches!(text.get(tag.len()), Some(b' ' | b'>'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// http-api §13.
    #[test]
    fn types_are_guessed_from_the_first_bytes() {
        for (start, expected) in [
            (&b"hello"[..], TEXT),
            (b"{\"a\": 1}", TEXT),
            (b" \n<!doctype html><p>", "text/html; charset=utf-8"),
            (b"<p>", "text/html; charset=utf-8"),
            (b"<pre>", TEXT),
            (b"<?xml version=\"1.0\"?>", "text/xml; charset=utf-8"),
            (b"\x89PNG\r\n\x1a\n....", "image/png"),
            (b"RIFF1234WEBPVP8", "image/webp"),
            (b"RIFF12", TEXT),
            (b"\x1f\x8b\x08", "application/x-gzip"),
            (b"\x7fELF\x02\x01", UNKNOWN),
            (b"", UNKNOWN),
        ] {
            assert_eq!(content_type(start), expected, "{start:?}");
        }
    }
}
