//! [`NodePorts`]: the ports that allocations use on a node.

use model::Text;

/// Which allocations of a node count, for resources and for ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Allocations that are not client-terminal: what schedulers count (`docs/rules/scheduling.md` ).
    Held,
    /// Allocations that are neither client-terminal nor server-terminal: what the applier counts.
    Live,
}

/// One port on one address, and the number of allocations that use it in each view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PortUse {
    address: u32,
    port: u16,
    held: u32,
    live: u32,
}

/// The used ports on each address of a node, ascending.
#[derive(Debug, Clone, Default)]
pub struct NodePorts {
    addresses: Vec<Text>,
    used: Vec<PortUse>,
}

impl NodePorts {
    /// Whether any allocation uses the port on the address.
    pub fn is_used(&self, address: &str, port: u16, view: View) -> bool {
        self.holders(address, port, view) > 0
    }

    /// The number of allocations that use the port on the address.
    pub fn holders(&self, address: &str, port: u16, view: View) -> u32 {
        let Some(address) = self.addresses.iter().position(|known| &**known == address) else { return 0 };
        let position =
            self.used.binary_search_by_key(&(address, port), |used| (used.address as usize, used.port));
        position.map_or(0, |position| self.used[position].count(view))
    }

    /// All used ports with their addresses.
    pub fn iter(&self, view: View) -> impl Iterator<Item = (&Text, u16)> {
        let used = self.used.iter().filter(move |used| used.count(view) > 0);
        used.map(|used| (&self.addresses[used.address as usize], used.port))
    }

    /// Ports that more than one allocation uses on the same address.
    pub fn collisions(&self, view: View) -> impl Iterator<Item = (&Text, u16)> {
        let shared = self.used.iter().filter(move |used| used.count(view) > 1);
        shared.map(|used| (&self.addresses[used.address as usize], used.port))
    }

    /// Adds to the number of allocations that use a port; negative numbers subtract. Schedulers do this on a clone.
    pub fn count(&mut self, address: &str, port: u16, held: i32, live: i32) {
        let address = self.intern_address(address);
        let key = (address, port);
        match self.used.binary_search_by_key(&key, |used| (used.address, used.port)) {
            Ok(position) => {
                let used = &mut self.used[position];
                used.held = used.held.saturating_add_signed(held);
                used.live = used.live.saturating_add_signed(live);
                if used.held == 0 && used.live == 0 {
                    self.used.remove(position);
                }
            }
            Err(position) => {
                let unused = PortUse { address, port, held: 0, live: 0 };
                let used = PortUse { held: held.max(0) as u32, live: live.max(0) as u32, ..unused };
                if used != unused {
                    self.used.insert(position, used);
                }
            }
        }
    }

    /// The position of an address in the list of addresses, to which it is added if necessary.
    fn intern_address(&mut self, address: &str) -> u32 {
        let position = self.addresses.iter().position(|known| &**known == address).unwrap_or_else(|| {
            self.addresses.push(address.into());
            self.addresses.len() - 1
        });
        u32::try_from(position).expect("2³² addresses do not fit into memory")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used.is_empty()
    }
}

impl PortUse {
    fn count(&self, view: View) -> u32 {
        match view {
            View::Held => self.held,
            View::Live => self.live,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_used_until_its_last_holder_is_gone() {
        let mut ports = NodePorts::default();
        let ip = "10.0.0.1";
        ports.count(ip, 80, 1, 1);
        ports.count(ip, 80, 1, 0);
        assert!(ports.is_used(ip, 80, View::Live));
        assert_eq!(ports.collisions(View::Held).count(), 1);
        ports.count(ip, 80, -1, -1);
        assert!(!ports.is_used(ip, 80, View::Live));
        assert!(ports.is_used(ip, 80, View::Held));
        ports.count(ip, 80, -1, 0);
        assert!(ports.is_empty());
    }

    #[test]
    fn another_address_does_not_matter() {
        let mut ports = NodePorts::default();
        ports.count("10.0.0.1", 80, 1, 1);
        assert!(!ports.is_used("10.0.0.2", 80, View::Held));
    }
}
