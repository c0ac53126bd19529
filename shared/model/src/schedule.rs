//! [`Schedule`]: the moments at which a periodic job is launched (N-23). Pure: callers pass the time.
//!
//! Expressions describe times of day in the job's time zone, whose rules come from the database that is built into the
//! program. Where the clocks of the zone change:
//!
//! - An expression with one time of day (`30 2 * * *`) fires once a day. If its time is skipped, it fires at the first
//!   moment after the gap; if its time is repeated, it fires at the first of the two moments.
//! - An expression with several times of day, by a `*`, a step, a list or a range in its seconds, minutes or hours
//!   (`*/15 * * * *`), follows the clock. It does not fire in a gap, and fires in both of two repeated hours.

use std::cmp::Ordering;
use std::str::FromStr as _;

use croner::errors::CronError;
use croner::{CivilDate, CivilDateTime, CivilTime, Cron, CronDateTime, Resolution, Weekday};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::change::JobSummary;
use crate::job::{Job, JobSpec, PeriodicConfig};
use crate::{Text, Timestamp};

/// Maximum length of a cron expression, in bytes.
const CRON_BYTES_MAX: usize = 1_024;

/// How many years ahead a search looks. An expression that does not fire within them, such as one for 30 February, never
/// fires. The limit bounds the cost of a search: 100 years contain every combination of date and weekday.
const YEARS_AHEAD_MAX: i32 = 100;

/// When a periodic job is launched: at each moment that one of its expressions describes.
#[derive(Debug, Clone)]
pub struct Schedule {
    crons: Vec<Cron>,
    zone: TimeZone,
}

impl Schedule {
    /// The schedule of a `periodic` block. Expressions that cannot be read never fire; a time zone that is unknown counts as
    /// UTC (N-23.3).
    pub fn new(config: &PeriodicConfig) -> Self {
        let specs = [&config.spec].into_iter().filter(|spec| !spec.is_empty()).chain(&config.specs);
        Self {
            crons: specs.filter_map(|spec| parse(spec).ok()).collect(),
            zone: zone(&config.time_zone).unwrap_or(TimeZone::UTC),
        }
    }

    /// The schedule of a `periodic` block of the API, like [`Self::new`].
    pub fn of_api(config: &api_types::PeriodicConfig) -> Self {
        let specs = config.specs.iter().flatten().map(|spec| Text::from(spec.as_str()));
        Self::new(&PeriodicConfig {
            spec: config.spec.as_deref().unwrap_or_default().into(),
            specs: specs.collect(),
            time_zone: config.time_zone.as_deref().unwrap_or_default().into(),
            ..PeriodicConfig::default()
        })
    }

    /// The first moment after `after`, in whole seconds. `None` if there is none within 100 years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let start = Moment::new(&self.zone, after.as_secs())?;
        let next = |cron: &Cron| cron.find_next_occurrence(&start, false).ok().map(|found| found.seconds);
        let first = self.crons.iter().filter_map(next).filter(|found| *found > start.seconds).min()?;
        let found = Timestamp::from_secs(first);
        (found.as_secs() == first).then_some(found)
    }

    /// The last moment that is after `after` and not after `until`. The search takes a number of steps that grows with the
    /// logarithm of the time between the two, however many moments there are.
    pub fn last_between(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let is_due = |from: i64| self.next(Timestamp::from_secs(from)).filter(|next| *next <= until);
        // From `low` on there is a moment that is not after `until`; from `high` on there is none.
        let (mut low, mut high) = (after.as_secs(), until.as_secs());
        let mut last = is_due(low)?;
        while high.saturating_sub(low) > 1 {
            let middle = low + (high - low) / 2;
            match is_due(middle) {
                Some(found) => (low, last) = (middle, found),
                None => high = middle,
            }
        }
        Some(last)
    }
}

/// Reads a cron expression: five fields; six, of which the last is the year; seven, of which the first are seconds; or a word
/// such as `@daily` (N-23.2).
///
/// # Errors
/// The reason, if it is none.
pub fn check_cron(spec: &str) -> Result<(), String> {
    parse(spec).map(drop)
}

/// Whether this is the name of a time zone. An empty name is that of UTC.
pub fn is_time_zone(name: &str) -> bool {
    zone(name).is_some()
}

/// The time up to which the launches of a periodic job have been decided: that of its last launch, or that at which its
/// specification last changed (N-23.3, N-23.6). The next launch is the first moment of its schedule after this time.
pub fn launched_until(job: &Job, summary: Option<&JobSummary>) -> Timestamp {
    let children = summary.and_then(|summary| summary.children);
    job.submit_time.max(children.unwrap_or_default().last_launch)
}

