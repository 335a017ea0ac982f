//! The only room that starts programs or dials clusters.
