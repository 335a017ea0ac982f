//! [`Correlator`] handles repeated events: the first of a series creates an object, the second turns the object into a
//! series, and further ones are counted. It drops events if there are too many different ones about an object. Pure.
//!
//! The numbers are those of client-go: a series ends after six minutes without an event and is written every half hour.
//! An object may have 25 new events at once, and one more every five minutes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use super::Entry;
use crate::object::ObjectKey;

const QUIET: Duration = Duration::from_secs(6 * 60);
const REFRESH: Duration = Duration::from_secs(30 * 60);
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(5 * 60);
/// Maximum number of recorded series, and of objects.
const REMEMBERED_MAX: usize = 4096;

/// The record of recent events.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    series: HashMap<SeriesKey, Series>,
    budgets: HashMap<Regarding, Budget>,
}

/// The action for an event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The first of its series: create an object.
    Create,
    /// The second: turn its object into a series.
    Write(Series),
    /// Counted, and written later.
    Count,
    /// Too many events about this object.
    Drop,
}

/// Events that differ only in their time and note.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    /// The first event.
    pub(super) key: ObjectKey,
    pub(super) count: i32,
    pub(super) last_observed: Timestamp,
    last: Instant,
    /// The count that was last written to the API server, and the time of that write.
    written: (i32, Instant),
}

/// The identity of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SeriesKey {
    controller: Arc<str>,
    type_: &'static str,
    reason: String,
    action: String,
    regarding: Regarding,
    related: Option<Regarding>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Regarding {
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
}

/// A token bucket with one token per new event.
#[derive(Clone, Copy, Debug)]
struct Budget {
    tokens: f64,
    last: Instant,
}

// === impl Correlator ===

impl Correlator {
    pub(super) fn judge(&mut self, entry: &Entry, now: Instant, wall: Timestamp) -> Verdict {
        let key = SeriesKey::of(entry);
        if let Some(series) = self.series.get_mut(&key).filter(|series| !series.is_over(now)) {
            series.count = series.count.saturating_add(1);
            (series.last, series.last_observed) = (now, wall);
            return match series.count {
                2 => Verdict::Write(series.clone()),
                _ => Verdict::Count,
            };
        }
        make_room(
            &mut self.budgets,
            |budget| budget.last,
            |budget| budget.is_full(now),
        );
        match self
            .budgets
            .entry(key.regarding)
            .or_insert(Budget::full(now))
            .take(now)
        {
            true => Verdict::Create,
            false => Verdict::Drop,
        }
    }

    /// Records that the API server created the first event of a series.
    pub(super) fn created(&mut self, entry: &Entry, key: ObjectKey, now: Instant, wall: Timestamp) {
        make_room(
            &mut self.series,
            |series| series.last,
            |series| series.is_over(now),
        );
        let series = Series {
            key,
            count: 1,
            last_observed: wall,
            last: now,
            written: (1, now),
        };
        self.series.insert(SeriesKey::of(entry), series);
    }

    /// Records that the API server has the state of `series`.
    pub(super) fn wrote(&mut self, series: &Series, now: Instant) {
        for known in self.series.values_mut().filter(|known| known.key == series.key) {
            known.written = (series.count, now);
        }
    }

    /// Records that the object of the series is gone, so that the next event creates another.
    pub(super) fn gone(&mut self, series: &Series) {
        self.series.retain(|_, known| known.key != series.key);
    }

    /// Returns the series to write: those that have ended, which are removed, and those whose last write is too long
    /// ago.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Series> {
        let over = self
            .series
            .extract_if(|_, series| series.is_over(now))
            .map(|(_, series)| series);
        let mut due: Vec<Series> = over.filter(Series::is_news).collect();
        let long_ago =
            |series: &&Series| series.is_news() && now.saturating_duration_since(series.written.1) >= REFRESH;
        due.extend(self.series.values().filter(long_ago).cloned());
        due
    }

    /// Removes all series and returns those whose last count was not written to the API server.
    pub(super) fn finish(&mut self) -> Vec<Series> {
        self.series
            .drain()
            .map(|(_, series)| series)
            .filter(Series::is_news)
            .collect()
    }
}

/// Removes expired entries if there are too many, and then the oldest ones.
fn make_room<K: Eq + Hash + Clone, V>(
    memory: &mut HashMap<K, V>,
    last: impl Fn(&V) -> Instant,
    forgettable: impl Fn(&V) -> bool,
) {
    if memory.len() < REMEMBERED_MAX {
        return;
    }
    memory.retain(|_, value| !forgettable(value));
    if memory.len() < REMEMBERED_MAX {
        return;
    }
    let oldest = memory
        .iter()
        .min_by_key(|(_, value)| last(value))
        .map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        memory.remove(&oldest);
    }
}

// === impl Series ===

impl Series {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= QUIET
    }

    fn is_news(&self) -> bool {
        self.count > self.written.0
    }
}

// === impl SeriesKey ===

impl SeriesKey {
    fn of(entry: &Entry) -> Self {
        Self {
            controller: entry.controller.clone(),
            type_: entry.type_,
            reason: entry.reason.clone(),
            action: entry.action.clone(),
            regarding: Regarding::of(&entry.regarding),
            related: entry.related.as_ref().map(Regarding::of),
        }
    }
}

impl Regarding {
    fn of(object: &ObjectReference) -> Self {
        Self {
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
        }
    }
}

// === impl Budget ===

impl Budget {
    fn full(now: Instant) -> Self {
        Self {
            tokens: BURST,
            last: now,
        }
    }

    fn tokens(&self, now: Instant) -> f64 {
        let earned = now.saturating_duration_since(self.last).as_secs_f64() / REFILL.as_secs_f64();
        (self.tokens + earned).min(BURST)
    }

