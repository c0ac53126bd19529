//! Normalizes the resources of an allocation: choices without significance are masked.

use serde_json::{Value, json};

use super::json::{items, remove, without_zeros};

/// How much is masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mask {
    /// The choice among several equal ports or devices of a node.
    Choice,
    /// The node, and everything that depends on it.
    Node,
}

/// Masks dynamic ports and device instances, because all of a kind are equivalent. Only their presence is compared.
pub(super) fn normalize(resources: &Value, mask: Mask) -> Value {
    let mut resources = without_zeros(resources);
    if let Some(lifecycles) = resources.get_mut("TaskLifecycles") {
        *lifecycles = without_zeros(&json!({ "plain": lifecycles }))["plain"].clone();
    }
    let mut dynamic = Vec::new();
    if let Some(shared) = resources.get_mut("Shared") {
        networks(shared, mask, &mut dynamic);
        for port in shared["Ports"].as_array_mut().into_iter().flatten() {
            if dynamic.contains(&port["Label"]) {
                mask_port(port);
            }
            if mask == Mask::Node {
                remove(port, &["HostIP"]);
            }
        }
    }
    for task in resources["Tasks"].as_object_mut().into_iter().flat_map(|tasks| tasks.values_mut()) {
        networks(task, mask, &mut Vec::new());
        for device in task["Devices"].as_array_mut().into_iter().flatten() {
            device["DeviceIDs"] = items(&device["DeviceIDs"]).count().into();
            if mask == Mask::Node {
                remove(device, &["Vendor", "Name"]);
            }
        }
        if mask == Mask::Node && task["Cpu"]["ReservedCores"].is_array() {
            let cores = items(&task["Cpu"]["ReservedCores"]).count();
            task["Cpu"] = json!({ "ReservedCores": cores });
        }
    }
    without_zeros(&resources)
}

fn networks(holder: &mut Value, mask: Mask, dynamic: &mut Vec<Value>) {
    for network in holder["Networks"].as_array_mut().into_iter().flatten() {
        for port in network["DynamicPorts"].as_array_mut().into_iter().flatten() {
            dynamic.push(port["Label"].clone());
            mask_port(port);
        }
        if mask == Mask::Node {
            remove(network, &["IP", "Device"]);
        }
    }
}

fn mask_port(port: &mut Value) {
    if port["To"] == port["Value"] {
        port["To"] = "same".into();
    }
    port["Value"] = "any".into();
}
