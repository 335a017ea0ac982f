//! Parses the syntax of Go's `regexp/syntax` with Perl's flags, with its errors.

mod bracket;

use std::sync::Arc;

use super::MAX_SIZE;
use super::class::{Builder, Class, DIGIT, SPACE, WORD};

/// The maximum count of a repetition, and of nested repetitions together.
const MAX_REPEAT: usize = 1000;
/// The maximum height of a tree.
const MAX_HEIGHT: usize = 1000;

/// A part of a pattern.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) kind: Kind,
    /// The number of instructions of the part.
    size: usize,
    /// The number of ranges in its classes, which all copies of a repetition share.
    ranges: usize,
    height: usize,
    /// The product of the counts of nested repetitions.
    repeats: usize,
}

#[derive(Debug)]
pub(super) enum Kind {
    Empty,
    /// Matches nothing, not even the empty string.
    Never,
    Char(char),
    Class(Arc<Class>),
    Any {
        newline: bool,
    },
    Look(Look),
    Concat(Vec<Tree>),
    Alternate(Vec<Tree>),
    Group(Box<Tree>),
    Repeat {
        inner: Box<Tree>,
        min: usize,
        max: Option<usize>,
        greedy: bool,
    },
}

/// A condition on the position of a match.
#[derive(Clone, Copy, Debug)]
pub(super) enum Look {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    Boundary,
    NoBoundary,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    fold: bool,
    lines: bool,
    dot_newline: bool,
    lazy: bool,
}

/// A group that is not closed yet.
#[derive(Default)]
struct Open {
    captures: bool,
    /// The flags outside the group.
    flags: Flags,
    branches: Vec<Tree>,
    parts: Vec<Tree>,
}

struct Parser<'p> {
    pattern: &'p str,
    rest: &'p str,
    flags: Flags,
    open: Vec<Open>,
    current: Open,
    /// The number of open capturing groups.
    captures: usize,
    /// The source from the last repetition on.
    last_repeat: Option<&'p str>,
    names: Vec<&'p str>,
}

impl Tree {
    /// Returns the number of instructions, and of other parts with a similar memory size.
    pub(super) fn weight(&self) -> usize {
        self.size.saturating_add(self.ranges)
    }
}

type Parsed<T> = Result<T, String>;

/// Parses a pattern.
///
/// # Errors
/// Returns Go's error text without its prefix.
pub(super) fn parse(pattern: &str) -> Parsed<Tree> {
    let mut parser = Parser {
        pattern,
        rest: pattern,
        flags: Flags::default(),
        open: Vec::new(),
        current: Open::default(),
        captures: 0,
        last_repeat: None,
        names: Vec::new(),
    };
    while !parser.rest.is_empty() {
        parser.item()?;
    }
    if !parser.open.is_empty() {
        return fail("missing closing )", pattern);
    }
    let tree = parser.close();
    parser.check(tree)
}

fn fail<T>(problem: &str, part: &str) -> Parsed<T> {
    Err(format!("{problem}: `{part}`"))
}

fn leaf(kind: Kind) -> Tree {
    Tree {
        kind,
        size: 1,
        ranges: 0,
        height: 1,
        repeats: 1,
    }
}

/// Combines several parts into one.
fn join(mut parts: Vec<Tree>, make: fn(Vec<Tree>) -> Kind, extra: usize) -> Tree {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    let most = |of: fn(&Tree) -> usize| parts.iter().map(of).max().unwrap_or(0);
    Tree {
        height: 1 + most(|part| part.height),
        repeats: most(|part| part.repeats).max(1),
        ranges: parts
            .iter()
            .map(|part| part.ranges)
            .fold(0, usize::saturating_add),
        size: parts
            .iter()
            .map(|part| part.size.saturating_add(extra))
            .fold(0, usize::saturating_add),
        kind: if parts.is_empty() {
            Kind::Empty
        } else {
            make(parts)
        },
    }
}

