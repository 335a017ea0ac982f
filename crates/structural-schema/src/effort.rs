//! Limits the work and the errors of one request: [`Effort`].

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

/// The maximum number of steps of all checks of one object. A step takes nanoseconds.
const STEPS: u64 = 200_000_000;
/// The maximum total size of all errors of one object, in bytes.
const TEXT: usize = 4 << 20;

/// The remaining work.
#[derive(Debug)]
pub(crate) struct Effort {
    steps: Cell<u64>,
    text: Cell<usize>,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            steps: Cell::new(STEPS),
            text: Cell::new(TEXT),
        }
    }
}

impl Effort {
    /// Subtracts steps; returns true if enough were left.
    pub(crate) fn spend(&self, steps: usize) -> bool {
        let left = self.steps.get().checked_sub(steps as u64);
        self.steps.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Subtracts bytes of errors. If none are left, the remaining steps become zero, too.
    pub(crate) fn report(&self, bytes: usize) {
        match self.text.get().checked_sub(bytes) {
            Some(left) => self.text.set(left),
            None => self.steps.set(0),
        }
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.steps.get() == 0
    }

    /// Runs a function that counts its own steps.
    pub(crate) fn run<T>(&self, run: impl FnOnce(&mut u64) -> T) -> T {
        let mut steps = self.steps.get();
        let result = run(&mut steps);
        self.steps.set(steps);
        result
    }
}

/// A path in an object, and the remaining work for its checks.
#[derive(Clone, Debug)]
pub(crate) struct Place<'e> {
    path: String,
    pub(crate) effort: &'e Effort,
}

impl<'e> Place<'e> {
    pub(crate) fn root(effort: &'e Effort) -> Self {
        Self {
            path: String::new(),
            effort,
        }
    }

    /// Returns the path of a property or an item: this path followed by a text.
    pub(crate) fn with(&self, text: &str) -> Self {
        let mut path = self.path.clone();
        apimachinery::field::append(&mut path, text);
        Self { path, ..*self }
    }
}

impl Deref for Place<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}
