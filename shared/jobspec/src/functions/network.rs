//! Functions of network addresses. An address is a number of 32 or 128 bits, a network so many leading ones of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Answer, Context, Wrong, number_of, refused, text_of, unfit, whole};
use crate::value::{Sequence, Value};

/// The most bits by which a network is divided.
const NEW_BITS_MAX: i64 = 32;

#[derive(Clone, Copy)]
struct Network {
    /// With nothing behind the prefix.
    address: u128,
    prefix: u32,
    /// Bits of an address.
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Result<Network, Wrong> {
        let parts = text.split_once('/').and_then(|(address, prefix)| {
            let is_plain = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
            Some((address.parse::<IpAddr>().ok()?, prefix.parse::<u32>().ok().filter(|_| is_plain)?))
        });
        let (address, prefix, bits) = match parts {
            Some((IpAddr::V4(address), prefix)) => (u128::from(address.to_bits()), prefix, 32),
            Some((IpAddr::V6(address), prefix)) => (address.to_bits(), prefix, 128),
            None => return refused(format!("{text:?} is no network such as 10.0.0.0/8")),
        };
        if prefix > bits {
            return refused(format!("{text:?} has a prefix of more than {bits} bits"));
        }
        let network = Network { address: 0, prefix, bits };
        Ok(Network { address: address & network.mask(), ..network })
    }

    /// Bits behind the prefix.
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

/// An address by its number; from the end if that is negative.
pub(super) fn cidrhost(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let network = Network::parse(text_of(&arguments[0]))?;
    let number = number_of(&arguments[1]).to_bigint().map(i128::try_from);
    let Some(number) = number else { return unfit(1, "a whole number is required") };
    let count = 1_u128.checked_shl(network.host_bits()).unwrap_or(u128::MAX);
    let host = match number {
        Ok(number @ 0..) => number.unsigned_abs(),
        Ok(number) => count.wrapping_sub(number.unsigned_abs()),
        Err(_) => count,
    };
    if host >= count {
        let prefix = network.prefix;
        return refused(format!("a network with a prefix of {prefix} bits has no address of that number"));
    }
    Ok(Value::text(network.shown(network.address | host)))
}

pub(super) fn cidrnetmask(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let network = Network::parse(text_of(&arguments[0]))?;
    if network.bits != 32 {
        return refused("networks of IPv6 have no mask in this form");
    }
    Ok(Value::text(network.shown(network.mask())))
}

/// A part of a network by its number.
pub(super) fn cidrsubnet(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let network = Network::parse(text_of(&arguments[0]))?;
    let (new_bits, number) = (whole(&arguments, 1)?, number_of(&arguments[2]).to_bigint());
    let Some(number) = number.and_then(|number| u128::try_from(number).ok()) else {
        return unfit(2, "a whole number of zero or more is required");
    };
    let Ok(new_bits) = u32::try_from(new_bits) else {
        return unfit(1, "the number of bits must not be negative");
    };
    if new_bits > network.host_bits() {
        let prefix = network.prefix;
        return refused(format!("a prefix of {prefix} bits cannot be extended by {new_bits}"));
    }
    if number >= 1_u128.checked_shl(new_bits).unwrap_or(u128::MAX) {
        return refused(format!("{new_bits} more bits have no room for a subnet numbered {number}"));
    }
    let prefix = network.prefix + new_bits;
    let address = network.address | number.checked_shl(network.bits - prefix).unwrap_or(0);
    Ok(Value::text(format!("{}/{prefix}", network.shown(address))))
}

/// Parts of a network one behind the other, each longer in its prefix by so many bits.
pub(super) fn cidrsubnets(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let network = Network::parse(text_of(&arguments[0]))?;
    let last = network.address | !network.mask() & u128::MAX.checked_shr(128 - network.bits).unwrap_or(0);
    let (mut subnets, mut next) = (Vec::new(), Some(network.address));
    for index in 1..arguments.len() {
        let new_bits = whole(&arguments, index)?;
        if !(1..=NEW_BITS_MAX).contains(&new_bits) {
            return unfit(index, format!("a prefix is extended by 1 to {NEW_BITS_MAX} bits"));
        }
        let prefix = network.prefix + new_bits as u32;
        if prefix > network.bits {
            return unfit(index, format!("there are only {} bits behind the prefix", network.host_bits()));
        }
        let size = 1_u128 << (network.bits - prefix);
        // The next place that is a multiple of the size.
        let start = next.and_then(|next| next.checked_next_multiple_of(size));
        let Some(start) = start.filter(|start| *start <= last) else {
            return unfit(index, format!("there is no room for a prefix of {prefix} bits behind the others"));
        };
        subnets.push(Value::text(format!("{}/{prefix}", network.shown(start))));
        next = start.checked_add(size);
    }
    Ok(Value::List(Sequence::List, subnets))
}
