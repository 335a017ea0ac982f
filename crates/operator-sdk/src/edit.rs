//! Insertions into files that the user owns. Their layout, comments and order stay; what is there already stays too.

pub(crate) mod rust;
