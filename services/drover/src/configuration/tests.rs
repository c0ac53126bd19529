//! Tests of whole files: the settings that they give, and the messages about them.

use model::features::Feature;

use super::keys;
use super::schema::{Key, Support, Type};
use super::settings::{Client, RawExec, Server};
use super::*;

fn read(text: &str) -> Settings {
    let Loaded { settings, report } = of_text(text);
    assert!(report.faults.is_empty(), "{text}: {:?}", report.faults);
    settings
}

/// Faults and findings, one per line, in the order of the file.
fn messages(text: &str) -> String {
    let report = of_text(text).report;
    let faults = report.faults.iter().map(|fault| (fault.at, fault.to_string()));
    let not_built = report.not_built.iter().map(|finding| (Some(finding.at), finding.to_string()));
    let mut lines: Vec<_> = faults.chain(not_built).collect();
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_file_as_people_write_it() {
    let settings = read(
        "data_dir = \"/d\"\nports { http = 0 }\nserver {\n  enabled = true\n  bootstrap_expect = 1\n  \
         heartbeat_grace = \"1500ms\"\n  enabled_schedulers = [\"batch\"]\n  max_heartbeats_per_second = 2.5\n}\n\
         client {\n  enabled = true\n  meta = { rack = \"r7\", weight = 3 Case = true }\n  reserved { cpu = 500 }\n}\n\
         plugin \"raw_exec\" { config { enabled = true } }\nnats { url = \"nats://one\" node_key = \"/k\" }\n\
         postgres { url = \"postgres://two\" password_file = \"/p\" }\n",
    );
    let meta = [("rack", "r7"), ("weight", "3"), ("Case", "true")];
    let expected = Settings {
        data_dir: Some("/d".to_owned()),
        http_port: Some(0),
        server: Server {
            enabled: Some(true),
            heartbeat_grace: Some(Millis(1_500)),
            enabled_schedulers: Some(vec!["batch".to_owned()]),
            max_heartbeats_per_second: Some(2.5),
            ..Server::default()
        },
        client: Client {
            enabled: Some(true),
            meta: meta.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            reserved_cpu: Some(500),
            ..Client::default()
        },
        raw_exec: RawExec { enabled: Some(true), ..RawExec::default() },
        nats: Nats { url: Some("nats://one".to_owned()), node_key: Some("/k".to_owned()), ..Nats::default() },
        postgres: Postgres { url: Some("postgres://two".to_owned()), password_file: Some("/p".to_owned()) },
        ..Settings::default()
    };
    assert_eq!(settings, expected);
}

#[test]
fn the_limits_of_artifacts_are_read() {
    let text = "client {\n  artifact {\n    http_max_size = \"2K\"\n    git_timeout = \"5s\"\n    \
                decompression_file_count_limit = 7\n    s3_timeout = \"1m\"\n  }\n}\n";
    let expected = Artifact {
        decompression_file_count_limit: Some(7),
        git_timeout: Some(Millis(5_000)),
        http_max_size: Some(Bytes(2_000)),
        ..Artifact::default()
    };
    assert_eq!(read(text).client.artifact, expected);
}

#[test]
fn the_settings_of_templates_are_read() {
    let text = "client {\n  template {\n    disable_file_sandbox = true\n    function_denylist = [\"file\"]\n    \
                max_stale = \"87600h\"\n    wait {\n      min = \"1s\"\n      max = \"2m\"\n    }\n    \
                wait_bounds { max = \"3m\" }\n  }\n}\n";
    let expected = Template {
        disable_file_sandbox: Some(true),
        function_denylist: Some(vec!["file".to_owned()]),
        wait_min: Some(Millis(1_000)),
        wait_max: Some(Millis(120_000)),
        bound_min: None,
        bound_max: Some(Millis(180_000)),
    };
    assert_eq!(read(text).client.template, expected);
    let older = read("client {\n  template {\n    function_blacklist = [\"file\"]\n  }\n}\n");
    assert_eq!(older.client.template.function_denylist, Some(vec!["file".to_owned()]));
}

#[test]
fn the_settings_of_dns_are_read() {
    let text = "client {\n  dns {\n    enabled = true\n    address = \"127.0.0.1:53\"\n    domain = \"lan\"\n    \
                ttl = \"5s\"\n    forward = [\"10.0.0.2\"]\n  }\n}\n";
    let expected = Dns {
        enabled: Some(true),
        address: Some("127.0.0.1:53".to_owned()),
        domain: Some("lan".to_owned()),
        ttl: Some(Millis(5_000)),
        forward: Some(vec!["10.0.0.2".to_owned()]),
        ..Dns::default()
    };
    assert_eq!(read(text).client.dns, expected);
}

#[test]
fn host_volumes_are_read_by_name() {
    // A-23.3
    let settings = read(
        "client {\n  host_volume \"certs\" {\n    path = \"/etc/ssl\"\n    read_only = true\n  }\n  \
         host_volume \"data\" { path = \"/srv\" }\n}\n",
    );
    let volumes = settings.client.host_volumes;
    assert_eq!(volumes.keys().collect::<Vec<_>>(), ["certs", "data"]);
    assert_eq!(
        (volumes["certs"].path.as_deref(), volumes["certs"].read_only),
        (Some("/etc/ssl"), Some(true))
    );
    assert_eq!((volumes["data"].path.as_deref(), volumes["data"].read_only), (Some("/srv"), None));
}

/// C.2: the harnesses of client libraries write all of this.
#[test]
fn json_as_test_harnesses_write_it() {
    let settings = read(
        r#"{"name":"n1","data_dir":"/d","region":"r","disable_update_check":true,"log_level":"DEBUG",
        "consul":{"address":"127.0.0.1:8500","auth":"","token":""},
        "advertise":{"http":"127.0.0.1","rpc":"127.0.0.1","serf":"127.0.0.1"},
        "ports":{"http":20000,"rpc":20001,"serf":20002},
        "server":{"enabled":true,"bootstrap_expect":1,"raft_protocol":3},
        "client":{"enabled":false,"options":{"test.tighten_network_timeouts":"true"}},
        "vault":{"enabled":false},"acl":{"enabled":false},"telemetry":{"prometheus_metrics":true}}"#,
    );
    assert_eq!(settings.http_port, Some(20_000));
    assert_eq!((settings.server.enabled, settings.client.enabled), (Some(true), Some(false)));
}

