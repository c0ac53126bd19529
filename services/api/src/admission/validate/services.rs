//! Validation of services and their checks, in groups and in tasks (N-19.14, N-19.14a).

use std::collections::BTreeSet;

use api_types::{CheckRestart, Service, ServiceCheck, Task, TaskGroup};
use model::Nanos;
use model::text::quoted;

use crate::admission::fields::{flag, items, number, text};
use crate::admission::problems::Problems;

/// Maximum length of a service name, in bytes.
const NAME_BYTES_MAX: usize = 63;
/// Minimum interval and timeout of a check.
const CHECK_MIN: Nanos = Nanos::from_secs(1);
/// Provider of services that do not name one.
const DEFAULT_PROVIDER: &str = "consul";
const NATIVE_PROVIDER: &str = "nomad";
const ADDRESS_MODES: [&str; 6] = ["", "auto", "host", "driver", "alloc", "alloc_ipv6"];
const CHECK_ADDRESS_MODES: [&str; 5] = ["", "host", "driver", "alloc", "alloc_ipv6"];

/// Checks the services of the group itself, and the properties that all services of the group and its tasks share.
pub(crate) fn of_group(group: &TaskGroup, problems: &mut Problems) {
    let of_tasks = items(&group.tasks)
        .iter()
        .flat_map(|task| items(&task.services).iter().map(|service| (text(&task.name), service)));
    let all: Vec<(&str, &Service)> =
        items(&group.services).iter().map(|service| ("group", service)).chain(of_tasks).collect();
    let mut of_services = Problems::default();
    let mut seen = BTreeSet::new();
    let twice: Vec<String> = all
        .iter()
        .filter(|(owner, service)| !seen.insert((*owner, text(&service.name), text(&service.port_label))))
        .map(|(owner, service)| format!("{owner}->{}", text(&service.name)))
        .collect();
    of_services.add_if(!twice.is_empty(), || format!("Services are not unique: [{}]", twice.join(" ")));
    let providers: BTreeSet<&str> = all.iter().map(|(_, service)| provider(service)).collect();
    let is_known = |provider: &&str| [NATIVE_PROVIDER, DEFAULT_PROVIDER].contains(provider);
    of_services.add_if(
        providers.iter().filter(|provider| is_known(provider)).count() > 1,
        || "Multiple service providers used: task group services must use the same provider",
    );
    let tasks: BTreeSet<&str> = items(&group.tasks).iter().map(|task| text(&task.name)).collect();
    for service in items(&group.services) {
        of_services.add_if(text(&service.address_mode) == "driver", || {
            let name = quoted(text(&service.name));
            format!("service {name} cannot use address_mode=\"driver\", only services defined in a \"task\" block can use this mode")
        });
    }
    for (position, service) in items(&group.services).iter().enumerate() {
        let name = text(&service.name);
        of_services.nest(
            format_args!("Service[{position}] {name} validation failed: "),
            &self::service(service, &tasks),
        );
    }
    problems.nest("Task group service validation failed: ", &of_services);
    problems.nest("Task group service check validation failed: ", &script_checks(group));
}

/// Checks that the script checks of a group's services name the task that they run in.
fn script_checks(group: &TaskGroup) -> Problems {
    let mut problems = Problems::default();
    for service in items(&group.services) {
        for check in items(&service.checks).iter().filter(|check| kind(check) == "script") {
            let has_task =
                [&check.task_name, &service.task_name].into_iter().any(|name| !text(name).is_empty());
            problems.add_if(!has_task, || {
                let (group, service_name) = (text(&group.name), text(&service.name));
                let check = check_name(check, service);
                format!(
                    "Service [{group}]->{service_name} or Check {check} check must specify task parameter"
                )
            });
        }
    }
    problems
}

/// Checks the services of a task.
pub(crate) fn of_task(task: &Task, problems: &mut Problems) {
    let tasks = BTreeSet::from([text(&task.name)]);
    let mut of_services = Problems::default();
    let mut known = BTreeSet::new();
    for (position, service) in items(&task.services).iter().enumerate() {
        let name = quoted(text(&service.name));
        of_services.nest(
            format_args!("service[{position}] {name} validation failed: "),
            &self::service(service, &tasks),
        );
        for check in items(&service.checks) {
            let name = check_name(check, service);
            let shown = quoted(&name);
            of_services.add_if(!known.insert(name), || format!("check {shown} is duplicate"));
            let lacks_port = needs_port(check) && !has_port(check, service);
            of_services.add_if(lacks_port, || format!("check {shown} is missing a port"));
        }
    }
    problems.nest("", &of_services);
}

