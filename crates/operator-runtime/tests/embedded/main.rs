//! Tests of the runtime on the embedded API server.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of these tests fail as the tests do"
)]

mod answers;
mod builder;
mod cache;
mod client;
mod controller;
mod deletions;
mod election;
mod events;
mod finalizer;
mod logging;
mod manager;
mod manifests;
mod metrics;
#[cfg(unix)]
mod operator;
mod owned;
mod process;
mod proxies;
mod requests;
mod robustness;
mod selection;
mod servers;
mod skips;
mod sources;
mod support;
mod watching;
mod webhooks;
mod wire;
mod writes;