#[test]
fn in_json_a_block_may_be_a_list_of_blocks_and_null_is_nothing() {
    let settings = read(
        r#"{"name": null, "client": [{"enabled": true, "meta": [{"a": 1}, {"b": 2}]}, {"node_class": "c"}],
        "plugin": [{"raw_exec": [{"config": [{"enabled": true}]}]}]}"#,
    );
    assert_eq!(settings.name, None);
    assert_eq!(settings.client.enabled, Some(true));
    assert_eq!(settings.client.node_class.as_deref(), Some("c"));
    assert_eq!(settings.client.meta.len(), 2);
    assert_eq!(settings.raw_exec.enabled, Some(true));
}

#[test]
fn everything_wrong_is_said_with_its_place() {
    let text = "dat_dir = \"/d\"\nports {\n  http = 70000\n  ftp = 21\n  b = 1\n}\nserver = true\nacl { enabled = true }\n\
         tls { http = true }\nclient {\n  host_volume \"v\" {\n    path = \"/v\"\n    mode = 1\n  }\n  node_class = []\n  \
         state_dir = \"/s\"\n}\nplugin \"qemu\" {}\nbind_addr = \"here\"\nclient = [{ enabled = true }]\n\
         acl { token_ttl = 30 }\nvault { enabled = true }\nzoo = 1\n";
    let expected = "\
Error loading configuration from a.hcl: At 1:1: unexpected keys dat_dir, zoo
Error loading configuration from a.hcl: At 3:10: ports.http: must be from 0 to 65535, not 70000
Error loading configuration from a.hcl: At 4:3: ports unexpected keys b, ftp
Error loading configuration from a.hcl: failed to decode HCL file a.hcl: At 7:10: server: must be a block, not true
a.hcl: At 8:7: not built yet: acl.enabled
a.hcl: At 9:7: not built yet: tls.http
Error loading configuration from a.hcl: At 13:5: client.host_volume \"v\" unexpected keys mode
Error loading configuration from a.hcl: failed to decode HCL file a.hcl: At 15:16: client.node_class: must be a string, not a list
a.hcl: At 16:3: not built yet: client.state_dir
a.hcl: At 18:8: not built yet: plugin \"qemu\"
Error loading configuration from a.hcl: failed to decode HCL file a.hcl: At 19:13: bind_addr: must be an IP address, not a string
Error loading configuration from a.hcl: failed to decode HCL file a.hcl: At 20:10: client: must be a block, not a list
Error loading configuration from a.hcl: At 21:19: acl.token_ttl can't parse time duration 30: expected a number and a unit, as in \"30s\" or \"1h30m\"
a.hcl: At 22:9: not built yet: vault.enabled";
    assert_eq!(messages(text), expected);
}

