//! Go's regular expressions (RE2), with the syntax and the errors of `regexp.Compile` and matching in bounded time:
//! [`Regexp`].
//!
//! Patterns come from clients. Therefore a pattern is validated when it is parsed, and compiled when it is first used.
//! Programs are small, because repetitions share classes. Matching counts its steps.

mod class;
mod parse;
mod program;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use program::Program;

/// The maximum size of a pattern's program, in instructions. Go's limit is about six times as large.
const MAX_SIZE: usize = 500_000;
/// The maximum size of the programs of all different patterns of one definition or expression.
const MAX_TOTAL: usize = 4_000_000;

/// A valid pattern. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Regexp {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: String,
    size: usize,
    program: OnceLock<Program>,
}

/// The error of a match that reached the step limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// Parses and validates a pattern.
///
/// # Errors
/// Returns the error of Go's `regexp.Compile`.
pub fn compile(pattern: &str) -> Result<Regexp, String> {
    let size = parse::parse(pattern)
        .map_err(|error| format!("error parsing regexp: {error}"))?
        .weight();
    Ok(Regexp {
        inner: Arc::new(Inner {
            source: pattern.to_owned(),
            size,
            program: OnceLock::new(),
        }),
    })
}

/// The patterns of one CRD or expression. Duplicates are shared, and the total size is limited.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    known: HashMap<String, Result<Regexp, String>>,
    size: usize,
}

impl Patterns {
    /// Like [`compile`].
    pub fn compile(&mut self, pattern: &str) -> Result<Regexp, String> {
        if let Some(known) = self.known.get(pattern) {
            return known.clone();
        }
        let compiled = compile(pattern).and_then(|compiled| {
            self.size = self.size.saturating_add(compiled.inner.size);
            if self.size > MAX_TOTAL {
                return Err(format!("error parsing regexp: expression too large: `{pattern}`"));
            }
            Ok(compiled)
        });
        self.known.insert(pattern.to_owned(), compiled.clone());
        compiled
    }

    /// Returns a pattern that was compiled before.
    pub fn get(&self, pattern: &str) -> Option<&Regexp> {
        self.known.get(pattern)?.as_ref().ok()
    }
}

impl Regexp {
    fn program(&self) -> &Program {
        let Inner { source, program, .. } = &*self.inner;
        program.get_or_init(|| {
            let tree = parse::parse(source).map(|tree| tree.kind);
            Program::of(&tree.unwrap_or(parse::Kind::Never))
        })
    }

    /// Returns the number of instructions of the program.
    pub fn size(&self) -> usize {
        self.inner.size
    }

    /// Returns true if a text contains a match.
    ///
    /// # Errors
    /// Returns an error if the steps are exhausted before the result is known.
    pub fn is_match(&self, text: &str, steps: &mut u64) -> Result<bool, Exhausted> {
        Ok(self.program().search(text, 0, true, steps)?.is_some())
    }

    /// Returns the range of the first match that starts at or after a position.
    ///
    /// # Errors
    /// The same errors as [`Regexp::is_match`].
    pub fn find_at(
        &self,
        text: &str,
        start: usize,
        steps: &mut u64,
    ) -> Result<Option<(usize, usize)>, Exhausted> {
        self.program().search(text, start, false, steps)
    }

    /// Returns the ranges of all matches, like Go's `FindAllString`: an empty match does not touch the match before it.
    ///
    /// # Errors
    /// The same errors as [`Regexp::is_match`].
    pub fn find_all(
        &self,
        text: &str,
        limit: usize,
        steps: &mut u64,
    ) -> Result<Vec<(usize, usize)>, Exhausted> {
        let mut found = Vec::new();
        let (mut at, mut last_end) = (0, None);
        while found.len() < limit && at <= text.len() {
            let Some((start, end)) = self.find_at(text, at, steps)? else {
                break;
            };
            if start != end || last_end != Some(start) {
                found.push((start, end));
            }
            last_end = Some(end);
            let width = text
                .get(end..)
                .and_then(|rest| rest.chars().next())
                .map_or(1, char::len_utf8);
            at = if end > at { end } else { at + width };
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