impl JobSpec {
    /// The schedule of a job that is launched at times: a periodic one that is enabled and not stopped (N-23.1). A
    /// parameterized job is not launched at times, but the jobs that its dispatches make are (N-24.7).
    pub fn launch_config(&self) -> Option<&PeriodicConfig> {
        let is_launched = !self.stop && (self.parameterized_job.is_none() || self.dispatched);
        self.periodic.as_ref().filter(|periodic| is_launched && periodic.enabled)
    }
}

fn parse(spec: &str) -> Result<Cron, String> {
    if spec.len() > CRON_BYTES_MAX {
        return Err(format!("it has {} bytes; at most {CRON_BYTES_MAX} are allowed", spec.len()));
    }
    let is_word = spec.starts_with('@') && !spec.starts_with("@every");
    let cron = match spec.split_whitespace().count() {
        count if count < 5 && !is_word => return Err("missing field(s)".to_owned()),
        // The library takes the first of six fields for seconds.
        6 => Cron::from_str(&format!("0 {spec}")),
        _ => Cron::from_str(spec),
    };
    cron.map_err(|error| error.to_string())
}

fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() { Some(TimeZone::UTC) } else { TimeZone::get(name).ok() }
}

/// A moment in a time zone, for searches that begin at it.
#[derive(Debug, Clone)]
struct Moment<'z> {
    zone: &'z TimeZone,
    /// Seconds since the epoch.
    seconds: i64,
    /// Time of day and date in the zone.
    civil: DateTime,
    /// The last year in which the search looks.
    last_year: i32,
}

impl<'z> Moment<'z> {
    /// Begins a search. `None` for a time that calendars do not have.
    fn new(zone: &'z TimeZone, seconds: i64) -> Option<Self> {
        let civil = zone.to_datetime(jiff::Timestamp::from_second(seconds).ok()?);
        Some(Self { zone, seconds, civil, last_year: i32::from(civil.year()) + YEARS_AHEAD_MAX })
    }

    /// Another moment of the same search.
    fn at(&self, seconds: i64) -> Option<Self> {
        Self::new(self.zone, seconds).map(|moment| Self { last_year: self.last_year, ..moment })
    }

    fn resolved(&self, found: Result<jiff::Timestamp, jiff::Error>) -> Result<Self, CronError> {
        found.ok().and_then(|found| self.at(found.as_second())).ok_or(CronError::InvalidTime)
    }
}

