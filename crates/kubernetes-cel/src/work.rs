//! The work limit of an expression, in addition to its cost ([`Work`]).
//!
//! The cost is defined by the reference implementation and visible to users. It does not cover everything that takes
//! time or memory: comparing two large lists costs 1, and so does the size of a string. This limit covers the rest. It
//! is so high that only expressions that would exhaust the process reach it. They fail as if their cost were too high.

use std::cell::{Cell, RefCell};

use crate::regexp::{Exhausted, Patterns, Regexp};

/// The number of steps for each unit of cost. A step takes nanoseconds.
const STEPS_PER_COST: u64 = 64;
/// The minimum number of steps of an expression, regardless of its cost limit.
const STEPS_MIN: u64 = 1 << 20;
/// The maximum total size of all strings and lists that an expression creates, in bytes.
const BYTES: u64 = 64 << 20;

/// The remaining work.
#[derive(Debug)]
pub struct Work {
    steps: Cell<u64>,
    bytes: Cell<u64>,
    is_exhausted: Cell<bool>,
    /// The compiled patterns that are not constants.
    patterns: RefCell<Patterns>,
}

impl Work {
    /// Returns the limits of an expression with a cost limit.
    pub fn of_cost(limit: u64) -> Self {
        Self {
            steps: Cell::new(limit.saturating_mul(STEPS_PER_COST).max(STEPS_MIN)),
            bytes: Cell::new(BYTES),
            is_exhausted: Cell::new(false),
            patterns: RefCell::default(),
        }
    }

    /// Returns the number of remaining steps.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Limits the number of remaining steps to `steps`.
    pub fn limit_steps(&self, steps: u64) {
        self.steps.set(self.steps.get().min(steps));
    }

    /// Subtracts steps; returns true if enough were left.
    pub(crate) fn spend(&self, steps: usize) -> bool {
        take(&self.steps, steps) || self.exhaust()
    }

    /// Subtracts memory; returns true if enough was left. Must be called before a large value is created.
    pub(crate) fn make(&self, bytes: usize) -> bool {
        take(&self.bytes, bytes) || self.exhaust()
    }

    fn exhaust(&self) -> bool {
        self.is_exhausted.set(true);
        false
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }

    /// Compiles a pattern that is not a constant.
    pub(crate) fn pattern(&self, source: &str) -> Result<Regexp, String> {
        let mut patterns = self.patterns.borrow_mut();
        if let Some(known) = patterns.get(source) {
            return Ok(known.clone());
        }
        if !self.spend(source.len()) {
            return Err(String::new());
        }
        let pattern = patterns.compile(source)?;
        self.make(source.len() + pattern.size().saturating_mul(32));
        self.spend(pattern.size());
        Ok(pattern)
    }

    /// Runs a function that counts its own steps.
    pub(crate) fn run<T: Default>(&self, run: impl FnOnce(&mut u64) -> Result<T, Exhausted>) -> T {
        let mut steps = self.steps.get();
        let result = run(&mut steps);
        self.steps.set(steps);
        result.unwrap_or_else(|Exhausted| {
            self.exhaust();
            T::default()
        })
    }
}

impl Default for Work {
    fn default() -> Self {
        Self::of_cost(1_000_000)
    }
}

fn take(left: &Cell<u64>, count: usize) -> bool {
    let rest = left.get().checked_sub(count as u64);
    left.set(rest.unwrap_or(0));
    rest.is_some()
}
