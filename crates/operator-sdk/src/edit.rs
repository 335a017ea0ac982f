//! Insertions into files that the user owns. Existing content keeps its layout, comments and order.

pub(crate) mod rust;
