//! Resource usage of hosts, allocations and tasks (http-api §18, §27).

use std::collections::BTreeMap;

use api_types::Time;
use serde::Serialize;
use serde_json::{Value, json};
use wire::stats::{Counted, CpuStats, DeviceGroupStats, DeviceValue, DiskStats, HostStats, TaskStats, Usage};

/// Usage of a host.
pub(crate) fn host(stats: &HostStats) -> Value {
    let cpu = |cpu: &CpuStats| {
        json!({
            "CPU": cpu.name,
            "User": cpu.user_percent,
            "System": cpu.system_percent,
            "Idle": cpu.idle_percent,
            "TotalPercent": cpu.busy_percent,
            "TotalTicks": cpu.used_mhz,
        })
    };
    json!({
        "Memory": {
            "Total": stats.memory.total,
            "Available": stats.memory.available,
            "Used": stats.memory.used,
            "Free": stats.memory.free,
        },
        "CPU": stats.cpus.iter().map(cpu).collect::<Vec<_>>(),
        "DiskStats": stats.disks.iter().map(disk).collect::<Vec<_>>(),
        "AllocDirStats": stats.alloc_disk.as_ref().map(disk),
        "DeviceStats": devices(&stats.devices),
        "Uptime": stats.uptime_secs,
        "Timestamp": stats.at.0,
        "CPUTicksConsumed": stats.cpus.iter().map(|cpu| cpu.used_mhz).sum::<f64>(),
    })
}

/// Usage of a disk.
pub(crate) fn disk(disk: &DiskStats) -> Value {
    json!({
        "Device": disk.device,
        "Mountpoint": disk.mountpoint,
        "Size": disk.size_bytes,
        "Used": disk.used_bytes,
        "Available": disk.available_bytes,
        "UsedPercent": disk.used_percent,
        "InodesUsedPercent": disk.inodes_percent,
    })
}

/// Usage of devices, by group.
fn devices(groups: &[DeviceGroupStats]) -> Vec<Value> {
    let group = |group: &DeviceGroupStats| {
        let instances = group.instances.iter().map(|instance| {
            let attributes: BTreeMap<_, _> =
                instance.stats.iter().map(|stat| (&stat.name, device_value(&stat.value))).collect();
            let shown = json!({
                "Summary": instance.summary.as_ref().map(device_value),
                "Stats": { "Nested": null, "Attributes": attributes },
                "Timestamp": Option::<Time>::from(instance.at),
            });
            (&instance.id, shown)
        });
        let instances: BTreeMap<_, _> = instances.collect();
        json!({
            "Vendor": group.vendor,
            "Type": group.kind,
            "Name": group.name,
            "InstanceStats": instances,
        })
    };
    groups.iter().map(group).collect()
}

/// A measured value of a device. Whole numbers and others are different members.
fn device_value(measured: &DeviceValue) -> Value {
    let DeviceValue { value, of, unit, about } = measured;
    let is_whole = |number: f64| number.fract() == 0.0;
    let (ints, floats) = match is_whole(*value) && of.is_none_or(is_whole) {
        true => ((Some(*value as i64), of.map(|of| of as i64)), (None, None)),
        false => ((None, None), (Some(*value), *of)),
    };
    json!({
        "Desc": about,
        "Unit": unit,
        "IntNumeratorVal": ints.0,
        "IntDenominatorVal": ints.1,
        "FloatNumeratorVal": floats.0,
        "FloatDenominatorVal": floats.1,
        "StringVal": null,
        "BoolVal": null,
    })
}

/// Resource usage of an allocation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct AllocUsage<'a> {
    resource_usage: ResourceUsage,
    tasks: BTreeMap<&'a str, TaskUsage>,
    timestamp: i64,
}

impl<'a> AllocUsage<'a> {
    /// Usage of tasks of an allocation, and its sum. Without tasks, the sum is zero, and nothing of it is measured.
    pub(crate) fn new(tasks: &'a [TaskStats]) -> Self {
        let zero = (Usage::default(), Counted::default());
        let (sum, counted) =
            tasks.iter().fold(zero, |(sum, counted), task| (sum.and(task.sum), counted.and(task.counted)));
        Self {
            resource_usage: match tasks {
                [] => ResourceUsage::default(),
                tasks => ResourceUsage {
                    device_stats: tasks.iter().flat_map(|task| devices(&task.devices)).collect(),
                    ..ResourceUsage::new(sum, counted)
                },
            },
            tasks: tasks.iter().map(|task| (&*task.task, task.into())).collect(),
            timestamp: tasks.iter().map(|task| task.at.0).max().unwrap_or_default(),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskUsage {
    resource_usage: ResourceUsage,
    timestamp: i64,
    pids: BTreeMap<u32, ResourceUsage>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ResourceUsage {
    memory_stats: MemoryUsage,
    cpu_stats: CpuUsage,
    device_stats: Vec<Value>,
}

/// Memory, in bytes. Values that are not measured are 0.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct MemoryUsage {
    #[serde(rename = "RSS")]
    rss: u64,
    cache: u64,
    swap: u64,
    mapped_file: u64,
    usage: u64,
    max_usage: u64,
    kernel_usage: u64,
    kernel_max_usage: u64,
    /// The names of the values that are measured, as Nomad calls them.
    measured: Option<Vec<&'static str>>,
}

/// CPU: percentages of one processor, and ticks in MHz. Values that are not measured are 0.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct CpuUsage {
    system_mode: f64,
    user_mode: f64,
    total_ticks: f64,
    throttled_periods: u64,
    throttled_time: u64,
    percent: f64,
    /// The names of the values that are measured, as Nomad calls them.
    measured: Option<Vec<&'static str>>,
}

/// The names of values that are always measured, and of those that are counted.
fn measured(always: &[&'static str], counted: &[(&'static str, Option<u64>)]) -> Option<Vec<&'static str>> {
    let counted = counted.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| *name);
    Some(always.iter().copied().chain(counted).collect())
}