impl<'p> Parser<'p> {
    fn check(&self, tree: Tree) -> Parsed<Tree> {
        if tree.height > MAX_HEIGHT {
            return fail("expression nests too deeply", self.pattern);
        }
        if tree.weight() > MAX_SIZE {
            return fail("expression too large", self.pattern);
        }
        Ok(tree)
    }

    fn push(&mut self, tree: Tree) {
        self.current.parts.push(tree);
    }

    /// Returns the source between an earlier position and the current one.
    fn since(&self, start: &'p str) -> &'p str {
        start.get(..start.len() - self.rest.len()).unwrap_or(start)
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or("");
    }

    fn take(&mut self, prefix: &str) -> bool {
        let found = self.rest.strip_prefix(prefix);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.skip(c.len_utf8());
        Some(c)
    }

    /// Parses one item of the pattern.
    fn item(&mut self) -> Parsed<()> {
        let start = self.rest;
        let last_repeat = self.last_repeat.take();
        match self.next().unwrap_or_default() {
            '(' => self.open_group(start)?,
            '|' => {
                let branch = std::mem::take(&mut self.current.parts);
                self.current.branches.push(join(branch, Kind::Concat, 0));
            }
            ')' => {
                if self.open.is_empty() {
                    return fail("unexpected )", self.pattern);
                }
                let tree = self.close();
                let tree = self.check(tree)?;
                self.push(tree);
            }
            '^' => self.look(if self.flags.lines {
                Look::LineStart
            } else {
                Look::TextStart
            }),
            '$' => self.look(if self.flags.lines {
                Look::LineEnd
            } else {
                Look::TextEnd
            }),
            '.' => {
                let newline = self.flags.dot_newline;
                self.push(leaf(Kind::Any { newline }));
            }
            '[' => {
                let class = self.class(start)?;
                self.push_class(class);
            }
            '*' => self.repeat(0, None, start, last_repeat)?,
            '+' => self.repeat(1, None, start, last_repeat)?,
            '?' => self.repeat(0, Some(1), start, last_repeat)?,
            '{' => match self.counts() {
                Some((min, max)) => {
                    let is_valid = |count: usize| count <= MAX_REPEAT;
                    if !is_valid(min) || max.is_some_and(|max| !is_valid(max) || min > max) {
                        return fail("invalid repeat count", self.since(start));
                    }
                    self.repeat(min, max, start, last_repeat)?;
                }
                None => self.literal('{'),
            },
            '\\' => self.escape(start)?,
            c => self.literal(c),
        }
        Ok(())
    }

    fn look(&mut self, look: Look) {
        self.push(leaf(Kind::Look(look)));
    }

    fn literal(&mut self, c: char) {
        if !self.flags.fold {
            return self.push(leaf(Kind::Char(c)));
        }
        let mut class = Builder::new();
        class.add(&[(c, c)]);
        let class = class.build(true, false);
        if class.len() == 1 && !c.is_alphabetic() {
            return self.push(leaf(Kind::Char(c)));
        }
        self.push_class(class);
    }

    fn push_class(&mut self, class: Class) {
        if class.len() == 0 {
            return self.push(leaf(Kind::Never));
        }
        let ranges = class.len();
        self.push(Tree {
            ranges,
            ..leaf(Kind::Class(Arc::new(class)))
        });
    }

    /// Ends the innermost group.
    fn close(&mut self) -> Tree {
        let outer = self.open.pop().unwrap_or_default();
        let Open {
            captures,
            flags,
            mut branches,
            parts,
        } = std::mem::replace(&mut self.current, outer);
        self.flags = flags;
        branches.push(join(parts, Kind::Concat, 0));
        let tree = join(branches, Kind::Alternate, 2);
        if !captures {
            return tree;
        }
        self.captures -= 1;
        Tree {
            size: tree.size,
            ranges: tree.ranges,
            height: tree.height + 1,
            repeats: tree.repeats,
            kind: Kind::Group(Box::new(tree)),
        }
    }

    fn open_group(&mut self, start: &'p str) -> Parsed<()> {
        let outside = self.flags;
        let mut captures = true;
        if self.rest.starts_with("?P<") || self.rest.starts_with("?<") {
            self.name(start)?;
        } else if self.take("?") {
            captures = false;
            if !self.flags(start)? {
                return Ok(());
            }
        }
        let group = Open {
            captures,
            flags: outside,
            ..Open::default()
        };
        let outer = std::mem::replace(&mut self.current, group);
        self.open.push(outer);
        self.captures += usize::from(captures);
        if self.captures > MAX_HEIGHT {
            return fail("expression nests too deeply", self.pattern);
        }
        Ok(())
    }

    fn name(&mut self, start: &'p str) -> Parsed<()> {
        let Some((head, rest)) = self.rest.split_once('>') else {
            return fail("invalid named capture", start);
        };
        self.rest = rest;
        let name = head.split_once('<').map_or("", |(_, name)| name);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_word) {
            return fail("invalid named capture", self.since(start));
        }
        if self.names.contains(&name) || self.names.len() >= MAX_HEIGHT {
            return fail("duplicate capture group name", name);
        }
        self.names.push(name);
        Ok(())
    }

