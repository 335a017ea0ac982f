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

/// Parses a float like `strconv.ParseFloat(text, 64)`: decimal or hexadecimal, with underscores between digits, or a
/// special value such as `inf`. Returns `None` for malformed numbers, and for those that are too large.
///
/// ```
/// use apimachinery::go::parse_float;
///
/// assert_eq!(parse_float("1_000.5e1"), Some(10_005.0));
/// assert_eq!(parse_float("-0x1.8p1"), Some(-3.0));
/// assert_eq!(parse_float("1e400"), None);
/// ```
pub fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned.to_ascii_lowercase().as_str() {
        "nan" if unsigned.len() == text.len() => return Some(f64::NAN),
        "inf" | "infinity" if text.starts_with('-') => return Some(f64::NEG_INFINITY),
        "inf" | "infinity" => return Some(f64::INFINITY),
        _ => {}
    }
    let hexadecimal = unsigned
        .strip_prefix("0x")
        .or_else(|| unsigned.strip_prefix("0X"));
    let size = match hexadecimal {
        Some(digits) => parse_hexadecimal(&without_underscores(digits, true)?)?,
        None => {
            let digits = without_underscores(unsigned, false)?;
            let allowed = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
            let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
            digits
                .parse()
                .ok()
                .filter(|_| is_number && digits.chars().all(allowed))?
        }
    };
    let is_finite = f64::is_finite(size);
    is_finite.then_some(if text.starts_with('-') { -size } else { size })
}

/// Removes underscores, which must be between digits; the prefix of a hexadecimal number counts as a digit.
fn without_underscores(number: &str, is_hexadecimal: bool) -> Option<String> {
    let is_digit = |c: char| {
        if is_hexadecimal {
            c.is_ascii_hexdigit()
        } else {
            c.is_ascii_digit()
        }
    };
    let mut before = if is_hexadecimal { '0' } else { '.' };
    for c in number.chars().chain(['.']) {
        let is_separated = is_digit(before) && c == '_' || before == '_' && is_digit(c);
        if (before == '_' || c == '_') && !is_separated {
            return None;
        }
        before = c;
    }
    Some(number.replace('_', ""))
}

/// Parses the digits and the exponent of a hexadecimal number.
fn parse_hexadecimal(number: &str) -> Option<f64> {
    let (digits, exponent) = number.split_once(['p', 'P'])?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent: i32 = exponent.parse().ok()?;
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0_f64;
    for digit in whole.chars() {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let mut scale = 1.0_f64;
    for digit in fraction.chars() {
        scale /= 16.0;
        value += f64::from(digit.to_digit(16)?) * scale;
    }
    Some(value * 2.0_f64.powi(exponent))
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
    fn floats_are_those_of_go() {
        for (text, value) in [
            ("1_0", 10.0),
            ("1e1_0", 1e10),
            (".5", 0.5),
            ("5.", 5.0),
            ("+5", 5.0),
            ("1e-400", 0.0),
            ("0x_1p4", 16.0),
            ("0X1.8P-1", 0.75),
            ("-Inf", f64::NEG_INFINITY),
            ("INFINITY", f64::INFINITY),
        ] {
            assert_eq!(parse_float(text), Some(value), "{text}");
        }
        assert!(parse_float("NaN").is_some_and(f64::is_nan));
        for text in [
            "", "+", ".", "_1", "1_", "1__0", "1_.5", "._5", "1e", "e1", "0x1", "0xp1", "-nan", " 1", "1 ",
            "1e400", "++1", "infinit", "0x1p", "1f", "٣",
        ] {
            assert_eq!(parse_float(text), None, "{text}");
        }
    }

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