impl ResourceUsage {
    fn new(usage: Usage, counted: Counted) -> Self {
        let Usage { rss_bytes, swap_bytes, user_percent, system_percent, used_mhz } = usage;
        let Counted {
            cache_bytes,
            usage_bytes,
            usage_max_bytes,
            kernel_bytes,
            throttled_periods,
            throttled_ns,
        } = counted;
        Self {
            memory_stats: MemoryUsage {
                rss: rss_bytes,
                cache: cache_bytes.unwrap_or(0),
                swap: swap_bytes,
                // Without a counter, it is at least what is resident.
                usage: usage_bytes.unwrap_or(rss_bytes),
                max_usage: usage_max_bytes.unwrap_or(0),
                kernel_usage: kernel_bytes.unwrap_or(0),
                measured: measured(
                    &["RSS", "Swap", "Usage"],
                    &[("Cache", cache_bytes), ("Max Usage", usage_max_bytes), ("Kernel Usage", kernel_bytes)],
                ),
                ..MemoryUsage::default()
            },
            cpu_stats: CpuUsage {
                system_mode: system_percent,
                user_mode: user_percent,
                total_ticks: used_mhz,
                throttled_periods: throttled_periods.unwrap_or(0),
                throttled_time: throttled_ns.unwrap_or(0),
                percent: system_percent + user_percent,
                measured: measured(
                    &["System Mode", "User Mode", "Percent"],
                    &[("Throttled Periods", throttled_periods), ("Throttled Time", throttled_ns)],
                ),
            },
            device_stats: Vec::new(),
        }
    }
}

impl From<&TaskStats> for TaskUsage {
    fn from(stats: &TaskStats) -> Self {
        Self {
            resource_usage: ResourceUsage {
                device_stats: devices(&stats.devices),
                ..ResourceUsage::new(stats.sum, stats.counted)
            },
            timestamp: stats.at.0,
            pids: stats
                .processes
                .iter()
                .map(|(pid, usage)| (*pid, ResourceUsage::new(*usage, Counted::default())))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::stats::{DeviceInstanceStats, DeviceStat};

    use super::*;

    #[test]
    fn devices_are_shown_by_group_and_id() {
        let value = |value: f64, of| DeviceValue { value, of, unit: "W".into(), about: "x".into() };
        let power = DeviceStat { name: "Power usage".into(), value: value(37.5, Some(149.0)) };
        let instance = DeviceInstanceStats {
            id: "GPU-1".into(),
            at: model::Timestamp::from_secs(1_767_225_600),
            summary: Some(value(2.0, Some(16.0))),
            stats: vec![power],
        };
        let group = DeviceGroupStats {
            vendor: "nvidia".into(),
            kind: "gpu".into(),
            name: "T4".into(),
            instances: vec![instance],
        };
        let shown = &devices(&[group])[0];
        assert_eq!((&shown["Vendor"], &shown["Type"]), (&json!("nvidia"), &json!("gpu")));
        let instance = &shown["InstanceStats"]["GPU-1"];
        assert_eq!(instance["Timestamp"], json!("2026-01-01T00:00:00Z"));
        assert_eq!(
            (&instance["Summary"]["IntNumeratorVal"], &instance["Summary"]["IntDenominatorVal"]),
            (&json!(2), &json!(16))
        );
        let power = &instance["Stats"]["Attributes"]["Power usage"];
        assert_eq!((&power["FloatNumeratorVal"], &power["IntNumeratorVal"]), (&json!(37.5), &Value::Null));
    }

    #[test]
    fn missing_measurements_are_left_out() {
        let usage =
            Usage { rss_bytes: 100, swap_bytes: 1, user_percent: 1.0, system_percent: 0.5, used_mhz: 30.0 };
        let shown = serde_json::to_value(ResourceUsage::new(usage, Counted::default())).unwrap();
        assert_eq!((&shown["MemoryStats"]["RSS"], &shown["MemoryStats"]["Cache"]), (&json!(100), &json!(0)));
        assert_eq!(shown["CpuStats"]["Percent"], json!(1.5));
        assert_eq!(shown["CpuStats"]["Measured"], json!(["System Mode", "User Mode", "Percent"]));
        let counted = Counted { usage_bytes: Some(300), cache_bytes: Some(200), ..Counted::default() };
        let shown = serde_json::to_value(ResourceUsage::new(usage, counted)).unwrap();
        let memory = &shown["MemoryStats"];
        assert_eq!((&memory["Usage"], &memory["Cache"]), (&json!(300), &json!(200)));
        assert_eq!(memory["Measured"], json!(["RSS", "Swap", "Usage", "Cache"]));
        let nothing = serde_json::to_value(ResourceUsage::default()).unwrap();
        assert_eq!(nothing["MemoryStats"]["Measured"], Value::Null);
        assert_eq!(nothing["DeviceStats"], json!([]));
    }
}
