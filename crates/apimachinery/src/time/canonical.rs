//! RFC 3339 times as Go's `time.Parse` reads them, and their canonical formats.

use super::{DAY, Date, OffsetTime, Timestamp, days_in_month};
use crate::go::quote_bytes;

/// The two formats of times in Kubernetes objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeForm {
    /// `2006-01-02T15:04:05Z`: whole seconds.
    Seconds,
    /// `2006-01-02T15:04:05.000000Z`: microseconds; the six decimals are required.
    Micros,
}

impl TimeForm {
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// The start of year 1, which is Go's zero time, in Unix seconds.
const ZERO: i64 = -62_135_596_800;

/// Parses an RFC 3339 time. Like Go's parser, it also accepts a comma before the fraction, hours with one digit, and
/// offsets up to `24:60`.
///
/// # Errors
/// Returns an error with the text of Go's parser, such as `parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot
/// parse "x" as "2006"`.
pub fn parse_rfc3339(text: &str) -> Result<OffsetTime, String> {
    parse(text, TimeForm::Seconds)
}

fn parse(text: &str, form: TimeForm) -> Result<OffsetTime, String> {
    let rest = text;
    Parser { text, rest, form }.parse()
}

/// Returns the canonical format of a time, in UTC; `None` for Go's zero time, which is written as null.
///
/// # Errors
/// Returns an error with the text of Go's parser.
pub fn canonical(text: &str, form: TimeForm) -> Result<Option<String>, String> {
    let Timestamp { seconds, nanos } = parse(text, form)?.time;
    let decimals = match form {
        TimeForm::Seconds => String::new(),
        TimeForm::Micros => format!(".{:06}", nanos / 1000),
    };
    let is_zero = seconds == ZERO && decimals.bytes().all(|byte| matches!(byte, b'.' | b'0'));
    let whole = Timestamp { seconds, nanos: 0 }.to_rfc3339();
    let text = format!("{}{decimals}Z", whole.trim_end_matches('Z'));
    Ok((!is_zero).then_some(text))
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    form: TimeForm,
}

impl<'a> Parser<'a> {
    fn parse(mut self) -> Result<OffsetTime, String> {
        let year = i64::from(self.digits(4, "2006")?);
        self.literal("-")?;
        let month = self.digits(2, "01")?;
        self.in_range(month, 1..=12, "month")?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        let hour = self.hour()?;
        self.in_range(hour, 0..=23, "hour")?;
        self.literal(":")?;
        let minute = self.digits(2, "04")?;
        self.in_range(minute, 0..=59, "minute")?;
        self.literal(":")?;
        let second = self.digits(2, "05")?;
        self.in_range(second, 0..=59, "second")?;
        let nanos = self.fraction()?;
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(self.fault(&format!(": extra text: {}", quote_bytes(self.rest))));
        }
        let date = Date { year, month, day };
        if day < 1 || day > days_in_month(year, month) {
            return Err(self.fault(": day out of range"));
        }
        let seconds = date.days() * DAY + i64::from(hour * 3600 + minute * 60 + second) - offset;
        let time = Timestamp { seconds, nanos };
        Ok(OffsetTime { time, offset })
    }

    fn fault(&self, detail: &str) -> String {
        format!("parsing time {}{detail}", quote_bytes(self.text))
    }

    fn mismatch(&self, found: &str, element: &str) -> String {
        let layout = self.form.layout();
        let (layout, found, element) = (quote_bytes(layout), quote_bytes(found), quote_bytes(element));
        self.fault(&format!(" as {layout}: cannot parse {found} as {element}"))
    }

    /// Parses the hour, which can have one digit.
    fn hour(&mut self) -> Result<u32, String> {
        let is_short = matches!(self.rest.as_bytes(), [first, rest @ ..]
            if first.is_ascii_digit() && !rest.first().is_some_and(u8::is_ascii_digit));
        self.digits(if is_short { 1 } else { 2 }, "15")
    }

