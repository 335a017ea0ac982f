//! Times ([`Timestamp`]) and durations in the formats of Go and OpenAPI. No function reads a clock.
//!
//! Times have fixed offsets; [`zone`] returns named time zones.

mod canonical;
pub mod zone;

pub use canonical::{TimeForm, canonical, parse_rfc3339};

use std::time::Duration;

use crate::go;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

/// A date in the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// The year.
    pub year: i64,
    /// The month, from 1.
    pub month: u32,
    /// The day of the month, from 1.
    pub day: u32,
}

const DAY: i64 = 86_400;

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && year % 100 != 0 || year % 400 == 0
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Parses a date such as `2006-01-02`.
pub fn parse_date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return None;
    }
    let date = Date {
        year: i64::from(digits(text, 0, 4)?),
        month: digits(text, 5, 7)?,
        day: digits(text, 8, 10)?,
    };
    let valid =
        (1..=12).contains(&date.month) && date.day >= 1 && date.day <= days_in_month(date.year, date.month);
    valid.then_some(date)
}

fn digits(text: &str, from: usize, to: usize) -> Option<u32> {
    let part = text.get(from..to)?;
    if !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    part.parse().ok()
}

impl Date {
    /// Returns the number of days since 1970-01-01.
    pub fn days(self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month = i64::from((self.month + 9) % 12);
        let day_of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    /// Returns the date that is `days` after 1970-01-01.
    pub fn from_days(days: i64) -> Self {
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_index = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_index + 2) / 5 + 1;
        let month = if month_index < 10 {
            month_index + 3
        } else {
            month_index - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self {
            year,
            month: u32::try_from(month).unwrap_or(1),
            day: u32::try_from(day).unwrap_or(1),
        }
    }
}

/// A point in time, and the offset with which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetTime {
    /// The point in time.
    pub time: Timestamp,
    /// The offset from UTC in seconds; positive in the east.
    pub offset: i64,
}

impl OffsetTime {
    /// Formats the time as RFC 3339 with its offset, and with as many digits of the fraction as needed.
    pub fn to_rfc3339(self) -> String {
        let Timestamp { seconds, nanos } = self.time;
        let local = Timestamp {
            seconds: seconds + self.offset,
            nanos,
        }
        .to_rfc3339();
        if self.offset == 0 {
            return local;
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.abs() / 60;
        let local = local.trim_end_matches('Z');
        format!("{local}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

impl From<Timestamp> for OffsetTime {
    /// Returns the time in UTC.
    fn from(time: Timestamp) -> Self {
        Self { time, offset: 0 }
    }
}

/// Returns true if a text has OpenAPI's format `date-time`, as the API server checks it: the date is valid, `t` and `z`
/// can be in lower case, any character can separate the fraction, and the offset can be any four digits.
pub fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let date = parts.next().and_then(parse_date);
    let (Some(_), Some(time)) = (date, parts.next()) else {
        return false;
    };
    let bytes = time.as_bytes();
    let limits = [(0, 23), (3, 59), (6, 59)];
    let is_clock = bytes.get(2) == Some(&b':') && bytes.get(5) == Some(&b':');
    let in_range = |(at, max)| digits(time, at, at + 2).is_some_and(|number| number <= max);
    is_clock && limits.into_iter().all(in_range) && time.get(8..).is_some_and(is_fraction_and_zone)
}

fn is_fraction_and_zone(rest: &str) -> bool {
    if is_zone(rest) {
        return true;
    }
    let mut rest = rest.chars();
    let is_separated = rest.next().is_some_and(|separator| separator != '\n');
    let fraction = rest.as_str();
    let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    is_separated && zone.len() < fraction.len() && is_zone(zone)
}

/// Returns true for `z` and for any offset such as `+99:99`.
fn is_zone(zone: &str) -> bool {
    let is_offset = || {
        let bytes = zone.as_bytes();
        bytes.len() == 6
            && matches!(bytes.first(), Some(b'+' | b'-'))
            && bytes.get(3) == Some(&b':')
            && digits(zone, 1, 3).is_some()
            && digits(zone, 4, 6).is_some()
    };
    zone == "z" || is_offset()
}

impl Timestamp {
    /// Formats the time as RFC 3339 in UTC, with as many digits of the fraction as needed.
    pub fn to_rfc3339(self) -> String {
        let date = Date::from_days(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let fraction = fraction_text(self.nanos);
        let Date { year, month, day } = date;
        let sign = if year < 0 { "-" } else { "" };
        let year = year.unsigned_abs();
        format!("{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
    }

    /// Returns the date in UTC.
    pub fn date(self) -> Date {
        Date::from_days(self.seconds.div_euclid(DAY))
    }

    /// Returns the number of days since the first of January.
    pub fn day_of_year(self) -> i64 {
        let date = self.date();
        date.days()
            - Date {
                year: date.year,
                month: 1,
                day: 1,
            }
            .days()
    }

    /// Returns the day of the week; 0 is Sunday.
    pub fn day_of_week(self) -> i64 {
        (self.seconds.div_euclid(DAY) + 4).rem_euclid(7)
    }
}

fn fraction_text(nanos: u32) -> String {
    if nanos == 0 {
        return String::new();
    }
    format!(".{nanos:09}").trim_end_matches('0').to_owned()
}

/// Parses a duration such as `1h2m3.5s`, `-5ms` or `0`, like `time.ParseDuration`; returns nanoseconds.
///
/// # Errors
/// Returns an error with Go's text.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", go::quote_bytes(text));
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (whole, after) = rest.split_at(digits(rest));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let whole = leading_number(whole).ok_or_else(invalid)?;
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!(
                "time: missing unit in duration {}",
                go::quote_bytes(text)
            ));
        }
        let scale = unit_nanos(unit).ok_or_else(|| {
            let (unit, text) = (go::quote_bytes(unit), go::quote_bytes(text));
            format!("time: unknown unit {unit} in duration {text}")
        })?;
        let part = whole
            .checked_mul(scale)
            .and_then(|nanos| nanos.checked_add(fraction_of(fraction, scale)));
        total = part
            .and_then(|part| total.checked_add(part))
            .filter(|total| *total <= DURATION_END)
            .ok_or_else(invalid)?;
        rest = after;
    }
    match i64::try_from(total) {
        Ok(total) => Ok(if negative { -total } else { total }),
        Err(_) if negative => Ok(i64::MIN),
        Err(_) => Err(invalid()),
    }
}

/// Like [`parse_duration`], for a timeout: a negative duration becomes zero.
///
/// # Errors
/// Returns an error with Go's text.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    let nanos = parse_duration(text)?;
    Ok(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
}

/// The absolute value of the smallest duration.
const DURATION_END: u64 = 1 << 63;

fn leading_number(digits: &str) -> Option<u64> {
    if digits.is_empty() {
        return Some(0);
    }
    digits.parse().ok().filter(|number| *number <= DURATION_END)
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Converts the decimals of a unit to nanoseconds. Like Go, it uses floats, and ignores digits beyond 63 bits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "as Go does; the result is at most the unit"
)]
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let (mut number, mut scale) = (0_u64, 1.0_f64);
    for digit in digits.bytes() {
        let next = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(u64::from(digit - b'0')));
        match next {
            Some(next) if number <= (DURATION_END - 1) / 10 && next <= DURATION_END => number = next,
            _ => break,
        }
        scale *= 10.0;
    }
    (number as f64 * (unit as f64 / scale)) as u64
}

