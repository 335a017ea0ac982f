//! Commands, from their arguments to their report.

pub(crate) mod scaffold;
