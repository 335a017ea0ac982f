//! Manager, controllers, cache, client and queue for Kubernetes operators, on kube-rs.
//!
//! # An operator in one page
//! An operator keeps the cluster as its custom resources ask for. Its author writes two things: a type for the
//! resource, and a [`Reconciler`] that is called with the key of an object whenever something about it may have changed,
//! looks at how things are, and brings them to how they should be.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::CustomResource;
//! use operator_runtime::prelude::*;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! /// Greets whoever it names.
//! #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced, status = "GreetingStatus")]
//! pub struct GreetingSpec {
//!     pub name: String,
//! }
//!
//! #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
//! pub struct GreetingStatus {
//!     #[serde(default, skip_serializing_if = "Conditions::is_empty")]
//!     pub conditions: Conditions,
//! }
//!
//! struct GreetingReconciler;
//!
//! #[rbac(groups = "example.com", resources = "greetings", verbs = "get;list;watch")]
//! #[rbac(groups = "example.com", resources = "greetings/status", verbs = "get;patch;update")]
//! #[rbac(groups = "core", resources = "configmaps", verbs = "get;list;watch;create;patch")]
//! impl Reconciler for GreetingReconciler {
//!     async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
//!         let Some(greeting) = ctx.get::<Greeting>(&request).await? else { return Ok(Action::done()) };
//!         let mut text = ConfigMap::default();
//!         text.metadata.name = Some(request.name().to_owned());
//!         text.data = Some([("text".to_owned(), format!("Hello, {}!", greeting.spec.name))].into());
//!         ctx.apply_owned(&*greeting, text).await?;
//!         let available = Condition::available(true, "Written", "The greeting is in the ConfigMap");
//!         ctx.status(&*greeting).condition(available).patch().await?;
//!         Ok(Action::done())
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let manager = Manager::builder("greeting-operator").build().await?;
//!     Controller::managed_by(&manager).for_::<Greeting>().owns::<ConfigMap>().complete(GreetingReconciler)?;
//!     manager.run().await
//! }
//! ```
//!
//! `tests/memcached.rs` of this crate is a complete operator, with command line and test.
//!
//! # The concepts, in the order in which an event meets them
//! * A [`Manager`] owns what controllers share and runs them: it starts everything in order, stops on SIGTERM, lets
//!   reconciles finish, and serves `/healthz` and `/readyz`.
//! * The [`cache`] watches each kind that somebody reads, once, keeps its objects packed, and hands them out as `Arc<K>`.
//!   A watch that fails backs off by itself and shows in `/readyz`; the others go on. An object that does not fit its type
//!   is left out, and told in the log, as an Event and as a metric; the watch goes on. [`CacheOptions`](cache::CacheOptions) select,
//!   transform and resync; [`Cache::add_index`] finds objects by a value.
//! * A kind is read as a Rust type ([`Object`]), as its metadata alone (`PartialObjectMeta`), or whole without a type
//!   (`DynamicObject` with a [`Kind`]); whatever the readers, it is one watch.
//! * A change becomes an [`Event`](event::Event) with the old and the new state. A [`predicate`] drops it or lets it
//!   pass, a [`handler`] turns it into requests: for the object itself (`for_`), for its owner (`owns`), or for whatever
//!   a function says (`watches`). A [`Watch`](controller::Watch) says more of a kind; streams and functions are sources
//!   as well ([`Controller::requests_from`], [`Controller::watches_raw`]).
//! * The [`queue`] holds each request once. Fresh events go before the first list, failures wait with exponential backoff,
//!   and no key is reconciled twice at once.
//! * A worker calls [`Reconciler::reconcile`] with a [`Context`] and the [`Request`]. Errors and panics are tried again;
//!   [`Action`] says what else follows.
//! * The [`Client`] that the context is reads from the cache and writes to the API server. A read sees every write that
//!   was answered before it. No function that can tell that nothing would change sends a request, so an operator at rest
//!   is silent: [`Client::apply`] and [`Client::status`] are the ones to use, [`Client::create_or_update`] and the others
//!   are there for what they do not fit.
//!
//! # Rules of the house
//! * Reconcile from what is, not from what happened: the request carries no event, and several events are one request.
//! * Name what you create after its owner, so that doing it twice is doing it once.
//! * Deletion needs code only for what Kubernetes cannot see: owned objects are collected by the cluster.
//!
//! # The examples
//! Every public item has one, and most that need a cluster run against an embedded API server when this crate is
//! tested. What they have in common they do not show: `manager` is a [`Manager`] that runs, and `ctx` its [`Client`],
//! as a reconciler has it; `config_map(name, size)` and `deployment(name)` make objects for the namespace `default`,
//! `size(&config)` reads that one entry, and `recorder()` makes a [`Reconciler`] and the stream of the requests that it
//! is called with.

pub use k8s_openapi;
pub use kube;
pub use operator_macros::rbac;
pub use schemars;

pub mod cache;
pub mod certificates;
pub mod client;
mod clock;
pub mod condition;
pub mod controller;
pub mod election;
mod error;
pub mod event;
pub mod event_recorder;
pub mod finalizer;
pub mod handler;
mod health;
pub mod kube_adapter;
pub mod logging;
pub mod manager;
pub mod manifests;
pub mod metrics;
pub mod metrics_server;
mod object;
pub mod operator_condition;
pub mod owner;
pub mod predicate;
pub mod prelude;
pub mod proxy;
pub mod prune;
pub mod queue;
mod rest_mapper;
mod serve;
pub mod webhook;

pub use cache::Cache;
pub use client::{Client, ClientError, StatusWriter};
pub use condition::{Condition, ConditionStatus, Conditions};
pub use controller::{Action, Context, Controller, ControllerOptions, Reconciler, Request};
pub use error::{Error, Result};
pub use event_recorder::EventRecorder;
pub use manager::Manager;
pub use object::{Kind, Meta, Object, ObjectKey, View};
pub use rest_mapper::{RestMapper, RestMapperError};