fn provider(service: &Service) -> &str {
    Some(text(&service.provider)).filter(|provider| !provider.is_empty()).unwrap_or(DEFAULT_PROVIDER)
}

/// Checks a service. `tasks` are the names that it may refer to.
fn service(service: &Service, tasks: &BTreeSet<&str>) -> Problems {
    let mut problems = Problems::default();
    let name = text(&service.name);
    problems.add_if(!is_name(name), || {
        format!("Service name must be valid per RFC 1123 and can contain only alphanumeric characters or dashes and must be no longer than {NAME_BYTES_MAX} characters: {}", quoted(name))
    });
    let mode = text(&service.address_mode);
    problems.add_if(!ADDRESS_MODES.contains(&mode), || {
        format!("Service address_mode must be \"auto\", \"host\", or \"driver\"; not {}", quoted(mode))
    });
    problems.add_if(!text(&service.address).is_empty() && !matches!(mode, "" | "auto"), || {
        format!("Service address_mode must be \"auto\" if an address is set; not {}", quoted(mode))
    });
    let known_task = |name: &str| name.is_empty() || tasks.contains(name);
    problems.add_if(!known_task(text(&service.task_name)), || {
        format!("Service refers to task {}, which the group does not have", quoted(text(&service.task_name)))
    });
    let is_native = match provider(service) {
        NATIVE_PROVIDER => true,
        DEFAULT_PROVIDER => false,
        other => {
            problems.add(format!("Service provider must be \"consul\", or \"nomad\"; not {}", quoted(other)));
            false
        }
    };
    problems.add_if(
        is_native && service.connect.is_some(),
        || "Service with provider nomad cannot include Connect blocks",
    );
    if let Some(restart) = &service.check_restart {
        problems.append(check_restart(restart));
    }
    for check in items(&service.checks) {
        if let Some(problem) = check_problem(check, service, is_native, &known_task) {
            problems.add(format!("Check {} invalid: {problem}", check_name(check, service)));
        }
    }
    problems
}

/// The name of a check; a name that says whose check it is if there is none.
fn check_name(check: &ServiceCheck, service: &Service) -> String {
    match text(&check.name) {
        "" => format!("service: {} check", quoted(text(&service.name))),
        name => name.to_owned(),
    }
}

