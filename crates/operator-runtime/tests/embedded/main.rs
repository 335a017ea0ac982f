//! The runtime on the embedded API server.

mod client;
mod controller;
mod finalizer;
mod support;
