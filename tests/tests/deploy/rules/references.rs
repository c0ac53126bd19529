//! Rules for objects that refer to others: Services, routes, accounts, budgets, autoscalers and monitors.

use serde_json::Value;

use super::unknown_keys;
use crate::objects::{Object, Pods, at, elements, text};

/// Objects of one kind.
fn of_kind<'a>(objects: &'a [Object], kind: &'a str) -> impl Iterator<Item = &'a Object> {
    objects.iter().filter(move |object| object.kind() == kind)
}

/// All pods that a selector selects.
fn chosen<'a>(objects: &'a [Object], selector: &Value, namespace: &str) -> Vec<Pods<'a>> {
    objects.iter().filter_map(Object::pods).filter(|pods| pods.chosen_by(selector, namespace)).collect()
}

pub(super) fn services_lead_to_pods(objects: &[Object]) -> Vec<String> {
    let mut faults = Vec::new();
    for service in of_kind(objects, "Service") {
        let selector = serde_json::json!({ "matchLabels": service.at("/spec/selector") });
        let pods = chosen(objects, &selector, service.namespace());
        if pods.len() != 1 {
            faults.push(format!("{}: it chooses the pods of {} workloads", service.title(), pods.len()));
        }
        for port in elements(service.at("/spec/ports")) {
            let target = at(port, "/targetPort");
            if !pods.iter().all(|pods| pods.has_port(target)) {
                faults.push(format!("{}: its pods have no port {target}", service.title()));
            }
        }
    }
    faults
}

/// Whether a Service with this name exists and has a port with this name or number.
fn is_served(objects: &[Object], namespace: &str, name: &Value, port: &Value) -> bool {
    of_kind(objects, "Service").any(|service| {
        let ports = elements(service.at("/spec/ports"));
        let has = ports.iter().any(|own| at(own, "/name") == port || at(own, "/port") == port);
        service.namespace() == namespace && service.at("/metadata/name") == name && has
    })
}

pub(super) fn routes_lead_to_services(objects: &[Object]) -> Vec<String> {
    let mut faults = Vec::new();
    for ingress in of_kind(objects, "Ingress") {
        let paths =
            elements(ingress.at("/spec/rules")).iter().flat_map(|rule| elements(at(rule, "/http/paths")));
        for service in paths.map(|path| at(path, "/backend/service")) {
            if !is_served(objects, ingress.namespace(), at(service, "/name"), at(service, "/port/name")) {
                faults.push(format!("{}: it leads to no Service", ingress.title()));
            }
        }
        let hosts = elements(ingress.at("/spec/tls")).iter().flat_map(|tls| elements(at(tls, "/hosts")));
        let ruled: Vec<_> =
            elements(ingress.at("/spec/rules")).iter().map(|rule| at(rule, "/host")).collect();
        if !hosts.into_iter().all(|host| ruled.contains(&host)) {
            faults.push(format!("{}: its certificate is for another host", ingress.title()));
        }
    }
    for route in of_kind(objects, "HTTPRoute") {
        faults.extend(unknown_keys(&route.title(), route.at("/spec"), &["parentRefs", "hostnames", "rules"]));
        for rule in elements(route.at("/spec/rules")) {
            faults.extend(unknown_keys(&route.title(), rule, &["matches", "timeouts", "backendRefs"]));
            for backend in elements(at(rule, "/backendRefs")) {
                if !is_served(objects, route.namespace(), at(backend, "/name"), at(backend, "/port")) {
                    faults.push(format!("{}: it leads to no Service", route.title()));
                }
            }
        }
        if elements(route.at("/spec/parentRefs")).is_empty() {
            faults.push(format!("{}: it belongs to no gateway", route.title()));
        }
    }
    faults
}

pub(super) fn accounts_are_there(objects: &[Object]) -> Vec<String> {
    let mut faults = Vec::new();
    for pods in objects.iter().filter_map(Object::pods) {
        let name = at(pods.spec(), "/serviceAccountName");
        let account = of_kind(objects, "ServiceAccount").find(|account| {
            account.at("/metadata/name") == name && account.namespace() == pods.owner.namespace()
        });
        match account {
            None => faults.push(format!("{}: there is no ServiceAccount {name}", pods.owner.title())),
            Some(account) if account.role() != pods.owner.role() => {
                faults.push(format!("{}: its ServiceAccount is another role's", pods.owner.title()));
            }
            Some(account) if account.at("/automountServiceAccountToken") != false => {
                faults.push(format!("{}: its pods get tokens", account.title()));
            }
            Some(_) => {}
        }
    }
    faults
}

pub(super) fn disruption_budgets_let_drains_through(objects: &[Object]) -> Vec<String> {
    let mut faults = Vec::new();
    for budget in of_kind(objects, "PodDisruptionBudget") {
        let pods = chosen(objects, budget.at("/spec/selector"), budget.namespace());
        if pods.len() != 1 || pods.iter().any(|pods| pods.owner.role() != budget.role()) {
            faults.push(format!("{}: it is not for the pods of its role alone", budget.title()));
        }
        let allows = budget.at("/spec/maxUnavailable").as_u64().is_some_and(|count| count > 0);
        if !allows || !budget.at("/spec/minAvailable").is_null() {
            faults.push(format!("{}: a drain could wait for it forever", budget.title()));
        }
    }
    let budgets = of_kind(objects, "PodDisruptionBudget").count();
    let deployments = of_kind(objects, "Deployment").count();
    if budgets != deployments {
        faults.push(format!("{deployments} Deployments have {budgets} disruption budgets"));
    }
    faults
}

