//! Watches the processes of the cluster: the most memory that each took, the connections of the API, and whether one
//! of its threads is still busy after an attacker has left. Reads `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tests::harness::Cluster;
use tokio::task::{AbortHandle, spawn};
use tokio::time::sleep;

/// Name of the API's process, and of NATS.
const API: &str = "api";
const NATS: &str = "nats-server";
/// The most memory that a process may take, in MiB. The API may take 512 for requests, 512 for responses that are being
/// sent, and 128 for cached ones; the applier 256 for commands that wait; NATS what it holds for slow receivers. On top
/// comes the state, of which an attacker may register as much as the job limits permit.
const MEMORY_MAX_MB: [(&str, u64); 4] = [(API, 1_536), ("plan-applier", 1_024), ("agent", 384), (NATS, 768)];
/// The same for the other services.
const OTHER_MEMORY_MAX_MB: u64 = 768;
/// How soon after an attacker has left no thread may be busy with its requests any more.
const FREE_WITHIN: Duration = Duration::from_secs(1);
/// The time over which the load of threads is measured, and the part of it, in clock ticks of 10 ms, from which a
/// thread counts as busy.
const BUSY_WINDOW: Duration = Duration::from_millis(200);
const BUSY_TICKS: u64 = 18;
/// How soon after an attacker has left its connections must be closed, and how many others may have come meanwhile.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);
const OTHER_CONNECTIONS: usize = 16;
/// How often connections are counted.
const COUNT_INTERVAL: Duration = Duration::from_millis(250);

/// The watched processes.
pub(crate) struct Guard {
    processes: Vec<(String, u32)>,
    api: u32,
    connections: Arc<AtomicUsize>,
    connections_before: usize,
    counting: AbortHandle,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.counting.abort();
    }
}

/// The most memory that a process took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peak {
    pub(crate) process: String,
    pub(crate) memory_mb: u64,
    max_mb: u64,
}

impl Guard {
    /// Watches the processes of a cluster.
    ///
    /// # Panics
    /// If it has no API.
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let mut processes = cluster.process_ids();
        let api = processes.iter().find(|(name, _)| name == API).expect("the cluster has an API").1;
        processes.extend(cluster.nats.pid().map(|pid| (NATS.to_owned(), pid)));
        let connections = Arc::new(AtomicUsize::new(0));
        let most = Arc::clone(&connections);
        let counting = spawn(async move {
            loop {
                most.fetch_max(connections_of(api), Ordering::Relaxed);
                sleep(COUNT_INTERVAL).await;
            }
        });
        let counting = counting.abort_handle();
        Self { processes, api, connections, connections_before: 0, counting }
    }

    /// Begins anew: peaks count from now on.
    pub(crate) fn reset(&mut self) {
        for (_, pid) in &self.processes {
            // Resets the peak (proc_pid_clear_refs(5)). Without the permission, the peak is that of all attacks so far.
            let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
        self.connections_before = connections_of(self.api);
        self.connections.store(self.connections_before, Ordering::Relaxed);
    }

    /// The most connections that the API had since [`Self::reset`].
    pub(crate) fn most_connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The most memory of each process since [`Self::reset`]; the process that came closest to its bound is first.
    pub(crate) fn peaks(&self) -> Vec<Peak> {
        let mut peaks: Vec<Peak> = self
            .processes
            .iter()
            .filter_map(|(process, pid)| {
                let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
                let process = process.clone();
                Some(Peak { memory_mb: peak_mb(&status)?, max_mb: memory_max_mb(&process), process })
            })
            .collect();
        peaks.sort_by_key(|peak| std::cmp::Reverse(peak.memory_mb * 1_000 / peak.max_mb));
        peaks
    }

    /// What is wrong with the memory of processes.
    pub(crate) fn memory_faults(&self) -> Vec<String> {
        let over = self.peaks().into_iter().filter(|peak| peak.memory_mb > peak.max_mb);
        over.map(|Peak { process, memory_mb, max_mb }| {
            format!("{process} took {memory_mb} MiB; {max_mb} is its bound")
        })
        .collect()
    }

    /// Checks that what the attacker held is free soon after it has left, which is now: threads of the API, and
    /// connections.
    pub(crate) async fn check_free(&self) -> Result<(), String> {
        // A thread is still busy with a request if it never rests. Threads that appear later are not the attacker's.
        let mut busy: Option<BTreeMap<String, u64>> = None;
        let windows = FREE_WITHIN.as_millis() / BUSY_WINDOW.as_millis() + 1;
        for _ in 0..windows {
            let before = ticks_of_threads(self.api);
            sleep(BUSY_WINDOW).await;
            let after = ticks_of_threads(self.api);
            let worked = after.into_iter().map(|(thread, ticks)| {
                let worked = ticks.saturating_sub(before.get(&thread).copied().unwrap_or(ticks));
                (thread, worked)
            });
            let mut now: BTreeMap<String, u64> = worked.filter(|(_, ticks)| *ticks >= BUSY_TICKS).collect();
            if let Some(before) = &busy {
                now.retain(|thread, _| before.contains_key(thread));
            }
            if now.is_empty() {
                busy = None;
                break;
            }
            busy = Some(now);
        }
        if let Some(threads) = busy {
            let names: Vec<String> = threads.into_keys().collect();
            return Err(format!(
                "{FREE_WITHIN:?} after the attacker has left, threads of the API are still busy: {}",
                names.join(", ")
            ));
        }
        self.check_connections().await
    }

    async fn check_connections(&self) -> Result<(), String> {
        let begun = telemetry::clock::monotonic();
        let bound = self.connections_before + OTHER_CONNECTIONS;
        loop {
            let open = connections_of(self.api);
            if open <= bound {
                return Ok(());
            }
            if begun.elapsed() > CLOSED_WITHIN {
                let before = self.connections_before;
                return Err(format!(
                    "the API has {open} descriptors {CLOSED_WITHIN:?} after the attacker has left, and had {before}"
                ));
            }
            sleep(COUNT_INTERVAL).await;
        }
    }
}

fn memory_max_mb(process: &str) -> u64 {
    let own = MEMORY_MAX_MB.iter().find(|(name, _)| *name == process);
    own.map_or(OTHER_MEMORY_MAX_MB, |(_, max_mb)| *max_mb)
}

/// The peak of the resident memory in the text of `/proc/<pid>/status`.
fn peak_mb(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kb: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kb >> 10)
}

/// The number of open descriptors, of which most are connections.
fn connections_of(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The processor time of each thread so far, in clock ticks.
fn ticks_of_threads(pid: u32) -> BTreeMap<String, u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let read = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        let (name, ticks) = ticks(&stat)?;
        Some((format!("{name} ({})", thread.file_name().to_string_lossy()), ticks))
    });
    read.collect()
}

/// The name of a thread and its processor time, from the text of its `stat`.
fn ticks(stat: &str) -> Option<(&str, u64)> {
    // The name, in parentheses, may contain any character.
    let (before, rest) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1;
    // `utime` and `stime` are fields 14 and 15; `rest` begins with the third.
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((name, user + system))
}

#[test]
fn texts_of_proc_are_understood() {
    assert_eq!(peak_mb("Name:\tapi\nVmPeak:\t 9 kB\nVmHWM:\t  204800 kB\n"), Some(200));
    let stat = "7 (tokio) (x) S 1 2 3 4 5 6 7 8 9 10 110 22 0 0 20 0 1 0";
    assert_eq!(ticks(stat), Some(("tokio) (x", 132)));
}
