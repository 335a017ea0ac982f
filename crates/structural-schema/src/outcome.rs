//! The result of the checks of a write: [`Outcome`].

use apimachinery::field::ErrorList;

/// The result of the checks of a write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The reasons for rejecting the write; empty if it is valid.
    pub errors: ErrorList,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}
