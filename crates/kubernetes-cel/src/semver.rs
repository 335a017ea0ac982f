//! Semantic versions: [`Version`].

use std::cmp::Ordering;
use std::fmt;

use apimachinery::go::quote;

/// A version such as `1.2.3-rc.1+build`. Comparisons ignore the build.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) numbers: [u64; 3],
    pre: Vec<Part>,
    build: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other) == Ordering::Equal
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (index, part) in self.pre.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                Part::Number(number) => write!(f, "{number}")?,
                Part::Text(text) => f.write_str(text)?,
            }
        }
        if self.build.is_empty() {
            Ok(())
        } else {
            write!(f, "+{}", self.build)
        }
    }
}

impl Version {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest
            .split_once('+')
            .map_or((*rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest
            .split_once('-')
            .map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [
            number(major, "major")?,
            number(minor, "minor")?,
            number(patch, "patch")?,
        ];
        let pre = pre.map_or(Ok(Vec::new()), |pre| {
            pre.split('.').map(part).collect::<Result<_, _>>()
        })?;
        if let Some(build) = build {
            for part in build.split('.') {
                identifier(part, "Build meta data")?;
            }
        }
        Ok(Self {
            numbers,
            pre,
            build: build.unwrap_or("").to_owned(),
        })
    }

    /// Parses a version after removing a leading `v` and leading zeros and adding missing parts.
    pub(crate) fn normalised(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let (numbers, rest) = text.split_at(end);
        let trimmed = |part: &str| {
            let trimmed = part.trim_start_matches('0');
            if trimmed.is_empty() && !part.is_empty() {
                "0".to_owned()
            } else {
                trimmed.to_owned()
            }
        };
        let mut parts: Vec<String> = numbers.split('.').map(trimmed).collect();
        while parts.len() < 3 {
            parts.push("0".to_owned());
        }
        Self::parse(&format!("{}{rest}", parts.join(".")))
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        // A version without a pre-release is greater than all of its pre-releases.
        let release = |version: &Self| version.pre.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| release(self).cmp(&release(other)))
            .then_with(|| self.pre.cmp(&other.pre))
    }
}

fn number(text: &str, name: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "Invalid character(s) found in {name} number {}",
            quote(text)
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        let mut name = name.to_owned();
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        return Err(format!(
            "{name} number must not contain leading zeroes {}",
            quote(text)
        ));
    }
    text.parse()
        .map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", quote(text)))
}

fn identifier(text: &str, name: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(format!("{name} is empty"));
    }
    if !text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    {
        return Err(format!(
            "Invalid character(s) found in {} {}",
            name.to_lowercase(),
            quote(text)
        ));
    }
    Ok(())
}

fn part(text: &str) -> Result<Part, String> {
    identifier(text, "Prerelease")?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Part::Text(text.to_owned()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!(
            "Numeric PreRelease version must not contain leading zeroes {}",
            quote(text)
        ));
    }
    text.parse()
        .map(Part::Number)
        .map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", quote(text)))
}
