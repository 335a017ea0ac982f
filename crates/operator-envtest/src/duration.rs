//! Durations as Go writes them, in the variables of envtest.

use std::time::Duration;

/// The units, the longer names first.
const UNITS: [(&str, f64); 7] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// `60s`, `1m30s`, `1.5h`; nothing of what is none, or is negative.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut seconds = 0.0;
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let (unit, scale) = UNITS.iter().find(|(unit, _)| {
            let after = after.strip_prefix(unit);
            after.is_some_and(|after| !after.starts_with(|letter: char| letter.is_alphabetic()))
        })?;
        seconds += number * scale;
        rest = after.strip_prefix(unit)?;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_go() {
        let cases = [
            ("60s", 60_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
            ("0", 0),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "60", "s", "-1s", "1x", "1m30", "one"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
