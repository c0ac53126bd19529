//! How packed forms put single values into bytes: small numbers take few, and nothing says its name.

use crate::{Nanos, Text, Timestamp};

/// Bytes that are no packed form of what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Made by a version that this one does not know.
    #[error("packed in version {0}, which this program does not know")]
    Version(u8),
    /// Cut off, or something else altogether.
    #[error("cut off or damaged")]
    Damaged,
}

/// Shows a packed form as what is in it, and writes it as one byte string.
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

/// Something that packed form can hold.
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

/// Writes numbers in seven-bit groups, lowest first, and texts behind their length.
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

    /// Small numbers of either sign take few bytes: the sign goes into the lowest bit.
    fn int(&mut self, value: i64) {
        self.uint((value << 1 ^ value >> 63) as u64);
    }

    /// Writes a moment as its distance from the one before, which is in `clock`: most lie within seconds of each other.
    pub(super) fn moment(&mut self, moment: Timestamp, clock: &mut i64) {
        self.int(moment.0.wrapping_sub(*clock));
        *clock = moment.0;
    }

    /// Puts the length of what is written before it, so that a reader can pass over it.
    pub(super) fn framed(&mut self, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.uint(inner.0.len() as u64);
        self.0.append(&mut inner.0);
    }
}

/// Reads what [`Writer`] wrote; `None` where the bytes end too early.
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

    /// So many bytes as they are.
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

    /// A number that must fit.
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

    pub(super) fn moment(&mut self, clock: &mut i64) -> Option<Timestamp> {
        *clock = clock.wrapping_add(self.int()?);
        Some(Timestamp(*clock))
    }

    pub(super) fn framed(&mut self) -> Option<Reader<'a>> {
        let length = usize::try_from(self.uint()?).ok()?;
        let (framed, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(Reader(framed))
    }
}
