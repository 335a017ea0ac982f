//! Times ([`Timestamp`]) and durations in the formats of Go and OpenAPI. No function reads a clock.
//!
//! Times have fixed offsets; [`zone`] returns named time zones.

mod canonical;
pub mod zone;

pub use canonical::{TimeForm, canonical};

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

/// Parses an RFC 3339 time. If `lenient` is true, `t` and `z` may be in lower case, as in OpenAPI's format `date-time`.
pub fn parse_rfc3339(text: &str, lenient: bool) -> Option<Timestamp> {
    let text = if lenient {
        text.to_ascii_uppercase()
    } else {
        text.to_owned()
    };
    let (date, time) = text.split_once('T')?;
    let date = parse_date(date)?;
    if time.as_bytes().get(2) != Some(&b':') || time.as_bytes().get(5) != Some(&b':') {
        return None;
    }
    let (hour, minute, second) = (digits(time, 0, 2)?, digits(time, 3, 5)?, digits(time, 6, 8)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanos, zone) = fraction(time.get(8..)?)?;
    let offset = zone_offset(zone)?;
    let seconds = date.days() * DAY + i64::from(hour * 3600 + minute * 60 + second) - offset;
    Some(Timestamp { seconds, nanos })
}

fn fraction(rest: &str) -> Option<(u32, &str)> {
    let Some(after) = rest.strip_prefix('.') else {
        return Some((0, rest));
    };
    let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    if end == 0 {
        return None;
    }
    let (digits, zone) = after.split_at(end);
    let padded: String = digits.chars().chain("000000000".chars()).take(9).collect();
    Some((padded.parse().ok()?, zone))
}

/// Parses an offset such as `Z` or `+02:00`; returns the seconds east of UTC.
pub fn zone_offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    if zone.len() != 6 || zone.as_bytes().get(3) != Some(&b':') {
        return None;
    }
    let (hours, minutes) = (digits(zone, 1, 3)?, digits(zone, 4, 6)?);
    (hours < 24 && minutes < 60).then(|| sign * i64::from(hours * 3600 + minutes * 60))
}

impl Timestamp {
    /// Formats the time as RFC 3339 in UTC, with as many digits of the fraction as needed.
    pub fn to_rfc3339(self) -> String {
        let date = Date::from_days(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let fraction = fraction_text(self.nanos);
        let Date { year, month, day } = date;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
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
    parse_rfc3339(text, false).map(|time| time.seconds)
}

/// Parses a duration in OpenAPI's format: Go's format, or words such as `3 days`; returns nanoseconds.
pub fn parse_loose_duration(text: &str) -> Option<i64> {
    parse_duration(text).ok().or_else(|| worded_duration(text))
}

fn worded_duration(text: &str) -> Option<i64> {
    let mut total: i128 = 0;
    let mut rest = text.trim();
    let mut found = false;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let tail = rest.get(start..)?;
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (number, after) = tail.split_at(end);
        let after = after.trim_start();
        let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, tail) = after.split_at(unit_end);
        let nanos: i128 = match unit.to_lowercase().trim_end_matches('s') {
            "nano" | "n" | "nanosecond" => 1,
            "micro" | "u" | "µ" | "microsecond" => 1_000,
            "milli" | "m" | "millisecond" if unit.len() > 1 => 1_000_000,
            "" | "sec" | "second" if !unit.is_empty() => 1_000_000_000,
            "m" | "min" | "minute" => 60_000_000_000,
            "h" | "hr" | "hour" => 3_600_000_000_000,
            "d" | "day" => 86_400_000_000_000,
            "w" | "wk" | "week" => 604_800_000_000_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<i64>().ok().map(i128::from)?.checked_mul(nanos)?)?;
        rest = tail;
        found = true;
    }
    found.then(|| i64::try_from(total).ok()).flatten()
}

/// Formats nanoseconds as seconds, like CEL: `90s`, `1.5s`.
pub fn duration_seconds(nanos: i64) -> String {
    let size = nanos.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    let fraction = fraction_text(u32::try_from(size % 1_000_000_000).unwrap_or_default());
    format!("{sign}{}{fraction}s", size / 1_000_000_000)
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
        ] {
            assert_eq!(parse_rfc3339(text, false).unwrap().to_rfc3339(), text);
        }
        assert_eq!(
            parse_rfc3339("2020-01-01T02:00:00+02:00", false)
                .unwrap()
                .to_rfc3339(),
            "2020-01-01T00:00:00Z"
        );
        assert!(parse_rfc3339("2020-02-30T00:00:00Z", false).is_none());
        assert_eq!(
            parse_rfc3339("2024-11-21T00:00:00Z", false)
                .unwrap()
                .day_of_week(),
            4
        );
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
        assert_eq!(parse_loose_duration("3 days"), Some(259_200_000_000_000));
        assert_eq!(duration_seconds(90_500_000_000), "90.5s");
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
