//! The ports in use on a node.

use model::Text;

/// Whose ports count: what a node still holds, or what is wanted of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Allocations that are not client-terminal: what schedulers count (`spec/scheduling.md` ).
    Held,
    /// Those of them that are not server-terminal either: what the applier counts.
    Live,
}

/// One port on one address, and by how many allocations it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PortUse {
    address: u16,
    port: u16,
    held: u16,
    live: u16,
}

/// The ports in use on each address of a node, ascending.
#[derive(Debug, Clone, Default)]
pub struct NodePorts {
    addresses: Vec<Text>,
    used: Vec<PortUse>,
}

impl NodePorts {
    /// Whether some allocation has the port open on the address.
    pub fn is_used(&self, address: &str, port: u16, view: View) -> bool {
        self.holders(address, port, view) > 0
    }

    /// How many allocations have the port open on the address.
    pub fn holders(&self, address: &str, port: u16, view: View) -> u16 {
        let Some(address) = self.addresses.iter().position(|known| &**known == address) else { return 0 };
        let place =
            self.used.binary_search_by_key(&(address, port), |used| (usize::from(used.address), used.port));
        place.map_or(0, |place| self.used[place].count(view))
    }

    /// Every port in use with its address.
    pub fn iter(&self, view: View) -> impl Iterator<Item = (&Text, u16)> {
        let used = self.used.iter().filter(move |used| used.count(view) > 0);
        used.map(|used| (&self.addresses[usize::from(used.address)], used.port))
    }

    /// Ports that more than one allocation has open on the same address.
    pub fn collisions(&self, view: View) -> impl Iterator<Item = (&Text, u16)> {
        let twice = self.used.iter().filter(move |used| used.count(view) > 1);
        twice.map(|used| (&self.addresses[usize::from(used.address)], used.port))
    }

    /// Adds `held` and `live` holders of a port; negative numbers take them away. Whoever plans does so on a clone.
    pub fn count(&mut self, address: &str, port: u16, held: i16, live: i16) {
        let address = self.address(address);
        let key = (address, port);
        match self.used.binary_search_by_key(&key, |used| (used.address, used.port)) {
            Ok(place) => {
                let used = &mut self.used[place];
                used.held = used.held.saturating_add_signed(held);
                used.live = used.live.saturating_add_signed(live);
                if used.held == 0 && used.live == 0 {
                    self.used.remove(place);
                }
            }
            Err(place) => {
                let none = PortUse { address, port, held: 0, live: 0 };
                let used = PortUse { held: held.max(0) as u16, live: live.max(0) as u16, ..none };
                if used != none {
                    self.used.insert(place, used);
                }
            }
        }
    }

    fn address(&mut self, address: &str) -> u16 {
        let place = self.addresses.iter().position(|known| &**known == address).unwrap_or_else(|| {
            self.addresses.push(address.into());
            self.addresses.len() - 1
        });
        u16::try_from(place).expect("a node has fewer than 65,536 addresses")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used.is_empty()
    }
}

impl PortUse {
    fn count(&self, view: View) -> u16 {
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