#[test]
fn a_block_given_twice_is_merged_and_a_scalar_is_refused() {
    let settings = read(
        "client {\n  enabled = true\n  node_class = \"a\"\n  meta { x = 1 }\n}\nCLIENT {\n  NODE_CLASS = \"b\"\n  \
         meta { y = 2 }\n}\n",
    );
    assert_eq!((settings.client.enabled, settings.client.node_class.as_deref()), (Some(true), Some("b")));
    assert_eq!(settings.client.meta.keys().collect::<Vec<_>>(), ["x", "y"]);
    let expected = "\
Error loading configuration from a.hcl: At 2:1: unexpected keys name: it is given twice in one block, first at 1:1
Error loading configuration from a.hcl: At 3:24: client.meta unexpected keys a: it is given twice in one block, first at 3:17";
    assert_eq!(messages("name = \"a\"\nName = \"b\"\nclient { meta { a = 1, a = 2 } }\n"), expected);
}

#[test]
fn settings_without_effect_say_why() {
    let report = of_text(
        "server { bootstrap_expect = 3 }\ntls { http = false }\nui { enabled = true }\nclient { options { a = 1 } }\n",
    )
    .report;
    let lines: Vec<_> = report.no_effect.iter().map(ToString::to_string).collect();
    let expected = [
        "a.hcl: At 1:10: server.bootstrap_expect has no effect: servers form no consensus of their own: PostgreSQL \
         holds the state",
        "a.hcl: At 2:7: tls.http has no effect: TLS of the HTTP API is not built, and off",
        "a.hcl: At 3:1: ui has no effect: there is no web interface",
        "a.hcl: At 4:20: client.options.a has no effect: the option is unknown",
    ];
    assert_eq!(lines, expected);
    assert!(report.not_built.is_empty() && report.faults.is_empty());
}

#[test]
fn settings_of_the_api_need_a_server() {
    let text = "telemetry { publish_node_metrics = true }\n";
    assert_eq!(without_server(&read(text), false), ["telemetry.publish_node_metrics"]);
    assert_eq!(without_server(&read(text), true), [""; 0]);
    assert_eq!(without_server(&read(&format!("{text}server {{ enabled = true }}\n")), false), [""; 0]);
}

#[test]
fn secrets_are_not_shown() {
    let report =
        of_text("bind_addr = \"s3cret\"\nclient { enabled = \"s3cret\" }\nnats { url = [\"s3cret\"] }\n")
            .report;
    assert_eq!(report.faults.len(), 3);
    assert!(report.faults.iter().all(|fault| !fault.to_string().contains("s3cret")), "{:?}", report.faults);
}

