//! A framework for Kubernetes operators on kube-rs: controllers, cache, client, webhooks, leader election, metrics.
//!
//! # An operator on one page
//! An operator brings the cluster to the state that its custom resources describe. Its author writes a type for the
//! resource, and a function that reconciles one object: it compares the current state with the desired one and applies
//! the difference.
//!
//! ```no_run
//! # use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{CustomResource, ResourceExt};
//! use operator_runtime::prelude::*;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! /// Writes a greeting into a ConfigMap.
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
//! async fn reconcile(greeting: Arc<Greeting>, ctx: Context<Greeting>) -> Result<Action> {
//!     let mut config = ConfigMap::default();
//!     config.metadata.name = Some(greeting.name_any());
//!     config.data = Some([("text".to_owned(), format!("Hello, {}!", greeting.spec.name))].into());
//!     ctx.apply_owned(config).await?;
//!     ctx.update_status(|status| {
//!         status.conditions.set(Condition::available(true, "Written", "the greeting is in the ConfigMap"));
//!     })
//!     .await?;
//!     Ok(Action::done())
//! }
//!
//! fn main() -> ExitCode {
//!     Operator::new("greeting-operator")
//!         .crd::<Greeting>()
//!         .controller(Controller::new(reconcile).owns::<ConfigMap>())
//!         .main()
//! }
//! ```
//!
//! # Concepts
//! * An [`Operator`] is the program: its controllers, webhooks and definitions. It runs a [`Manager`], which owns the
//!   shared parts, starts and stops everything in order, elects a leader, and serves health checks and metrics.
//! * A [`Controller`] reconciles the objects of one kind. It receives their changes, the changes of objects that they
//!   own ([`Controller::owns`]), and the events of any other [`Watch`](controller::Watch).
//! * A [`Reconciler`] gets the object and a [`Context`], which applies the objects that it owns ([`Context::apply_owned`]),
//!   deletes those that are no longer desired ([`Context::apply_owned_set`]), updates its status, records events, and waits
//!   for other objects ([`KeyContext::wait_for`]). An error is retried with exponential backoff; an [`Action`] asks for
//!   another reconcile.
//! * The [`Client`] reads from the [`cache`], which has one watch for each kind that is read. It writes to the API
//!   server. Reads see the operator's own writes. Inside a reconcile, a write that would change nothing is not sent, so
//!   that an idle operator sends no requests.
//! * A change is an [`Event`](event::Event). A [`predicate`] accepts or rejects it, and a [`handler`] maps it to
//!   requests. The [`queue`] holds each request once.
//!
//! # Rules
//! * Reconcile from the current state, not from the change: a request carries no event, and several events become one
//!   request.
//! * Derive the names of the objects that you create from their owner, so that a repeated reconcile creates nothing
//!   twice.
//! * Deletion needs code only for resources outside the cluster ([`Context::finalize`]); the garbage collector deletes owned
//!   objects.

pub use k8s_openapi;
pub use kube;
pub use operator_macros::rbac;
pub use schemars;

pub mod cache;
pub mod certificates;
pub mod client;
mod clock;
pub mod cluster;
pub mod condition;
pub mod controller;
pub mod election;
mod error;
pub mod event;
pub mod event_recorder;
pub mod finalizer;
pub mod handler;
mod health;
pub mod logging;
pub mod manager;
pub mod manifests;
pub mod metrics;
mod metrics_server;
mod object;
pub mod operator;
pub mod owner;
mod policy_rule;
pub mod predicate;
pub mod prelude;
pub mod queue;
mod rest_mapper;
pub mod rollout;
mod serve;
pub mod webhook;

pub use cache::Cache;
pub use client::{Client, ClientError};
pub use condition::{Condition, ConditionStatus, Conditions};
pub use controller::{
    Action, Context, Controller, ControllerOptions, KeyContext, KeyReconciler, Reconciler, Request,
};
pub use error::{Error, Result};
pub use event_recorder::EventRecorder;
pub use manager::Manager;
pub use object::{Kind, Meta, Object, ObjectKey, View};
pub use operator::Operator;
pub use rest_mapper::{RestMapper, RestMapperError};
