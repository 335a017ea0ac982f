//! Kubernetes API machinery as pure logic, without I/O and clocks.
//!
//! * [`field`]: field paths and field errors, with the texts of Kubernetes
//! * [`go`]: Go's text forms: quoted strings, numbers, JSON, URLs and addresses
//! * [`jsonpath`]: the JSONPath of printer columns and scale paths
//! * [`names`]: validation of names and labels
//! * [`time`]: times and durations
//!
//! ```
//! use apimachinery::field::{Error, Path};
//! use apimachinery::{names, time};
//!
//! let path = Path::new("metadata").child("name");
//! assert!(names::dns1123_label("my-pod").is_empty());
//! let error = Error::required(path, "name is required");
//! assert_eq!(error.to_string(), "metadata.name: Required value: name is required");
//! assert_eq!(time::parse_duration("1m30s"), Some(90_000_000_000));
//! ```

pub mod field;
pub mod go;
pub mod jsonpath;
pub mod names;
pub mod time;