#[test]
fn sizes_have_units() {
    let server = |size: &str| format!("server {{\n  job_max_source_size = {size}\n}}\n");
    assert_eq!(read(&server("\"2K\"")).server.job_max_source_size, Some(Bytes(2_000)));
    assert_eq!(read(&server("500")).server.job_max_source_size, Some(Bytes(500)));
    let expected = "Error loading configuration from a.hcl: failed to decode HCL file a.hcl: At 2:25: \
                    server.job_max_source_size: must be a size, such as \"500K\" or \"2MiB\", not a string";
    assert_eq!(messages(&server("\"big\"")), expected);
}

#[test]
fn later_files_override_earlier_ones_key_by_key() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("a.hcl", "name = \"a\"\nclient {\n  enabled = true\n  meta { x = 1 }\n}\n");
    write("b.json", "{\"name\": \"b\", \"client\": {\"enabled\": false, \"meta\": {\"y\": 2}}}");
    write("c", "{\"region\": \"c\"}");
    let Loaded { settings, report } = load(&[directory.path().to_owned(), directory.path().join("c")]);
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    assert_eq!((settings.name.as_deref(), settings.region.as_deref()), (Some("b"), Some("c")));
    assert_eq!(settings.client.enabled, Some(true), "a boolean that is on stays on");
    assert_eq!(settings.client.meta.keys().collect::<Vec<_>>(), ["x", "y"]);
}

#[test]
fn an_unreadable_file_does_not_hide_faults_in_others() {
    let directory = tempfile::tempdir().unwrap();
    let good = directory.path().join("good.hcl");
    std::fs::write(&good, "foo = 1\n\nname = \"\n").unwrap();
    let report = load(&["/nowhere".into(), good.clone()]).report;
    let lines: Vec<_> = report.faults.iter().map(ToString::to_string).collect();
    let expected = [
        "Error loading configuration from /nowhere: cannot be read: No such file or directory (os error 2)"
            .to_owned(),
        format!(
            "Error loading configuration from {0}: failed to decode HCL file {0}: At 3:9: literal not terminated: the \
             string that begins at 3:8 has no closing quote",
            good.display()
        ),
    ];
    assert_eq!(lines, expected);
}

/// The keys of Appendix C.5, spelled as there.
const DOCUMENTED: &str = "datacenter data_dir plugin_dir bind_addr addresses advertise ports server client acl tls \
    telemetry limits ui consul vault autopilot plugin audit sentinel reporting keyring log_level log_json log_file \
    log_rotate_bytes log_rotate_duration log_rotate_max_files enable_debug enable_syslog leave_on_interrupt \
    leave_on_terminate http_api_response_headers disable_update_check eventlog name region \
    server.encrypt server.retry_join server.server_join server.default_scheduler_config server.oidc_issuer \
    server.search.fuzzy_enabled server.search.limit_query server.search.limit_results server.search.min_term_length \
    client.node_class client.node_pool client.meta client.options client.host_volume client.host_network \
    client.reserved client.servers client.server_join client.artifact client.template client.drain_on_shutdown \
    client.cni_path client.network_interface client.min_dynamic_port client.max_dynamic_port client.gc_interval \
    client.gc_disk_usage_threshold client.gc_inode_usage_threshold client.gc_max_allocs client.gc_parallel_destroys \
    acl.enabled acl.token_ttl acl.policy_ttl acl.role_ttl acl.token_min_expiration_ttl \
    acl.token_max_expiration_ttl acl.replication_token tls.http tls.rpc tls.ca_file tls.cert_file tls.key_file \
    tls.verify_server_hostname tls.verify_https_client limits.http_max_conns_per_client \
    limits.https_handshake_timeout limits.rpc_max_conns_per_client limits.rpc_handshake_timeout ui.enabled \
    ui.content_security_policy ui.consul ui.vault ui.label ui.show_cli_hints server.enabled server.bootstrap_expect \
    server.raft_protocol client.enabled consul.address consul.auth consul.token vault.enabled \
    telemetry.prometheus_metrics advertise.http advertise.rpc advertise.serf ports.http ports.rpc ports.serf";

