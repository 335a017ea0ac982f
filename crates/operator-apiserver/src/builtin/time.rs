//! Times as Go reads and writes them: RFC 3339 in whole seconds, or with microseconds.
//!
//! The texts of errors are those of Go's `time.Parse`. Knows no clock.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// The two forms of times in Kubernetes objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeForm {
    /// `2006-01-02T15:04:05Z`.
    Seconds,
    /// `2006-01-02T15:04:05.000000Z`, where the six decimals are required.
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

/// Brings a time into its canonical form, in UTC.
///
/// # Errors
/// The text of Go's parser, such as `parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"`.
pub(crate) fn canonical(text: &str, form: TimeForm) -> Result<String, String> {
    let time = Parser {
        text,
        rest: text,
        form,
    }
    .parse()?;
    let format = match form {
        TimeForm::Seconds => "%Y-%m-%dT%H:%M:%SZ",
        TimeForm::Micros => "%Y-%m-%dT%H:%M:%S.%6fZ",
    };
    Ok(time.strftime(format).to_string())
}

/// The Unix seconds of a time in canonical form; `None` where it is malformed.
pub(crate) fn unix_seconds(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    form: TimeForm,
}

impl<'a> Parser<'a> {
    fn parse(mut self) -> Result<Timestamp, String> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.digits(2, "01")?;
        self.in_range(month, 1..=12, "month")?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        let hour = self.digits(2, "15")?;
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
            return Err(self.fault(&format!(": extra text: {:?}", self.rest)));
        }
        let small = |number: i32| i8::try_from(number).unwrap_or_default();
        let year = i16::try_from(year).unwrap_or_default();
        let civil = DateTime::new(
            year,
            small(month),
            small(day),
            small(hour),
            small(minute),
            small(second),
            nanos,
        );
        let civil = civil.map_err(|_| self.fault(": day out of range"))?;
        offset
            .to_timestamp(civil)
            .map_err(|_| self.fault(": year out of range"))
    }

    fn fault(&self, detail: &str) -> String {
        format!("parsing time {:?}{detail}", self.text)
    }

    fn mismatch(&self, found: &str, element: &str) -> String {
        let layout = self.form.layout();
        self.fault(&format!(" as {layout:?}: cannot parse {found:?} as {element:?}"))
    }

    fn digits(&mut self, count: usize, element: &str) -> Result<i32, String> {
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

    fn in_range(&self, number: i32, range: std::ops::RangeInclusive<i32>, unit: &str) -> Result<(), String> {
        if range.contains(&number) {
            Ok(())
        } else {
            Err(self.fault(&format!(": {unit} out of range")))
        }
    }

    /// The decimals, in nanoseconds. Whole seconds may have any number of them, microseconds have six.
    fn fraction(&mut self) -> Result<i32, String> {
        let point = self.rest.strip_prefix(['.', ',']).unwrap_or_default();
        let end = point.find(|c: char| !c.is_ascii_digit()).unwrap_or(point.len());
        if self.form == TimeForm::Micros && (end < 6 || !self.rest.starts_with('.')) {
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

    fn offset(&mut self) -> Result<Offset, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(Offset::UTC);
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
        let number = |text: &str| text.parse::<i32>().unwrap_or_default();
        let seconds = sign * (number(hours) * 3600 + number(minutes) * 60);
        self.rest = self.rest.get(6..).unwrap_or_default();
        Offset::from_seconds(seconds).map_err(|_| self.fault(": time zone offset hour out of range"))
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
            assert_eq!(canonical(text, TimeForm::Seconds).as_deref(), Ok(expected));
        }
        let micros = canonical("2023-12-31T22:00:00.123456-02:00", TimeForm::Micros);
        assert_eq!(micros.as_deref(), Ok("2024-01-01T00:00:00.123456Z"));
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
