// SPDX-License-Identifier: Apache-2.0

//! Schedules in Cron format: five fields, for minutes, hours, days of the month, months and days of the week, in UTC.

use std::ops::RangeInclusive;
use std::str::FromStr;

use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::civil::{Date, DateTime};
use k8s_openapi::jiff::tz::TimeZone;

/// Maximum number of days until the next date: February 29 occurs at least every eight years.
const DAYS: usize = 8 * 366;

/// A parsed schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// The values of one field, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    values: Vec<i8>,
    /// True if the field begins with `*`.
    is_any: bool,
}

impl Schedule {
    /// Returns the first scheduled time after `time`, or `None` for a schedule that never occurs, such as February 30.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let start = to_civil(time);
        let dates = start.date().series(days(1)).take(DAYS);
        let mut times = dates.flat_map(|date| self.times_on(date));
        to_timestamp(times.find(|time| *time > start)?)
    }

    /// Returns the last scheduled time that is later than `after` and not later than `until`.
    pub fn last_between(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let (after, until) = (to_civil(after), to_civil(until));
        let dates = until.date().series(days(-1)).take(DAYS);
        let mut times = dates
            .take_while(|date| *date >= after.date())
            .flat_map(|date| self.times_on(date).into_iter().rev());
        let last = times.find(|time| *time <= until)?;
        to_timestamp(last).filter(|_| last > after)
    }

    fn times_on(&self, date: Date) -> Vec<DateTime> {
        if !self.is_on(date) {
            return Vec::new();
        }
        let hours = self.hours.values.iter();
        let times = hours.flat_map(|hour| {
            self.minutes
                .values
                .iter()
                .map(move |minute| (*hour, *minute))
        });
        times
            .map(|(hour, minute)| date.at(hour, minute, 0, 0))
            .collect()
    }

    fn is_on(&self, date: Date) -> bool {
        let is_day = self.days.values.contains(&date.day());
        let weekday = date.weekday().to_sunday_zero_offset();
        let is_weekday = self.weekdays.values.contains(&weekday);
        // If both fields are restricted, a day that matches one of them is sufficient.
        let is_on = match self.days.is_any || self.weekdays.is_any {
            true => is_day && is_weekday,
            false => is_day || is_weekday,
        };
        is_on && self.months.values.contains(&date.month())
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!(
                "expected 5 fields, found {}: {text:?}",
                fields.len()
            ));
        };
        let mut weekdays = Field::parse(weekdays, 0..=7)?;
        // Sunday is both 0 and 7.
        weekdays.values.iter_mut().for_each(|day| *day %= 7);
        Ok(Self {
            minutes: Field::parse(minutes, 0..=59)?,
            hours: Field::parse(hours, 0..=23)?,
            days: Field::parse(days, 1..=31)?,
            months: Field::parse(months, 1..=12)?,
            weekdays,
        })
    }
}

impl Field {
    /// Parses items such as `*`, `*/5`, `3`, `1-5` and `1-30/2`, separated by commas.
    fn parse(text: &str, bounds: RangeInclusive<i8>) -> Result<Self, String> {
        let invalid = || {
            format!(
                "{text:?} is not valid between {} and {}",
                bounds.start(),
                bounds.end()
            )
        };
        let number = |text: &str| {
            let number = text.parse::<i8>().ok();
            number
                .filter(|number| bounds.contains(number))
                .ok_or_else(invalid)
        };
        let mut values = Vec::new();
        for item in text.split(',') {
            let (range, step) = match item.split_once('/') {
                Some((range, step)) => (range, step.parse::<usize>().map_err(|_| invalid())?),
                None => (item, 1),
            };
            let range = match range.split_once('-') {
                _ if range == "*" => bounds.clone(),
                Some((first, last)) => number(first)?..=number(last)?,
                None if item.contains('/') => number(range)?..=*bounds.end(),
                None => number(range)?..=number(range)?,
            };
            if step == 0 || range.is_empty() {
                return Err(invalid());
            }
            values.extend(range.step_by(step));
        }
        values.sort_unstable();
        values.dedup();
        let is_any = text.starts_with('*');
        Ok(Self { values, is_any })
    }
}

fn days(count: i64) -> k8s_openapi::jiff::Span {
    k8s_openapi::jiff::Span::new().days(count)
}

fn to_civil(time: Timestamp) -> DateTime {
    time.to_zoned(TimeZone::UTC).datetime()
}

fn to_timestamp(time: DateTime) -> Option<Timestamp> {
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a timestamp")
    }

    fn schedule(text: &str) -> Schedule {
        text.parse().expect("a schedule")
    }

    #[test]
    fn next_time_is_the_first_one_after() {
        for (text, after, next) in [
            ("* * * * *", "2026-01-01T10:00:00Z", "2026-01-01T10:01:00Z"),
            (
                "*/15 * * * *",
                "2026-01-01T10:50:01Z",
                "2026-01-01T11:00:00Z",
            ),
            (
                "30 9-17/4 * * 1-5",
                "2026-01-02T18:00:00Z",
                "2026-01-05T09:30:00Z",
            ),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ] {
            assert_eq!(
                schedule(text).next_after(at(after)),
                Some(at(next)),
                "{text}"
            );
        }
        assert_eq!(
            schedule("0 0 30 2 *").next_after(at("2026-01-01T00:00:00Z")),
            None
        );
    }

    #[test]
    fn last_time_is_not_before_the_bound() {
        let hourly = schedule("@hourly");
        let last = |after, until| hourly.last_between(at(after), at(until));
        let ten = Some(at("2026-01-01T10:00:00Z"));
        assert_eq!(last("2025-01-01T00:00:00Z", "2026-01-01T10:30:00Z"), ten);
        assert_eq!(last("2026-01-01T09:59:59Z", "2026-01-01T10:00:00Z"), ten);
        assert_eq!(last("2026-01-01T10:00:00Z", "2026-01-01T10:30:00Z"), None);
        assert_eq!(last("2026-01-01T11:00:00Z", "2026-01-01T10:30:00Z"), None);
    }

    #[test]
    fn invalid_schedules_are_rejected() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "*/0 * * * *",
            "5-1 * * * *",
            "a * * * *",
        ] {
            assert!(text.parse::<Schedule>().is_err(), "{text:?}");
        }
    }
}
