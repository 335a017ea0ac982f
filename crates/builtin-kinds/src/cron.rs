//! Cron schedules of CronJobs, parsed like Kubernetes' library `robfig/cron` does ([`Schedule`]).

use apimachinery::{go, time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

/// A parsed schedule.
///
/// ```
/// use builtin_kinds::cron::Schedule;
/// use jiff::tz::TimeZone;
///
/// let schedule = Schedule::parse("30 6 * * mon-fri").unwrap();
/// let friday = "2024-01-05T07:00:00Z".parse().unwrap();
/// assert_eq!(schedule.next(friday, &TimeZone::UTC), "2024-01-08T06:30:00Z".parse().ok());
/// assert_eq!(Schedule::parse("60 * * * *").unwrap_err(), "end of range (60) above maximum (59): 60");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// `@every DURATION`, in seconds.
    Every(i64),
    Fields(Fields),
}

/// The selected minutes, hours, days, months and weekdays.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// The selected values of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    /// The values as bits.
    bits: u64,
    /// True if a part is `*` or `?` without a step.
    is_any: bool,
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits.checked_shr(value).unwrap_or(0) & 1 == 1)
    }
}

/// The lowest and the highest value of a field, and the names of its values.
type Bounds = (i64, i64, &'static [&'static str]);

const MINUTES: Bounds = (0, 59, &[]);
const HOURS: Bounds = (0, 23, &[]);
const DAYS: Bounds = (1, 31, &[]);
const MONTHS: Bounds = (
    1,
    12,
    &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
);
const WEEKDAYS: Bounds = (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]);

/// The number of days to search for the next time. Leap days can be eight years apart, when a century year has none.
const DAYS_MAX: i32 = 366 * 9;

impl Schedule {
    /// Parses five fields, or one of the descriptors such as `@hourly` and `@every 1h30m`. A time zone before the fields
    /// (`TZ=UTC`) is ignored.
    ///
    /// # Errors
    /// Returns an error with the text of the library.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let mut text = text;
        if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            // Without a space, the library panics.
            let (_, rest) = text
                .split_once(' ')
                .ok_or("invalid schedule format: runtime error: slice bounds out of range [:-1]")?;
            text = rest.trim();
        }
        if let Some(descriptor) = text.strip_prefix('@') {
            return Self::descriptor(descriptor);
        }
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts[..] else {
            return Err(format!(
                "expected exactly 5 fields, found {}: [{}]",
                parts.len(),
                parts.join(" ")
            ));
        };
        Ok(Self(Kind::Fields(Fields {
            minutes: field(minutes, MINUTES)?,
            hours: field(hours, HOURS)?,
            days: field(days, DAYS)?,
            months: field(months, MONTHS)?,
            weekdays: field(weekdays, WEEKDAYS)?,
        })))
    }

    /// Parses the text after the `@`.
    fn descriptor(text: &str) -> Result<Self, String> {
        if let Some(duration) = text.strip_prefix("every ") {
            let nanos = time::parse_duration(duration)
                .map_err(|why| format!("failed to parse duration @{text}: {why}"))?;
            return Ok(Self(Kind::Every((nanos / 1_000_000_000).max(1))));
        }
        Self::parse(match text {
            "yearly" | "annually" => "0 0 1 1 *",
            "monthly" => "0 0 1 * *",
            "weekly" => "0 0 * * 0",
            "daily" | "midnight" => "0 0 * * *",
            "hourly" => "0 * * * *",
            _ => return Err(format!("unrecognized descriptor: @{text}")),
        })
    }

    /// Returns the first time after an instant, in a time zone.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.0 {
            Kind::Every(seconds) => after.checked_add(SignedDuration::from_secs(*seconds)).ok(),
            Kind::Fields(fields) => fields.next(after, zone),
        }
    }
}

/// The periods in which the last time of a schedule is searched, as hours before now.
const WINDOWS: [i64; 5] = [1, 24, 31 * 24, 366 * 24, 9 * 366 * 24];

