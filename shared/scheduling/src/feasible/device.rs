//! Device requests: which device groups of a node match them, regardless of other allocations (`docs/rules/scheduling.md`
//! R-5.24 to R-5.28).

use std::cmp::Ordering;

use model::job::{Affinity, Constraint, Operand, RequestedDevice};
use model::node::{NodeDevice, NodeDeviceGroup};
use regex::Regex;

use super::attribute::Value;
use super::condition::{compile, items};
use super::version::{Bounds, Rules};

/// A request for instances of a device, prepared for many nodes.
#[derive(Debug)]
pub(crate) struct DeviceRequest<'a> {
    vendor: Option<&'a str>,
    kind: &'a str,
    name: Option<&'a str>,
    /// Number of instances.
    pub(crate) count: usize,
    constraints: Vec<DeviceCondition<'a>>,
    affinities: Vec<(DeviceCondition<'a>, f64)>,
}

impl<'a> DeviceRequest<'a> {
    pub(crate) fn of(requested: &'a RequestedDevice) -> Self {
        let mut parts = requested.name.splitn(3, '/');
        let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let (vendor, kind) = second.map_or((None, first), |kind| (Some(first), kind));
        let affinity = |affinity: &'a Affinity| {
            let Affinity { l_target, r_target, operand, weight } = affinity;
            (DeviceCondition::new(l_target, *operand, r_target), *weight as f64)
        };
        let constraint = |constraint: &'a Constraint| {
            DeviceCondition::new(&constraint.l_target, constraint.operand, &constraint.r_target)
        };
        Self {
            vendor,
            kind,
            name: third,
            count: usize::try_from(requested.count).unwrap_or(usize::MAX),
            constraints: requested.constraints.iter().map(constraint).collect(),
            affinities: requested.affinities.iter().map(affinity).collect(),
        }
    }

    /// Whether a device group matches the request's name and constraints.
    pub(crate) fn matches(&self, group: &NodeDeviceGroup) -> bool {
        let is = |requested: Option<&str>, is: &str| requested.is_none_or(|requested| requested == is);
        is(self.vendor, &group.vendor)
            && self.kind == &*group.kind
            && is(self.name, &group.name)
            && self.constraints.iter().all(|condition| condition.holds_on(group))
    }

    /// Whether an instance of a matching group is healthy and satisfies the constraints on ids.
    pub(crate) fn admits(&self, instance: &NodeDevice) -> bool {
        instance.healthy && self.constraints.iter().all(|condition| condition.admits(&instance.id))
    }

    /// Sum of the weights of the affinities that a device group satisfies.
    pub(crate) fn affinity(&self, group: &NodeDeviceGroup) -> f64 {
        let held = self.affinities.iter().filter(|(condition, _)| condition.holds_on(group));
        held.map(|(_, weight)| weight).sum()
    }

    /// Sum of the absolute weights of all affinities.
    pub(crate) fn weights(&self) -> f64 {
        self.affinities.iter().map(|(_, weight)| weight.abs()).sum()
    }
}

