//! Attribute and derive macros of operator-runtime
