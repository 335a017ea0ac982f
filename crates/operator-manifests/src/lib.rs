//! Kubernetes manifests of an operator as typed values: custom resource definitions, RBAC, the kustomize tree.
//!
//! All functions are pure: they do not access files, clocks or clusters. The modules, in the order of the data flow:
//!
//! * [`operator`]: the description that an operator prints (`<operator> manifests`), as JSON;
//! * [`crd`]: completes a derived CustomResourceDefinition, so that it equals the output of controller-gen;
//! * [`types`]: finds the Rust type and field for a part of a definition;
//! * [`webhook`]: webhook configurations;
//! * [`rbac`]: merges the permissions of controllers into roles;
//! * [`config`]: the kustomize tree of an operator;
//! * [`kustomize`]: renders trees, and edits `kustomization.yaml` files without losing comments;
//! * [`render`]: YAML in the form of the Kubernetes tools (sorted keys, sequences not indented, lines folded);
//! * [`diff`]: unified diffs.
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