impl CronDateTime for Moment<'_> {
    fn to_civil(&self) -> CivilDateTime {
        let part = |part: i8| u32::from(part.unsigned_abs());
        let (civil, year) = (self.civil, i32::from(self.civil.year()));
        CivilDateTime::new(
            CivilDate::from_parts_unchecked(year, part(civil.month()), part(civil.day())),
            CivilTime::from_parts_unchecked(part(civil.hour()), part(civil.minute()), part(civil.second())),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        let weekday = self.civil.weekday().to_sunday_zero_offset();
        Weekday::from_days_from_sunday(u32::from(weekday.unsigned_abs()))
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        if civil.year() > self.last_year {
            return Err(CronError::TimeSearchLimitExceeded);
        }
        let part = |part: u32| i8::try_from(part).map_err(|_| CronError::InvalidDate);
        let date = DateTime::new(
            i16::try_from(civil.year()).map_err(|_| CronError::InvalidDate)?,
            part(civil.month())?,
            part(civil.day())?,
            part(civil.hour())?,
            part(civil.minute())?,
            part(civil.second())?,
            0,
        );
        let found = self.zone.to_ambiguous_timestamp(date.map_err(|_| CronError::InvalidDate)?);
        Ok(match found.offset() {
            AmbiguousOffset::Unambiguous { .. } => Resolution::Single(self.resolved(found.unambiguous())?),
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
            AmbiguousOffset::Fold { .. } => {
                Resolution::Ambiguous(self.resolved(found.earlier())?, self.resolved(found.later())?)
            }
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.at(self.seconds.checked_add(seconds)?)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.seconds.cmp(&other.seconds)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::change::ChildrenSummary;
    use crate::job::ParameterizedJobConfig;
    use crate::{Index, JobKey};

    fn schedule(specs: &[&str], time_zone: &str) -> Schedule {
        Schedule::new(&PeriodicConfig {
            enabled: true,
            specs: specs.iter().map(|spec| Text::from(*spec)).collect(),
            time_zone: time_zone.into(),
            ..PeriodicConfig::default()
        })
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::from_secs(text.parse::<jiff::Timestamp>().unwrap().as_second())
    }

    fn shown(moment: Timestamp) -> String {
        jiff::Timestamp::from_second(moment.as_secs()).unwrap().to_string()
    }

    /// The first moments of a schedule after a time.
    fn first(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
        let next = |after: &Timestamp| schedule.next(*after);
        let moments = std::iter::successors(schedule.next(at(after)), next);
        moments.take(count).map(shown).collect()
    }

    #[test]
    fn expressions_have_five_to_seven_fields_or_are_a_word() {
        // Five fields; six with the year; seven with leading seconds; macros; L, W and # (N-23.2).
        let cases = [
            ("*/15 * * * *", "2026-01-01T00:15:00Z"),
            ("0 9 * * MON-FRI", "2026-01-01T09:00:00Z"),
            ("30 4 1 3 * 2028", "2028-03-01T04:30:00Z"),
            ("20 30 4 1 3 * 2028", "2028-03-01T04:30:20Z"),
            ("@hourly", "2026-01-01T01:00:00Z"),
            ("@daily", "2026-01-02T00:00:00Z"),
            ("@weekly", "2026-01-04T00:00:00Z"),
            ("@monthly", "2026-02-01T00:00:00Z"),
            ("@yearly", "2027-01-01T00:00:00Z"),
            ("0 0 L * *", "2026-01-31T00:00:00Z"),
            // 15 February 2026 is a Sunday.
            ("0 0 15W 2 *", "2026-02-16T00:00:00Z"),
            ("0 0 * * MON#2", "2026-01-12T00:00:00Z"),
        ];
        for (spec, expected) in cases {
            assert_eq!(check_cron(spec), Ok(()), "{spec}");
            assert_eq!(first(&schedule(&[spec], ""), "2026-01-01T00:00:00Z", 1), [expected], "{spec}");
        }
        for bad in ["", "every day", "61 * * * *", "* * * *", "@never", "@every 5m"] {
            assert!(check_cron(bad).is_err(), "{bad}");
        }
        assert_eq!(check_cron("@every 5m"), Err("missing field(s)".to_owned()));
        let long = format!("{}0 * * * *", "0,".repeat(1_000));
        assert_eq!(check_cron(&long), Err("it has 2009 bytes; at most 1024 are allowed".to_owned()));
    }

    #[test]
    fn the_earliest_of_several_expressions_is_next() {
        // Several specs: the earliest next time (N-23.2).
        let schedule = schedule(&["0 6 * * *", "0 4 * * *", "unreadable"], "");
        let expected = ["2026-01-01T04:00:00Z", "2026-01-01T06:00:00Z", "2026-01-02T04:00:00Z"];
        assert_eq!(first(&schedule, "2026-01-01T00:00:00Z", 3), expected);
        let older = Schedule::new(&PeriodicConfig { spec: "0 4 * * *".into(), ..PeriodicConfig::default() });
        assert_eq!(first(&older, "2026-01-01T00:00:00Z", 1), ["2026-01-01T04:00:00Z"]);
    }

    #[test]
    fn a_fixed_time_fires_once_on_days_when_clocks_change() {
        // In Vienna 02:00 to 03:00 does not exist on 29 March 2026, and exists twice on 25 October 2026.
        let daily = schedule(&["30 2 * * *"], "Europe/Vienna");
        let expected = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
        assert_eq!(first(&daily, "2026-03-27T12:00:00Z", 3), expected);
        let expected = ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
        assert_eq!(first(&daily, "2026-10-23T12:00:00Z", 3), expected);
    }

    #[test]
    fn an_interval_follows_the_clock_when_it_changes() {
        let half_hourly = schedule(&["*/30 * * * *"], "Europe/Vienna");
        let expected = ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"];
        assert_eq!(first(&half_hourly, "2026-03-29T00:00:00Z", 3), expected);
        let expected = [
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:30:00Z",
            "2026-10-25T02:00:00Z",
        ];
        assert_eq!(first(&half_hourly, "2026-10-24T23:30:00Z", 5), expected);
    }

    #[test]
    fn a_zone_that_is_unknown_counts_as_utc() {
        // UTC when unset or when the stored name fails to load (N-23.3).
        for zone in ["", "UTC", "Europe/Atlantis"] {
            assert_eq!(
                first(&schedule(&["@daily"], zone), "2026-07-01T12:00:00Z", 1),
                ["2026-07-02T00:00:00Z"]
            );
        }
        let vienna = schedule(&["@daily"], "Europe/Vienna");
        assert_eq!(first(&vienna, "2026-07-01T12:00:00Z", 1), ["2026-07-01T22:00:00Z"]);
        assert!(is_time_zone("") && is_time_zone("Europe/Vienna") && !is_time_zone("Europe/Atlantis"));
    }

    #[test]
    fn a_search_that_finds_nothing_ends() {
        // An exhausted schedule is never launched (N-23.1).
        for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 1 1 * 2020", "0 0 31 2 MON#5"] {
            let schedule = schedule(&[never], "America/New_York");
            let next = schedule.next(at("2026-01-01T00:00:00Z"));
            assert!(next.is_none_or(|_| never.contains('#')), "{never}");
        }
        let rare = schedule(&["0 0 29 2 *"], "");
        assert_eq!(first(&rare, "2097-01-01T00:00:00Z", 1), ["2104-02-29T00:00:00Z"]);
        assert_eq!(rare.next(Timestamp(i64::MAX)), None);
        assert_eq!(schedule(&[], "").next(at("2026-01-01T00:00:00Z")), None);
    }

    #[test]
    fn the_last_moment_of_a_long_gap_is_found_in_few_steps() {
        // Of the launches that were missed, one is made up for (N-23.7).
        let every_second = schedule(&["* * * * * * *"], "");
        let (after, until) = (at("2020-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z"));
        assert_eq!(every_second.last_between(after, until), Some(until));
        let daily = schedule(&["0 3 * * *"], "Europe/Vienna");
        assert_eq!(daily.last_between(after, until).map(shown).as_deref(), Some("2025-12-31T02:00:00Z"));
        assert_eq!(daily.last_between(at("2025-12-31T02:00:00Z"), until), None);
        assert_eq!(daily.last_between(until, after), None);
    }

    #[test]
    fn launches_are_decided_up_to_the_last_one_or_the_last_change() {
        let job = Job { submit_time: Timestamp::from_secs(50), ..Job::default() };
        assert_eq!(launched_until(&job, None), Timestamp::from_secs(50));
        let summary = |last_launch| JobSummary {
            job: JobKey::new("default", "cron"),
            groups: Default::default(),
            children: Some(ChildrenSummary { last_launch, ..ChildrenSummary::default() }),
            scaling_events: None,
            create_index: Index(1),
            modify_index: Index(1),
        };
        assert_eq!(launched_until(&job, Some(&summary(Timestamp::from_secs(40)))), Timestamp::from_secs(50));
        assert_eq!(launched_until(&job, Some(&summary(Timestamp::from_secs(60)))), Timestamp::from_secs(60));
    }

    #[test]
    fn only_enabled_jobs_that_are_not_stopped_are_launched() {
        // Tracked while periodic, enabled and not stopped (N-23.1).
        let config = PeriodicConfig { enabled: true, ..PeriodicConfig::default() };
        let periodic = JobSpec { periodic: Some(config.clone()), ..JobSpec::default() };
        assert_eq!(periodic.launch_config(), Some(&config));
        assert_eq!(JobSpec::default().launch_config(), None);
        assert_eq!(JobSpec { stop: true, ..periodic.clone() }.launch_config(), None);
        let disabled = PeriodicConfig { enabled: false, ..config.clone() };
        assert_eq!(JobSpec { periodic: Some(disabled), ..periodic.clone() }.launch_config(), None);
        let both = JobSpec { parameterized_job: Some(ParameterizedJobConfig::default()), ..periodic };
        assert_eq!(both.launch_config(), None);
        assert_eq!(JobSpec { dispatched: true, ..both }.launch_config(), Some(&config));
    }

    proptest! {
        #[test]
        fn moments_rise_and_the_last_one_is_found(
            minute in 0u8..60,
            step in 1u8..24,
            zone in prop::sample::select(vec!["UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe"]),
            start in 1_767_225_600i64..1_800_000_000,
            length in 0i64..400_000,
        ) {
            let schedule = schedule(&[&format!("{minute} */{step} * * *")], zone);
            let (after, until) = (Timestamp::from_secs(start), Timestamp::from_secs(start + length));
            let mut last = None;
            let mut next = schedule.next(after);
            while let Some(found) = next.filter(|found| *found <= until) {
                prop_assert!(found > last.unwrap_or(after));
                last = Some(found);
                next = schedule.next(found);
            }
            prop_assert_eq!(schedule.last_between(after, until), last);
        }
    }
}
