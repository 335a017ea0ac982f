//! Classes of characters ([`Class`]), with the Unicode tables of `regex-syntax`.

use regex_syntax::hir::{Class as HirClass, ClassUnicode, ClassUnicodeRange, HirKind};

/// A set of characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Class {
    /// The ranges, which are sorted and neither overlap nor touch.
    ranges: Vec<(char, char)>,
}

impl Class {
    fn of(set: &ClassUnicode) -> Self {
        Self {
            ranges: set
                .ranges()
                .iter()
                .map(|range| (range.start(), range.end()))
                .collect(),
        }
    }

    pub(super) fn contains(&self, c: char) -> bool {
        if let [(start, end)] = self.ranges.as_slice() {
            return *start <= c && c <= *end;
        }
        let at = self.ranges.partition_point(|(_, end)| *end < c);
        self.ranges.get(at).is_some_and(|(start, _)| *start <= c)
    }

    /// Returns the number of ranges.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }
}

/// A class under construction.
#[derive(Clone, Debug)]
pub(super) struct Builder(ClassUnicode);

impl Builder {
    pub(super) fn new() -> Self {
        Self(ClassUnicode::empty())
    }

    /// Adds the characters in some ranges.
    pub(super) fn add(&mut self, ranges: &[(char, char)]) {
        self.0.union(&set_of(ranges));
    }

    /// Adds the characters outside some ranges.
    pub(super) fn add_others(&mut self, ranges: &[(char, char)]) {
        let mut others = set_of(ranges);
        others.negate();
        self.0.union(&others);
    }

    /// Adds a category or a script by its name, or its complement. Returns `None` if the name is unknown.
    pub(super) fn add_named(&mut self, name: &str, negated: bool, fold: bool) -> Option<()> {
        let mut set = named(name)?;
        if fold {
            set.try_case_fold_simple().ok()?;
        }
        if negated {
            set.negate();
        }
        self.0.union(&set);
        Some(())
    }

    /// Returns the class, with case folding and negation applied.
    pub(super) fn build(mut self, fold: bool, negated: bool) -> Class {
        if fold && self.0.try_case_fold_simple().is_err() {
            self.0 = ClassUnicode::empty();
        }
        if negated {
            self.0.negate();
        }
        Class::of(&self.0)
    }
}

fn set_of(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(
        ranges
            .iter()
            .map(|(start, end)| ClassUnicodeRange::new(*start, *end)),
    )
}

/// Returns a general category or a script by its name.
fn named(name: &str) -> Option<ClassUnicode> {
    if !name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_- ".contains(c))
    {
        return None;
    }
    ["gc=", "sc="].iter().find_map(|property| {
        let hir = regex_syntax::parse(&format!("\\p{{{property}{name}}}")).ok()?;
        match hir.into_kind() {
            HirKind::Class(HirClass::Unicode(set)) => Some(set),
            _ => None,
        }
    })
}

/// The characters of `\d`.
pub(super) const DIGIT: &[(char, char)] = &[('0', '9')];
/// The characters of `\s`.
pub(super) const SPACE: &[(char, char)] = &[('\t', '\n'), ('\u{c}', '\r'), (' ', ' ')];
/// The characters of `\w`.
pub(super) const WORD: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];

/// Returns a class such as `[:alpha:]` by its name.
pub(super) fn posix(name: &str) -> Option<&'static [(char, char)]> {
    Some(match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\u{7f}')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\u{1f}'), ('\u{7f}', '\u{7f}')],
        "digit" => DIGIT,
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "word" => WORD,
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    })
}
