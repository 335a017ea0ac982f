//! Semantic versions ([`Version`]) and version ranges ([`Range`]), with the errors of the library that OLM uses.

use std::cmp::Ordering;
use std::fmt;

use apimachinery::go::{parse_uint, quote};

/// The maximum length of a version or range, in bytes.
const TEXT_MAX: usize = 4096;

/// A semantic version. Comparisons ignore build metadata.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// The major number.
    pub major: u64,
    /// The minor number.
    pub minor: u64,
    /// The patch number.
    pub patch: u64,
    /// The identifiers of the pre-release.
    pub pre: Vec<Identifier>,
    /// The identifiers of the build.
    pub build: Vec<String>,
}

/// An identifier of a pre-release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identifier {
    /// A number, which is lower than all strings.
    Number(u64),
    /// A string.
    Text(String),
}

impl fmt::Display for Identifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::Text(text) => text.fmt(formatter),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (index, identifier) in self.pre.iter().enumerate() {
            write!(formatter, "{}{identifier}", if index == 0 { '-' } else { '.' })?;
        }
        for (index, identifier) in self.build.iter().enumerate() {
            write!(formatter, "{}{identifier}", if index == 0 { '+' } else { '.' })?;
        }
        Ok(())
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        let pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        };
        numbers(self).cmp(&numbers(other)).then_with(pre)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl Ord for Identifier {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => left.cmp(right),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
        }
    }
}

impl PartialOrd for Identifier {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Version {
    /// Parses a version such as `1.2.3-rc.1+build`.
    ///
    /// # Errors
    /// Returns an error with the text of the library `blang/semver`.
    ///
    /// ```
    /// use operator_olm::catalog::version::Version;
    /// assert!(Version::parse("1.0.0-rc.1").unwrap() < Version::parse("1.0.0").unwrap());
    /// assert_eq!(Version::parse("1.0").unwrap_err(), "No Major.Minor.Patch elements found");
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        if text.len() > TEXT_MAX {
            return Err(format!("version has more than {TEXT_MAX} bytes"));
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number(major, "major", "Major")?;
        let minor = number(minor, "minor", "Minor")?;
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        Ok(Self {
            major,
            minor,
            patch: number(patch, "patch", "Patch")?,
            pre: pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(identifier).collect())?,
            build: build.map_or(Ok(Vec::new()), |build| {
                build.split('.').map(build_identifier).collect()
            })?,
        })
    }

    /// Parses a version leniently: it may have surrounding spaces, a leading `v` and leading zeros, and the minor and
    /// patch numbers may be missing.
    ///
    /// # Errors
    /// Returns an error with the text of the library that OLM uses.
    pub fn parse_tolerant(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_MAX {
            return Self::parse(text);
        }
        let text = text.trim();
        let mut parts: Vec<String> = text
            .strip_prefix('v')
            .unwrap_or(text)
            .splitn(3, '.')
            .map(without_leading_zeroes)
            .collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("Short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    /// Returns true if the version is 0.0.0 without a pre-release.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Formats the version without its build metadata.
    pub fn without_build(&self) -> String {
        let version = Self {
            build: Vec::new(),
            ..self.clone()
        };
        version.to_string()
    }
}

/// Removes the leading zeros of a number at the start of a part.
fn without_leading_zeroes(part: &str) -> String {
    let stripped = part.trim_start_matches('0');
    if part.len() < 2 {
        part.to_owned()
    } else if stripped.starts_with(|c: char| c.is_ascii_digit()) {
        stripped.to_owned()
    } else {
        format!("0{stripped}")
    }
}

/// Parses the identifiers of a pre-release. The release of a bundle has the same format.
///
/// # Errors
/// Returns an error with the text of the library that OLM uses.
pub fn pre_release(text: &str) -> Result<Vec<Identifier>, String> {
    text.split('.').map(identifier).collect()
}

fn number(text: &str, name: &str, title: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "Invalid character(s) found in {name} number {}",
            quote(text)
        ));
    }
    if has_leading_zeroes(text) {
        return Err(format!(
            "{title} number must not contain leading zeroes {}",
            quote(text)
        ));
    }
    parse_uint(text)
}

fn has_leading_zeroes(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn is_alphanumeric(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if has_leading_zeroes(text) {
            let text = quote(text);
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {text}"
            ));
        }
        return parse_uint(text).map(Identifier::Number);
    }
    if is_alphanumeric(text) {
        Ok(Identifier::Text(text.to_owned()))
    } else {
        Err(format!(
            "Invalid character(s) found in prerelease {}",
            quote(text)
        ))
    }
}

