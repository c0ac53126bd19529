//! [`PackedMetric`]: the packed form of [`AllocMetric`], which is part of [`AllocCommon`](super::AllocCommon) and takes a
//! quarter of the unpacked size. A scheduler packs the metrics, and the API unpacks them when an allocation is requested.
//! All other services pass on the bytes unread.
//!
//! The format is a version byte, then the fields in order. Lists and maps have their length before them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::metric::{AllocMetric, NodeScore, Reason, Scorer, Shortfall, TaskShortage};
use super::packed::{Packed, Reader, Unreadable, Writer, packed_form};
use crate::{NodeId, Text};

/// An [`AllocMetric`], packed. Empty for the default metric.
///
/// Cloning shares the bytes. Equality compares the bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PackedMetric(Arc<[u8]>);

/// The format version that this program writes.
const VERSION: u8 = 1;

impl PackedMetric {
    /// Packs a metric.
    pub fn pack(metric: &AllocMetric) -> Self {
        if *metric == AllocMetric::default() {
            return Self::default();
        }
        let mut out = Writer::default();
        out.byte(VERSION);
        write(metric, &mut out);
        Self(out.into_bytes().into())
    }

    /// Unpacks the metric.
    ///
    /// # Errors
    /// If the bytes have an unknown format version, or are damaged.
    pub fn unpack(&self) -> Result<AllocMetric, Unreadable> {
        let mut input = Reader::new(&self.0);
        match input.byte() {
            None => Ok(AllocMetric::default()),
            Some(VERSION) => read(&mut input).ok_or(Unreadable::Damaged),
            Some(version) => Err(Unreadable::Version(version)),
        }
    }
}

packed_form!(PackedMetric);

impl<'de> Deserialize<'de> for PackedMetric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MetricVisitor)
    }
}

/// Accepts the packed form, and the map of fields that older records contain.
struct MetricVisitor;

