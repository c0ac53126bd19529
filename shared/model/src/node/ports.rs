//! Lists of ports and port ranges, such as `22,8000-8010`.

/// A list of ports and port ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortRanges(Vec<(u16, u16)>);

impl PortRanges {
    /// Parses a list. Returns `None` if any entry is invalid.
    pub fn read(list: &str) -> Option<Self> {
        match list {
            "" => Some(Self::default()),
            list => list.split(',').map(parse_range).collect::<Option<_>>().map(Self),
        }
    }

    /// Parses a list and skips invalid entries.
    pub fn of(list: &str) -> Self {
        Self(list.split(',').filter_map(parse_range).collect())
    }

    /// Whether the list contains `port`.
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }
}

fn parse_range(part: &str) -> Option<(u16, u16)> {
    match part.trim().split_once('-') {
        Some((first, last)) => Some((first.trim().parse().ok()?, last.trim().parse().ok()?)),
        None => part.trim().parse().ok().map(|port| (port, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_ports_and_ranges() {
        let ranges = PortRanges::read("22, 8000-8010").unwrap();
        assert!(ranges.contains(22) && ranges.contains(8_000) && ranges.contains(8_010));
        assert!(!ranges.contains(23) && !ranges.contains(8_011));
        assert_eq!(PortRanges::read(""), Some(PortRanges::default()));
    }

    #[test]
    fn invalid_port_ranges_are_noticed_or_left_out() {
        for garbled in ["22,x", "80-", "-", "70000"] {
            assert_eq!(PortRanges::read(garbled), None, "{garbled}");
        }
        assert!(PortRanges::of("22,x").contains(22));
    }
}
