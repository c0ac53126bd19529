//! Tests of recording and of the Prometheus format.

use super::catalogue::{
    APPLIER_COMMIT, APPLIER_PLANS, BROKER_READY, FEED_GAPS, NOMAD_BROKER_WAIT, RAFT_APPLY,
};
use super::*;

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    let found = text.lines().find(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("no line begins with {start:?} in\n{text}"))
}

#[test]
fn recorded_metrics_appear_in_the_text_format_of_prometheus() {
    APPLIER_PLANS.add_with(2, &["whole"]);
    APPLIER_PLANS.add_with(1, &["say \"no\"\n"]);
    RAFT_APPLY.add(3);
    BROKER_READY.set_with(3.0, &["service"]);
    BROKER_READY.set_with(2.5, &["service"]);
    APPLIER_COMMIT.record(0.0003);
    APPLIER_COMMIT.record(70.0);
    NOMAD_BROKER_WAIT.record(Duration::from_millis(20));

    identify("scheduler", "1-2");
    let text = process_text();
    assert_eq!(line(&text, "# TYPE drover_applier_plans_total"), "# TYPE drover_applier_plans_total counter");
    assert!(line(&text, "# HELP drover_applier_plans_total").len() > 40);
    assert_eq!(
        line(&text, "drover_applier_plans_total{verdict=\"w"),
        "drover_applier_plans_total{verdict=\"whole\",service=\"scheduler\",process=\"1-2\"} 2"
    );
    assert_eq!(
        line(&text, "drover_applier_plans_total{verdict=\"s"),
        "drover_applier_plans_total{verdict=\"say \\\"no\\\"\\n\",service=\"scheduler\",process=\"1-2\"} 1"
    );
    assert_eq!(line(&text, "# TYPE nomad_raft_apply"), "# TYPE nomad_raft_apply untyped");
    assert_eq!(line(&text, "nomad_raft_apply "), "nomad_raft_apply 3");
    assert_eq!(
        line(&text, "drover_broker_ready{"),
        "drover_broker_ready{scheduler=\"service\",service=\"scheduler\",process=\"1-2\"} 2.5"
    );
    let bucket = |le: &str| {
        format!("drover_applier_commit_seconds_bucket{{service=\"scheduler\",process=\"1-2\",le=\"{le}\"}} ")
    };
    for (le, count) in [("0.00025", "0"), ("0.0005", "1"), ("60", "1"), ("+Inf", "2")] {
        assert_eq!(line(&text, &bucket(le)), format!("{}{count}", bucket(le)));
    }
    assert!(line(&text, "drover_applier_commit_seconds_sum{").ends_with("} 70.0003"));
    // The reference's servers expose their metrics under two names.
    for name in ["nomad_broker_wait_time", "nomad_nomad_broker_wait_time"] {
        assert_eq!(line(&text, &format!("# TYPE {name} ")), format!("# TYPE {name} summary"));
        assert_eq!(line(&text, &format!("{name}_count")), format!("{name}_count 1"));
    }
}

#[test]
fn threads_count_into_the_same_series() {
    let before = counted();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|_| FEED_GAPS.add(1)));
        }
    });
    assert_eq!(counted(), before + 4_000);

    fn counted() -> u64 {
        snapshot()
            .iter()
            .find_map(|series| match series.value {
                Value::Counter(count) if series.meta.name == "drover.feed.gaps" => Some(count),
                Value::Counter(_) | Value::Gauge(_) | Value::Distribution(_) => None,
            })
            .unwrap_or_default()
    }
}

#[test]
fn a_metric_takes_no_more_series_than_it_may() {
    let refused = |labels: usize| {
        for number in 0..labels {
            catalogue::BUS_DROPPED.add_with(1, &[&format!("subject-{number}")]);
        }
        snapshot().iter().filter(|series| series.meta.name == "drover.bus.dropped").count()
    };
    assert_eq!(refused(SERIES_PER_METRIC_MAX + 10), SERIES_PER_METRIC_MAX);
    let refused = snapshot().into_iter().find(|series| series.meta.name == "drover.metrics.series_refused");
    assert_eq!(refused.map(|series| series.value), Some(Value::Counter(10)));
}

#[test]
fn a_standby_shows_nothing_of_the_active_process() {
    let shown = || snapshot().iter().any(|series| series.meta.name == "nomad.heartbeat.active");
    set_active(catalogue::TRACKER, 4);
    catalogue::HEARTBEAT_ACTIVE.set(7.0);
    assert!(shown());
    assert!(active().contains(&(catalogue::TRACKER, 4)));
    set_standby(catalogue::TRACKER);
    assert!(!shown());
    assert!(active().iter().all(|(name, _)| *name != catalogue::TRACKER));
}

#[test]
fn quantiles_lie_within_their_buckets() {
    let bounds = [1.0, 10.0, 100.0];
    let mut found = Distribution { buckets: vec![50, 40, 9, 1], ..Distribution::default() };
    assert_eq!(found.quantile(0.5, &bounds), 1.0);
    assert_eq!(found.quantile(0.7, &bounds), 5.5);
    assert_eq!(found.quantile(0.99, &bounds), 100.0);
    assert_eq!(found.quantile(1.0, &bounds), 100.0, "the highest bound");
    assert!(Distribution::default().quantile(0.5, &bounds).is_nan());
    let earlier = found.clone();
    found.merge(&Distribution { buckets: vec![0, 3, 0, 0], sum: 15.0, ..Distribution::default() });
    assert_eq!(found.since(&earlier).buckets, [0, 3, 0, 0]);
    assert_eq!(found.since(&earlier).sum, 15.0);
}

#[test]
fn names_of_the_catalogue_are_unique_and_say_their_unit() {
    let mut names: Vec<String> = Vec::new();
    for meta in catalogue::all().map(Metric::meta) {
        names.extend(prometheus::names(meta).iter().map(|name| prometheus::exposed_name(meta, name)));
        assert!(meta.help.ends_with('.'), "{}", meta.name);
        assert!(meta.bounds().is_sorted(), "{}", meta.name);
        if meta.kind == Kind::Timer {
            assert!(meta.help.contains("milliseconds"), "{}", meta.name);
        }
    }
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