/// Whether a node's devices cover all requests of a group's tasks, regardless of other allocations (R-5.25). Several
/// device groups may cover one request.
pub(super) fn covers(requests: &[DeviceRequest<'_>], devices: &[NodeDeviceGroup]) -> bool {
    let healthy = |devices: &NodeDeviceGroup| devices.instances.iter().filter(|one| one.healthy).count();
    let mut left: Vec<usize> = devices.iter().map(healthy).collect();
    requests.iter().all(|request| {
        let mut missing = request.count;
        for (devices, left) in devices.iter().zip(&mut left) {
            if missing > 0 && *left > 0 && request.matches(devices) {
                let taken = missing.min(*left);
                *left -= taken;
                missing -= taken;
            }
        }
        missing == 0
    })
}

/// Whether some request refers to what is unique to a node: instance ids, or attributes that classes leave out (R-4.1).
pub(super) fn ask_for_instances(requests: &[DeviceRequest<'_>]) -> bool {
    let mut conditions = requests.iter().flat_map(|request| &request.constraints);
    conditions.any(|condition| condition.left.is_unique() || condition.right.is_unique())
}

/// A constraint or an affinity on a device.
#[derive(Debug)]
struct DeviceCondition<'a> {
    left: Side<'a>,
    test: Test,
    right: Side<'a>,
}

/// An operator, prepared for many devices.
#[derive(Debug)]
enum Test {
    Operand(Operand),
    /// The right side is a regular expression; `None` if it cannot be compiled, so nothing matches it.
    Expression(Option<Regex>),
}

/// Where the value of one side comes from.
#[derive(Debug)]
enum Side<'a> {
    Literal(Value),
    Ids,
    Model,
    Vendor,
    Kind,
    Attribute(&'a str),
    /// A reference that no device resolves.
    Unknown,
}

impl<'a> Side<'a> {
    fn parse(target: &'a str) -> Self {
        let Some(name) = target.strip_prefix("${") else { return Self::Literal(Value::parse(target)) };
        match name.strip_suffix('}').and_then(|name| name.strip_prefix("device.")) {
            Some("ids") => Self::Ids,
            Some("model") => Self::Model,
            Some("vendor") => Self::Vendor,
            Some("type") => Self::Kind,
            Some(name) => name.strip_prefix("attr.").map_or(Self::Unknown, Self::Attribute),
            None => Self::Unknown,
        }
    }

    /// Whether it refers to what is unique to a node.
    fn is_unique(&self) -> bool {
        match self {
            Self::Ids => true,
            Self::Attribute(name) => name.starts_with("unique."),
            Self::Literal(_) | Self::Model | Self::Vendor | Self::Kind | Self::Unknown => false,
        }
    }

    fn resolve(&self, group: &NodeDeviceGroup) -> Option<Value> {
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        match self {
            Self::Literal(value) => Some(value.clone()),
            Self::Ids => {
                let ids: Vec<&str> = group.instances.iter().map(|instance| &*instance.id).collect();
                Some(Value::Text(ids.join(",")))
            }
            Self::Model => text(&group.name),
            Self::Vendor => text(&group.vendor),
            Self::Kind => text(&group.kind),
            Self::Attribute(name) => group.attributes.get(*name).and_then(Value::of),
            Self::Unknown => None,
        }
    }
}

impl<'a> DeviceCondition<'a> {
    fn new(left: &'a str, operand: Operand, right: &'a str) -> Self {
        let (left, right) = match (Side::parse(left), operand, Side::parse(right)) {
            // As for all operators, the literal may be on either side of ids. It is the expression.
            (literal @ Side::Literal(_), Operand::Regexp, Side::Ids) => (Side::Ids, literal),
            (left, _, right) => (left, right),
        };
        let test = match (operand, &right) {
            (Operand::Regexp, Side::Literal(right)) => Test::Expression(right.as_text().and_then(compile)),
            _ => Test::Operand(operand),
        };
        Self { left, test, right }
    }

    fn holds_on(&self, group: &NodeDeviceGroup) -> bool {
        self.test.holds(self.left.resolve(group), || self.right.resolve(group))
    }

    /// Whether a single instance satisfies a condition on ids. A list names the acceptable instances.
    fn admits(&self, id: &str) -> bool {
        let other = match (&self.left, &self.right) {
            (Side::Ids, Side::Literal(other)) | (Side::Literal(other), Side::Ids) => other,
            _ => return true,
        };
        let is_list = matches!(
            self.test,
            Test::Operand(
                Operand::Equal
                    | Operand::DoubleEqual
                    | Operand::Is
                    | Operand::SetContains
                    | Operand::SetContainsAll
                    | Operand::SetContainsAny
            )
        );
        match is_list {
            true => other.as_text().is_some_and(|list| items(list).any(|item| item == id)),
            false => self.test.holds(Some(Value::Text(id.to_owned())), || Some(other.clone())),
        }
    }
}

impl Test {
    fn holds(&self, left: Option<Value>, right: impl FnOnce() -> Option<Value>) -> bool {
        match self {
            Self::Operand(operand) => holds(left, *operand, right()),
            Self::Expression(expression) => {
                let text = left.as_ref().and_then(Value::as_text);
                text.zip(expression.as_ref()).is_some_and(|(text, expression)| expression.is_match(text))
            }
        }
    }
}

/// Evaluates a condition on typed values (R-5.27).
fn holds(left: Option<Value>, operand: Operand, right: Option<Value>) -> bool {
    let both = left.as_ref().zip(right.as_ref());
    let ordering = || both.and_then(|(left, right)| left.compare(right));
    let texts = || both.and_then(|(left, right)| Some((left.as_text()?, right.as_text()?)));
    let within = |rules| {
        let bounds = both.and_then(|(left, right)| Some((left.as_version()?, right.as_version()?)));
        bounds.is_some_and(|(version, bounds)| {
            Bounds::parse(&bounds, rules).is_some_and(|bounds| bounds.admit(&version))
        })
    };
    match operand {
        Operand::Equal | Operand::DoubleEqual | Operand::Is => ordering().is_some_and(Ordering::is_eq),
        Operand::NotEqual | Operand::Not => match (&left, &right) {
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
            (Some(_), Some(_)) => ordering().is_some_and(Ordering::is_ne),
        },
        Operand::Less => ordering().is_some_and(Ordering::is_lt),
        Operand::LessOrEqual => ordering().is_some_and(Ordering::is_le),
        Operand::Greater => ordering().is_some_and(Ordering::is_gt),
        Operand::GreaterOrEqual => ordering().is_some_and(Ordering::is_ge),
        Operand::IsSet => left.is_some(),
        Operand::IsNotSet => left.is_none(),
        Operand::Version => within(Rules::Version),
        Operand::Semver => within(Rules::Semver),
        Operand::Regexp => texts()
            .is_some_and(|(left, right)| compile(right).is_some_and(|expression| expression.is_match(left))),
        Operand::SetContains | Operand::SetContainsAll => texts()
            .is_some_and(|(left, right)| items(right).all(|wanted| items(left).any(|item| item == wanted))),
        Operand::SetContainsAny => texts()
            .is_some_and(|(left, right)| items(right).any(|wanted| items(left).any(|item| item == wanted))),
        // Device groups have no hosts or properties.
        Operand::DistinctHosts | Operand::DistinctProperty => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: &str = "${device.ids}";

    fn gpus() -> NodeDeviceGroup {
        let instance = |id: &str, healthy| NodeDevice { id: id.into(), healthy, ..NodeDevice::default() };
        let memory = model::node::Attribute {
            int: Some(11_264),
            unit: Some("MiB".to_owned()),
            ..model::node::Attribute::default()
        };
        NodeDeviceGroup {
            vendor: "nvidia".into(),
            kind: "gpu".into(),
            name: "2080ti".into(),
            instances: vec![instance("a", true), instance("b", false), instance("c", true)],
            attributes: [("memory".into(), memory)].into(),
        }
    }

    fn request_for(name: &str, constraint: Option<(&str, Operand, &str)>) -> RequestedDevice {
        let constraint = constraint.map(|(left, operand, right)| Constraint {
            l_target: left.into(),
            r_target: right.into(),
            operand,
        });
        RequestedDevice {
            name: name.into(),
            count: 1,
            constraints: constraint.into_iter().collect(),
            ..RequestedDevice::default()
        }
    }

    #[test]
    fn every_part_of_a_name_must_agree() {
        let matches = |name| DeviceRequest::of(&request_for(name, None)).matches(&gpus());
        assert!(matches("gpu") && matches("nvidia/gpu") && matches("nvidia/gpu/2080ti"));
        assert!(!matches("nvidia") && !matches("amd/gpu") && !matches("nvidia/gpu/1080ti"));
    }

    #[test]
    fn constraints_are_on_typed_values() {
        let matches = |left, operand, right| {
            DeviceRequest::of(&request_for("gpu", Some((left, operand, right)))).matches(&gpus())
        };
        assert!(matches("${device.attr.memory}", Operand::GreaterOrEqual, "11 GiB"));
        assert!(!matches("${device.attr.memory}", Operand::GreaterOrEqual, "12 GiB"));
        assert!(!matches("${device.attr.memory}", Operand::NotEqual, "11264"), "they cannot be compared");
        assert!(matches("${device.attr.none}", Operand::NotEqual, "1"));
        assert!(matches("${device.model}", Operand::Regexp, "ti$"));
    }

    #[test]
    fn ids_name_the_instances_that_will_do() {
        let requested = request_for("gpu", Some((IDS, Operand::SetContains, "c,b")));
        let request = DeviceRequest::of(&requested);
        let admitted = |group: &NodeDeviceGroup| -> Vec<bool> {
            group.instances.iter().map(|instance| request.admits(instance)).collect()
        };
        assert_eq!(admitted(&gpus()), [false, false, true]);
    }

    #[test]
    fn ids_may_match_an_expression() {
        for (left, right) in [(IDS, "^[ab]$"), ("^[ab]$", IDS)] {
            let requested = request_for("gpu", Some((left, Operand::Regexp, right)));
            let request = DeviceRequest::of(&requested);
            let admitted: Vec<bool> =
                gpus().instances.iter().map(|instance| request.admits(instance)).collect();
            assert_eq!(admitted, [true, false, false], "{left} {right}");
        }
        let large = r"(?i)\p{L}{0,200}".repeat(3);
        let requested = request_for("gpu", Some(("${device.model}", Operand::Regexp, &large)));
        assert!(!DeviceRequest::of(&requested).matches(&gpus()), "too large");
    }

    #[test]
    fn several_makes_may_cover_a_request() {
        let devices = [gpus(), NodeDeviceGroup { name: "t4".into(), ..gpus() }];
        let are_covered = |count| {
            let requested = RequestedDevice { count, ..request_for("gpu", None) };
            covers(&[DeviceRequest::of(&requested)], &devices)
        };
        assert!(are_covered(4));
        assert!(!are_covered(5), "two of the six instances are unhealthy");
    }
}
