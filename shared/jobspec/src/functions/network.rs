//! Functions on network addresses. An address is a number of 32 or 128 bits. A network is the number of its leading bits that
//! are fixed, and their values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Context, Failure, FunctionResult, bad_argument, fail, number_of, text_of, whole};
use crate::{
    shown::quoted,
    value::{Sequence, Value},
};

/// Maximum number of bits by which a prefix is extended.
const NEW_BITS_MAX: i64 = 32;

#[derive(Clone, Copy)]
struct Network {
    /// The address with all bits after the prefix zero.
    address: u128,
    prefix: u32,
    /// Number of bits of an address.
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Result<Network, Failure> {
        let parts = text.split_once('/').and_then(|(address, prefix)| {
            let is_plain = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
            Some((address.parse::<IpAddr>().ok()?, prefix.parse::<u32>().ok().filter(|_| is_plain)?))
        });
        let (address, prefix, bits) = match parts {
            Some((IpAddr::V4(address), prefix)) => (u128::from(address.to_bits()), prefix, 32),
            Some((IpAddr::V6(address), prefix)) => (address.to_bits(), prefix, 128),
            None => return fail(format!("{} is not a network such as 10.0.0.0/8", quoted(text))),
        };
        if prefix > bits {
            return fail(format!("{} has a prefix of more than {bits} bits", quoted(text)));
        }
        let network = Network { address: 0, prefix, bits };
        Ok(Network { address: address & network.mask(), ..network })
    }

    /// Number of bits after the prefix.
    fn host_bits(self) -> u32 {
        self.bits - self.prefix
    }

    fn mask(self) -> u128 {
        let all = u128::MAX.checked_shr(128 - self.bits).unwrap_or(0);
        all & u128::MAX.checked_shl(self.host_bits()).unwrap_or(0)
    }

    fn shown(self, address: u128) -> String {
        match u32::try_from(address) {
            Ok(address) if self.bits == 32 => Ipv4Addr::from_bits(address).to_string(),
            _ => Ipv6Addr::from_bits(address).to_string(),
        }
    }
}

/// The address with a number in a network. A negative number counts from the end.
pub(super) fn cidrhost(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let network = Network::parse(text_of(&arguments[0]))?;
    let number = number_of(&arguments[1]).to_bigint().map(i128::try_from);
    let Some(number) = number else { return bad_argument(1, "a whole number is required") };
    let count = 1_u128.checked_shl(network.host_bits()).unwrap_or(u128::MAX);
    let host = match number {
        Ok(number @ 0..) => number.unsigned_abs(),
        Ok(number) => count.wrapping_sub(number.unsigned_abs()),
        Err(_) => count,
    };
    if host >= count {
        let prefix = network.prefix;
        return fail(format!("a network with a prefix of {prefix} bits has no address with that number"));
    }
    Ok(Value::text(network.shown(network.address | host)))
}

pub(super) fn cidrnetmask(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let network = Network::parse(text_of(&arguments[0]))?;
    if network.bits != 32 {
        return fail("the netmask of an IPv6 network cannot be written in this form");
    }
    Ok(Value::text(network.shown(network.mask())))
}

/// The subnet with a number in a network.
pub(super) fn cidrsubnet(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let network = Network::parse(text_of(&arguments[0]))?;
    let (new_bits, number) = (whole(&arguments, 1)?, number_of(&arguments[2]).to_bigint());
    let Some(number) = number.and_then(|number| u128::try_from(number).ok()) else {
        return bad_argument(2, "a whole number that is not negative is required");
    };
    let Ok(new_bits) = u32::try_from(new_bits) else {
        return bad_argument(1, "the number of bits must not be negative");
    };
    if new_bits > network.host_bits() {
        let prefix = network.prefix;
        return fail(format!("a prefix of {prefix} bits cannot be extended by {new_bits}"));
    }
    if number >= 1_u128.checked_shl(new_bits).unwrap_or(u128::MAX) {
        return fail(format!("{new_bits} more bits are not enough for a subnet with number {number}"));
    }
    let prefix = network.prefix + new_bits;
    let address = network.address | number.checked_shl(network.bits - prefix).unwrap_or(0);
    Ok(Value::text(format!("{}/{prefix}", network.shown(address))))
}

/// Consecutive subnets of a network, each with a prefix that is longer by a number of bits.
pub(super) fn cidrsubnets(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let network = Network::parse(text_of(&arguments[0]))?;
    let last = network.address | !network.mask() & u128::MAX.checked_shr(128 - network.bits).unwrap_or(0);
    let (mut subnets, mut next) = (Vec::new(), Some(network.address));
    for index in 1..arguments.len() {
        let new_bits = whole(&arguments, index)?;
        if !(1..=NEW_BITS_MAX).contains(&new_bits) {
            return bad_argument(index, format!("a prefix can be extended by 1 to {NEW_BITS_MAX} bits"));
        }
        let prefix = network.prefix + new_bits as u32;
        if prefix > network.bits {
            return bad_argument(
                index,
                format!("there are only {} bits after the prefix", network.host_bits()),
            );
        }
        let size = 1_u128 << (network.bits - prefix);
        // The next address that is a multiple of the size.
        let start = next.and_then(|next| next.checked_next_multiple_of(size));
        let Some(start) = start.filter(|start| *start <= last) else {
            return bad_argument(
                index,
                format!("there is no room for a prefix of {prefix} bits after the others"),
            );
        };
        subnets.push(Value::text(format!("{}/{prefix}", network.shown(start))));
        next = start.checked_add(size);
    }
    Ok(Value::List(Sequence::List, subnets))
}
