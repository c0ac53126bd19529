//! Services of allocations and tasks: what is registered of them, and where.
//!
//! Pure: `address` says where a service is reached, `interpolate` replaces names in its texts.

pub(crate) mod address;
pub(crate) mod interpolate;
