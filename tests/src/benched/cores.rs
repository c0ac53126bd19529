//! How fast this machine's cores are just now. A virtual machine shares them, their caches and their memory with others of
//! whom it knows nothing, and the same program is twice as fast at one time as at another: a figure means something beside
//! what it was measured on.

use std::time::{Duration, Instant};

use telemetry::clock;

use super::table::{number, percentile, remark};

/// Rounds of arithmetic and looks at memory for which a thread is timed at once, some tenths of a millisecond: so short that
/// mostly nothing of this system comes in between.
const ROUNDS: u64 = 100_000;
const LOOKS: usize = 2_000;
/// How often a thread is timed at each look, of which the best counts: what we measure goes on meanwhile on the same cores.
const PIECES: usize = 20;
/// Memory that is looked at by each, in lines of a cache: more than a core has of its own, 16 MiB.
const LINES: usize = 1 << 18;
/// Work that does not depend on each other, so that a core which somebody else computes on as well has less for it.
const LANES: usize = 6;

/// A line of a cache, which begins with the number of the one that is to be looked at next.
type CacheLine = [u32; 16];

/// Threads that look how fast cores are, and what they have found.
#[derive(Debug)]
pub struct Cores {
    memory: Vec<Vec<CacheLine>>,
    arithmetic: Vec<Duration>,
    looks: Vec<Duration>,
}

impl Default for Cores {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { memory: vec![in_one_circle(); threads], arithmetic: Vec::new(), looks: Vec::new() }
    }
}

impl Cores {
    /// Looks, on all cores at once.
    ///
    /// # Panics
    /// If the system has no threads to give.
    pub fn look(&mut self) {
        let found: Vec<[Duration; 2]> = tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let looking: Vec<_> =
                    self.memory.iter().map(|memory| scope.spawn(|| [arithmetic(), looks(memory)])).collect();
                looking.into_iter().map(|thread| thread.join().expect("nothing there panics")).collect()
            })
        });
        for [arithmetic, looks] in found {
            self.arithmetic.push(arithmetic);
            self.looks.push(looks);
        }
    }

    /// Says below a table what was found.
    pub fn put(&self) {
        let nanos = |times: &[Duration], each: f64| {
            let at = |percent| percentile(times.to_vec(), percent).first().map_or(0.0, Duration::as_secs_f64);
            let [best, middle, worst] = [0, 50, 100].map(|percent| number(at(percent) * 1e9 / each));
            format!("{middle} ns ({best} … {worst})")
        };
        let arithmetic = nanos(&self.arithmetic, ROUNDS as f64);
        let looks = nanos(&self.looks, LOOKS as f64);
        remark(&format!("the cores meanwhile: a round of arithmetic {arithmetic}, a look at memory {looks}"));
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

/// Xorshift, in several lanes at once.
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

/// One look after the other, each at a place that the one before names.
fn looks(memory: &[CacheLine]) -> Duration {
    let mut line = 0;
    timed(|| {
        line = (0..LOOKS).fold(line, |line: u32, _| memory[line as usize][0]);
        line
    })
}

/// Memory in which looks come to every line before they come to the first one again, in an order that no core foresees.
fn in_one_circle() -> Vec<CacheLine> {
    let mut order: Vec<u32> = (0..LINES as u32).collect();
    let mut random = 1_u64;
    // Sattolo's way to shuffle makes one circle.
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
    fn looks_come_to_every_line() {
        let memory = in_one_circle();
        let mut seen = vec![false; LINES];
        let mut line = 0;
        for _ in 0..LINES {
            line = memory[line as usize][0];
            assert!(!std::mem::replace(&mut seen[line as usize], true), "a circle is shorter than all");
        }
        assert_eq!(line, 0);
    }
}
