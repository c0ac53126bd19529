//! [`Mutator`]: changes inputs, always in the same way. It is cheap and does not use coverage; libFuzzer does.

/// Maximum size of a mutated input, in bytes.
const SIZE_MAX: usize = 32 << 10;
/// Maximum number of changes to one input.
const CHANGES_MAX: usize = 4;
/// Maximum length of a piece that is removed, repeated or taken over, in bytes.
const PIECE_MAX: usize = 64;
/// Maximum number of times that a piece is repeated, as a power of two.
const REPEAT_BITS_MAX: usize = 8;
/// Bytes with a meaning in many formats.
const BYTES: [u8; 16] =
    [0, 1, 0x7f, 0x80, 0xc0, 0xc1, 0xff, b'\n', b'"', b'\\', b'$', b'%', b'{', b'}', b'[', b','];
/// Numbers at the edges of types.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1e999",
    "1.5e-9223372036854775808",
    "127",
    "65536",
    "2147483648",
    "4294967295",
    "-9223372036854775808",
    "9223372036854775807",
    "18446744073709551615",
    "340282366920938463463374607431768211456",
];

/// Changes inputs of a target.
#[derive(Debug)]
pub struct Mutator {
    random: u64,
    words: &'static [&'static str],
}

impl Mutator {
    /// A mutator for a target. Its changes depend on nothing but the name.
    pub fn new(name: &str, words: &'static [&'static str]) -> Self {
        // FNV-1a.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self { random: name.bytes().fold(0xcbf2_9ce4_8422_2325, hash) | 1, words }
    }

    /// A changed `input`. Pieces of `other` may be taken over.
    pub fn mutate(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..=self.below(CHANGES_MAX) {
            self.change(&mut bytes, other);
            bytes.truncate(SIZE_MAX);
        }
        bytes
    }

    /// A number below `bound`, or 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % bound.max(1)
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + 1 + self.below(PIECE_MAX)).min(bytes.len());
        match self.below(7) {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
            1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = BYTES[self.below(BYTES.len())];
                }
            }
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].repeat(1 << self.below(REPEAT_BITS_MAX));
                insert(bytes, at, &piece);
            }
            4 => {
                let from = self.below(other.len() + 1);
                let to = (from + 1 + self.below(PIECE_MAX)).min(other.len());
                insert(bytes, at, &other[from..to]);
            }
            5 => {
                let number = NUMBERS[self.below(NUMBERS.len())];
                insert(bytes, at, number.as_bytes());
            }
            _ => {
                let word = self.below(self.words.len());
                if let Some(word) = self.words.get(word) {
                    insert(bytes, at, word.as_bytes());
                }
            }
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_makes_the_same_changes() {
        let mutations = |name: &str| {
            let mut mutator = Mutator::new(name, &["word"]);
            (0..100).map(|_| mutator.mutate(b"input", b"another")).collect::<Vec<_>>()
        };
        assert_eq!(mutations("a"), mutations("a"));
        assert_ne!(mutations("a"), mutations("b"));
        assert!(mutations("a").iter().any(|mutation| mutation != b"input"));
    }
}