fn build_identifier(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err("Build meta data is empty".to_owned())
    } else if is_alphanumeric(text) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "Invalid character(s) found in build meta data {}",
            quote(text)
        ))
    }
}

/// A version range, such as `>=1.0.0 <2.0.0 || 3.x`.
#[derive(Clone, Debug)]
pub struct Range {
    /// The alternatives. All comparisons of one of them must hold.
    alternatives: Vec<Vec<Comparison>>,
}

#[derive(Clone, Debug)]
struct Comparison {
    operator: Operator,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Range {
    /// Parses a range.
    ///
    /// # Errors
    /// Returns an error with the text of the library `blang/semver`.
    ///
    /// ```
    /// use operator_olm::catalog::version::{Range, Version};
    /// let range = Range::parse(">=1.0.0 <1.2.0 || 2.x").unwrap();
    /// assert!(range.includes(&Version::parse("2.7.1").unwrap()));
    /// assert!(!range.includes(&Version::parse("1.2.0").unwrap()));
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_MAX {
            return Err(format!("range has more than {TEXT_MAX} bytes"));
        }
        let parts = split(text);
        let mut alternatives = vec![Vec::new()];
        for (index, part) in parts.iter().enumerate() {
            if part == "||" {
                if index == 0 {
                    return Err("First element in range is '||'".to_owned());
                }
                alternatives.push(Vec::new());
            } else if let Some(alternative) = alternatives.last_mut() {
                expand(part, alternative)?;
            }
        }
        if parts.last().is_none_or(|part| part == "||") {
            return Err("Last element in range is '||'".to_owned());
        }
        Ok(Self { alternatives })
    }

    /// Returns true if the version is in the range.
    pub fn includes(&self, version: &Version) -> bool {
        let holds = |comparison: &Comparison| {
            let order = version.cmp(&comparison.version);
            match comparison.operator {
                Operator::Equal => order.is_eq(),
                Operator::NotEqual => order.is_ne(),
                Operator::Greater => order.is_gt(),
                Operator::GreaterOrEqual => order.is_ge(),
                Operator::Less => order.is_lt(),
                Operator::LessOrEqual => order.is_le(),
            }
        };
        self.alternatives.iter().any(|all| all.iter().all(holds))
    }
}

/// Splits a text at spaces, except those between an operator and its version.
fn split(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    for character in text.chars() {
        if character != ' ' {
            part.push(character);
        } else if !part.ends_with(['>', '<', '=', '!']) && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

/// Parses one comparison. A comparison with a wildcard is replaced by one or two without wildcards.
fn expand(part: &str, comparisons: &mut Vec<Comparison>) -> Result<(), String> {
    let Some(digit) = part.find(|character: char| character.is_ascii_digit()) else {
        return Err(format!("Could not get version from string: {}", quote(part)));
    };
    let (operator, text) = part.split_at(digit);
    let fault = |reason: String| format!("Could not parse Range {}: {reason}", quote(part));
    let operator = match operator {
        "" | "=" | "==" => Operator::Equal,
        "!" | "!=" => Operator::NotEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        _ => {
            let reason = format!(
                "Could not parse comparator {} in {}",
                quote(operator),
                quote(part)
            );
            return Err(fault(reason));
        }
    };
    let numbers: Vec<&str> = text.split('.').collect();
    let version = |text: &str| {
        Version::parse(text).map_err(|error| {
            fault(format!(
                "Could not parse version {} in {}: {error}",
                quote(text),
                quote(part)
            ))
        })
    };
    let Some(wildcard) = numbers.iter().position(|number| *number == "x") else {
        let version = version(text)?;
        comparisons.push(Comparison { operator, version });
        return Ok(());
    };
    let known = numbers.iter().take(wildcard).copied();
    let flat: Vec<&str> = known.chain(std::iter::repeat("0")).take(3).collect();
    let from = version(&flat.join("."))?;
    let mut to = from.clone();
    if wildcard == 1 {
        to.major = to.major.saturating_add(1);
    } else {
        to.minor = to.minor.saturating_add(1);
    }
    let mut push = |operator, version: &Version| {
        comparisons.push(Comparison {
            operator,
            version: version.clone(),
        });
    };
    match operator {
        Operator::Greater => push(Operator::GreaterOrEqual, &to),
        Operator::GreaterOrEqual => push(Operator::GreaterOrEqual, &from),
        Operator::Less => push(Operator::Less, &from),
        Operator::LessOrEqual => push(Operator::Less, &to),
        Operator::Equal | Operator::NotEqual => {
            push(Operator::GreaterOrEqual, &from);
            push(Operator::Less, &to);
        }
    }
    Ok(())
}