pub(super) fn autoscalers_have_a_target(objects: &[Object]) -> Vec<String> {
    let mut faults = Vec::new();
    for autoscaler in of_kind(objects, "HorizontalPodAutoscaler") {
        let reference = autoscaler.at("/spec/scaleTargetRef");
        let target = objects.iter().find(|object| {
            at(reference, "/kind") == object.kind()
                && at(reference, "/name") == object.name()
                && at(reference, "/apiVersion") == object.at("/apiVersion")
                && object.namespace() == autoscaler.namespace()
        });
        match target {
            None => faults.push(format!("{}: its target does not exist", autoscaler.title())),
            Some(target) if !target.at("/spec/replicas").is_null() => {
                faults.push(format!(
                    "{}: each update of {} resets its replica count",
                    autoscaler.title(),
                    target.title()
                ));
            }
            Some(_) => {}
        }
        let bound = |name: &str| autoscaler.at(&format!("/spec/{name}")).as_u64().unwrap_or(0);
        if !(1..=bound("maxReplicas")).contains(&bound("minReplicas")) {
            faults.push(format!("{}: no number is within its bounds", autoscaler.title()));
        }
        if elements(autoscaler.at("/spec/metrics")).is_empty() {
            faults.push(format!("{}: it has no metrics", autoscaler.title()));
        }
    }
    // A Deployment without a replica count and without an autoscaler would have one pod.
    for workload in of_kind(objects, "Deployment").filter(|object| object.at("/spec/replicas").is_null()) {
        let scaled = of_kind(objects, "HorizontalPodAutoscaler")
            .any(|autoscaler| autoscaler.at("/spec/scaleTargetRef/name") == workload.name());
        if !scaled {
            faults.push(format!("{}: it has neither a replica count nor an autoscaler", workload.title()));
        }
    }
    faults
}

pub(super) fn monitors_find_what_they_read(objects: &[Object]) -> Vec<String> {
    let mut faults = Vec::new();
    for monitor in of_kind(objects, "PodMonitor") {
        let known = ["jobLabel", "selector", "namespaceSelector", "podMetricsEndpoints"];
        faults.extend(unknown_keys(&monitor.title(), monitor.at("/spec"), &known));
        let namespaces = elements(monitor.at("/spec/namespaceSelector/matchNames"));
        let all: Vec<_> = objects.iter().filter_map(Object::pods).collect();
        let read = namespaces
            .iter()
            .flat_map(|namespace| chosen(objects, monitor.at("/spec/selector"), text(namespace)));
        if read.count() != all.len() {
            faults.push(format!("{}: it does not read all pods", monitor.title()));
        }
        for endpoint in elements(monitor.at("/spec/podMetricsEndpoints")) {
            faults.extend(unknown_keys(
                &monitor.title(),
                endpoint,
                &["port", "path", "interval", "honorLabels"],
            ));
            // Labels of the series of jobs may have the same names as labels of targets.
            if at(endpoint, "/honorLabels") != true {
                faults.push(format!("{}: it renames labels of the series", monitor.title()));
            }
            if !all.iter().all(|pods| pods.has_port(at(endpoint, "/port"))) {
                faults.push(format!("{}: not all pods have its port", monitor.title()));
            }
        }
    }
    for monitor in of_kind(objects, "ServiceMonitor") {
        let known = ["jobLabel", "selector", "namespaceSelector", "endpoints"];
        faults.extend(unknown_keys(&monitor.title(), monitor.at("/spec"), &known));
        let selector = monitor.at("/spec/selector");
        let services: Vec<_> = of_kind(objects, "Service")
            .filter(|service| crate::objects::selects(selector, service.at("/metadata/labels")))
            .collect();
        if services.len() != 1 {
            faults.push(format!("{}: it reads {} Services", monitor.title(), services.len()));
        }
        for endpoint in elements(monitor.at("/spec/endpoints")) {
            faults.extend(unknown_keys(
                &monitor.title(),
                endpoint,
                &["port", "path", "interval", "params", "honorLabels", "metricRelabelings"],
            ));
            for service in &services {
                let name = service.at("/metadata/name");
                if !is_served(objects, monitor.namespace(), name, at(endpoint, "/port")) {
                    faults.push(format!("{}: its Service has no such port", monitor.title()));
                }
            }
        }
    }
    for rule in of_kind(objects, "PrometheusRule") {
        faults.extend(unknown_keys(&rule.title(), rule.at("/spec"), &["groups"]));
        if elements(rule.at("/spec/groups")).is_empty() {
            faults.push(format!("{}: it has no rules", rule.title()));
        }
    }
    faults
}
