//! The work that an expression may cause, beside its cost.
//!
//! The cost is that of the reference implementation, and users see it. It does not cover everything that takes time or
//! memory: comparing two large lists costs 1, as does the size of a text. This budget covers the rest. It is so large
//! that only expressions on the way to exhausting the process meet it; they fail as if their cost were too high.

use std::cell::{Cell, RefCell};

use crate::regexp::{Exhausted, Patterns, Regexp};

/// The steps for each unit of cost: each takes some nanoseconds.
const STEPS_PER_COST: u64 = 64;
/// The steps of an expression whatever its limit of cost is.
const STEPS_MIN: u64 = 1 << 20;
/// The bytes of all texts and lists that an expression makes.
const BYTES: u64 = 64 << 20;

/// The work that is left.
#[derive(Debug)]
pub struct Work {
    steps: Cell<u64>,
    bytes: Cell<u64>,
    is_exhausted: Cell<bool>,
    /// The patterns that are no constants.
    patterns: RefCell<Patterns>,
}

impl Work {
    /// Returns the limits of an expression with a limit of cost.
    pub fn of_cost(limit: u64) -> Self {
        Self {
            steps: Cell::new(limit.saturating_mul(STEPS_PER_COST).max(STEPS_MIN)),
            bytes: Cell::new(BYTES),
            is_exhausted: Cell::new(false),
            patterns: RefCell::default(),
        }
    }

    /// Returns the number of steps that are left.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Lowers the number of steps that are left to `steps`.
    pub fn limit_steps(&self, steps: u64) {
        self.steps.set(self.steps.get().min(steps));
    }

    /// Takes some steps; reports whether there were so many left.
    pub(crate) fn spend(&self, steps: usize) -> bool {
        take(&self.steps, steps) || self.exhaust()
    }

    /// Takes memory; reports whether there was so much left. Ask before something large is made.
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

    /// Runs something that counts its own steps.
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
