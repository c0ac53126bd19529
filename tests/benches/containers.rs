//! The cost of the state's containers, compared with `imbl` and `rpds`.
//!
//! Each holds a million entries, as large as those of allocations: 16 random bytes as a key for 4 bytes in maps, 144 bytes
//! a row in vectors. A change set is a clone, some writes to random entries, and the drop of the old version, as a replica
//! does it. One core.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::hint::black_box;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use state::btree::BTree;
use state::chunked::Chunked;
use state::layered::Layered;

/// The same allocator as `drover`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Key = [u8; 16];
type Row = [u64; 18];
type RpdsMap = rpds::RedBlackTreeMapSync<Key, u32>;
type RpdsVector = rpds::VectorSync<Row>;

const ENTRIES: usize = 1_000_000;
const CHANGE_SETS: usize = 20_000;
/// Writes of one change set: a small one, as of a job with ten allocations.
const WRITES: usize = 10;

/// A persistent map, as this benchmark uses it.
trait Map: Clone + Default {
    fn get(&self, key: &Key) -> Option<u32>;
    fn insert(&mut self, key: Key, value: u32);
    fn remove(&mut self, key: &Key);
    fn sum(&self) -> u64;
}

/// A persistent vector, as this benchmark uses it.
trait Vector: Clone + Default {
    fn get(&self, index: usize) -> u64;
    fn push(&mut self, row: Row);
    fn set(&mut self, index: usize, value: u64);
    fn sum(&self) -> u64;
}

fn main() {
    println!("{ENTRIES} entries; {CHANGE_SETS} change sets with {WRITES} writes each\n");
    println!(
        "{:<32} {:>9} {:>12} {:>15} {:>12} {:>14}",
        "", "get (ns)", "change (ns)", "replace (ns)", "scan (ns)", "bytes an entry"
    );
    map::<BTree<Key, u32>>("BTree");
    map::<Layered<Key, u32>>("Layered");
    map::<imbl::OrdMap<Key, u32>>("imbl::OrdMap");
    map::<RpdsMap>("rpds::RedBlackTreeMap");
    vector::<Chunked<Row>>("Chunked");
    vector::<imbl::Vector<Row>>("imbl::Vector");
    vector::<RpdsVector>("rpds::Vector");
    println!(
        "\nget: a random entry. change: a write to an existing entry. replace: a new entry in the place of the oldest one\n\
         (maps). scan: an entry, in order. Writes include their share of the clone and of the drop of the old version."
    );
}

fn map<M: Map>(name: &str) {
    let mut random = SmallRng::seed_from_u64(7);
    let mut keys: Vec<Key> = (0..ENTRIES).map(|_| random.random()).collect();
    let fresh: Vec<Key> = (0..CHANGE_SETS * WRITES).map(|_| random.random()).collect();
    let before = rss();
    let mut map = M::default();
    for (key, value) in keys.iter().zip(0..) {
        map.insert(*key, value);
    }
    let bytes = rss().saturating_sub(before) / ENTRIES;
    let oldest: Vec<Key> = keys[..fresh.len()].to_vec();

    keys.shuffle(&mut random);
    let get = nanos(ENTRIES, || {
        for key in &keys {
            black_box(map.get(key));
        }
    });
    let scan = nanos(ENTRIES, || {
        black_box(map.sum());
    });
    let change = nanos(CHANGE_SETS * WRITES, || {
        for writes in keys.chunks(WRITES).take(CHANGE_SETS) {
            let old = map.clone();
            for key in writes {
                map.insert(*key, 1);
            }
            drop(old);
        }
    });
    let replace = nanos(CHANGE_SETS * WRITES, || {
        for (added, removed) in fresh.chunks(WRITES).zip(oldest.chunks(WRITES)) {
            let old = map.clone();
            for (added, removed) in added.iter().zip(removed) {
                map.insert(*added, 1);
                map.remove(removed);
            }
            drop(old);
        }
    });
    println!("{name:<32} {get:>9.0} {change:>12.0} {replace:>15.0} {scan:>12.1} {bytes:>14}");
}

fn vector<V: Vector>(name: &str) {
    let mut random = SmallRng::seed_from_u64(7);
    let before = rss();
    let mut vector = V::default();
    for value in 0..ENTRIES {
        vector.push([value as u64; 18]);
    }
    let bytes = rss().saturating_sub(before) / ENTRIES;
    let mut indexes: Vec<usize> = (0..ENTRIES).collect();

    indexes.shuffle(&mut random);
    let get = nanos(ENTRIES, || {
        for index in &indexes {
            black_box(vector.get(*index));
        }
    });
    let scan = nanos(ENTRIES, || {
        black_box(vector.sum());
    });
    let change = nanos(CHANGE_SETS * WRITES, || {
        for writes in indexes.chunks(WRITES).take(CHANGE_SETS) {
            let old = vector.clone();
            for index in writes {
                vector.set(*index, 1);
            }
            drop(old);
        }
    });
    println!("{name:<32} {get:>9.0} {change:>12.0} {:>15} {scan:>12.1} {bytes:>14}", "");
}

/// The mean time of one of `operations`, in nanoseconds.
fn nanos(operations: usize, run: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    run();
    begin.elapsed().as_secs_f64() * 1e9 / operations as f64
}

fn rss() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process's status can be read");
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the status has such a line");
    let kib = resident.trim().trim_end_matches(" kB").parse::<usize>().expect("the value is a number of kB");
    kib * 1024
}

/// Implements [`Map`] for a type whose methods have the names of the standard library's maps.
macro_rules! map {
    ($map:ty, $insert:ident, $remove:ident) => {
        impl Map for $map {
            fn get(&self, key: &Key) -> Option<u32> {
                self.get(key).copied()
            }
            fn insert(&mut self, key: Key, value: u32) {
                self.$insert(key, value);
            }
            fn remove(&mut self, key: &Key) {
                self.$remove(key);
            }
            fn sum(&self) -> u64 {
                self.values().map(|value| u64::from(*value)).sum()
            }
        }
    };
}

map!(BTree<Key, u32>, insert, remove);
map!(Layered<Key, u32>, insert, remove);
map!(imbl::OrdMap<Key, u32>, insert, remove);
map!(RpdsMap, insert_mut, remove_mut);

/// Implements [`Vector`] for a type whose methods have the names of the standard library's vector.
macro_rules! vector {
    ($vector:ty, $push:ident) => {
        impl Vector for $vector {
            fn get(&self, index: usize) -> u64 {
                self.get(index).expect("the row exists")[0]
            }
            fn push(&mut self, row: Row) {
                self.$push(row);
            }
            fn set(&mut self, index: usize, value: u64) {
                self.get_mut(index).expect("the row exists")[0] = value;
            }
            fn sum(&self) -> u64 {
                self.iter().map(|row| row[0]).sum()
            }
        }
    };
}

vector!(Chunked<Row>, push);
vector!(imbl::Vector<Row>, push_back);
vector!(RpdsVector, push_back_mut);
