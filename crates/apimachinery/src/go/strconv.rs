//! Parses decimal numbers like Go's `strconv`, with its errors.

use std::num::IntErrorKind::{NegOverflow, PosOverflow};
use std::num::ParseIntError;
use std::str::FromStr;

use super::quote;

/// Parses digits, like `strconv.ParseUint(text, 10, 64)`.
///
/// # Errors
/// Returns an error with Go's text.
///
/// ```
/// use apimachinery::go::parse_uint;
///
/// assert_eq!(parse_uint("12"), Ok(12));
/// assert_eq!(parse_uint("+1").unwrap_err(), r#"strconv.ParseUint: parsing "+1": invalid syntax"#);
/// ```
pub fn parse_uint(text: &str) -> Result<u64, String> {
    // Rust accepts a sign.
    let digits = text.strip_prefix('+').map_or(text, |_| "");
    parse("ParseUint", text, digits)
}

/// Parses digits with an optional sign, like `strconv.ParseInt(text, 10, 64)`.
///
/// # Errors
/// Returns an error with Go's text.
pub fn parse_int(text: &str) -> Result<i64, String> {
    parse("ParseInt", text, text)
}

/// Parses digits with an optional sign, like `strconv.Atoi`.
///
/// # Errors
/// Returns an error with Go's text.
pub fn atoi(text: &str) -> Result<i64, String> {
    parse("Atoi", text, text)
}

fn parse<T: FromStr<Err = ParseIntError>>(function: &str, text: &str, digits: &str) -> Result<T, String> {
    digits.parse().map_err(|error: ParseIntError| {
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.{function}: parsing {}: {why}", quote(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_errors_are_those_of_go() {
        assert_eq!(parse_uint("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse_int("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(atoi("+05"), Ok(5));
        for text in [
            "", "+", "-", "-1", "+1", " 1", "1 ", "0x1", "1_0", "1e3", "\u{0665}",
        ] {
            let error = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
            assert_eq!(parse_uint(text), Err(error), "{text}");
        }
        let error = "strconv.ParseUint: parsing \"18446744073709551616\": value out of range";
        assert_eq!(parse_uint("18446744073709551616"), Err(error.to_owned()));
        let error = "strconv.ParseInt: parsing \"-9223372036854775809\": value out of range";
        assert_eq!(parse_int("-9223372036854775809"), Err(error.to_owned()));
    }
}
