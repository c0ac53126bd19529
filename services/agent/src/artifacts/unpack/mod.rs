//! Unpacking of archives. No entry leaves the directory that the archive is unpacked into, and limits end what does not.

mod compressed;
mod sink;
mod tar;
mod zip;

use std::fs::File;
use std::io::{self, BufReader};

use self::compressed::decompressed;
pub(crate) use self::sink::{Budget, DEPTH_MAX, Sink, stays_inside};
use super::format::Format;

/// Unpacks an archive. A single file gets the name `inner`.
pub(super) fn unpack(format: Format, packed: File, inner: &str, sink: &mut Sink<'_>) -> io::Result<()> {
    let size = packed.metadata()?.len();
    sink.set_packed_bytes(size);
    let packed = BufReader::new(packed);
    match format {
        Format::Zip => zip::unpack(packed, sink),
        Format::Tar(None) => tar::unpack(packed, sink),
        Format::Tar(Some(compression)) => tar::unpack(decompressed(compression, packed)?, sink),
        Format::Compressed(compression) => {
            let mut content = decompressed(compression, packed)?;
            sink.file(inner.as_ref(), super::FILE_MODE, &mut content)
        }
    }
}

#[cfg(test)]
mod tests;
