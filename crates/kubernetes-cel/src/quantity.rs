//! Kubernetes quantities such as `1.5Gi` as exact decimals.

/// `mantissa × 10^-9`: quantities are exact to a billionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(pub(crate) i128);

/// The billionths of 1.
pub(crate) const NANO: i128 = 1_000_000_000;
const MALFORMED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The scale of a suffix in billionths.
fn scale(suffix: &str) -> Option<i128> {
    let decimal = |exponent: u32| 10_i128.checked_pow(exponent);
    let scale = match suffix {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => NANO,
        "k" => decimal(12)?,
        "M" => decimal(15)?,
        "G" => decimal(18)?,
        "T" => decimal(21)?,
        "P" => decimal(24)?,
        "E" => decimal(27)?,
        "Ki" => NANO << 10,
        "Mi" => NANO << 20,
        "Gi" => NANO << 30,
        "Ti" => NANO << 40,
        "Pi" => NANO << 50,
        "Ei" => NANO << 60,
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let exponent = exponent.checked_add(9)?.min(30);
            return u32::try_from(exponent).map_or(Some(1), decimal);
        }
    };
    Some(scale)
}

impl Quantity {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let malformed = || MALFORMED.to_owned();
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(malformed());
        }
        let scale = scale(suffix).ok_or_else(malformed)?;
        let digits: i128 = format!("{whole}{fraction}").parse().map_err(|_| malformed())?;
        let divisor = u32::try_from(fraction.len())
            .ok()
            .and_then(|places| 10_i128.checked_pow(places));
        let value = match (digits.checked_mul(scale), divisor) {
            // Fractions of a billionth are rounded up.
            (Some(value), Some(divisor)) => value / divisor + i128::from(value % divisor != 0),
            _ => i128::MAX,
        };
        Ok(Self(if negative { -value } else { value }))
    }

    pub(crate) fn integer(self) -> Option<i64> {
        if self.0 % NANO != 0 {
            return None;
        }
        i64::try_from(self.0 / NANO).ok()
    }
}