/// Returns the Unix seconds of an RFC 3339 time; `None` if it is malformed.
pub fn unix_seconds(text: &str) -> Option<i64> {
    parse_rfc3339(text).ok().map(|parsed| parsed.time.seconds)
}

/// Parses a duration in OpenAPI's format: Go's format, or numbers with words such as `3 days`; returns nanoseconds.
///
/// Like the API server, it ignores everything else in a text with words, such as the sign and the decimals of
/// `-1.5 days`, and wraps around if the sum is too large.
pub fn parse_loose_duration(text: &str) -> Option<i64> {
    parse_duration(text).ok().or_else(|| worded_duration(text))
}

fn worded_duration(text: &str) -> Option<i64> {
    let mut total: Option<i64> = None;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let tail = rest.get(start..)?;
        let (number, after) = split_while(tail, |c| c.is_ascii_digit());
        let after = after.trim_start_matches([' ', '\t', '\n', '\x0c', '\r']);
        let (word, after) = split_while(after, |c| c.is_ascii_alphabetic() || c == 'µ');
        rest = after;
        if word.is_empty() {
            continue;
        }
        let number: i64 = number.parse().ok()?;
        if let Some(unit) = word_nanos(&word.to_lowercase()) {
            let part = number.wrapping_mul(unit);
            total = Some(total.unwrap_or_default().wrapping_add(part));
        }
    }
    total
}

fn split_while(text: &str, matches: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !matches(c)).unwrap_or(text.len()))
}

/// Returns the nanoseconds of a unit, which is an abbreviation, or a word such as `days`.
fn word_nanos(word: &str) -> Option<i64> {
    const UNITS: [(&[&str], &str, i64); 8] = [
        (&["ns"], "nano", 1),
        (&["us", "µs"], "micro", 1_000),
        (&["ms"], "milli", 1_000_000),
        (&["s"], "sec", 1_000_000_000),
        (&["m"], "min", 60_000_000_000),
        (&["h", "hr"], "hour", 3_600_000_000_000),
        (&["d"], "day", 86_400_000_000_000),
        (&["w", "wk"], "week", 604_800_000_000_000),
    ];
    let is_unit =
        |(short, start, _): &&(&[&str], &str, i64)| short.contains(&word) || word.starts_with(start);
    UNITS.iter().find(is_unit).map(|(_, _, nanos)| *nanos)
}

