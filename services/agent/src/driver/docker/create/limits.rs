//! What a container may use: memory, compute, processes. Pure.

use model::text::quoted;
use serde_json::{Value, json};

use super::super::config::{LimitsConfig, TaskConfig};
use super::{Facts, Object};
use crate::driver::start::Start;

/// The longest period of the processor's time limit, and the one without a setting, in µs.
const CPU_PERIOD_MAX: i64 = 1_000_000;
const CPU_PERIOD: i64 = 100_000;
/// The shortest time in a period that the kernel accepts, in µs.
const CPU_QUOTA_MIN: i64 = 1_000;
/// The smallest and the greatest weight that the kernel accepts.
const CPU_SHARES_MIN: u64 = 2;
const CPU_SHARES_MAX: u64 = 262_144;
const MB: u64 = 1 << 20;

/// Adds the limits to what the engine gets.
pub(super) fn limits(
    facts: Facts<'_>,
    config: &TaskConfig,
    start: &Start,
    host: &mut Object,
) -> Result<(), String> {
    let (limits, resources) = (&config.limits, &start.resources);
    let memory = memory(limits, resources.memory_bytes, resources.memory_max_bytes)?;
    host.put("Memory", memory.hard);
    // Memory and swap together: no swap.
    host.put("MemorySwap", memory.hard);
    host.put("MemoryReservation", memory.reserved);

    if resources.cpu_shares > 0 {
        host.put("CpuShares", resources.cpu_shares.clamp(CPU_SHARES_MIN, CPU_SHARES_MAX));
    }
    let cores: Vec<String> = resources.cores.iter().map(u16::to_string).collect();
    host.put("CpusetCpus", cores.join(","));
    let period = limits.cpu_cfs_period.unwrap_or(CPU_PERIOD);
    if !(0..=CPU_PERIOD_MAX).contains(&period) {
        return Err(format!(
            "invalid value for cpu_cfs_period: {period}, from 0 to {CPU_PERIOD_MAX} is allowed"
        ));
    }
    if limits.cpu_hard_limit {
        if resources.node_mhz == 0 {
            return Err("cpu_hard_limit: the node's compute is not known".to_owned());
        }
        let period = if period == 0 { CPU_PERIOD } else { period };
        let share = resources.cpu_shares as f64 / resources.node_mhz as f64;
        let quota = (share * period as f64 * facts.processors.max(1) as f64) as i64;
        host.put("CpuPeriod", period);
        host.put("CpuQuota", quota.max(CPU_QUOTA_MIN));
    }

    host.put("PidsLimit", pids_limit(facts.settings.pids_limit, limits.pids_limit, resources.pids_max)?);
    host.put("ShmSize", limits.shm_size);
    host.put("StorageOpt", &limits.storage_opt);
    host.put("OomScoreAdj", limits.oom_score_adj.unwrap_or(facts.settings.oom_score_adj));
    let ulimits = limits.ulimits.iter().map(|(name, text)| ulimit(name, text));
    host.put("Ulimits", ulimits.collect::<Result<Vec<_>, _>>()?);
    Ok(())
}

/// The limits of memory, in bytes; 0 sets none.
#[derive(Debug, PartialEq, Eq)]
struct Memory {
    hard: u64,
    reserved: u64,
}

fn memory(limits: &LimitsConfig, memory: u64, memory_max: u64) -> Result<Memory, String> {
    let task_max = u64::try_from(limits.memory_hard_limit).unwrap_or(0).saturating_mul(MB);
    if task_max > 0 && task_max < memory {
        let limit = limits.memory_hard_limit;
        return Err(format!("task memory requirements exceed driver hard limit of {limit} MB"));
    }
    if memory_max == u64::MAX {
        return Ok(Memory { hard: 0, reserved: memory });
    }
    let hard = task_max.max(memory_max);
    if hard > memory {
        Ok(Memory { hard, reserved: memory })
    } else {
        Ok(Memory { hard: memory, reserved: 0 })
    }
}

fn pids_limit(operator: i64, task: i64, resources: Option<u64>) -> Result<i64, String> {
    if operator > 0 && task > operator {
        return Err(format!("pids_limit cannot be greater than nomad plugin config pids_limit: {operator}"));
    }
    let resources = resources.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(0);
    let given = [task, operator, resources].into_iter().filter(|limit| *limit > 0);
    // The task's own limit is not above the operator's.
    Ok(given.min().unwrap_or(0))
}

fn ulimit(name: &str, text: &str) -> Result<Value, String> {
    let (soft, hard) = text.split_once(':').unwrap_or((text, text));
    match (soft.trim().parse::<i64>(), hard.trim().parse::<i64>()) {
        (Ok(soft), Ok(hard)) => Ok(json!({ "Name": name, "Soft": soft, "Hard": hard })),
        _ => Err(format!("ulimit.{name}: expected a number or soft:hard, not {}", quoted(text))),
    }
}
