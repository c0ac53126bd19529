//! The compact binary encoding of packed forms: variable-length numbers and no field names.

use crate::{Nanos, Text, Timestamp};

/// Bytes are not a valid packed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The bytes were packed in a version of the format that this program does not know.
    #[error("packed in version {0}, which this program does not know")]
    Version(u8),
    /// The bytes are truncated or damaged.
    #[error("truncated or damaged")]
    Damaged,
}

/// Implements `Debug`, which shows the unpacked value, and `Serialize`, which writes one byte string.
macro_rules! packed_form {
    ($packed:ident) => {
        impl std::fmt::Debug for $packed {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.unpack() {
                    Ok(unpacked) => unpacked.fmt(f),
                    Err(error) => write!(f, "<{error}>"),
                }
            }
        }

        impl serde::Serialize for $packed {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bytes(&self.0)
            }
        }
    };
}

pub(super) use packed_form;

/// A value that can be part of a packed form.
pub(super) trait Packed: Sized {
    fn write(&self, out: &mut Writer);
    fn read(input: &mut Reader<'_>) -> Option<Self>;
}

impl Packed for Text {
    fn write(&self, out: &mut Writer) {
        out.uint(self.len() as u64);
        out.0.extend_from_slice(self.as_bytes());
    }

    fn read(input: &mut Reader<'_>) -> Option<Self> {
        input.text().map(Self::from)
    }
}

impl Packed for i64 {
    fn write(&self, out: &mut Writer) {
        out.int(*self);
    }

    fn read(input: &mut Reader<'_>) -> Option<Self> {
        input.int()
    }
}

impl Packed for Nanos {
    fn write(&self, out: &mut Writer) {
        out.int(self.0);
    }

    fn read(input: &mut Reader<'_>) -> Option<Self> {
        input.int().map(Self)
    }
}

impl Packed for bool {
    fn write(&self, out: &mut Writer) {
        out.uint(u64::from(*self));
    }

    fn read(input: &mut Reader<'_>) -> Option<Self> {
        input.uint().map(|value| value != 0)
    }
}

/// Encodes numbers in groups of seven bits, lowest first, and texts with their length before them.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn put<T: Packed>(&mut self, value: &T) {
        value.write(self);
    }

    pub(super) fn uint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Writes a signed number. The sign is in the lowest bit, so that small numbers of either sign take few bytes.
    fn int(&mut self, value: i64) {
        self.uint((value << 1 ^ value >> 63) as u64);
    }

    /// Writes a timestamp as the difference from the previous one, which is in `previous`. Most differences are a few
    /// seconds.
    pub(super) fn timestamp(&mut self, timestamp: Timestamp, previous: &mut i64) {
        self.int(timestamp.0.wrapping_sub(*previous));
        *previous = timestamp.0;
    }

    /// Writes the output of `write` with its length before it, so that a reader can skip it.
    pub(super) fn framed(&mut self, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.uint(inner.0.len() as u64);
        self.0.append(&mut inner.0);
    }
}

/// Decodes the output of [`Writer`]. Its methods return `None` if the bytes end too early.
#[derive(Clone)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn get<T: Packed>(&mut self) -> Option<T> {
        T::read(self)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads `N` raw bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(super) fn uint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a number; `None` if it does not fit into `T`.
    pub(super) fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        self.uint()?.try_into().ok()
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.framed()?.0).ok()
    }

    fn int(&mut self) -> Option<i64> {
        let value = self.uint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn timestamp(&mut self, previous: &mut i64) -> Option<Timestamp> {
        *previous = previous.wrapping_add(self.int()?);
        Some(Timestamp(*previous))
    }

    pub(super) fn framed(&mut self) -> Option<Reader<'a>> {
        let length = usize::try_from(self.uint()?).ok()?;
        let (framed, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(Reader(framed))
    }
}