/// Formats nanoseconds as seconds, like CEL: `90s`, `1.5s`. Long durations lose digits, as CEL uses floats.
#[expect(clippy::cast_precision_loss, reason = "as Go does")]
pub fn duration_seconds(nanos: i64) -> String {
    let seconds = (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9;
    format!("{seconds}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_a_round_trip() {
        for text in [
            "2020-02-29T23:59:59.5Z",
            "1969-12-31T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "2020-01-01T02:00:00.25+02:00",
            "2020-01-01T02:00:00-00:30",
            "9999-12-31T23:59:59-24:00",
        ] {
            assert_eq!(parse_rfc3339(text).unwrap().to_rfc3339(), text);
        }
        let parsed = parse_rfc3339("2020-01-01T02:00:00+02:00").unwrap();
        assert_eq!(parsed.time.to_rfc3339(), "2020-01-01T00:00:00Z");
        let early = parse_rfc3339("0000-01-01T00:00:00+01:00").unwrap();
        assert_eq!(early.time.to_rfc3339(), "-0001-12-31T23:00:00Z");
        let friday = parse_rfc3339("2024-11-21T00:00:00Z").unwrap();
        assert_eq!(friday.time.day_of_week(), 4);
    }

    #[test]
    fn date_times_are_checked_as_leniently_as_by_the_api_server() {
        for text in [
            "2024-01-01T23:00:00Z",
            "2024-01-01t23:00:00.5z",
            "2024-01-01T23:00:00,5Z",
            "2024-01-01T23:00:00x5Z",
            "2024-01-01T23:00:00+99:99",
            "2024-01-01T23:00:00+01:00t and more",
        ] {
            assert!(is_date_time(text), "{text}");
        }
        for text in [
            "",
            "2024-01-01",
            "2024-02-30T23:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T1:00:00Z",
            "2024-01-01T23:00:00",
            "2024-01-01T23:00:00.Z",
            "2024-01-01T23:00:00+1:00",
            "2024-01-01T23:00:00é",
            "2024-01-01T23:00:00\n5Z",
        ] {
            assert!(!is_date_time(text), "{text}");
        }
    }

    #[test]
    fn durations_in_both_notations() {
        for (text, nanos) in [
            ("1h2m", 3_720_000_000_000),
            ("-1.5s", -1_500_000_000),
            ("1.s", 1_000_000_000),
            (".5s", 500_000_000),
            ("+5s", 5_000_000_000),
            ("1µs1μs1us", 3_000),
            ("1.9999999999s", 1_999_999_999),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("00000000000000000000000001s", 1_000_000_000),
            ("0.9999999999999999999999s", 1_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(nanos), "{text}");
        }
        const DAY: i64 = 86_400_000_000_000;
        for (text, nanos) in [
            ("3 days", Some(3 * DAY)),
            ("-3 days", Some(3 * DAY)),
            ("1.5 days", Some(5 * DAY)),
            ("1 WEEK, 2 days and 3 apples", Some(9 * DAY)),
            ("1e3s", Some(3_000_000_000)),
            ("1 µs", Some(1_000)),
            ("106752 days", Some(-9_223_371_273_709_551_616)),
            ("1 month", None),
            ("1 year", None),
            ("9223372036854775808 days", None),
            ("days", None),
        ] {
            assert_eq!(parse_loose_duration(text), nanos, "{text}");
        }
        for (nanos, text) in [
            (0, "0s"),
            (90_500_000_000, "90.5s"),
            (-1_000_000, "-0.001s"),
            (i64::MAX, "9223372036.854776s"),
        ] {
            assert_eq!(duration_seconds(nanos), text);
        }
    }

    #[test]
    fn invalid_durations_have_the_errors_of_go() {
        for (text, error) in [
            ("", r#"time: invalid duration """#),
            ("x", r#"time: invalid duration "x""#),
            ("-", r#"time: invalid duration "-""#),
            (".s", r#"time: invalid duration ".s""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("1h2", r#"time: missing unit in duration "1h2""#),
            ("1.2.3s", r#"time: missing unit in duration "1.2.3s""#),
            ("1e3s", r#"time: unknown unit "e" in duration "1e3s""#),
            ("1\u{7}s", r#"time: unknown unit "\x07s" in duration "1\x07s""#),
            ("5é", r#"time: unknown unit "\xc3\xa9" in duration "5\xc3\xa9""#),
            (
                "9223372036854775808ns",
                r#"time: invalid duration "9223372036854775808ns""#,
            ),
            (
                "99999999999999999999h",
                r#"time: invalid duration "99999999999999999999h""#,
            ),
        ] {
            assert_eq!(parse_duration(text), Err(error.to_owned()), "{text}");
        }
    }
}