impl Schedule {
    /// Returns the last time after one instant and up to another, in a time zone.
    pub fn last(&self, after: Timestamp, until: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if let Kind::Every(seconds) = self.0 {
            let passed = until.as_second().saturating_sub(after.as_second());
            let whole = passed.checked_div(seconds)?.checked_mul(seconds)?;
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

    /// Days and weekdays select a day together, unless both are restricted: then one of them is sufficient.
    fn is_day(&self, day: &jiff::civil::Date) -> bool {
        let is_day = self.days.has(day.day());
        let is_weekday = self.weekdays.has(day.weekday().to_sunday_zero_offset());
        let is_meant = if self.days.is_any || self.weekdays.is_any {
            is_day && is_weekday
        } else {
            is_day || is_weekday
        };
        self.months.has(day.month()) && is_meant
    }

    fn times(&self) -> impl Iterator<Item = (i8, i8)> {
        let hours = (0..24).filter(|hour| self.hours.has(*hour));
        hours.flat_map(|hour| {
            let minutes = (0..60).filter(|minute| self.minutes.has(*minute));
            minutes.map(move |minute| (hour, minute))
        })
    }
}

/// Returns true if a local time exists on that day. If clocks are set forward, an hour does not exist.
fn is_exact(at: &Zoned, hour: i8, minute: i8) -> bool {
    at.hour() == hour && at.minute() == minute
}

/// Parses a list of parts; empty parts select nothing.
fn field(text: &str, bounds: Bounds) -> Result<Field, String> {
    let mut field = Field::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (bits, is_any) = range(part, bounds)?;
        field.bits |= bits;
        field.is_any |= is_any;
    }
    Ok(field)
}

/// Parses `LOW`, `LOW-HIGH`, `*` or `?`, each optionally with `/STEP`. The order of the checks is that of the library.
fn range(part: &str, (min, max, names): Bounds) -> Result<(u64, bool), String> {
    let mut steps = part.split('/');
    let mut ends = steps.next().unwrap_or_default().split('-');
    let (low, high) = (ends.next().unwrap_or_default(), ends.next());
    let is_any = matches!(low, "*" | "?");
    let (start, mut end) = if is_any {
        (min, max)
    } else {
        let start = named_number(low, min, names)?;
        if ends.next().is_some() {
            return Err(format!("too many hyphens: {part}"));
        }
        let end = high.map(|high| named_number(high, min, names)).transpose()?;
        (start, end.unwrap_or(start))
    };
    let step = steps.next();
    if steps.next().is_some() {
        return Err(format!("too many slashes: {part}"));
    }
    let step = step.map(number).transpose()?;
    if step.is_some() && high.is_none() {
        end = max;
    }
    if start < min {
        return Err(format!(
            "beginning of range ({start}) below minimum ({min}): {part}"
        ));
    }
    if end > max {
        return Err(format!("end of range ({end}) above maximum ({max}): {part}"));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {part}"
        ));
    }
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    // The values are at most 59, so that a longer step selects one value.
    let stride = usize::try_from(step).unwrap_or(usize::MAX);
    let bits = (start..=end)
        .step_by(stride)
        .fold(0, |bits, value| bits | 1 << value);
    Ok((bits, is_any && step == 1))
}

fn named_number(text: &str, min: i64, names: &[&str]) -> Result<i64, String> {
    let lower = text.to_lowercase();
    match (min..).zip(names).find(|(_, name)| **name == lower) {
        Some((value, _)) => Ok(value),
        None => number(text),
    }
}

fn number(text: &str) -> Result<i64, String> {
    let number = go::atoi(text).map_err(|why| format!("failed to parse int from {text}: {why}"))?;
    if number < 0 {
        return Err(format!("negative number ({number}) not allowed: {text}"));
    }
    Ok(number)
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
            ("0 12 * * 0", "2024-01-01T00:00:00Z", "2024-01-07T12:00:00Z"),
            // A step restricts a field, so that a day or a weekday is sufficient.
            ("0 0 */10 * 1", "2024-01-01T00:00:00Z", "2024-01-08T00:00:00Z"),
            ("0 0 */10 * 1", "2024-01-09T00:00:00Z", "2024-01-11T00:00:00Z"),
            ("0 0 */1 * 1", "2024-01-09T00:00:00Z", "2024-01-15T00:00:00Z"),
            ("50/20 * * * *", "2024-01-01T00:00:00Z", "2024-01-01T00:50:00Z"),
            ("@every 1ms", "2024-01-01T00:00:00Z", "2024-01-01T00:00:01Z"),
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
    fn invalid_schedules_have_the_error_of_the_library() {
        let atoi = |text: &str| {
            format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
        };
        for (text, error) in [
            ("", "empty spec string".to_owned()),
            ("nope", "expected exactly 5 fields, found 1: [nope]".to_owned()),
            ("60 * * * *", "end of range (60) above maximum (59): 60".to_owned()),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0".to_owned()),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1".to_owned()),
            ("*/0 * * * *", "step of range should be a positive number: */0".to_owned()),
            ("* * * * 7", "end of range (7) above maximum (6): 7".to_owned()),
            ("1-2-3/4/5 * * * *", "too many hyphens: 1-2-3/4/5".to_owned()),
            ("1/4/5 * * * *", "too many slashes: 1/4/5".to_owned()),
            ("-1-2 * * * *", atoi("")),
            ("* * * 1/jan *", atoi("jan")),
            (
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range".to_owned(),
            ),
            ("@reboot", "unrecognized descriptor: @reboot".to_owned()),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\"".to_owned()),
        ] {
            assert_eq!(Schedule::parse(text), Err(error), "{text}");
        }
        for text in [
            "1,,2 * * * *",
            ", * * * *",
            "+1 * * * *",
            "* * * * sun-sat/2",
            "@every -1h",
        ] {
            assert!(Schedule::parse(text).is_ok(), "{text}");
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
        assert!(Schedule::parse("@every 9223372036854775807s").is_err());
        let rare = Schedule::parse("@every 2562047h").unwrap();
        let end = Timestamp::MAX;
        assert_eq!(rare.next(end, &TimeZone::UTC), None);
    }
}
