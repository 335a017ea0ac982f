//! Version constraints of ClusterExtensions in OLM v1 ([`Constraint`]): `>=1.2, <2`, `~1.2`, `^1`, `1.x || 3.x`.

use super::version::Version;

/// The maximum length of a constraint, in bytes.
const TEXT_MAX: usize = 4096;

/// A constraint: all comparisons of one of its alternatives must hold.
#[derive(Clone, Debug)]
pub struct Constraint {
    alternatives: Vec<Vec<Comparison>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Tilde,
    Caret,
}

/// The operators. Longer ones precede their prefixes.
const OPERATORS: [(&str, Operator); 12] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("=<", Operator::LessOrEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
    ("", Operator::Equal),
];

#[derive(Clone, Debug)]
struct Comparison {
    operator: Operator,
    version: Version,
    /// The number of given parts: 0 for `*`, 1 for `1.x`, 2 for `1.2`, 3 for `1.2.3`.
    given: usize,
}

impl Constraint {
    /// Parses a constraint.
    ///
    /// # Errors
    /// Returns an error if a part is not a comparison with a version.
    ///
    /// ```
    /// use operator_olm::catalog::constraint::Constraint;
    /// use operator_olm::catalog::version::Version;
    /// let constraint = Constraint::parse("^1.2 || 3.x").unwrap();
    /// let holds = |text: &str| constraint.includes(&Version::parse(text).unwrap());
    /// assert!(holds("1.9.0") && holds("3.0.1"));
    /// assert!(!holds("1.1.9") && !holds("2.0.0") && !holds("1.9.0-rc.1"));
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let improper = || format!("improper constraint: {text}");
        if text.len() > TEXT_MAX {
            return Err(format!("constraint has more than {TEXT_MAX} bytes"));
        }
        let alternatives = text
            .split("||")
            .map(|part| comparisons(part).ok_or_else(improper));
        let alternatives = alternatives.collect::<Result<_, _>>()?;
        Ok(Self { alternatives })
    }

    /// Returns true if a version satisfies the constraint. A pre-release satisfies only constraints that name one.
    pub fn includes(&self, version: &Version) -> bool {
        self.alternatives
            .iter()
            .any(|all| all.iter().all(|comparison| comparison.holds(version)))
    }
}

/// Parses the comparisons of an alternative, which are separated by commas or spaces.
fn comparisons(text: &str) -> Option<Vec<Comparison>> {
    let mut found = Vec::new();
    let mut rest = text.replace(" - ", "\u{0}");
    rest = rest.trim().to_owned();
    let mut rest = rest.as_str();
    while !rest.is_empty() {
        let (sign, operator) = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign))?;
        let after = rest[sign.len()..].trim_start();
        let end = after.find([' ', ',', '\t']).unwrap_or(after.len());
        let (version, left) = after.split_at(end);
        match version.split_once('\u{0}') {
            // `1.2 - 1.4` includes both ends.
            Some((low, high)) if sign.is_empty() => {
                found.push(comparison(Operator::GreaterOrEqual, low)?);
                found.push(comparison(Operator::LessOrEqual, high)?);
            }
            Some(_) => return None,
            None => found.push(comparison(*operator, version)?),
        }
        let left = left.trim_start();
        rest = match left.strip_prefix(',') {
            Some(next) if next.trim().is_empty() => return None,
            Some(next) => next.trim_start(),
            None => left,
        };
    }
    (!found.is_empty()).then_some(found)
}

fn comparison(operator: Operator, text: &str) -> Option<Comparison> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let parts: Vec<&str> = numbers.split('.').collect();
    let is_wildcard = |part: &&str| ["x", "X", "*"].contains(part);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let given = parts.iter().position(is_wildcard).unwrap_or(parts.len());
    let is_valid = parts.len() <= 3 && parts.iter().all(|part| is_wildcard(part) || is_number(part));
    if !is_valid {
        return None;
    }
    let full: Vec<&str> = parts
        .iter()
        .take(given)
        .copied()
        .chain(std::iter::repeat("0"))
        .take(3)
        .collect();
    let version = Version::parse_tolerant(&format!("{}{rest}", full.join("."))).ok()?;
    Some(Comparison {
        operator,
        version,
        given,
    })
}

