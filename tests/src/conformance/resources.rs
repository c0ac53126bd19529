//! What an allocation gets of its node, less what is a matter of taste.

use serde_json::{Value, json};

use super::form::{items, remove};
use super::json::without_zeros;

/// How much is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Open {
    /// Which of several equal ports or devices of the node.
    Choice,
    /// The node, and with it all that depends on it.
    Node,
}

/// Any dynamic port, any instance of a group of devices is as good as another: only that there is one is compared.
pub(super) fn form(resources: &Value, open: Open) -> Value {
    let mut resources = without_zeros(resources);
    if let Some(lifecycles) = resources.get_mut("TaskLifecycles") {
        *lifecycles = without_zeros(&json!({ "plain": lifecycles }))["plain"].clone();
    }
    let mut dynamic = Vec::new();
    if let Some(shared) = resources.get_mut("Shared") {
        networks(shared, open, &mut dynamic);
        for port in shared["Ports"].as_array_mut().into_iter().flatten() {
            if dynamic.contains(&port["Label"]) {
                open_port(port);
            }
            if open == Open::Node {
                remove(port, &["HostIP"]);
            }
        }
    }
    for task in resources["Tasks"].as_object_mut().into_iter().flat_map(|tasks| tasks.values_mut()) {
        networks(task, open, &mut Vec::new());
        for device in task["Devices"].as_array_mut().into_iter().flatten() {
            device["DeviceIDs"] = items(&device["DeviceIDs"]).count().into();
            if open == Open::Node {
                remove(device, &["Vendor", "Name"]);
            }
        }
        if open == Open::Node && task["Cpu"]["ReservedCores"].is_array() {
            let cores = items(&task["Cpu"]["ReservedCores"]).count();
            task["Cpu"] = json!({ "ReservedCores": cores });
        }
    }
    without_zeros(&resources)
}

fn networks(holder: &mut Value, open: Open, dynamic: &mut Vec<Value>) {
    for network in holder["Networks"].as_array_mut().into_iter().flatten() {
        for port in network["DynamicPorts"].as_array_mut().into_iter().flatten() {
            dynamic.push(port["Label"].clone());
            open_port(port);
        }
        if open == Open::Node {
            remove(network, &["IP", "Device"]);
        }
    }
}

fn open_port(port: &mut Value) {
    if port["To"] == port["Value"] {
        port["To"] = "same".into();
    }
    port["Value"] = "any".into();
}
