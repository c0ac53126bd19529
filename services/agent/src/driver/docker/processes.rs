//! Processes of containers, as the agent sees them.

use std::fs;

/// Whether a process is one of a container. The agent may see other process ids than the engine; but the control group of
/// a container's process has the container's id in its name, wherever it is read.
pub(super) fn is_process_of(pid: i32, container: &str) -> bool {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    pid > 0 && !container.is_empty() && groups.contains(container)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_the_machine_is_none_of_a_container() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!is_process_of(own, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"));
        assert!(!is_process_of(own, "") && !is_process_of(0, "a"));
    }
}