impl Comparison {
    fn holds(&self, version: &Version) -> bool {
        if !version.pre.is_empty() && self.version.pre.is_empty() {
            return false;
        }
        let (wanted, given) = (&self.version, self.given);
        let is_partial = given < 3;
        match self.operator {
            Operator::Equal if is_partial => self.is_same(version, given),
            Operator::Equal => version == wanted,
            Operator::NotEqual if is_partial => !self.is_same(version, given),
            Operator::NotEqual => version != wanted,
            // `>1.2` excludes all of 1.2.
            Operator::Greater => version > wanted && !(is_partial && self.is_same(version, given)),
            Operator::GreaterOrEqual => version >= wanted,
            Operator::Less => version < wanted,
            // `<=1.2` includes all of 1.2.
            Operator::LessOrEqual => version <= wanted || is_partial && self.is_same(version, given),
            Operator::Tilde => version >= wanted && self.is_same(version, given.min(2)),
            Operator::Caret => version >= wanted && self.is_same(version, self.stable()),
        }
    }

    /// Returns true if the first `count` numbers of a version equal those of the constraint.
    fn is_same(&self, version: &Version, count: usize) -> bool {
        let numbers = |version: &Version| [version.major, version.minor, version.patch];
        numbers(version)
            .iter()
            .take(count)
            .eq(numbers(&self.version).iter().take(count))
    }

    /// Returns the count of numbers that change only with an incompatible change: up to the first that is not zero.
    fn stable(&self) -> usize {
        match (self.version.major, self.version.minor) {
            _ if self.given <= 1 => self.given,
            (1.., _) => 1,
            (0, 1..) => 2,
            (0, 0) => self.given,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comparison_has_the_meaning_of_the_documentation_of_olm() {
        let cases = [
            ("1.2.3", "1.2.3", "1.2.4"),
            ("=1.2.3", "1.2.3", "1.2.2"),
            ("!=1.2.3", "1.2.4", "1.2.3"),
            (">1.2.3", "1.2.4", "1.2.3"),
            (">1.2", "1.3.0", "1.2.9"),
            ("<1.2", "1.1.9", "1.2.0"),
            (">= 1.2.x", "1.2.0", "1.1.9"),
            ("<= 2.x", "2.9.9", "3.0.0"),
            ("<=1.2.3", "1.2.3", "1.2.4"),
            ("1.2.x", "1.2.9", "1.3.0"),
            ("1.2", "1.2.9", "1.3.0"),
            ("!=1.x", "2.0.0", "1.4.0"),
            ("*", "9.0.0", "9.0.0-rc.1"),
            ("~1.2.3", "1.2.9", "1.3.0"),
            ("~1", "1.9.0", "2.0.0"),
            ("~2.3", "2.3.9", "2.4.0"),
            ("~>1.2.x", "1.2.0", "1.3.0"),
            ("^1.2.3", "1.9.0", "2.0.0"),
            ("^1.2.3", "1.2.3", "1.2.2"),
            ("^0.2.3", "0.2.9", "0.3.0"),
            ("^0.0.3", "0.0.3", "0.0.4"),
            ("^0.0", "0.0.9", "0.1.0"),
            ("^0", "0.9.0", "1.0.0"),
            ("^2.x", "2.9.0", "3.0.0"),
            (">=3.0, <3.6", "3.5.9", "3.6.0"),
            (">=3.0 <3.6", "3.0.0", "2.9.9"),
            ("<1.0 || >=2.0", "2.0.0", "1.5.0"),
            ("1.2 - 1.4.5", "1.4.5", "1.4.6"),
            (">=1.0.0-0", "1.0.0-rc.1", "0.9.0"),
            ("v1.0.0", "1.0.0", "1.0.1"),
        ];
        for (text, within, outside) in cases {
            let constraint = Constraint::parse(text).unwrap();
            let holds = |version: &str| constraint.includes(&Version::parse(version).unwrap());
            assert!(holds(within), "{text} must include {within}");
            assert!(!holds(outside), "{text} must not include {outside}");
        }
    }

    #[test]
    fn a_text_that_is_no_constraint_is_refused() {
        for text in [
            "", "||", "a", ">", "1.2.3.4", ">=1.0,", "1..2", ">=>1", "1.0 - ", "=1 - 2",
        ] {
            let error = Constraint::parse(text).unwrap_err();
            assert_eq!(error, format!("improper constraint: {text}"));
        }
        assert!(Constraint::parse(&"1 ".repeat(4096)).is_err());
    }
}
