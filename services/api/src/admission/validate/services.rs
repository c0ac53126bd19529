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
    let mut seen = BTreeSet::new();
    let twice: Vec<String> = all
        .iter()
        .filter(|(owner, service)| !seen.insert((*owner, text(&service.name), text(&service.port_label))))
        .map(|(_, service)| text(&service.name).to_owned())
        .collect();
    problems.add_if(!twice.is_empty(), || format!("Services are not unique: {}", twice.join(", ")));
    let providers: BTreeSet<&str> = all.iter().map(|(_, service)| provider(service)).collect();
    problems.add_if(
        providers.len() > 1,
        || "Multiple service providers used: task group services must use the same provider",
    );
    let mut of_services = Problems::default();
    let tasks: BTreeSet<&str> = items(&group.tasks).iter().map(|task| text(&task.name)).collect();
    for (position, service) in items(&group.services).iter().enumerate() {
        let name = text(&service.name);
        of_services.nest(
            format_args!("Service[{position}] {name} validation failed: "),
            &self::service(service, &tasks, None),
        );
    }
    problems.nest("Task group service validation failed: ", &of_services);
}

/// Checks the services of a task.
pub(crate) fn of_task(task: &Task, problems: &mut Problems) {
    let tasks = BTreeSet::from([text(&task.name)]);
    for (position, service) in items(&task.services).iter().enumerate() {
        let name = text(&service.name);
        problems.nest(
            format_args!("service[{position}] {name} validation failed: "),
            &self::service(service, &tasks, Some(task)),
        );
    }
}

fn provider(service: &Service) -> &str {
    Some(text(&service.provider)).filter(|provider| !provider.is_empty()).unwrap_or(DEFAULT_PROVIDER)
}

/// Checks a service. `tasks` are the names that it may refer to.
fn service(service: &Service, tasks: &BTreeSet<&str>, owner: Option<&Task>) -> Problems {
    let mut problems = Problems::default();
    let name = text(&service.name);
    problems.add_if(!is_name(name), || {
        format!("Service name must be valid per RFC 1123 and can contain only alphanumeric characters or dashes and must be no longer than {NAME_BYTES_MAX} characters: {}", quoted(name))
    });
    let mode = text(&service.address_mode);
    problems.add_if(!ADDRESS_MODES.contains(&mode), || {
        format!("Service address_mode must be one of {ADDRESS_MODES:?}; not {}", quoted(mode))
    });
    problems.add_if(
        mode == "driver" && owner.is_none(),
        || "Service address_mode \"driver\" can only be used for services of tasks",
    );
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
            problems.add(format!("Service provider must be \"consul\" or \"nomad\"; not {}", quoted(other)));
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
    for (position, check) in items(&service.checks).iter().enumerate() {
        let mut of_check = self::check(check, service, owner, &known_task);
        if is_native {
            of_check.append(native_check(check));
        }
        let name = text(&check.name);
        problems.nest(format_args!("Check[{position}] {name} validation failed: "), &of_check);
    }
    problems
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

fn check(
    check: &ServiceCheck,
    service: &Service,
    owner: Option<&Task>,
    known_task: &dyn Fn(&str) -> bool,
) -> Problems {
    let mut problems = Problems::default();
    let kind = text(&check.r#type).to_lowercase();
    let has_port = !text(&check.port_label).is_empty() || !text(&service.port_label).is_empty();
    match kind.as_str() {
        "http" => {
            let path = text(&check.path);
            problems.add_if(path.is_empty(), || "http type must have http path");
            problems.add_if(path.contains("://"), || "relative http path required");
        }
        "tcp" | "grpc" => {}
        "script" => {
            problems.add_if(text(&check.command).is_empty(), || "script type must have a valid script path");
            let task = [&check.task_name, &service.task_name].into_iter().any(|name| !text(name).is_empty());
            problems.add_if(
                owner.is_none() && !task,
                || "a script check of a group's service must name the task that it runs in",
            );
        }
        _ => problems.add(format!(
            "invalid type ({}), must be one of \"http\", \"tcp\", \"grpc\", or \"script\" type",
            quoted(text(&check.r#type))
        )),
    }
    problems.add_if(matches!(kind.as_str(), "http" | "tcp" | "grpc") && !has_port, || {
        format!("{kind} check requires a port, on the check or on its service")
    });
    for (what, length) in [("interval", check.interval), ("timeout", check.timeout)] {
        let length = Nanos(number(length));
        problems.add_if(length == Nanos::ZERO, || {
            format!("missing required value {what}. {what} cannot be less than {CHECK_MIN}")
        });
        problems.add_if(length != Nanos::ZERO && length < CHECK_MIN, || {
            format!("{what} ({length}) cannot be lower than {CHECK_MIN}")
        });
    }
    problems.add_if(!matches!(text(&check.initial_status), "" | "critical" | "warning" | "passing"), || {
        let status = quoted(text(&check.initial_status));
        format!("invalid initial check state ({status}), must be one of \"critical\", \"warning\", \"passing\" or empty")
    });
    let mode = text(&check.address_mode);
    problems.add_if(!CHECK_ADDRESS_MODES.contains(&mode), || {
        format!("invalid address_mode {}: it must be one of {CHECK_ADDRESS_MODES:?}", quoted(mode))
    });
    let on_update = text(&check.on_update);
    problems.add_if(!matches!(on_update, "" | "require_healthy" | "ignore_warnings" | "ignore"), || {
        format!("on_update must be require_healthy, ignore_warnings or ignore; not {}", quoted(on_update))
    });
    problems.add_if(!known_task(text(&check.task_name)), || {
        format!("check refers to task {}, which the group does not have", quoted(text(&check.task_name)))
    });
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
    if let Some(restart) = &check.check_restart {
        problems.append(check_restart(restart));
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

fn check_restart(restart: &CheckRestart) -> Problems {
    let mut problems = Problems::default();
    problems.add_if(number(restart.limit) < 0, || "limit must be greater than or equal to 0");
    problems.add_if(number(restart.grace) < 0, || "grace period must be greater than or equal to 0");
    problems
}

/// Checks the settings that are not allowed with the native provider.
fn native_check(check: &ServiceCheck) -> Problems {
    let mut problems = Problems::default();
    let kind = text(&check.r#type).to_lowercase();
    problems.add_if(matches!(kind.as_str(), "script" | "grpc"), || {
        format!("invalid type ({}), must be one of \"http\" or \"tcp\" with provider nomad", quoted(&kind))
    });
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
        self::service(&service, &BTreeSet::from(["app"]), None).into_vec()
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
            (ServiceCheck { r#type: Some("grpc".to_owned()), ..tcp() }, "invalid type"),
            (ServiceCheck { expose: Some(true), ..tcp() }, "expose"),
            (ServiceCheck { interval: Some(1), ..tcp() }, "interval (1ns) cannot be lower than 1s"),
            (ServiceCheck { task_name: Some("nobody".to_owned()), ..tcp() }, "does not have"),
            (ServiceCheck { r#type: Some("http".to_owned()), ..tcp() }, "http path"),
        ] {
            let found = found(web(bad)).join("; ");
            assert!(found.contains(what), "{found}");
        }
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