impl<'de> Visitor<'de> for MetricVisitor {
    type Value = PackedMetric;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("scheduling metrics, packed or as a map")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<PackedMetric, E> {
        Ok(PackedMetric(bytes.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<PackedMetric, A::Error> {
        self.visit_bytes(&crate::bytes::from_list(list)?)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<PackedMetric, A::Error> {
        AllocMetric::deserialize(MapAccessDeserializer::new(fields)).map(|metric| PackedMetric::pack(&metric))
    }
}

fn write(metric: &AllocMetric, out: &mut Writer) {
    let AllocMetric {
        nodes_evaluated,
        nodes_filtered,
        nodes_in_pool,
        node_pool,
        nodes_available,
        class_filtered,
        constraint_filtered,
        nodes_exhausted,
        class_exhausted,
        dimension_exhausted,
        quota_exhausted,
        resources_exhausted,
        scores,
        allocation_time,
        coalesced_failures,
        reasons,
    } = metric;
    out.put(nodes_evaluated);
    out.put(nodes_filtered);
    out.put(nodes_in_pool);
    out.put(node_pool);
    write_map(nodes_available, out);
    write_map(class_filtered, out);
    write_map(constraint_filtered, out);
    out.put(nodes_exhausted);
    write_map(class_exhausted, out);
    write_map(dimension_exhausted, out);
    write_list(quota_exhausted, out);
    write_map(resources_exhausted, out);
    write_list(scores, out);
    out.put(allocation_time);
    out.put(coalesced_failures);
    write_list(reasons, out);
}

fn read(input: &mut Reader<'_>) -> Option<AllocMetric> {
    // The expressions are evaluated in this order, which must be the order in `write`.
    Some(AllocMetric {
        nodes_evaluated: input.get()?,
        nodes_filtered: input.get()?,
        nodes_in_pool: input.get()?,
        node_pool: input.get()?,
        nodes_available: read_map(input)?,
        class_filtered: read_map(input)?,
        constraint_filtered: read_map(input)?,
        nodes_exhausted: input.get()?,
        class_exhausted: read_map(input)?,
        dimension_exhausted: read_map(input)?,
        quota_exhausted: read_list(input)?,
        resources_exhausted: read_map(input)?,
        scores: read_list(input)?,
        allocation_time: input.get()?,
        coalesced_failures: input.get()?,
        reasons: read_list(input)?,
    })
}

fn write_list<T: Packed>(items: &[T], out: &mut Writer) {
    out.uint(items.len() as u64);
    items.iter().for_each(|item| out.put(item));
}

fn read_list<T: Packed>(input: &mut Reader<'_>) -> Option<Vec<T>> {
    // Does not allocate `count` items in advance, because the bytes may be damaged.
    let count = input.uint()?;
    (0..count).map(|_| input.get()).collect()
}

fn write_map<T: Packed>(entries: &BTreeMap<Text, T>, out: &mut Writer) {
    out.uint(entries.len() as u64);
    for (key, value) in entries {
        out.put(key);
        out.put(value);
    }
}

fn read_map<T: Packed>(input: &mut Reader<'_>) -> Option<BTreeMap<Text, T>> {
    let count = input.uint()?;
    (0..count).map(|_| Some((input.get()?, input.get()?))).collect()
}

impl Packed for TaskShortage {
    fn write(&self, out: &mut Writer) {
        out.put(&self.cpu_mhz);
        out.put(&self.memory_mb);
    }

    fn read(input: &mut Reader<'_>) -> Option<Self> {
        Some(Self { cpu_mhz: input.get()?, memory_mb: input.get()? })
    }
}

impl Packed for NodeScore {
    fn write(&self, out: &mut Writer) {
        out.bytes(self.node_id.as_bytes());
        out.uint(self.scores.len() as u64);
        for (scorer, score) in &self.scores {
            out.byte(code(*scorer));
            out.bytes(&score.to_le_bytes());
        }
        out.bytes(&self.normalized.to_le_bytes());
    }

    fn read(input: &mut Reader<'_>) -> Option<Self> {
        let node_id = NodeId::from_bytes(input.bytes()?);
        let count = input.uint()?;
        let score = |_| {
            let code = input.byte()?;
            let scorer = Scorer::ALL.iter().find(|scorer| self::code(**scorer) == code)?;
            Some((*scorer, f64::from_le_bytes(input.bytes()?)))
        };
        let scores = (0..count).map(score).collect::<Option<_>>()?;
        Some(Self { node_id, scores, normalized: f64::from_le_bytes(input.bytes()?) })
    }
}

/// The code of a scorer in the packed form. Codes are never reused.
fn code(scorer: Scorer) -> u8 {
    match scorer {
        Scorer::Binpack => 0,
        Scorer::Align => 1,
        Scorer::Devices => 2,
        Scorer::JobAntiAffinity => 3,
        Scorer::ReschedulePenalty => 4,
        Scorer::NodeAffinity => 5,
        Scorer::AllocationSpread => 6,
        Scorer::Preemption => 7,
    }
}

impl Packed for Reason {
    fn write(&self, out: &mut Writer) {
        out.put(&self.name);
        out.put(&self.nodes);
        out.put(&self.alone);
        out.put(&self.shortfall.is_some());
        if let Some(Shortfall { amount, nodes }) = &self.shortfall {
            out.put(amount);
            out.put(nodes);
        }
    }

    fn read(input: &mut Reader<'_>) -> Option<Self> {
        let (name, nodes, alone) = (input.get()?, input.get()?, input.get()?);
        let shortfall = match input.get::<bool>()? {
            true => Some(Shortfall { amount: input.get()?, nodes: input.get()? }),
            false => None,
        };
        Some(Self { name, nodes, alone, shortfall })
    }
}

impl Packed for u32 {
    fn write(&self, out: &mut Writer) {
        out.uint((*self).into());
    }

    fn read(input: &mut Reader<'_>) -> Option<Self> {
        input.narrow()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Nanos;

    fn metric() -> AllocMetric {
        let counts = |name: &str| BTreeMap::from([(Text::from(name), 3), ("".into(), 300)]);
        let shortfall = Some(Shortfall { amount: 7, nodes: 1 });
        let reason = |name: &str, shortfall| Reason { name: name.into(), nodes: 9, alone: 2, shortfall };
        AllocMetric {
            nodes_evaluated: 10_000,
            nodes_filtered: 1,
            nodes_in_pool: 12_000,
            node_pool: "gpu".into(),
            nodes_available: counts("dc1"),
            class_filtered: counts("small"),
            constraint_filtered: counts("${attr.kernel.name} = linux"),
            nodes_exhausted: 2,
            class_exhausted: counts("large"),
            dimension_exhausted: counts("memory"),
            quota_exhausted: vec!["cpu".into()],
            resources_exhausted: BTreeMap::from([(
                "web".into(),
                TaskShortage { cpu_mhz: 500, memory_mb: 64 },
            )]),
            scores: vec![NodeScore {
                node_id: NodeId::from_bytes([7; 16]),
                scores: Scorer::ALL.iter().map(|scorer| (*scorer, -0.5)).collect(),
                normalized: 0.75,
            }],
            allocation_time: Nanos(123_456),
            coalesced_failures: 4,
            reasons: vec![reason("memory", shortfall), reason("cpu", None)],
        }
    }

    #[test]
    fn everything_survives_packing() {
        for metric in [metric(), AllocMetric { nodes_evaluated: 1, ..AllocMetric::default() }] {
            assert_eq!(PackedMetric::pack(&metric).unpack(), Ok(metric));
        }
        assert_eq!(PackedMetric::pack(&AllocMetric::default()), PackedMetric::default());
        assert_eq!(PackedMetric::default().unpack(), Ok(AllocMetric::default()));
    }

    #[test]
    fn no_two_scorers_have_the_same_code() {
        let codes: std::collections::BTreeSet<u8> = Scorer::ALL.iter().map(|scorer| code(*scorer)).collect();
        assert_eq!(codes.len(), Scorer::ALL.len());
    }

    #[test]
    fn records_of_older_versions_are_read() {
        let old = rmp_serde::to_vec_named(&metric()).unwrap();
        let new = rmp_serde::to_vec_named(&PackedMetric::pack(&metric())).unwrap();
        let read = |bytes: &[u8]| rmp_serde::from_slice::<PackedMetric>(bytes).unwrap();
        assert_eq!(read(&old), read(&new));
        assert!(new.len() * 2 < old.len(), "{} instead of {} bytes", new.len(), old.len());
    }

    #[test]
    fn a_format_without_byte_strings_holds_it_too() {
        for packed in [PackedMetric::pack(&metric()), PackedMetric::default()] {
            let json = serde_json::to_string(&packed).unwrap();
            assert_eq!(serde_json::from_str::<PackedMetric>(&json).unwrap(), packed);
        }
    }

    #[test]
    fn a_newer_form_is_refused_by_its_version() {
        assert_eq!(PackedMetric([9, 1].as_slice().into()).unpack(), Err(Unreadable::Version(9)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = PackedMetric(bytes.into()).unpack();
        }

        #[test]
        fn truncated_bytes_are_refused(end in 1_usize..1000) {
            let packed = PackedMetric::pack(&metric());
            let end = end % (packed.0.len() - 1) + 1;
            prop_assert_eq!(PackedMetric(packed.0[..end].into()).unpack(), Err(Unreadable::Damaged));
        }
    }
}
