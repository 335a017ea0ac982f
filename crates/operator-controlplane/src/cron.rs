//! Cron schedules as in CronJobs: five fields, names, steps, ranges, and the `@` forms ([`Schedule`]).

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

/// A parsed schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// `@every DURATION`, in seconds.
    Every(i64),
    /// Five fields.
    Fields(Fields),
}

/// The selected minutes, hours, days, months and weekdays, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// True if both days and weekdays are restricted, so that one match is sufficient.
    is_any_day: bool,
    is_any_weekday: bool,
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The number of days to search for the next time. Leap days can be eight years apart, when a century year has none.
const DAYS_MAX: i32 = 366 * 9;

impl Schedule {
    /// Parses a schedule; `None` if it is invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(duration) = text.strip_prefix("@every ") {
            return Some(Self::Every(seconds(duration.trim())?));
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts[..] else {
            return None;
        };
        Some(Self::Fields(Fields {
            minutes: bits(minutes, 0, 59, &[])?,
            hours: bits(hours, 0, 23, &[])?,
            days: bits(days, 1, 31, &[])?,
            months: bits(months, 1, 12, &MONTHS)?,
            weekdays: fold_sunday(bits(weekdays, 0, 7, &WEEKDAYS)?),
            is_any_day: is_any(days),
            is_any_weekday: is_any(weekdays),
        }))
    }

    /// Returns the first time after an instant, in a time zone.
    pub(crate) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Every(seconds) => after.checked_add(SignedDuration::from_secs(*seconds)).ok(),
            Self::Fields(fields) => fields.next(after, zone),
        }
    }
}

/// The periods in which the last time of a schedule is searched, as hours before now.
const WINDOWS: [i64; 5] = [1, 24, 31 * 24, 366 * 24, 9 * 366 * 24];

impl Schedule {
    /// Returns the last time after one instant and up to another, in a time zone.
    pub(crate) fn last(&self, after: Timestamp, until: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if let Self::Every(seconds) = self {
            let passed = until.as_second().saturating_sub(after.as_second());
            let whole = passed.checked_div(*seconds)?.checked_mul(*seconds)?;
            return after
                .checked_add(SignedDuration::from_secs(whole))
                .ok()
                .filter(|last| *last > after);
        }
        for hours in WINDOWS {
            let since = until
                .checked_sub(SignedDuration::from_hours(hours))
                .unwrap_or(after)
                .max(after);
            let next = |since| self.next(since, zone).filter(|next| *next <= until);
            if let Some(first) = next(since) {
                return std::iter::successors(Some(first), |last| next(*last)).last();
            }
            if since == after {
                break;
            }
        }
        None
    }
}

impl Fields {
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let start = after.to_zoned(zone.clone());
        let mut day = start.date();
        for passed in 0..DAYS_MAX {
            if self.is_day(&day) {
                // Clocks are set back by less than three hours.
                let first = if passed == 0 { start.hour() - 3 } else { 0 };
                let times = self.times().skip_while(|(hour, _)| *hour < first);
                let found = times.into_iter().find_map(|(hour, minute)| {
                    let at = day.at(hour, minute, 0, 0).to_zoned(zone.clone()).ok()?;
                    (at > start && is_exact(&at, hour, minute)).then(|| at.timestamp())
                });
                if found.is_some() {
                    return found;
                }
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    fn is_day(&self, day: &jiff::civil::Date) -> bool {
        let is_month = has(self.months, i64::from(day.month()));
        let is_day = has(self.days, i64::from(day.day()));
        let is_weekday = has(self.weekdays, i64::from(day.weekday().to_sunday_zero_offset()));
        let is_meant = if self.is_any_day || self.is_any_weekday {
            is_day && is_weekday
        } else {
            is_day || is_weekday
        };
        is_month && is_meant
    }

    fn times(&self) -> impl Iterator<Item = (i8, i8)> {
        let hours = (0..24_i8).filter(|hour| has(self.hours, i64::from(*hour)));
        hours.flat_map(|hour| {
            let minutes = (0..60_i8).filter(|minute| has(self.minutes, i64::from(*minute)));
            minutes.map(move |minute| (hour, minute))
        })
    }
}

/// Returns true if a local time exists on that day. If clocks are set forward, an hour does not exist.
fn is_exact(at: &Zoned, hour: i8, minute: i8) -> bool {
    at.hour() == hour && at.minute() == minute
}

fn has(bits: u64, at: i64) -> bool {
    u32::try_from(at).is_ok_and(|at| bits.checked_shr(at).unwrap_or(0) & 1 == 1)
}

fn is_any(field: &str) -> bool {
    field.starts_with('*') || field.starts_with('?')
}

/// Maps the weekday 7 to 0: both are Sunday.
fn fold_sunday(bits: u64) -> u64 {
    (bits & 0x7f) | (bits >> 7 & 1)
}

fn bits(field: &str, low: u32, high: u32, names: &[&str]) -> Option<u64> {
    let mut bits = 0;
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<usize>().ok().filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if is_any(range) => (low, high),
            Some((first, last)) => (number(first, low, names)?, number(last, low, names)?),
            None => {
                let first = number(range, low, names)?;
                (first, if step.is_some() { high } else { first })
            }
        };
        if first < low || last > high || first > last {
            return None;
        }
        for at in (first..=last).step_by(step.unwrap_or(1)) {
            bits |= 1 << at;
        }
    }
    Some(bits)
}

