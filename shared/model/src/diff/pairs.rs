//! Pairs the blocks of two versions of a job that have no identity of their own (http-api A.10): services, which may be
//! renamed, and blocks that one member identifies most of the time, such as the destination of a template. The rules do not
//! say how the reference pairs them; this is what its recorded plans show.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use serde_json::Value;

/// The absent side of a block that only one version has.
static NONE: Value = Value::Null;

/// A block of the old version and one of the new version; null if there is none.
type Pair<'a> = (&'a Value, &'a Value);

/// Pairs blocks whose member `key` is equal, in their order. Blocks that both versions have are unchanged, and left out.
pub(super) fn by_member<'a>(old: &'a [Value], new: &'a [Value], key: &str) -> Vec<Pair<'a>> {
    let [in_old, in_new] = [old, new].map(|items| items.iter().collect::<HashSet<_>>());
    let mut added: BTreeMap<String, VecDeque<&Value>> = BTreeMap::new();
    for item in new.iter().filter(|item| !in_old.contains(item)) {
        added.entry(to_text(&item[key])).or_default().push_back(item);
    }
    let mut pairs = Vec::new();
    for item in old.iter().filter(|item| !in_new.contains(item)) {
        let other = added.get_mut(&to_text(&item[key])).and_then(VecDeque::pop_front);
        pairs.push((item, other.unwrap_or(&NONE)));
    }
    pairs.extend(added.into_values().flatten().map(|item| (&NONE, item)));
    pairs
}

/// Pairs services. Each service of the old version gets the service of the new version that is most like it, of those that
/// no earlier one got: the name counts most, then the port, then the position. One that has neither the name, nor both the
/// port and the position, is another service.
pub(super) fn services<'a>(old: &'a [Value], new: &'a [Value]) -> Vec<Pair<'a>> {
    let mut unpaired = Unpaired::new(new);
    let mut pairs = Vec::new();
    for (position, service) in old.iter().enumerate() {
        let like = unpaired.most_like(service, position);
        let other = like.and_then(|like| unpaired.take(like));
        pairs.push((service, other.unwrap_or(&NONE)));
    }
    pairs.extend(unpaired.left.iter().filter_map(|position| Some((&NONE, new.get(*position)?))));
    pairs
}

fn name(service: &Value) -> &str {
    service["Name"].as_str().unwrap_or_default()
}

fn port(service: &Value) -> &str {
    service["PortLabel"].as_str().unwrap_or_default()
}

/// Services of the new version that have no partner yet, by position.
struct Unpaired<'a> {
    services: &'a [Value],
    left: BTreeSet<usize>,
    by_name: BTreeMap<&'a str, BTreeSet<usize>>,
    by_name_and_port: BTreeMap<(&'a str, &'a str), BTreeSet<usize>>,
}

impl<'a> Unpaired<'a> {
    fn new(services: &'a [Value]) -> Self {
        let (mut by_name, mut by_name_and_port) =
            (BTreeMap::<_, BTreeSet<_>>::new(), BTreeMap::<_, BTreeSet<_>>::new());
        for (position, service) in services.iter().enumerate() {
            by_name.entry(name(service)).or_default().insert(position);
            by_name_and_port.entry((name(service), port(service))).or_default().insert(position);
        }
        Self { services, left: (0..services.len()).collect(), by_name, by_name_and_port }
    }

    /// Position of the service that is most like `service`; of several, that of the first.
    fn most_like(&self, service: &Value, position: usize) -> Option<usize> {
        let here = self.services.get(position).filter(|_| self.left.contains(&position));
        let (has_name, has_port) =
            here.map_or((false, false), |here| (name(here) == name(service), port(here) == port(service)));
        if has_name && has_port {
            return Some(position);
        }
        let same = self.by_name_and_port.get(&(name(service), port(service))).and_then(BTreeSet::first);
        if same.is_some() || has_name {
            return same.copied().or(Some(position));
        }
        let named = self.by_name.get(name(service)).and_then(BTreeSet::first).copied();
        let beside = has_port.then_some(position);
        named.into_iter().chain(beside).min()
    }

    /// Takes a service out.
    fn take(&mut self, position: usize) -> Option<&'a Value> {
        let service = self.services.get(position)?;
        self.left.remove(&position);
        if let Some(positions) = self.by_name.get_mut(name(service)) {
            positions.remove(&position);
        }
        if let Some(positions) = self.by_name_and_port.get_mut(&(name(service), port(service))) {
            positions.remove(&position);
        }
        Some(service)
    }
}

/// A scalar as a text; nothing is the empty text, and other values are JSON.
pub(super) fn to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(name: &str, port: &str) -> Value {
        json!({ "Name": name, "PortLabel": port })
    }

    fn names(pairs: &[Pair<'_>]) -> Vec<(String, String)> {
        pairs.iter().map(|(old, new)| (name(old).to_owned(), name(new).to_owned())).collect()
    }

    fn expect(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect()
    }

    // http-api A.10
    #[test]
    fn services_are_paired_by_name_port_and_position() {
        let old = [service("one", ""), service("two", "")];
        let renamed = [service("uno", ""), service("two", "")];
        assert_eq!(names(&services(&old, &renamed)), expect(&[("one", "uno"), ("two", "two")]));
        // The first service gets the second one, which is now at its position; there is none left for the second.
        assert_eq!(names(&services(&old, &old[1..])), expect(&[("one", "two"), ("two", "")]));
        let moved = [service("two", "b"), service("one", "a")];
        let old = [service("one", "a"), service("two", "b")];
        assert_eq!(names(&services(&old, &moved)), expect(&[("one", "one"), ("two", "two")]));
        let others = [service("three", "c"), service("one", "z")];
        assert_eq!(names(&services(&old, &others)), expect(&[("one", "one"), ("two", ""), ("", "three")]));
    }

    #[test]
    fn many_services_take_no_longer_than_few() {
        let many = |first: usize| -> Vec<Value> {
            (first..first + 20_000).map(|number| service("same", &format!("p{number}"))).collect()
        };
        assert_eq!(services(&many(0), &many(1)).len(), 20_000);
    }

    // http-api A.10
    #[test]
    fn other_blocks_are_paired_by_one_member() {
        let block = |key: &str, value: u32| json!({ "Key": key, "Value": value });
        let old = [block("a", 1), block("b", 1), block("b", 2), block("c", 1)];
        let new = [block("b", 2), block("a", 2), block("b", 3), block("d", 1)];
        let (a, b, c, d) = (block("a", 1), block("b", 1), block("c", 1), block("d", 1));
        let (new_a, new_b) = (block("a", 2), block("b", 3));
        let expected = [(&a, &new_a), (&b, &new_b), (&c, &NONE), (&NONE, &d)];
        assert_eq!(by_member(&old, &new, "Key"), expected);
    }
}
