//! How many tasks may start at the same time, by the pressure on the machine. Pure.

/// Share of the time, in percent, up to which something may wait for a processor without fewer starts.
const CPU_PERCENT_EASY: f64 = 60.0;
/// Share of the time, in percent, up to which something may wait for a disk without fewer starts.
const IO_PERCENT_EASY: f64 = 40.0;
/// Runnable threads for each processor without fewer starts, where the kernel does not measure pressure.
const LOAD_EASY: f64 = 4.0;
/// Runnable threads for each processor at which the fewest starts are allowed.
const LOAD_FULL: f64 = 16.0;
/// The fewest starts for each processor, whatever the pressure: some task always starts.
const STARTS_PER_PROCESSOR_MIN: usize = 2;

/// What the machine says about its load.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Pressure {
    /// The share of the last ten seconds in which some thread waited for a processor, in percent.
    pub(super) cpu_percent: Option<f64>,
    /// The same for disks.
    pub(super) io_percent: Option<f64>,
    /// The average number of runnable threads in the last minute, which stands in for the two.
    pub(super) load: Option<f64>,
}

/// The maximum number of concurrent starts. It falls evenly from `max` to the fewest while the pressure rises.
pub(super) fn starts_max(max: usize, processors: usize, pressure: Pressure) -> usize {
    let excess = |value: f64, easy: f64, full: f64| ((value - easy) / (full - easy)).clamp(0.0, 1.0);
    let processors = processors.max(1);
    let cpu = pressure.cpu_percent.map(|percent| excess(percent, CPU_PERCENT_EASY, 100.0));
    let io = pressure.io_percent.map(|percent| excess(percent, IO_PERCENT_EASY, 100.0));
    let measured = cpu.into_iter().chain(io).reduce(f64::max);
    let by_load = || Some(excess(pressure.load? / processors as f64, LOAD_EASY, LOAD_FULL));
    let excess = measured.or_else(by_load).unwrap_or(0.0);
    let fewest = processors.saturating_mul(STARTS_PER_PROCESSOR_MIN).min(max);
    max - ((max - fewest) as f64 * excess) as usize
}

/// The share of the last ten seconds in one of the kernel's files about pressure: that in which some thread waited.
pub(super) fn some_avg10(file: &str) -> Option<f64> {
    let line = file.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

/// The average of the last minute in the kernel's file about the load.
pub(super) fn load_of(file: &str) -> Option<f64> {
    file.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 100;

    #[test]
    fn pressure_lowers_the_number_of_starts() {
        let starts = |cpu, io| {
            let pressure = Pressure { cpu_percent: cpu, io_percent: io, load: Some(1_000.0) };
            starts_max(MAX, 4, pressure)
        };
        assert_eq!(starts(Some(60.0), Some(40.0)), MAX, "the load does not count beside pressure");
        assert_eq!(starts(Some(80.0), Some(0.0)), 54);
        assert_eq!(starts(Some(80.0), Some(100.0)), 8, "the greater pressure counts");
        assert_eq!(starts(None, Some(70.0)), 54);
    }

    #[test]
    fn the_load_stands_in_for_pressure() {
        let starts = |load| starts_max(MAX, 4, Pressure { load, ..Pressure::default() });
        assert_eq!(
            [starts(None), starts(Some(16.0)), starts(Some(40.0)), starts(Some(64.0))],
            [MAX, MAX, 54, 8]
        );
    }

    #[test]
    fn some_task_always_starts_and_never_more_than_allowed() {
        let full = Pressure { cpu_percent: Some(100.0), ..Pressure::default() };
        for (max, processors) in [(1, 0), (1, 64), (5, 64), (MAX, 1)] {
            let starts = starts_max(max, processors, full);
            assert!((1..=max).contains(&starts), "{max} {processors}: {starts}");
        }
    }

    #[test]
    fn files_of_the_kernel_are_read() {
        let pressure = "some avg10=12.50 avg60=3.10 avg300=0.80 total=123\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(some_avg10(pressure), Some(12.5));
        assert_eq!(load_of("0.52 0.58 0.59 1/389 4211\n"), Some(0.52));
        assert_eq!((some_avg10(""), load_of("")), (None, None));
    }
}
