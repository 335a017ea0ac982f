//! Parses classes in brackets: `[a-z[:digit:]\pL]`.

use super::super::class::{Builder, Class, posix};
use super::{Parsed, Parser, fail};

impl<'p> Parser<'p> {
    /// Parses a class in brackets, after the opening bracket.
    pub(super) fn class(&mut self, start: &'p str) -> Parsed<Class> {
        let negated = self.take("^");
        let mut class = Builder::new();
        // Single characters are added together, because a union takes time proportional to the size of the class.
        let mut ranges = Vec::new();
        let mut is_first = true;
        while is_first || !self.rest.starts_with(']') {
            is_first = false;
            let item = self.rest;
            if let Some((name, rest)) = posix_name(item) {
                self.rest = rest;
                let (name, others) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
                match posix(name) {
                    Some(found) if others => class.add_others(found),
                    Some(found) => ranges.extend_from_slice(found),
                    None => return fail("invalid character class range", self.since(item)),
                }
                continue;
            }
            if let Some(escape) = item.strip_prefix('\\') {
                self.rest = escape;
                if self.escaped_class(&mut class, item)? {
                    continue;
                }
                self.rest = item;
            }
            let low = self.class_char(start)?;
            let mut high = low;
            if self.rest.starts_with('-') && self.rest.len() > 1 && !self.rest.starts_with("-]") {
                self.skip(1);
                high = self.class_char(start)?;
                if high < low {
                    return fail("invalid character class range", self.since(item));
                }
            }
            ranges.push((low, high));
        }
        self.skip(1);
        class.add(&ranges);
        Ok(class.build(self.flags.fold, negated))
    }

    fn class_char(&mut self, start: &'p str) -> Parsed<char> {
        let before = self.rest;
        match self.next() {
            None => fail("missing closing ]", start),
            Some('\\') => self.escaped_char(before),
            Some(c) => Ok(c),
        }
    }
}

/// Returns the name of `[:name:]`, and the rest.
fn posix_name(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("[:")?.split_once(":]")
}
