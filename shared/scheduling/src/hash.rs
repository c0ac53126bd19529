//! Deterministic hashes that replace random numbers.

/// Mixes the bits of a number (the finaliser of SplitMix64).
pub(crate) const fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Hashes an id.
pub(crate) fn of_id(id: &[u8; 16]) -> u64 {
    let [high, low] = halves(id);
    mix(high ^ mix(low))
}

/// Hashes a number with a seed. Fast, because it runs for every node in every pass.
#[inline(always)]
pub(crate) fn of_number_with(seed: u64, number: u32) -> u64 {
    let spread = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    let product = u128::from(spread) * 0xbf58_476d_1ce4_e5b9_u128;
    (product >> 64) as u64 ^ product as u64
}

fn halves(id: &[u8; 16]) -> [u64; 2] {
    let bits = u128::from_be_bytes(*id);
    [(bits >> 64) as u64, bits as u64]
}