fn number(text: &str, low: u32, names: &[&str]) -> Option<u32> {
    let text = text.to_ascii_lowercase();
    if let Some(at) = names.iter().position(|name| *name == text) {
        return Some(u32::try_from(at).ok()? + low);
    }
    text.parse().ok()
}

/// Parses a Go duration with whole seconds: `1h30m`, `90s`.
fn seconds(text: &str) -> Option<i64> {
    let mut total = 0_i64;
    let mut digits = String::new();
    for letter in text.chars() {
        let unit = match letter {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            '0'..='9' => {
                digits.push(letter);
                continue;
            }
            _ => return None,
        };
        total = total.checked_add(digits.parse::<i64>().ok()?.checked_mul(unit)?)?;
        digits.clear();
    }
    (digits.is_empty() && total > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_time_is_found() {
        let cases = [
            ("* * * * *", "2024-01-01T00:00:30Z", "2024-01-01T00:01:00Z"),
            ("*/15 * * * *", "2024-01-01T00:15:00Z", "2024-01-01T00:30:00Z"),
            ("0 0 1 1 *", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"),
            ("30 6 * * mon-fri", "2024-01-05T07:00:00Z", "2024-01-08T06:30:00Z"),
            ("0 0 29 2 *", "2024-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 13 * 5", "2024-01-01T00:00:00Z", "2024-01-05T00:00:00Z"),
            ("0 12 * * 7", "2024-01-01T00:00:00Z", "2024-01-07T12:00:00Z"),
            ("@hourly", "2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"),
            ("@every 1h30m", "2024-01-01T00:00:00Z", "2024-01-01T01:30:00Z"),
        ];
        for (schedule, after, expected) in cases {
            let found = Schedule::parse(schedule)
                .unwrap()
                .next(after.parse().unwrap(), &TimeZone::UTC);
            assert_eq!(found, expected.parse().ok(), "{schedule}");
        }
    }

    #[test]
    fn invalid_schedules_are_rejected() {
        for text in [
            "",
            "nope",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "@every x",
        ] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_day_that_never_comes_has_no_next_time() {
        let never = Schedule::parse("0 0 31 2 *").unwrap();
        assert_eq!(never.next(Timestamp::UNIX_EPOCH, &TimeZone::UTC), None);
    }

    #[test]
    fn the_last_time_is_found_in_few_steps() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (long_ago, now) = (at("2001-01-01T00:00:00Z"), at("2024-03-10T12:34:56Z"));
        for (schedule, last) in [
            ("* * * * *", "2024-03-10T12:34:00Z"),
            ("0-29 * * * *", "2024-03-10T12:29:00Z"),
            ("* 0-5 * * *", "2024-03-10T05:59:00Z"),
            ("15 3 * * 1", "2024-03-04T03:15:00Z"),
            ("0 0 1 1 *", "2024-01-01T00:00:00Z"),
            ("0 0 29 2 *", "2024-02-29T00:00:00Z"),
            ("@every 1h30m", "2024-03-10T12:00:00Z"),
        ] {
            let found = Schedule::parse(schedule)
                .unwrap()
                .last(long_ago, now, &TimeZone::UTC);
            assert_eq!(found, Some(at(last)), "{schedule}");
        }
        let hourly = Schedule::parse("@hourly").unwrap();
        assert_eq!(hourly.last(at("2024-03-10T12:00:00Z"), now, &TimeZone::UTC), None);
        let never = Schedule::parse("0 0 31 2 *").unwrap();
        assert_eq!(never.last(long_ago, now, &TimeZone::UTC), None);
    }

    #[test]
    fn durations_of_any_length_are_read() {
        let text = "@every 9223372036854775807s9223372036854775807s";
        assert_eq!(Schedule::parse(text), None);
        let rare = Schedule::parse("@every 9223372036854775807s").unwrap();
        assert_eq!(rare.next(Timestamp::UNIX_EPOCH, &TimeZone::UTC), None);
    }
}
