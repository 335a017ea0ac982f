//! The function `format` of strings: `'%s: %d'.format([…])`.
//!
//! Numbers are written as in English: `%f` groups the digits of thousands, and `%e` writes a power of ten.

use apimachinery::go;

use super::convert::to_text;
use super::text::TOO_LARGE;
use crate::value::{List, Value};
use crate::work::Work;

/// Formats arguments by a format string: `'%s: %d'.format([…])`.
pub(super) fn format(text: &str, args: &List<'_>, work: &Work) -> Result<String, String> {
    let mut out = Output {
        text: String::new(),
        work,
    };
    let mut args = args.iter();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.text.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.text.push('%');
            continue;
        }
        let mut precision = None;
        if chars.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            precision = digits.parse::<usize>().ok();
        }
        let verb = chars
            .next()
            .ok_or_else(|| "unexpected end of format string".to_owned())?;
        let arg = args.next().ok_or_else(|| "index 0 out of range".to_owned())?;
        match verb {
            's' => out.shown(&arg)?,
            _ if !work.make(
                usize::try_from(arg.size())
                    .unwrap_or(usize::MAX)
                    .saturating_mul(2)
                    .saturating_add(precision.unwrap_or(0)),
            ) =>
            {
                return Err(TOO_LARGE.to_owned());
            }
            _ => out.push(&format_one(verb, precision, &arg)?)?,
        }
    }
    Ok(out.text)
}

/// A string under construction with a maximum length.
struct Output<'w> {
    text: String,
    work: &'w Work,
}

impl Output<'_> {
    fn push(&mut self, text: &str) -> Result<(), String> {
        if !self.work.spend(1) || !self.work.make(text.len()) {
            return Err(TOO_LARGE.to_owned());
        }
        self.text.push_str(text);
        Ok(())
    }

    fn shown(&mut self, value: &Value<'_>) -> Result<(), String> {
        match value {
            Value::Null => self.push("null"),
            Value::String(text) => self.push(text),
            Value::List(list) => {
                self.push("[")?;
                for (index, item) in list.iter().enumerate() {
                    self.push(if index == 0 { "" } else { ", " })?;
                    self.element(&item)?;
                }
                self.push("]")
            }
            Value::Map(map) => {
                if !self
                    .work
                    .make(map.len().saturating_mul(2 * size_of::<Value<'_>>()))
                {
                    return Err(TOO_LARGE.to_owned());
                }
                let mut entries = Vec::with_capacity(map.len());
                for (key, value) in map.entries() {
                    entries.push((self.part(&key)?, self.part(&value)?));
                }
                entries.sort();
                self.push("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    self.push(if index == 0 { "" } else { ", " })?;
                    self.push(&format!("{key}:{value}"))?;
                }
                self.push("}")
            }
            Value::Type(name) => self.push(name),
            Value::Bytes(_) => self.push(&to_text(value).ok_or(super::convert::NOT_TEXT)?),
            other => self.push(&to_text(other).unwrap_or_else(|| other.type_name().to_owned())),
        }
    }

    /// Returns a key or a value of a map.
    fn part(&self, value: &Value<'_>) -> Result<String, String> {
        let mut part = Output {
            text: String::new(),
            work: self.work,
        };
        part.element(value)?;
        Ok(part.text)
    }

    /// Writes a value in a list or a map, so that its type can be seen.
    fn element(&mut self, value: &Value<'_>) -> Result<(), String> {
        let quoted = || to_text(value).map(|text| go::quote(&text)).unwrap_or_default();
        match value {
            Value::String(text) => self.push(&go::quote(text)),
            Value::Bytes(_) => {
                let text = to_text(value).ok_or(super::convert::NOT_TEXT)?;
                self.push(&format!("b{}", go::quote(&text)))
            }
            Value::Double(double) if double.is_finite() => self.push(&format!("{double:.6}")),
            Value::Double(_) => self.push(&quoted()),
            Value::Duration(_) => self.push(&format!("duration({})", quoted())),
            Value::Timestamp(_) => self.push(&format!("timestamp({})", quoted())),
            other => self.shown(other),
        }
    }
}

fn format_one(verb: char, precision: Option<usize>, arg: &Value<'_>) -> Result<String, String> {
    let refuse = || {
        format!(
            "error during formatting: %{verb} does not accept a value of type {}",
            arg.type_name()
        )
    };
    Ok(match (verb, arg) {
        ('d', Value::Int(value)) => value.to_string(),
        ('d', Value::Uint(value)) => value.to_string(),
        ('d', Value::Double(value)) if value.is_nan() || value.is_infinite() => go::float(*value),
        ('f' | 'e', Value::String(text)) => match &**text {
            "NaN" => number(verb, precision, f64::NAN),
            "Infinity" => number(verb, precision, f64::INFINITY),
            "-Infinity" => number(verb, precision, f64::NEG_INFINITY),
            _ => return Err(refuse()),
        },
        ('f' | 'e', Value::Double(value)) => number(verb, precision, *value),
        ('b', Value::Bool(flag)) => u8::from(*flag).to_string(),
        ('b', Value::Int(value)) => signed(*value, |size| format!("{size:b}")),
        ('b', Value::Uint(value)) => format!("{value:b}"),
        ('o', Value::Int(value)) => signed(*value, |size| format!("{size:o}")),
        ('o', Value::Uint(value)) => format!("{value:o}"),
        ('x', Value::Int(value)) => signed(*value, |size| format!("{size:x}")),
        ('X', Value::Int(value)) => signed(*value, |size| format!("{size:X}")),
        ('x', Value::Uint(value)) => format!("{value:x}"),
        ('X', Value::Uint(value)) => format!("{value:X}"),
        ('x', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ('X', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02X}")).collect(),
        ('x', Value::Bytes(bytes)) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ('X', Value::Bytes(bytes)) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
        ('d' | 'f' | 'e' | 'b' | 'o' | 'x' | 'X', _) => return Err(refuse()),
        _ => {
            return Err(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            ));
        }
    })
}

fn signed(value: i64, show: fn(u64) -> String) -> String {
    format!(
        "{}{}",
        if value < 0 { "-" } else { "" },
        show(value.unsigned_abs())
    )
}

/// Formats a number with `%f` or `%e`.
fn number(verb: char, precision: Option<usize>, value: f64) -> String {
    let size = value.abs();
    let text = if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        "∞".to_owned()
    } else if verb == 'e' {
        scientific(size)
    } else {
        // The real implementation stores the precision in one byte.
        grouped(&format!("{size:.*}", precision.unwrap_or(6) % 256))
    };
    let text = if value < 0.0 { format!("-{text}") } else { text };
    // The real implementation uses the precision of `%e` as the width.
    match (verb, precision) {
        ('e', Some(width)) => format!("{}{text}", " ".repeat(width.saturating_sub(text.chars().count()))),
        _ => text,
    }
}

/// Writes commas between the thousands of a decimal number.
fn grouped(decimal: &str) -> String {
    let (whole, fraction) = decimal.split_at(decimal.find('.').unwrap_or(decimal.len()));
    let mut text = String::with_capacity(decimal.len() * 4 / 3);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

/// Formats a number as `1.500000×10⁰⁴`.
fn scientific(value: f64) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = format!("{value:.6e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let digits: String = format!("{digits:0>2}")
        .chars()
        .filter_map(|digit| DIGITS.get(usize::try_from(digit.to_digit(10)?).ok()?))
        .collect();
    format!("{mantissa}×10{sign}{digits}")
}