    fn digits(&mut self, count: usize, element: &str) -> Result<u32, String> {
        let digits = self.rest.get(..count).filter(|text| is_digits(text));
        let Some(digits) = digits else {
            return Err(self.mismatch(self.rest, element));
        };
        self.rest = self.rest.get(count..).unwrap_or_default();
        Ok(digits.parse().unwrap_or_default())
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        match self.rest.strip_prefix(literal) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.mismatch(self.rest, literal)),
        }
    }

    fn in_range(&self, number: u32, range: std::ops::RangeInclusive<u32>, unit: &str) -> Result<(), String> {
        if range.contains(&number) {
            Ok(())
        } else {
            Err(self.fault(&format!(": {unit} out of range")))
        }
    }

    /// Parses the decimals; returns nanoseconds. Whole seconds may have any number of decimals; microseconds have six.
    fn fraction(&mut self) -> Result<u32, String> {
        let point = self.rest.strip_prefix(['.', ',']).unwrap_or_default();
        let end = point.find(|c: char| !c.is_ascii_digit()).unwrap_or(point.len());
        if self.form == TimeForm::Micros && end < 6 {
            return Err(self.mismatch(self.rest, ".000000"));
        }
        let taken = if self.form == TimeForm::Micros { 6 } else { end };
        if taken == 0 {
            return Ok(0);
        }
        let (digits, rest) = point.split_at(taken);
        self.rest = rest;
        let nanos = format!("{digits:0<9}");
        Ok(nanos.get(..9).and_then(|n| n.parse().ok()).unwrap_or_default())
    }

    /// Parses the offset; returns seconds east of UTC.
    fn offset(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let element = "Z07:00";
        let text = self
            .rest
            .get(..6)
            .ok_or_else(|| self.mismatch(self.rest, element))?;
        let bytes = text.as_bytes();
        let sign = match bytes.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(self.mismatch(self.rest, element)),
        };
        let hours = text.get(1..3).filter(|text| is_digits(text));
        let minutes = text.get(4..6).filter(|text| is_digits(text));
        let (Some(hours), Some(minutes), Some(b':')) = (hours, minutes, bytes.get(3)) else {
            return Err(self.mismatch(self.rest, element));
        };
        let number = |text: &str| text.parse::<i64>().unwrap_or_default();
        self.rest = self.rest.get(6..).unwrap_or_default();
        if number(minutes) > 60 {
            return Err(self.fault(": time zone offset minute out of range"));
        }
        if number(hours) > 24 {
            return Err(self.fault(": time zone offset hour out of range"));
        }
        Ok(sign * (number(hours) * 3600 + number(minutes) * 60))
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{TimeForm, canonical};

    #[test]
    fn times_are_written_in_utc_with_the_precision_of_their_form() {
        for (text, expected) in [
            ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
            ("2024-01-01T02:30:00+02:00", "2024-01-01T00:30:00Z"),
            ("2024-01-01T00:00:00.987Z", "2024-01-01T00:00:00Z"),
        ] {
            assert_eq!(
                canonical(text, TimeForm::Seconds).unwrap().as_deref(),
                Some(expected)
            );
        }
        let micros = canonical("2023-12-31T22:00:00.123456-02:00", TimeForm::Micros);
        assert_eq!(micros.unwrap().as_deref(), Some("2024-01-01T00:00:00.123456Z"));
    }

    #[test]
    fn malformed_times_are_refused_in_the_words_of_go() {
        for (text, form, expected) in [
            (
                "yesterday",
                TimeForm::Seconds,
                r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
            ),
            (
                "2024-01-01T00:00:00Z",
                TimeForm::Micros,
                r#"parsing time "2024-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
            ),
            (
                "2024-13-01T00:00:00Z",
                TimeForm::Seconds,
                r#"parsing time "2024-13-01T00:00:00Z": month out of range"#,
            ),
            (
                "2024-02-30T00:00:00Z",
                TimeForm::Seconds,
                r#"parsing time "2024-02-30T00:00:00Z": day out of range"#,
            ),
            (
                "2024-01-01T00:00:00Zx",
                TimeForm::Seconds,
                r#"parsing time "2024-01-01T00:00:00Zx": extra text: "x""#,
            ),
        ] {
            assert_eq!(canonical(text, form), Err(expected.to_owned()));
        }
    }
}
