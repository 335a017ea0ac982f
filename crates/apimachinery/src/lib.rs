//! Kubernetes API machinery as pure logic, without I/O and clocks.
//!
//! * [`object`]: fields that every object has; objects are JSON trees
//! * [`json`] and [`yaml`]: parsers with the errors of Go's decoders, and serializers
//! * [`field`]: field paths and field errors, with the texts of Kubernetes
//! * [`names`]: validation of names, labels and addresses
//! * [`selector`]: label and field selectors
//! * [`quantity`] and [`mod@time`]: quantities, times and durations
//! * [`jsonpath`]: the JSONPath of printer columns and scale paths
//! * [`gvk`]: identifiers of kinds and of resources
//! * [`go`]: Go's text formats: quoted strings, numbers, JSON, URLs and addresses
//!
//! ```
//! use apimachinery::field::{Error, Path};
//! use apimachinery::quantity::Quantity;
//! use apimachinery::selector::LabelSelector;
//! use apimachinery::{object, yaml};
//!
//! let pod = yaml::parse("metadata:\n  name: a\n  labels: {app: web}\n")?.value;
//! assert_eq!(object::name(&pod), "a");
//! assert!("app=web,!canary".parse::<LabelSelector>()?.matches(&pod));
//! assert_eq!(Quantity::parse("1.5Gi").map(|memory| memory.to_string()), Ok("1536Mi".to_owned()));
//! let error = Error::required(Path::new("spec").child("containers"), "");
//! assert_eq!(error.to_string(), "spec.containers: Required value");
//! # Ok::<(), String>(())
//! ```

pub mod field;
pub mod go;
pub mod gvk;
pub mod json;
pub mod jsonpath;
pub mod names;
pub mod object;
pub mod quantity;
pub mod selector;
pub mod time;
pub mod webhook;
pub mod yaml;