    fn is_full(&self, now: Instant) -> bool {
        self.tokens(now) >= BURST
    }

    fn take(&mut self, now: Instant) -> bool {
        let tokens = self.tokens(now);
        *self = Self { tokens, last: now };
        if tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const WALL: Timestamp = Timestamp::UNIX_EPOCH;

    fn entry(name: &str, reason: &str) -> Entry {
        Entry {
            controller: "operator".into(),
            type_: "Normal",
            regarding: ObjectReference {
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            },
            related: None,
            reason: reason.to_owned(),
            action: reason.to_owned(),
            note: "done".to_owned(),
        }
    }

    /// Returns a correlator in which an event was just created.
    fn begun(entry: &Entry, now: Instant) -> Correlator {
        let mut correlator = Correlator::default();
        assert_eq!(correlator.judge(entry, now, WALL), Verdict::Create);
        correlator.created(entry, ObjectKey::namespaced("default", "web.1"), now, WALL);
        correlator
    }

    #[test]
    fn second_event_makes_a_series_and_further_ones_are_counted() {
        let (entry, now) = (entry("web", "Created"), Instant::now());
        let mut correlator = begun(&entry, now);
        let Verdict::Write(series) = correlator.judge(&entry, now, WALL) else {
            panic!()
        };
        assert_eq!((series.count, series.key.name()), (2, "web.1"));
        correlator.wrote(&series, now);
        assert_eq!(correlator.judge(&entry, now, WALL), Verdict::Count);
        assert_eq!(correlator.due(now), []);
    }

    #[test]
    fn different_events_are_no_series() {
        let (created, now) = (entry("web", "Created"), Instant::now());
        let mut correlator = begun(&created, now);
        let differing = [
            entry("web", "Deleted"),
            entry("db", "Created"),
            Entry {
                controller: "another".into(),
                ..created.clone()
            },
            Entry {
                type_: "Warning",
                ..created.clone()
            },
            Entry {
                related: Some(ObjectReference::default()),
                ..created.clone()
            },
        ];
        for entry in differing {
            assert_eq!(correlator.judge(&entry, now, WALL), Verdict::Create, "{entry:?}");
        }
        let other_note = Entry {
            note: "again".to_owned(),
            ..created
        };
        assert!(matches!(
            correlator.judge(&other_note, now, WALL),
            Verdict::Write(_)
        ));
    }

    #[test]
    fn ended_series_is_written_and_removed() {
        let (entry, now) = (entry("web", "Created"), Instant::now());
        let mut correlator = begun(&entry, now);
        for _ in 0..3 {
            correlator.judge(&entry, now + MINUTE, WALL);
        }
        assert_eq!(
            correlator.due(now + 6 * MINUTE),
            [],
            "it may go on for another minute"
        );
        let due = correlator.due(now + 7 * MINUTE);
        assert_eq!(due.iter().map(|series| series.count).collect::<Vec<_>>(), [4]);
        assert_eq!(correlator.due(now + 7 * MINUTE), []);
        assert_eq!(correlator.judge(&entry, now + 7 * MINUTE, WALL), Verdict::Create);
    }

    #[test]
    fn running_series_is_written_every_half_hour() {
        let (entry, now) = (entry("web", "Created"), Instant::now());
        let mut correlator = begun(&entry, now);
        for minute in 1..30 {
            correlator.judge(&entry, now + minute * MINUTE, WALL);
        }
        let half_hour = now + 30 * MINUTE;
        let due = correlator.due(half_hour);
        assert_eq!(due.first().map(|series| series.count), Some(30));
        correlator.wrote(&due[0], half_hour);
        assert_eq!(correlator.due(half_hour), []);
    }

    #[test]
    fn single_event_is_not_written_again() {
        let (entry, now) = (entry("web", "Created"), Instant::now());
        let mut correlator = begun(&entry, now);
        assert_eq!(correlator.due(now + 7 * MINUTE), []);
        assert_eq!(begun(&entry, now).finish(), []);
    }

    #[test]
    fn end_writes_the_remaining_counts() {
        let (entry, now) = (entry("web", "Created"), Instant::now());
        let mut correlator = begun(&entry, now);
        correlator.judge(&entry, now, WALL);
        assert_eq!(correlator.finish().first().map(|series| series.count), Some(2));
    }

    #[test]
    fn series_of_a_deleted_object_starts_again() {
        let (entry, now) = (entry("web", "Created"), Instant::now());
        let mut correlator = begun(&entry, now);
        let Verdict::Write(series) = correlator.judge(&entry, now, WALL) else {
            panic!()
        };
        correlator.gone(&series);
        assert_eq!(correlator.judge(&entry, now, WALL), Verdict::Create);
    }

    #[test]
    fn one_object_cannot_flood_the_server() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        let mut created = |name: &str, now| {
            let news = (0..40).map(|number| entry(name, &format!("Reason{number}")));
            news.filter(|entry| correlator.judge(entry, now, WALL) == Verdict::Create)
                .count()
        };
        assert_eq!(created("web", now), 25);
        assert_eq!(created("db", now), 25, "other objects have their own budget");
        assert_eq!(created("web", now + 4 * MINUTE), 0);
        assert_eq!(created("web", now + 10 * MINUTE), 2);
    }

    #[test]
    fn memory_is_bounded() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        for number in 0..REMEMBERED_MAX + 10 {
            let entry = entry(&number.to_string(), "Created");
            assert_eq!(correlator.judge(&entry, now, WALL), Verdict::Create);
            correlator.created(
                &entry,
                ObjectKey::namespaced("default", &number.to_string()),
                now,
                WALL,
            );
        }
        assert_eq!(correlator.series.len(), REMEMBERED_MAX);
        assert!(correlator.budgets.len() <= REMEMBERED_MAX);
    }
}