/// The type of a check, in lower case.
fn kind(check: &ServiceCheck) -> String {
    text(&check.r#type).to_lowercase()
}

fn needs_port(check: &ServiceCheck) -> bool {
    matches!(kind(check).as_str(), "http" | "tcp" | "grpc")
}

fn has_port(check: &ServiceCheck, service: &Service) -> bool {
    !text(&check.port_label).is_empty() || !text(&service.port_label).is_empty()
}

/// The first problem of a check.
fn check_problem(
    check: &ServiceCheck,
    service: &Service,
    is_native: bool,
    known_task: &dyn Fn(&str) -> bool,
) -> Option<String> {
    if needs_port(check) && !has_port(check, service) {
        let name = quoted(text(&service.name));
        return Some(format!("check requires a port but neither check nor service {name} have a port"));
    }
    let problems = if is_native { native_check(check) } else { consul_check(check) };
    let mut all = problems.into_vec();
    all.extend(any_check(check, known_task).into_vec());
    all.into_iter().next()
}

/// Whether a name is a valid DNS label. A variable counts as one valid character.
fn is_name(name: &str) -> bool {
    let mut plain = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("${") {
        plain.push_str(before);
        plain.push('x');
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    (1..=NAME_BYTES_MAX).contains(&plain.len())
        && plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !plain.starts_with('-')
        && !plain.ends_with('-')
}

/// Checks what the checks of both providers have in common.
fn any_check(check: &ServiceCheck, known_task: &dyn Fn(&str) -> bool) -> Problems {
    let mut problems = Problems::default();
    for (what, length) in [("interval", check.interval), ("timeout", check.timeout)] {
        let length = Nanos(number(length));
        problems.add_if(length < CHECK_MIN, || format!("{what} ({length}) cannot be lower than {CHECK_MIN}"));
    }
    problems.add_if(!matches!(text(&check.initial_status), "" | "critical" | "warning" | "passing"), || {
        let status = text(&check.initial_status);
        format!("invalid initial check state ({status}), must be one of \"passing\", \"warning\", \"critical\" or empty")
    });
    let mode = text(&check.address_mode);
    problems.add_if(!CHECK_ADDRESS_MODES.contains(&mode), || {
        format!("invalid address_mode {}: it must be one of {CHECK_ADDRESS_MODES:?}", quoted(mode))
    });
    let on_update = text(&check.on_update);
    problems.add_if(!matches!(on_update, "" | "require_healthy" | "ignore_warnings" | "ignore"), || {
        let given = quoted(on_update);
        format!("on_update must be \"require_healthy\", \"ignore_warnings\", or \"ignore\"; got {given}")
    });
    problems.add_if(!known_task(text(&check.task_name)), || {
        format!("check refers to task {}, which the group does not have", quoted(text(&check.task_name)))
    });
    if let Some(restart) = &check.check_restart {
        problems.nest("", &check_restart(restart));
        let differ = on_update == "ignore_warnings" && !flag(restart.ignore_warnings);
        problems.add_if(
            differ,
            || "on_update value \"ignore_warnings\" requires check_restart ignore_warnings = true",
        );
        problems
            .add_if(on_update == "ignore", || "on_update value \"ignore\" cannot be used with check_restart");
    }
    problems
}

fn http_path(check: &ServiceCheck, problems: &mut Problems) {
    let path = text(&check.path);
    problems.add_if(path.is_empty(), || "http type must have http path");
    problems.add_if(path.contains("://"), || "http type must have relative http path");
}

/// Checks what only the checks of Consul may have.
fn consul_check(check: &ServiceCheck) -> Problems {
    let mut problems = Problems::default();
    let kind = kind(check);
    match kind.as_str() {
        "http" => http_path(check, &mut problems),
        "tcp" | "grpc" => {}
        "script" => {
            problems.add_if(text(&check.command).is_empty(), || "script type must have a valid script path");
        }
        _ => problems.add(format!(
            "invalid type ({}), must be one of \"http\", \"tcp\", \"grpc\", or \"script\" type",
            quoted(text(&check.r#type))
        )),
    }
    for (what, count) in [
        ("success_before_passing", check.success_before_passing),
        ("failures_before_critical", check.failures_before_critical),
        ("failures_before_warning", check.failures_before_warning),
    ] {
        problems.add_if(number(count) < 0, || format!("{what} must be non-negative"));
        problems.add_if(number(count) > 0 && kind == "script", || {
            format!("{what} not supported for check of type \"script\"")
        });
    }
    problems
}

fn check_restart(restart: &CheckRestart) -> Problems {
    let mut problems = Problems::default();
    let (limit, grace) = (number(restart.limit), number(restart.grace));
    problems.add_if(limit < 0, || format!("limit must be greater than or equal to 0 but found {limit}"));
    problems.add_if(grace < 0, || {
        format!("grace period must be greater than or equal to 0 but found {}", Nanos(grace))
    });
    problems
}

/// Checks the settings that are not allowed with the native provider.
fn native_check(check: &ServiceCheck) -> Problems {
    let mut problems = Problems::default();
    match kind(check).as_str() {
        "http" => http_path(check, &mut problems),
        "tcp" => {}
        kind => problems.add(format!("invalid check type ({}), must be one of tcp, http", quoted(kind))),
    }
    let restart_ignores = check.check_restart.as_ref().is_some_and(|restart| flag(restart.ignore_warnings));
    let consul_only = [
        (flag(check.expose), "expose"),
        (text(&check.on_update) == "ignore_warnings", "on_update \"ignore_warnings\""),
        (restart_ignores, "ignore_warnings of check_restart"),
        (text(&check.address_mode) == "driver", "address_mode = \"driver\""),
        (number(check.success_before_passing) != 0, "success_before_passing"),
        (number(check.failures_before_critical) != 0, "failures_before_critical"),
        (number(check.failures_before_warning) != 0, "failures_before_warning"),
        (!text(&check.tls_server_name).is_empty(), "tls_server_name"),
    ];
    for (given, what) in consul_only {
        problems.add_if(given, || format!("{what} may only be set for Consul service checks"));
    }
    let method = text(&check.method);
    let methods = ["", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"];
    problems.add_if(!methods.contains(&method), || {
        format!("method type {} not supported in Nomad http check", quoted(method))
    });
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn found(service: Service) -> Vec<String> {
        self::service(&service, &BTreeSet::from(["app"])).into_vec()
    }

    fn web(check: ServiceCheck) -> Service {
        Service {
            name: Some("web".to_owned()),
            provider: Some("nomad".to_owned()),
            port_label: Some("http".to_owned()),
            checks: Some(vec![check]),
            ..Service::default()
        }
    }

    fn tcp() -> ServiceCheck {
        ServiceCheck {
            r#type: Some("tcp".to_owned()),
            interval: Some(10 * S),
            timeout: Some(2 * S),
            ..ServiceCheck::default()
        }
    }

    #[test]
    fn a_check_of_the_clusters_own_is_plain() {
        assert_eq!(found(web(tcp())), [""; 0]);
        for (bad, what) in [
            (
                ServiceCheck { r#type: Some("grpc".to_owned()), ..tcp() },
                "invalid check type (\"grpc\"), must be one of tcp, http",
            ),
            (ServiceCheck { expose: Some(true), ..tcp() }, "expose"),
            (ServiceCheck { interval: Some(1), ..tcp() }, "interval (1ns) cannot be lower than 1s"),
            (ServiceCheck { task_name: Some("nobody".to_owned()), ..tcp() }, "does not have"),
            (ServiceCheck { r#type: Some("http".to_owned()), ..tcp() }, "http path"),
        ] {
            let found = found(web(bad)).join("; ");
            assert!(found.contains(what), "{found}");
        }
    }

    fn of_group(services: Vec<Service>) -> String {
        let mut problems = Problems::default();
        let task = Task { name: Some("t".to_owned()), ..Task::default() };
        let services = Some(services);
        let group = TaskGroup {
            name: Some("g".to_owned()),
            services,
            tasks: Some(vec![task]),
            ..TaskGroup::default()
        };
        super::of_group(&group, &mut problems);
        problems.to_string()
    }

    fn named(name: &str, provider: &str) -> Service {
        Service { name: Some(name.to_owned()), provider: Some(provider.to_owned()), ..Service::default() }
    }

    #[test]
    fn problems_of_groups_read_as_clients_know_them() {
        // http-api, appendix E
        let nested = |text: &str| {
            format!(
                "1 error occurred:\n\t* Task group service validation failed: 1 error occurred:\n\t* {text}\n\n\n\n"
            )
        };
        assert_eq!(
            of_group(vec![named("a", "nomad"), named("a", "nomad")]),
            nested("Services are not unique: [group->a]")
        );
        assert_eq!(
            of_group(vec![named("a", "nomad"), named("b", "consul")]),
            nested("Multiple service providers used: task group services must use the same provider")
        );
        let driver = Service { address_mode: Some("driver".to_owned()), ..named("a", "nomad") };
        let text = "service \"a\" cannot use address_mode=\"driver\", only services defined in a \"task\" block can use this mode";
        assert_eq!(of_group(vec![driver]), nested(text));
        let provider = "Service[0] a validation failed: 1 error occurred:\n\t* Service provider must be \"consul\", or \"nomad\"; not \"odd\"\n\n";
        assert_eq!(of_group(vec![named("a", "odd")]), nested(provider));
    }

    #[test]
    fn checks_without_ports_are_named_after_their_service() {
        // http-api, appendix E
        let check = |kind: &str| ServiceCheck { r#type: Some(kind.to_owned()), ..ServiceCheck::default() };
        let checks = Some(vec![check("http"), check("tcp")]);
        let service = Service { checks, ..named("v-g-t", "nomad") };
        let task = Task { name: Some("t".to_owned()), services: Some(vec![service]), ..Task::default() };
        let mut problems = Problems::default();
        super::of_task(&task, &mut problems);
        let invalid = "Check service: \"v-g-t\" check invalid: check requires a port but neither check nor service \"v-g-t\" have a port";
        let missing = "check \"service: \\\"v-g-t\\\" check\" is missing a port";
        let duplicate = "check \"service: \\\"v-g-t\\\" check\" is duplicate";
        let of_service = format!(
            "service[0] \"v-g-t\" validation failed: 2 errors occurred:\n\t* {invalid}\n\t* {invalid}\n\n"
        );
        let expected = format!(
            "4 errors occurred:\n\t* {of_service}\n\t* {missing}\n\t* {duplicate}\n\t* {missing}\n\n"
        );
        assert_eq!(problems.into_vec(), [expected]);
    }

    #[test]
    fn names_may_be_filled_in_later() {
        for (name, good) in
            [("web", true), ("${JOB}-web", true), ("-web", false), ("a b", false), ("", false)]
        {
            assert_eq!(is_name(name), good, "{name}");
        }
    }
}
