//! Quantities such as `100m` or `1536Mi` (`k8s.io/apimachinery/pkg/api/resource`): parsing, comparison, arithmetic and
//! canonical formatting ([`Quantity`]).
//!
//! An amount is stored in billionths, the smallest unit that Kubernetes supports. Amounts beyond 10^29 are limited to it.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// The format of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `1e6`.
    DecimalExponent,
    /// `1M`, `500m`.
    Decimal,
    /// `1Mi`.
    Binary,
}

/// An amount of a resource, with its format.
#[derive(Clone, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
    /// The power of ten in Go's 64-bit integer representation; `None` if Go uses a decimal.
    scale: Option<i32>,
    /// The parsed text, if it must not be normalized.
    text: Option<String>,
}

/// The error of a text that is not a quantity, with the text of the real parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not have the format of a quantity.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANOS: i128 = 1_000_000_000;
const MILLI_NANOS: i128 = 1_000_000;
/// The maximum absolute amount: a round number, so that rounding up cannot exceed it.
const NANOS_MAX: i128 = 10_i128.pow(29) * NANOS;
/// The maximum number of digits of a text that is kept unchanged.
const KEPT_DIGITS: usize = 18;

impl Quantity {
    /// Parses a quantity from a JSON string or number.
    ///
    /// # Errors
    /// See [`QuantityError`].
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            // The decoder does not unescape the text.
            Value::String(text) if text.contains(|c: char| c.is_control() || matches!(c, '"' | '\\')) => {
                Err(QuantityError::Format)
            }
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => Err(QuantityError::Format),
        }
    }

    /// Parses a quantity.
    ///
    /// # Errors
    /// See [`QuantityError`].
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // A quantity without digits is zero.
        if text.is_empty() || fraction.contains('.') {
            return Err(QuantityError::Format);
        }
        check_suffix(suffix)?;
        let scale = scale_of(suffix).ok_or(QuantityError::Suffix)?;
        let amount = amount(whole, fraction, scale);
        let format = match scale {
            Scale::Binary(_) if 0 < amount && amount < NANOS => Format::Decimal,
            Scale::Binary(_) => Format::Binary,
            Scale::Decimal(_) => Format::Decimal,
            Scale::Exponent(_) => Format::DecimalExponent,
        };
        let kept = text == "0" || keeps_text(whole, fraction, scale);
        Ok(Self {
            nanos: if negative { -amount } else { amount },
            format,
            scale: integer_scale(whole, fraction, scale),
            text: kept.then(|| text.to_owned()),
        })
    }

    /// Creates a quantity from an integer.
    pub fn of_integer(amount: i64) -> Self {
        Self {
            nanos: i128::from(amount) * NANOS,
            format: Format::Decimal,
            scale: Some(0),
            text: None,
        }
    }

    /// Returns the sum of two quantities, in the format of the first one unless that is zero.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.combined(other, limited(self.nanos.saturating_add(other.nanos)))
    }

    /// Returns this quantity minus another one, in the format of the first one unless that is zero.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.combined(other, limited(self.nanos.saturating_sub(other.nanos)))
    }

    fn combined(&self, other: &Self, nanos: i128) -> Self {
        let scale = match (self.nanos, other.nanos) {
            (_, 0) => self.scale.filter(|_| other.scale.is_some()),
            (0, _) => other.scale.filter(|_| self.scale.is_some()),
            _ => self.scale.zip(other.scale).map(|(a, b)| a.min(b)),
        };
        Self {
            nanos,
            format: if self.nanos == 0 {
                other.format
            } else {
                self.format
            },
            scale: scale
                .filter(|scale| self.fits(*scale) && other.fits(*scale) && units(nanos, *scale).is_some()),
            text: None,
        }
    }

    fn fits(&self, scale: i32) -> bool {
        units(self.nanos, scale).is_some()
    }

    /// Returns the amount as an integer if Go's `AsInt64` does so. Like `AsInt64`, it returns `None` for amounts beyond
    /// 64 bits, and for texts with decimals or a suffix below 1 even if the amount is whole.
    pub fn as_integer(&self) -> Option<i64> {
        self.scale
            .filter(|scale| *scale >= 0)
            .and_then(|_| units(self.nanos, 0))
    }

    /// Returns the amount as a float.
    pub fn as_float(&self) -> f64 {
        approximate(self.nanos) / approximate(NANOS)
    }

    /// Returns this quantity minus another one, or zero if that is negative, in the format of the first one.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self {
            nanos: limited(self.nanos.saturating_sub(other.nanos)).max(0),
            format: self.format,
            scale: None,
            text: None,
        }
    }

    /// Returns the amount in units of `10^scale`, rounded away from zero, like Go's `ScaledValue`. As there, an amount
    /// beyond 64 bits is zero if Go represents it as an integer with an exponent, and loses its upper bits otherwise.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let power = scale
            .checked_add(9)
            .and_then(|power| 10_i128.checked_pow(u32::try_from(power).ok()?));
        let Some(power) = power else { return 0 };
        let whole = round_up(self.nanos, power) / power;
        match i64::try_from(whole) {
            Ok(value) => value,
            Err(_) if self.scale.is_some() => 0,
            Err(_) => whole as i64,
        }
    }

    /// Returns the scale in which the API server compares amounts: thousandths, or whole units if one is too large.
    pub fn common_scale(amounts: &[&Self]) -> i32 {
        const MILLI_MAX: i64 = i64::MAX / 1000;
        let are_small = amounts.iter().all(|amount| amount.scaled_value(0) <= MILLI_MAX);
        if are_small { -3 } else { 0 }
    }

    /// Rounds the quantity to whole units, away from zero.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        if self.is_whole() {
            return self;
        }
        Self {
            nanos: round_up(self.nanos, NANOS),
            format: self.format,
            scale: None,
            text: None,
        }
    }

    /// Rounds the quantity to thousandths, away from zero.
    #[must_use]
    pub fn rounded_to_milli(self) -> Self {
        if self.nanos % MILLI_NANOS == 0 {
            return self;
        }
        Self {
            nanos: round_up(self.nanos, MILLI_NANOS),
            format: self.format,
            scale: None,
            text: None,
        }
    }

    /// Returns the amount in digits, rounded to a whole number away from zero.
    pub fn whole_units(&self) -> String {
        (round_up(self.nanos, NANOS) / NANOS).to_string()
    }

    /// Returns true for amounts below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Returns true for zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Returns true for amounts without a fraction.
    pub fn is_whole(&self) -> bool {
        self.nanos % NANOS == 0
    }

    fn decimal(&self, suffixes: Format) -> String {
        let mut mantissa = self.nanos;
        let mut exponent = -9;
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        while exponent % 3 != 0 {
            mantissa *= 10;
            exponent -= 1;
        }
        let suffix = (suffixes == Format::Decimal).then(|| decimal_suffix(exponent));
        match suffix.flatten() {
            Some(suffix) => format!("{mantissa}{suffix}"),
            None if exponent == 0 => mantissa.to_string(),
            None => format!("{mantissa}e{exponent}"),
        }
    }

    fn binary(&self) -> String {
        let mut mantissa = self.nanos / NANOS;
        let mut steps = 0;
        while mantissa % 1024 == 0 && steps + 1 < BINARY_SUFFIXES.len() {
            mantissa /= 1024;
            steps += 1;
        }
        format!("{mantissa}{}", BINARY_SUFFIXES[steps])
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::from(0)
    }
}

