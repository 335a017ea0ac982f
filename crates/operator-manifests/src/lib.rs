//! Kubernetes manifests of an operator as typed values: custom resource definitions, RBAC, the kustomize tree.
//!
//! Values go in, values or text come out; nothing here reads a file, a clock or a cluster. The rooms, in the order
//! data walks through them:
//!
//! * [`operator`]: what an operator says of itself (`<operator> manifests`), as JSON;
//! * [`crd`]: completes a derived CustomResourceDefinition to what controller-gen would have written;
//! * [`types`]: which Rust type and field a part of a definition comes from, and which no definition can say;
//! * [`webhook`]: configurations of webhooks;
//! * [`rbac`]: merges the permissions that controllers ask for into roles;
//! * [`config`]: the kustomize tree of an operator as a function of what it is;
//! * [`kustomize`]: edits `kustomization.yaml` files and keeps the comments of their owner;
//! * [`render`]: YAML in the form of the Kubernetes tools (sorted keys, sequences not indented, lines folded);
//! * [`diff`]: what a change would do, as a unified diff.

pub mod config;
pub mod crd;
pub mod diff;
pub mod kustomize;
pub mod operator;
pub mod rbac;
pub mod render;
pub mod types;
pub mod webhook;
