//! Kubernetes manifests of an operator as typed values: custom resource definitions, RBAC, the kustomize tree.
//!
//! Values go in, values or text come out; nothing here reads a file, a clock or a cluster. The modules, in
//! the order in which data passes through them:
//!
//! * [`operator`]: the description that an operator prints (`<operator> manifests`), as JSON;
//! * [`crd`]: completes a derived CustomResourceDefinition to what controller-gen would have written;
//! * [`types`]: the Rust type and field that a part of a definition comes from;
//! * [`webhook`]: configurations of webhooks;
//! * [`rbac`]: merges the permissions that controllers ask for into roles;
//! * [`config`]: the kustomize tree of an operator as a function of what it is;
//! * [`kustomize`]: edits `kustomization.yaml` files and keeps the comments of their owner;
//! * [`render`]: YAML in the form of the Kubernetes tools (sorted keys, sequences not indented, lines folded);
//! * [`diff`]: a change as a unified diff.
//! ```
//! use operator_manifests::rbac::{Rule, roles};
//! use operator_manifests::render::documents;
//!
//! let words = |text: &str| text.split(';').map(str::to_owned).collect();
//! let pods = Rule { api_groups: words(""), resources: words("pods"), verbs: words("get;list"), ..Rule::default() };
//! let role = documents(&roles("manager-role", &[pods]));
//! assert!(role.contains("kind: ClusterRole") && role.contains("- pods"));
//! ```

pub mod config;
pub mod crd;
pub mod diff;
pub mod kustomize;
pub mod operator;
pub mod rbac;
pub mod render;
pub mod types;
pub mod webhook;
