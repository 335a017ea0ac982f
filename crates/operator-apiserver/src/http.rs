//! HTTP: reads, authenticates and authorizes a request, executes it on the registry, and writes the response.
//!
//! [`pipeline`] calls the other modules in order.

pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod deadline;
pub(crate) mod discovery;
pub(crate) mod encoding;
pub(crate) mod handler;
pub(crate) mod in_flight;
pub(crate) mod listener;
pub(crate) mod offload;
pub(crate) mod openapi;
pub(crate) mod pipeline;
pub(crate) mod proxy;
pub(crate) mod request_info;
pub(crate) mod request_metrics;
pub(crate) mod router;
pub(crate) mod subresource;
pub(crate) mod table;
pub(crate) mod upgrade;
pub(crate) mod verb;
pub(crate) mod watch;
pub(crate) mod websocket;
