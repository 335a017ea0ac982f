//! Quantities such as `1Gi` and `250m`, as numbers of thousandths.

use serde_json::Value;

const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
const DECIMAL: [(&str, u32); 6] = [("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// A quantity in thousandths; `None` if it is none. Parts of a thousandth are rounded up.
pub(crate) fn quantity(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => parse(&number.to_string()),
        Value::String(text) => parse(text),
        _ => None,
    }
}

fn parse(text: &str) -> Option<i128> {
    let split = text
        .find(|letter: char| letter.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(split);
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return scaled(digits, 1024_i128.checked_pow(*power)?.checked_mul(1000)?, 1);
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return scaled(digits, 10_i128.checked_pow(power + 3)?, 1);
    }
    match suffix {
        "" => scaled(digits, 1000, 1),
        "m" => scaled(digits, 1, 1),
        "u" => scaled(digits, 1, 1000),
        "n" => scaled(digits, 1, 1_000_000),
        _ => exponent(digits, suffix),
    }
}

fn exponent(digits: &str, suffix: &str) -> Option<i128> {
    let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let factor = 10_i128.checked_pow(power.unsigned_abs())?;
    if power < 0 {
        scaled(digits, 1000, factor)
    } else {
        scaled(digits, factor.checked_mul(1000)?, 1)
    }
}

/// Digits with a decimal point, times a factor, by a divisor, rounded up.
fn scaled(digits: &str, factor: i128, divisor: i128) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let places = u32::try_from(fraction.len()).ok()?;
    let number: i128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = divisor.checked_mul(10_i128.checked_pow(places)?)?;
    let product = number.checked_mul(factor)?;
    Some(product.div_euclid(divisor) + i128::from(product.rem_euclid(divisor) != 0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_read() {
        let cases = [
            (json!("1"), 1000),
            (json!(2), 2000),
            (json!("250m"), 250),
            (json!("1.5"), 1500),
            (json!("1Ki"), 1_024_000),
            (json!("1k"), 1_000_000),
            (json!("1e3"), 1_000_000),
            (json!("1u"), 1),
            (json!("-1"), -1000),
            (json!("0.5Gi"), 536_870_912_000),
        ];
        for (value, expected) in cases {
            assert_eq!(quantity(&value), Some(expected), "{value}");
        }
        for value in [json!(""), json!("x"), json!("1Xi"), json!(null), json!("1e99")] {
            assert_eq!(quantity(&value), None, "{value}");
        }
    }
}
