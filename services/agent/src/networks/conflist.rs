//! Lists of CNI plugins: the one of the bridge, those that operators write, and what each plugin of a list is given on its
//! standard input (A-18.2, A-18.9). Pure.

use serde_json::{Map, Value, json};

use super::settings::Bridge;

/// The version of the specification that the bridge's list is written in (A-31).
const VERSION: &str = "0.4.0";
/// The name of the bridge's list (A-18.2). `host-local` keeps the addresses under it.
pub(crate) const BRIDGE_LIST: &str = "nomad";
/// The directory in which `host-local` keeps the addresses that are in use (A-18.2). It is empty after a reboot.
const ADDRESSES_DIR: &str = "/var/run/cni";
/// The chain of the firewall for rules of the operator, and for our own (A-18.2).
pub(crate) const ADMIN_CHAIN: &str = "NOMAD-ADMIN";
/// The plugins of the bridge's list, and `host-local`, which `bridge` calls (N-17.6).
pub(crate) const BRIDGE_PLUGINS: [&str; 5] = ["bridge", "firewall", "host-local", "loopback", "portmap"];
/// The first version of the specification with `CHECK`.
const CHECK_SINCE: [u64; 2] = [0, 4];
/// A plugin whose check fails for allocations with addresses of both families, although nothing is wrong.
const UNRELIABLE_CHECK: &str = "portmap";

/// A list of plugins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfList {
    /// The name of the network.
    pub(crate) name: String,
    version: Option<String>,
    disable_check: bool,
    plugins: Vec<Map<String, Value>>,
}

/// Why a configuration of an operator is not a list of plugins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Invalid {
    /// It is not JSON.
    #[error("it is not valid JSON: {0}")]
    Json(String),
    /// A member is missing or has the wrong type.
    #[error("{0}")]
    Member(&'static str),
}

impl ConfList {
    /// The list of the bridge.
    pub(crate) fn of_bridge(bridge: &Bridge) -> Self {
        let subnets = [Some(bridge.subnet), bridge.subnet_ipv6].into_iter().flatten();
        let ranges: Vec<_> = subnets.map(|subnet| json!([{ "subnet": subnet.to_string() }])).collect();
        let mut routes = vec![json!({ "dst": "0.0.0.0/0" })];
        if bridge.subnet_ipv6.is_some() {
            routes.push(json!({ "dst": "::/0" }));
        }
        let list = json!({
            "cniVersion": VERSION,
            "name": BRIDGE_LIST,
            "plugins": [
                { "type": "loopback" },
                {
                    "type": "bridge",
                    "bridge": bridge.name,
                    "ipMasq": true,
                    "isGateway": true,
                    "forceAddress": true,
                    "hairpinMode": bridge.hairpin,
                    "ipam": {
                        "type": "host-local",
                        "ranges": ranges,
                        "routes": routes,
                        "dataDir": ADDRESSES_DIR,
                    },
                },
                { "type": "firewall", "backend": "iptables", "iptablesAdminChainName": ADMIN_CHAIN },
                { "type": "portmap", "capabilities": { "portMappings": true }, "snat": true },
            ],
        });
        Self::of(list).expect("the list has all members")
    }

    /// Reads a configuration: a list of plugins, or one plugin.
    pub(crate) fn read(text: &str) -> Result<Self, Invalid> {
        Self::of(serde_json::from_str(text).map_err(|error| Invalid::Json(error.to_string()))?)
    }

