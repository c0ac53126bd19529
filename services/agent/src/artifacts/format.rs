//! Formats of archives, by their names. Pure.

use model::text::quoted;
use serde::{Deserialize, Serialize};

/// How a stream is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Compression {
    /// gzip.
    Gzip,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
    /// Zstandard.
    Zstd,
}

/// What an archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Format {
    /// A tar archive, perhaps compressed.
    Tar(Option<Compression>),
    /// A zip archive.
    Zip,
    /// A single file, compressed.
    Compressed(Compression),
}

/// The names of the formats. A longer one comes before its end.
const NAMES: [(&str, Format); 14] = [
    ("tar.gz", Format::Tar(Some(Compression::Gzip))),
    ("tgz", Format::Tar(Some(Compression::Gzip))),
    ("tar.bz2", Format::Tar(Some(Compression::Bzip2))),
    ("tbz2", Format::Tar(Some(Compression::Bzip2))),
    ("tar.xz", Format::Tar(Some(Compression::Xz))),
    ("txz", Format::Tar(Some(Compression::Xz))),
    ("tar.zst", Format::Tar(Some(Compression::Zstd))),
    ("tzst", Format::Tar(Some(Compression::Zstd))),
    ("tar", Format::Tar(None)),
    ("zip", Format::Zip),
    ("gz", Format::Compressed(Compression::Gzip)),
    ("bz2", Format::Compressed(Compression::Bzip2)),
    ("xz", Format::Compressed(Compression::Xz)),
    ("zst", Format::Compressed(Compression::Zstd)),
];

/// The format of an artifact: what the option `archive` says, or else the name of its file.
///
/// # Errors
/// If the option names no format.
pub(super) fn of(archive: Option<&str>, file_name: &str) -> Result<Option<Format>, String> {
    match archive {
        None | Some("") => Ok(by_name(file_name).map(|(_, format)| format)),
        Some("false" | "0") => Ok(None),
        Some(name) => {
            let known = NAMES.iter().find(|(known, _)| *known == name);
            known
                .map(|(_, format)| Some(*format))
                .ok_or_else(|| format!("archive {} is unknown", quoted(name)))
        }
    }
}

/// The name of the file in a single file that is compressed.
pub(super) fn inner_name(file_name: &str) -> &str {
    by_name(file_name).map_or(file_name, |(name, _)| name)
}

/// A file's name without its format, and the format.
fn by_name(file_name: &str) -> Option<(&str, Format)> {
    NAMES.iter().find_map(|(end, format)| {
        let name = file_name.strip_suffix(end)?.strip_suffix('.')?;
        (!name.is_empty()).then_some((name, *format))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_or_the_name_says_the_format() {
        assert_eq!(of(None, "a.tar.gz"), Ok(Some(Format::Tar(Some(Compression::Gzip)))));
        assert_eq!(of(None, "a.gz"), Ok(Some(Format::Compressed(Compression::Gzip))));
        assert_eq!(of(None, "a.bin"), Ok(None));
        assert_eq!(of(None, ".zip"), Ok(None));
        assert_eq!(of(Some("false"), "a.zip"), Ok(None));
        assert_eq!(of(Some("zip"), "a.bin"), Ok(Some(Format::Zip)));
        assert_eq!(of(Some("rar"), "a"), Err(r#"archive "rar" is unknown"#.to_owned()));
        assert_eq!(inner_name("tool.gz"), "tool");
        assert_eq!(inner_name("tool"), "tool");
    }
}
