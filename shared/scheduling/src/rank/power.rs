//! 10ˣ with the same result on every machine. The result of the standard library's `powf` depends on the platform, and
//! a score that differs in its last bit may select another node.

use std::f64::consts::{LN_2, LOG2_10};

/// Smaller exponents are replaced by this one; 10⁻⁸ has no effect on a score.
const EXPONENT_MIN: f64 = -8.0;
/// Adding and subtracting this number rounds to a whole number: 1.5 · 2⁵².
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// 2⁵² plus the bias of an exponent: adding a whole number to it leaves the biased number in the lowest bits.
const EXPONENT_BITS: f64 = 4_503_599_627_370_496.0 + 1_023.0;
const MANTISSA_BITS: u32 = 52;
/// Coefficients 1/n! of the series of eˣ; enough for |x| up to ln 2 / 2.
const SERIES: [f64; 14] = {
    let mut factors = [1.0; 14];
    let mut n = 1;
    while n < factors.len() {
        factors[n] = factors[n - 1] / n as f64;
        n += 1;
    }
    factors
};

/// 10ˣ to 1 part in 10¹⁴, for x up to 300; below -8 as at -8.
///
/// Contains no branches and no calls, so that a loop over it is vectorized.
#[inline(always)]
pub(crate) fn ten_to(x: f64) -> f64 {
    let twos = x.max(EXPONENT_MIN) * LOG2_10;
    let whole = (twos + ROUNDER) - ROUNDER;
    let rest = (twos - whole) * LN_2;
    let sum = SERIES.iter().rev().fold(0.0, |sum, factor| sum * rest + factor);
    sum * f64::from_bits((whole + EXPONENT_BITS).to_bits() << MANTISSA_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_close_to_the_platforms() {
        for step in 0..9_200 {
            let x = -8.0 + f64::from(step) * 1e-3;
            let error = (ten_to(x) / 10f64.powf(x) - 1.0).abs();
            assert!(error < 1e-14, "{x}: {error}");
        }
        assert_eq!((ten_to(0.0), ten_to(-9.0)), (1.0, ten_to(-8.0)));
    }
}