    fn of(value: Value) -> Result<Self, Invalid> {
        let Value::Object(mut members) = value else { return Err(Invalid::Member("it is not an object")) };
        let text = |members: &Map<String, Value>, key: &str| {
            members.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let name = text(&members, "name").ok_or(Invalid::Member("\"name\" is missing"))?;
        let version = text(&members, "cniVersion");
        let disable_check = members.get("disableCheck").and_then(Value::as_bool).unwrap_or(false);
        let plugins = match members.remove("plugins") {
            Some(Value::Array(plugins)) => plugins,
            Some(_) => return Err(Invalid::Member("\"plugins\" is not a list")),
            None => vec![Value::Object(members)],
        };
        let object = |plugin: Value| {
            let Value::Object(plugin) = plugin else {
                return Err(Invalid::Member("a plugin is not an object"));
            };
            text(&plugin, "type").ok_or(Invalid::Member("a plugin has no \"type\""))?;
            Ok(plugin)
        };
        let plugins: Vec<_> = plugins.into_iter().map(object).collect::<Result<_, _>>()?;
        if plugins.is_empty() {
            return Err(Invalid::Member("\"plugins\" is empty"));
        }
        Ok(Self { name, version, disable_check, plugins })
    }

    /// The list as it is kept, to remove later what it has made.
    pub(crate) fn to_text(&self) -> String {
        let Self { name, version, disable_check, plugins } = self;
        let mut list = json!({ "name": name, "disableCheck": disable_check, "plugins": plugins });
        if let Some(version) = version {
            list["cniVersion"] = version.as_str().into();
        }
        list.to_string()
    }

    /// The types of the plugins, in order.
    pub(crate) fn types(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.plugins.iter().map(|plugin| plugin.get("type").and_then(Value::as_str).unwrap_or_default())
    }

    /// Whether the plugin at a position can say reliably that what it has made still exists.
    pub(crate) fn can_check(&self, position: usize) -> bool {
        let has_check =
            self.version.as_deref().and_then(version_numbers).is_some_and(|version| version >= CHECK_SINCE);
        has_check && !self.disable_check && self.types().nth(position) != Some(UNRELIABLE_CHECK)
    }

    /// What the plugin at a position reads on its standard input. `abilities` are the values of capabilities, of which it
    /// gets those that it declares.
    pub(crate) fn input(
        &self,
        position: usize,
        abilities: &Map<String, Value>,
        previous: Option<&Value>,
    ) -> Option<Value> {
        let mut input = self.plugins.get(position)?.clone();
        input.insert("name".into(), self.name.as_str().into());
        if let Some(version) = &self.version {
            input.insert("cniVersion".into(), version.as_str().into());
        }
        let declares = |capability: &String| {
            input.get("capabilities").and_then(|all| all.get(capability)).and_then(Value::as_bool)
                == Some(true)
        };
        let given = abilities.iter().filter(|(capability, _)| declares(capability));
        let given: Map<String, Value> = given.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !given.is_empty() {
            input.insert("runtimeConfig".into(), Value::Object(given));
        }
        if let Some(previous) = previous {
            input.insert("prevResult".into(), previous.clone());
        }
        Some(Value::Object(input))
    }
}

/// The first two numbers of a version.
fn version_numbers(version: &str) -> Option<[u64; 2]> {
    let mut numbers = version.split('.').map(|number| number.parse::<u64>());
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::super::settings::tests::bridge;
    use super::*;

    fn input(list: &ConfList, position: usize) -> String {
        let abilities = Map::from_iter([("portMappings".to_owned(), json!([{ "hostPort": 80 }]))]);
        list.input(position, &abilities, None).unwrap().to_string()
    }

    #[test]
    fn the_bridge_has_a_list_of_four_plugins() {
        let list = ConfList::of_bridge(&bridge());
        assert_eq!(list.types().collect::<Vec<_>>(), ["loopback", "bridge", "firewall", "portmap"]);
        let expected = [
            r#"{"cniVersion":"0.4.0","name":"nomad","type":"loopback"}"#,
            concat!(
                r#"{"bridge":"nomad","cniVersion":"0.4.0","forceAddress":true,"hairpinMode":false,"ipMasq":true,"#,
                r#""ipam":{"dataDir":"/var/run/cni","ranges":[[{"subnet":"172.26.64.0/20"}]],"#,
                r#""routes":[{"dst":"0.0.0.0/0"}],"type":"host-local"},"isGateway":true,"name":"nomad","type":"bridge"}"#
            ),
            concat!(
                r#"{"backend":"iptables","cniVersion":"0.4.0","iptablesAdminChainName":"NOMAD-ADMIN","#,
                r#""name":"nomad","type":"firewall"}"#
            ),
            concat!(
                r#"{"capabilities":{"portMappings":true},"cniVersion":"0.4.0","name":"nomad","#,
                r#""runtimeConfig":{"portMappings":[{"hostPort":80}]},"snat":true,"type":"portmap"}"#
            ),
        ];
        for (position, expected) in expected.into_iter().enumerate() {
            let expected: Value = serde_json::from_str(expected).unwrap();
            let found: Value = serde_json::from_str(&input(&list, position)).unwrap();
            assert_eq!(found, expected, "{position}");
        }
        assert_eq!(list.input(4, &Map::new(), None), None);
    }

    #[test]
    fn a_bridge_with_ipv6_has_a_second_range_and_route() {
        let bridge = Bridge { subnet_ipv6: Some("fd00:a::/112".parse().unwrap()), hairpin: true, ..bridge() };
        let input = ConfList::of_bridge(&bridge).input(1, &Map::new(), None).unwrap();
        assert_eq!(input["ipam"]["ranges"][1][0]["subnet"], "fd00:a::/112");
        assert_eq!(input["ipam"]["routes"][1]["dst"], "::/0");
        assert_eq!(input["hairpinMode"], true);
    }

    #[test]
    fn a_list_is_the_same_after_it_was_kept() {
        let list = ConfList::of_bridge(&bridge());
        assert_eq!(ConfList::read(&list.to_text()), Ok(list));
    }

    #[test]
    fn a_configuration_of_one_plugin_is_a_list_of_one() {
        let list = ConfList::read(r#"{"cniVersion":"1.0.0","name":"lan","type":"macvlan","master":"eth0"}"#)
            .unwrap();
        assert_eq!(list.types().collect::<Vec<_>>(), ["macvlan"]);
        let previous = json!({ "ips": [] });
        let input = list.input(0, &Map::new(), Some(&previous)).unwrap();
        assert_eq!((&input["master"], &input["prevResult"]), (&json!("eth0"), &previous));
    }

    #[test]
    fn invalid_configurations_are_named() {
        for (text, expected) in [
            ("[]", "it is not an object"),
            (r#"{"plugins":[{"type":"x"}]}"#, "\"name\" is missing"),
            (r#"{"name":"a","plugins":[]}"#, "\"plugins\" is empty"),
            (r#"{"name":"a","plugins":{}}"#, "\"plugins\" is not a list"),
            (r#"{"name":"a","plugins":[{}]}"#, "a plugin has no \"type\""),
            (r#"{"name":"a"}"#, "a plugin has no \"type\""),
        ] {
            assert_eq!(ConfList::read(text).unwrap_err().to_string(), expected, "{text}");
        }
        assert!(matches!(ConfList::read("{"), Err(Invalid::Json(_))));
    }

    #[test]
    fn only_checks_that_exist_and_can_be_relied_on_are_made() {
        let list = ConfList::of_bridge(&bridge());
        assert!(list.can_check(1) && !list.can_check(3), "portmap is checked by nobody");
        for (list, expected) in [
            (r#"{"cniVersion":"0.3.1","name":"a","type":"bridge"}"#, false),
            (r#"{"cniVersion":"1.0.0","name":"a","type":"bridge"}"#, true),
            (r#"{"cniVersion":"1.0.0","name":"a","disableCheck":true,"plugins":[{"type":"bridge"}]}"#, false),
            (r#"{"name":"a","type":"bridge"}"#, false),
        ] {
            assert_eq!(ConfList::read(list).unwrap().can_check(0), expected, "{list}");
        }
    }
}