fn found(path: &str) -> Option<&'static Key> {
    let mut keys = keys::TOP;
    let mut key = None;
    for name in path.split('.') {
        key = keys.iter().find(|key| key.name == name);
        keys = if let Type::Block(keys) = key?.value_type { keys } else { &[] };
    }
    key
}

#[test]
fn every_documented_key_is_known() {
    let unknown: Vec<_> = DOCUMENTED.split_whitespace().filter(|path| found(path).is_none()).collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn keys_are_sorted_and_in_one_list_once() {
    fn check(keys: &[Key]) {
        assert!(
            keys.is_sorted_by(|a, b| a.name < b.name),
            "{:?}",
            keys.iter().map(|k| k.name).collect::<Vec<_>>()
        );
        for key in keys {
            if let Type::Block(keys) = key.value_type {
                check(keys);
            } else if let Type::Named { known, others } = key.value_type {
                check(known);
                check(others);
            }
        }
    }
    check(keys::TOP);
}

/// When a feature is built, its keys become settings.
#[test]
fn keys_that_are_not_built_name_features_that_are_not_built() {
    fn check(keys: &[Key]) {
        for key in keys {
            if let Support::Without(feature) | Support::Off(feature) | Support::NotBuilt(feature) =
                key.support
            {
                assert!(!feature.is_built(), "{}: the list says that {feature:?} is built", key.name);
            }
            if let Type::Block(keys) = key.value_type {
                check(keys);
            } else if let Type::Named { known, others } = key.value_type {
                check(known);
                check(others);
            }
        }
    }
    check(keys::TOP);
    for feature in [keys::OTHER_PLUGINS, Feature::SomeSettings] {
        assert!(!feature.is_built(), "the list says that {feature:?} is built");
    }
}

/// A valid value in the notation of a file.
fn sample(value_type: Type) -> Option<&'static str> {
    Some(match value_type {
        Type::Text | Type::Any => "\"x\"",
        Type::Bool => "true",
        Type::Whole(..) | Type::Float => "7",
        Type::Duration => "\"7s\"",
        Type::Size => "\"7K\"",
        Type::Address => "\"127.0.0.7\"",
        Type::Texts => "[\"x\"]",
        Type::Map => "{ x = \"y\" }",
        Type::Block(_) | Type::Named { .. } => return None,
    })
}

/// Files with one key each, and the key's support.
fn files_with_one_key(keys: &'static [Key], before: &str, after: &str) -> Vec<(String, Support)> {
    let one = |key: &'static Key| {
        let is_used = matches!(key.support, Support::Used);
        match (key.value_type, sample(key.value_type)) {
            (Type::Block(keys), _) if is_used => {
                files_with_one_key(keys, &format!("{before}{} {{ ", key.name), &format!(" }}{after}"))
            }
            (Type::Named { known, .. }, _) if is_used => {
                files_with_one_key(known, &format!("{before}{} ", key.name), after)
            }
            (Type::Block(_), _) => vec![(format!("{before}{} {{}}{after}", key.name), key.support)],
            (_, None) => vec![(format!("{before}{} x {{}}{after}", key.name), key.support)],
            (_, Some(value)) => vec![(format!("{before}{} = {value}{after}", key.name), key.support)],
        }
    };
    keys.iter().flat_map(one).collect()
}

/// Files with one setting each.
pub(crate) fn files_with_one_setting() -> Vec<String> {
    let files = files_with_one_key(keys::TOP, "", "").into_iter();
    files.filter(|(_, support)| matches!(support, Support::Used)).map(|(text, _)| text).collect()
}