impl From<usize> for Quantity {
    fn from(count: usize) -> Self {
        let count = i128::try_from(count).unwrap_or(i128::MAX);
        Self {
            nanos: count.saturating_mul(NANOS),
            format: Format::Decimal,
            scale: Some(0),
            text: None,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        let small = self.nanos.abs() < 1024 * NANOS;
        let text = match self.format {
            _ if self.nanos == 0 => "0".to_owned(),
            Format::Binary if small || !self.is_whole() => self.decimal(Format::Decimal),
            Format::Binary => self.binary(),
            format => self.decimal(format),
        };
        f.write_str(&text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

fn limited(nanos: i128) -> i128 {
    nanos.clamp(-NANOS_MAX, NANOS_MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio is shown with six decimals")]
fn approximate(nanos: i128) -> f64 {
    nanos as f64
}

/// The multiplier of a suffix: a power of ten, or of two.
#[derive(Clone, Copy)]
enum Scale {
    Decimal(i32),
    Exponent(i32),
    Binary(u32),
}

const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

fn decimal_suffix(exponent: i32) -> Option<&'static str> {
    let found = DECIMAL_SUFFIXES.iter().find(|(_, e)| *e == exponent);
    found.map(|(suffix, _)| *suffix)
}

/// Checks that a suffix consists of letters, a sign and digits, in this order.
fn check_suffix(suffix: &str) -> Result<(), QuantityError> {
    let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(())
    } else {
        Err(QuantityError::Format)
    }
}

fn scale_of(suffix: &str) -> Option<Scale> {
    if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(text, _)| *text == suffix) {
        return Some(Scale::Decimal(*exponent));
    }
    if let Some(steps) = BINARY_SUFFIXES.iter().position(|text| *text == suffix) {
        return Some(Scale::Binary(u32::try_from(steps).ok()? * 10));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    exponent.parse().ok().map(Scale::Exponent)
}

/// Returns the amount in billionths, rounded up.
fn amount(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let digits = format!("{whole}{fraction}");
    let (digits, dropped) = match digits.trim_start_matches('0') {
        long if long.len() > 36 => (&long[..36], long.len() - 36),
        short => (short, 0),
    };
    let mantissa: i128 = digits.parse().unwrap_or(0);
    let places = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let exponent = places(dropped).saturating_sub(places(fraction.len()));
    match scale {
        Scale::Decimal(power) | Scale::Exponent(power) => {
            shift(mantissa, exponent.saturating_add(power).saturating_add(9))
        }
        Scale::Binary(power) => {
            let nanos = shift(mantissa.saturating_mul(1 << power), exponent.saturating_add(9));
            nanos.min(i128::from(i64::MAX) * NANOS)
        }
    }
}

/// Returns `mantissa * 10^exponent`, rounded up and limited to the maximum.
fn shift(mantissa: i128, exponent: i32) -> i128 {
    let power = 10_i128.checked_pow(exponent.unsigned_abs());
    limited(match (power, exponent >= 0) {
        _ if mantissa == 0 => 0,
        (Some(power), true) => mantissa.saturating_mul(power),
        (None, true) => NANOS_MAX,
        (Some(power), false) => round_up(mantissa, power) / power,
        (None, false) => 1,
    })
}

/// Rounds `amount` to a multiple of `unit`, away from zero.
fn round_up(amount: i128, unit: i128) -> i128 {
    match amount % unit {
        0 => amount,
        rest if rest > 0 => amount.saturating_add(unit - rest),
        rest => amount.saturating_sub(unit + rest),
    }
}

/// Returns the amount in units of a power of ten, if it fits in 64 bits.
fn units(nanos: i128, scale: i32) -> Option<i64> {
    let power = 10_i128.checked_pow(u32::try_from(scale.checked_add(9)?).ok()?)?;
    if nanos % power != 0 {
        return None;
    }
    i64::try_from(nanos / power).ok()
}

/// Returns the power of ten in the API server's 64-bit integer representation, which is used for few digits.
fn integer_scale(whole: &str, fraction: &str, scale: Scale) -> Option<i32> {
    let digits = whole.trim_start_matches('0').len().max(1) + fraction.len();
    match scale {
        Scale::Decimal(power) | Scale::Exponent(power) => {
            let scale = power.saturating_sub(i32::try_from(fraction.len()).ok()?);
            (digits <= KEPT_DIGITS && scale >= -9).then_some(scale)
        }
        Scale::Binary(power) => {
            let cost = usize::try_from(power).ok()? * 3 / 10 + 1;
            (fraction.is_empty() && digits + cost <= 15).then_some(0)
        }
    }
}

/// Returns true if the API server considers a text canonical, and therefore keeps it. It is wrong for a few texts, such
/// as `1.500`.
fn keeps_text(whole: &str, fraction: &str, scale: Scale) -> bool {
    let whole = whole.trim_start_matches('0');
    let digits = whole.len().max(1) + fraction.len();
    let shifted = format!("{}{fraction}", if whole.is_empty() { "0" } else { whole });
    match scale {
        Scale::Decimal(power) | Scale::Exponent(power) => {
            let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
            let scale = power.saturating_sub(places);
            digits <= KEPT_DIGITS
                && scale >= -9
                && scale % 3 == 0
                && !shifted.ends_with("000")
                && !shifted.starts_with('0')
        }
        Scale::Binary(power) => {
            let cost = usize::try_from(power).unwrap_or(0) * 3 / 10 + 1;
            let value = shifted.parse::<i64>().unwrap_or(0);
            fraction.is_empty() && shifted.len() + cost <= 15 && value & 7 != 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Quantity, QuantityError};

    #[test]
    fn scaled_values_are_those_of_go() {
        for (text, scale, value) in [
            ("1.5", 0, 2),
            ("-1.5", 0, -2),
            ("1.5", -3, 1500),
            ("1n", -3, 1),
            ("10E", 0, 0),
            ("9223372036854775808", 0, i64::MIN),
            ("9223372036854775808", -3, 0),
        ] {
            assert_eq!(
                Quantity::parse(text).unwrap().scaled_value(scale),
                value,
                "{text}"
            );
        }
    }

    #[track_caller]
    fn check(text: &str, canonical: &str) {
        let quantity = Quantity::parse(text).unwrap();
        assert_eq!(quantity.to_string(), canonical, "{text}");
        let again = Quantity::parse(canonical).unwrap();
        assert_eq!(again.to_string(), canonical, "{canonical} again");
        assert_eq!(again, quantity, "{text} and {canonical} are equal");
    }

    #[test]
    fn a_quantity_is_written_in_its_canonical_form() {
        for (text, canonical) in [
            ("0", "0"),
            ("0.1", "100m"),
            ("1000m", "1"),
            ("1.5", "1500m"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1.3Ki", "1331200m"),
            ("4000M", "4G"),
            ("1e9", "1e9"),
            ("1000000000", "1G"),
            ("1E3", "1E3"),
            ("12E", "12E"),
            ("100n", "100n"),
            ("0.0000000001", "1n"),
            ("-5", "-5"),
            ("-1000m", "-1"),
            (".5", "500m"),
            ("-.5e40", "-100e27"),
            ("-", "0"),
            (".", "0"),
            ("Mi", "0"),
            ("1e1000000000", "100e27"),
            ("-99999999999999999999999999999999999999999999", "-100e27"),
        ] {
            check(text, canonical);
        }
    }

    #[test]
    fn invalid_quantities_are_errors_with_a_reason() {
        for text in ["", "abc", "1 Gi", "1..2", "1Gi1i", "1x"] {
            assert_eq!(Quantity::parse(text).err(), Some(QuantityError::Format), "{text}");
        }
        for text in ["1iK", "1kk", "1e", "1m5", "--1", "k2"] {
            assert_eq!(Quantity::parse(text).err(), Some(QuantityError::Suffix), "{text}");
        }
    }

    #[test]
    fn integers_are_the_amounts_that_go_keeps_as_such() {
        let integer = |text| Quantity::parse(text).unwrap().as_integer();
        assert_eq!(integer("1"), Some(1));
        assert_eq!(integer("3k"), Some(3000));
        assert_eq!(integer("2Gi"), Some(2 << 30));
        for text in ["2000m", "1.5", "99E", "9Ei", "9223372036854775808"] {
            assert_eq!(integer(text), None, "{text}");
        }
        let quantity = |text| Quantity::parse(text).unwrap();
        assert_eq!(quantity("3").minus(&quantity("5")).as_integer(), Some(-2));
        assert_eq!(quantity("1.5").plus(&quantity("1.5")).as_integer(), None);
        assert_eq!(quantity("9Ei"), quantity("8Ei"));
    }

    #[test]
    fn sums_keep_the_way_in_which_the_first_one_is_written() {
        let quantity = |text| Quantity::parse(text).unwrap();
        assert_eq!(quantity("1Gi").plus(&quantity("1024")).to_string(), "1048577Ki");
        assert_eq!(quantity("0").plus(&quantity("1Ki")).to_string(), "1Ki");
        assert!(quantity("1G") < quantity("1Gi"));
        assert_eq!(quantity("100u").rounded_to_milli().to_string(), "1m");
        assert_eq!(quantity("1500m").rounded_up().to_string(), "2");
        assert_eq!(quantity("2Gi").without(&quantity("512Mi")).to_string(), "1536Mi");
        assert!(quantity("1").without(&quantity("2")).is_zero());
        let (most, least) = (quantity("1e100"), quantity("-1e100"));
        assert_eq!(most.plus(&most), most);
        assert_eq!(least.minus(&most), least);
        assert_eq!(most.without(&least), most);
        assert_eq!(least.clone().rounded_up(), least);
        assert_eq!(least.rounded_to_milli().to_string(), "-100e27");
    }
}