    /// Parses the flags of `(?i)` or `(?i:`; returns true if they start a group.
    fn flags(&mut self, start: &'p str) -> Parsed<bool> {
        let mut flags = self.flags;
        let (mut value, mut seen) = (true, false);
        while let Some(c) = self.next() {
            let flag = match c {
                'i' => &mut flags.fold,
                'm' => &mut flags.lines,
                's' => &mut flags.dot_newline,
                'U' => &mut flags.lazy,
                '-' if value => {
                    (value, seen) = (false, false);
                    continue;
                }
                ':' | ')' if value || seen => {
                    self.flags = flags;
                    return Ok(c == ':');
                }
                _ => break,
            };
            *flag = value;
            seen = true;
        }
        fail("invalid or unsupported Perl syntax", self.since(start))
    }

    /// Parses `2}`, `2,}` or `2,5}`. A brace before any other text is literal.
    fn counts(&mut self) -> Option<(usize, Option<usize>)> {
        let (inside, rest) = self.rest.split_once('}')?;
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let is_plain = text.len() == 1 || !text.starts_with('0');
            (is_number && is_plain).then(|| text.parse().unwrap_or(usize::MAX))
        };
        let counts = match inside.split_once(',') {
            None => number(inside).map(|count| (count, Some(count)))?,
            Some((min, "")) => (number(min)?, None),
            Some((min, max)) => (number(min)?, Some(number(max)?)),
        };
        self.rest = rest;
        Some(counts)
    }

    fn repeat(
        &mut self,
        min: usize,
        max: Option<usize>,
        start: &'p str,
        last_repeat: Option<&'p str>,
    ) -> Parsed<()> {
        let greedy = self.take("?") == self.flags.lazy;
        if let Some(last) = last_repeat {
            return fail("invalid nested repetition operator", self.since(last));
        }
        let Some(inner) = self.current.parts.pop() else {
            return fail("missing argument to repetition operator", self.since(start));
        };
        let count = max.unwrap_or(min);
        let is_counted = min >= 2 || max.is_some_and(|max| max >= 2);
        let repeats = match self.rest_is_counted(start) {
            false => inner.repeats,
            true if count == 0 => 0,
            true => count.saturating_mul(inner.repeats.max(1)),
        };
        if is_counted && repeats > MAX_REPEAT {
            return fail("invalid repeat count", self.since(start));
        }
        let copies = max.unwrap_or(min.saturating_add(1));
        let tree = Tree {
            size: inner
                .size
                .saturating_add(2)
                .saturating_mul(copies)
                .saturating_add(1),
            ranges: inner.ranges,
            height: inner.height + 1,
            repeats,
            kind: Kind::Repeat {
                inner: Box::new(inner),
                min,
                max,
                greedy,
            },
        };
        let tree = self.check(tree)?;
        self.push(tree);
        self.last_repeat = Some(start);
        Ok(())
    }

    /// Returns true if a repetition was written with braces.
    fn rest_is_counted(&self, start: &str) -> bool {
        start.starts_with('{')
    }

    /// Parses an escape outside a class.
    fn escape(&mut self, start: &'p str) -> Parsed<()> {
        let mut after = self.rest.chars();
        let look = match after.next() {
            Some('A') => Some(Look::TextStart),
            Some('z') => Some(Look::TextEnd),
            Some('b') => Some(Look::Boundary),
            Some('B') => Some(Look::NoBoundary),
            Some('Q') => {
                let quoted = after.as_str();
                let (text, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                text.chars().for_each(|c| self.literal(c));
                self.rest = rest;
                return Ok(());
            }
            _ => None,
        };
        if let Some(look) = look {
            self.rest = after.as_str();
            self.look(look);
            return Ok(());
        }
        let mut class = Builder::new();
        if self.escaped_class(&mut class, start)? {
            let class = class.build(self.flags.fold, false);
            self.push_class(class);
            return Ok(());
        }
        let c = self.escaped_char(start)?;
        self.literal(c);
        Ok(())
    }

    /// Parses a class after a backslash, such as `d` or `p{Greek}`.
    fn escaped_class(&mut self, class: &mut Builder, start: &'p str) -> Parsed<bool> {
        let before = self.rest;
        match self.next() {
            Some('d') => class.add(DIGIT),
            Some('s') => class.add(SPACE),
            Some('w') => class.add(WORD),
            Some('D') => class.add_others(DIGIT),
            Some('S') => class.add_others(SPACE),
            Some('W') => class.add_others(WORD),
            Some(c @ ('p' | 'P')) => {
                let problem = "invalid character class range";
                let mut name = match self.rest.strip_prefix('{').map(|rest| rest.split_once('}')) {
                    Some(Some((name, rest))) => {
                        self.rest = rest;
                        name
                    }
                    Some(None) => return fail(problem, start),
                    None => {
                        let single = self.rest;
                        self.next();
                        self.since(single)
                    }
                };
                let mut negated = c == 'P';
                if let Some(others) = name.strip_prefix('^') {
                    (name, negated) = (others, !negated);
                }
                if class.add_named(name, negated, self.flags.fold).is_none() {
                    return fail(problem, self.since(start));
                }
            }
            _ => {
                self.rest = before;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Parses an escaped character after the backslash.
    fn escaped_char(&mut self, start: &'p str) -> Parsed<char> {
        let Some(c) = self.next() else {
            return fail("trailing backslash at end of expression", "");
        };
        let is_octal = |rest: &str| rest.starts_with(|c: char| ('0'..='7').contains(&c));
        let code = match c {
            '0'..='7' if c == '0' || is_octal(self.rest) => {
                let mut code = u32::from(c) - u32::from('0');
                for _ in 0..2 {
                    if is_octal(self.rest)
                        && let Some(digit) = self.next().and_then(|c| c.to_digit(8))
                    {
                        code = code * 8 + digit;
                    }
                }
                Some(code)
            }
            'x' => self.hexadecimal(),
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c.into()),
            _ => None,
        };
        match code.and_then(char::from_u32) {
            Some(c) => Ok(c),
            None => fail("invalid escape sequence", self.since(start)),
        }
    }

    /// Parses a hexadecimal code point: `41` or `{10FFFF}`.
    fn hexadecimal(&mut self) -> Option<u32> {
        let digits = if self.take("{") {
            let (digits, rest) = self.rest.split_once('}')?;
            self.rest = rest;
            digits
        } else {
            let digits = self.rest.get(..2)?;
            self.skip(2);
            digits
        };
        let is_hexadecimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)
    }
}