#[test]
fn every_key_becomes_what_its_list_says() {
    let files = files_with_one_key(keys::TOP, "", "");
    assert!(files.len() > 150, "{}", files.len());
    for (text, support) in files {
        let Loaded { settings, report } = of_text(&text);
        assert!(report.faults.is_empty(), "{text}: {:?}", report.faults);
        let counts = (settings != Settings::default(), report.no_effect.len(), report.not_built.len());
        // The sample of `options` has an unknown option, which has no effect.
        let expected = match support {
            Support::Used if text.contains("options") => (true, 1, 0),
            Support::Used => (true, 0, 0),
            Support::NoEffect(_) | Support::Without(_) => (false, 1, 0),
            Support::Off(_) | Support::NotBuilt(_) => (false, 0, 1),
            Support::AsBlock => panic!("{text}: the block around it is used"),
        };
        assert_eq!(counts, expected, "{text}");
    }
}

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations");

/// The code blocks of a page in a given language.
fn examples(page: &str, language: &str) -> Vec<String> {
    let parts = page.split("\n```").skip(1).step_by(2);
    let blocks = parts.filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n'));
    blocks.map(str::to_owned).collect()
}

#[test]
fn documented_examples_are_valid() {
    let page = std::fs::read_to_string(format!("{DOCS}/configuration.md")).unwrap();
    let all = [examples(&page, "hcl"), examples(&page, "json")].concat();
    assert_eq!(all.len(), 3);
    for text in all {
        let Loaded { settings, report } = of_text(&text);
        assert!(report.faults.is_empty() && report.not_built.is_empty(), "{text}: {report:?}");
        assert!(report.no_effect.is_empty(), "{text}: {report:?}");
        assert_eq!(missing(&settings, false), None, "{text}");
        assert_eq!(addresses_missing(&settings, false), None, "{text}");
        assert_eq!(conflicts(&settings), [""; 0], "{text}");
    }
}

/// The page that lists all keys.
fn listed() -> String {
    let mut page = "# Keys of configuration files

All keys of Nomad's agent configuration, and Drover's own, with their support here. An agent does not start with a key that
is not built; see [Configuration](configuration.md). This page is generated by
`UPDATE_DOCS=1 cargo test --package drover --lib keys`.

| key | value | |
|---|---|---|
"
    .to_owned();
    list(keys::TOP, "", &mut page);
    page
}

fn list(keys: &[Key], before: &str, page: &mut String) {
    for key in keys {
        let name = format!("{before}{}", key.name);
        let (value, inner): (_, &[Key]) = match key.value_type {
            Type::Text => ("string", &[]),
            Type::Bool => ("bool", &[]),
            Type::Whole(..) => ("whole number", &[]),
            Type::Float => ("number", &[]),
            Type::Duration => ("time span", &[]),
            Type::Size => ("size", &[]),
            Type::Address => ("IP address", &[]),
            Type::Texts => ("list of strings", &[]),
            Type::Map => ("block of strings", &[]),
            Type::Block(keys) => ("block", keys),
            Type::Named { known, .. } => ("block with a label", known),
            Type::Any => ("anything", &[]),
        };
        let support = match key.support {
            Support::Used if inner.is_empty() => "a setting".to_owned(),
            Support::Used => String::new(),
            Support::NoEffect(why) => format!("no effect: {why}"),
            Support::Without(feature) => format!("no effect: {}", feature.absence()),
            Support::Off(feature) => {
                format!(
                    "`false` has no effect: {} not built, and off; `true` is not built",
                    feature.subject()
                )
            }
            Support::NotBuilt(_) => "not built".to_owned(),
            Support::AsBlock => continue,
        };
        page.push_str(&format!("| `{name}` | {value} | {support} |\n"));
        list(inner, &format!("{name}."), page);
    }
}

#[test]
fn the_documented_list_of_keys_is_that_of_the_program() {
    let file = format!("{DOCS}/configuration-keys.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, listed()).unwrap();
    }
    let page = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(page == listed(), "{file} is stale: UPDATE_DOCS=1 cargo test --package drover --lib keys");
}
