//! The current speed of this machine's cores. A virtual machine shares cores, caches and memory with others that it
//! does not know of, and the same program can be twice as fast at one time as at another. So figures are printed
//! together with the speed of the cores while they were measured.

use std::time::{Duration, Instant};

use telemetry::clock;

use super::table::{number, percentile, remark};

/// Rounds of arithmetic, and memory accesses, that one timing of a thread covers. They take some tenths of a
/// millisecond: short enough that this system rarely interrupts them.
const ROUNDS: u64 = 100_000;
const ACCESSES: usize = 2_000;
/// How often each thread is timed in one sample. The shortest time counts, because the measured processes run on the
/// same cores meanwhile.
const PIECES: usize = 20;
/// Number of cache lines that each thread accesses, 16 MiB: more than the caches of one core hold.
const LINES: usize = 1 << 18;
/// Independent lanes of arithmetic. Their throughput falls when another thread computes on the same core.
const LANES: usize = 6;

/// A cache line. Its numbers are the index of the line to access next.
type CacheLine = [u32; 16];

/// Threads that measure the speed of the cores, and their results.
#[derive(Debug)]
pub struct Cores {
    memory: Vec<Vec<CacheLine>>,
    arithmetic: Vec<Duration>,
    accesses: Vec<Duration>,
}

impl Default for Cores {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { memory: vec![pointer_cycle(); threads], arithmetic: Vec::new(), accesses: Vec::new() }
    }
}

impl Cores {
    /// Takes one sample on all cores at once.
    ///
    /// # Panics
    /// If a thread cannot be started.
    pub fn sample(&mut self) {
        let found: Vec<[Duration; 2]> = tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let threads: Vec<_> = self
                    .memory
                    .iter()
                    .map(|memory| scope.spawn(|| [arithmetic(), memory_accesses(memory)]))
                    .collect();
                threads.into_iter().map(|thread| thread.join().expect("measuring does not panic")).collect()
            })
        });
        for [arithmetic, accesses] in found {
            self.arithmetic.push(arithmetic);
            self.accesses.push(accesses);
        }
    }

    /// Prints the measured speeds below a table.
    pub fn print(&self) {
        let nanos = |times: &[Duration], each: f64| {
            let at = |percent| percentile(times.to_vec(), percent).first().map_or(0.0, Duration::as_secs_f64);
            let [best, middle, worst] = [0, 50, 100].map(|percent| number(at(percent) * 1e9 / each));
            format!("{middle} ns ({best} … {worst})")
        };
        let arithmetic = nanos(&self.arithmetic, ROUNDS as f64);
        let accesses = nanos(&self.accesses, ACCESSES as f64);
        remark(&format!(
            "speed of the cores: a round of arithmetic {arithmetic}, a memory access {accesses}"
        ));
    }
}

fn timed<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut piece = || {
        let began: Instant = clock::monotonic();
        std::hint::black_box(work());
        began.elapsed()
    };
    (0..PIECES).map(|_| piece()).min().unwrap_or_default()
}

/// Xorshift in several lanes at once.
fn arithmetic() -> Duration {
    timed(|| {
        let mut lanes: [u64; LANES] = std::array::from_fn(|lane| lane as u64 + 1);
        for _ in 0..std::hint::black_box(ROUNDS) {
            for lane in &mut lanes {
                *lane ^= *lane << 13;
                *lane ^= *lane >> 7;
                *lane ^= *lane << 17;
            }
        }
        lanes
    })
}

/// Accesses memory in sequence: each cache line holds the index of the next.
fn memory_accesses(memory: &[CacheLine]) -> Duration {
    let mut line = 0;
    timed(|| {
        line = (0..ACCESSES).fold(line, |line: u32, _| memory[line as usize][0]);
        line
    })
}

/// Returns memory in which the accesses visit every line once before they return to the first, in an order that a core
/// cannot predict.
fn pointer_cycle() -> Vec<CacheLine> {
    let mut order: Vec<u32> = (0..LINES as u32).collect();
    let mut random = 1_u64;
    // Sattolo's algorithm shuffles into a single cycle.
    for last in (1..LINES).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, ((random >> 33) as usize) % last);
    }
    order.into_iter().map(|next| [next; 16]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_visits_every_cache_line() {
        let memory = pointer_cycle();
        let mut seen = vec![false; LINES];
        let mut line = 0;
        for _ in 0..LINES {
            line = memory[line as usize][0];
            assert!(!std::mem::replace(&mut seen[line as usize], true), "a cycle does not visit every line");
        }
        assert_eq!(line, 0);
    }
}
