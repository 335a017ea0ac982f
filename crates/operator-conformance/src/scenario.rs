//! Recorded scenarios, as they are written in files: [`Scenario`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The variables of a run: `ns`, `group`, and captured values.
pub(crate) type Variables = BTreeMap<String, String>;

/// A recorded scenario.
#[derive(Debug, Deserialize)]
pub struct Scenario {
    /// The name, which is the name of the file.
    pub name: String,
    /// Required features of the server, such as `controllers`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step: a request, the start of a watch, the reading of its events, or a pause. The fields determine the type of
/// the step.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Step {
    /// The name of the step in messages.
    pub id: Option<String>,
    /// The HTTP method of a request.
    pub method: Option<String>,
    /// The path of a request or a watch, in which variables are replaced.
    pub path: Option<String>,
    /// The query parameters.
    pub query: BTreeMap<String, Value>,
    /// The headers in addition to `Accept: application/json`.
    pub headers: BTreeMap<String, String>,
    /// The JSON body. The order of its fields is kept, because some responses depend on it.
    pub body: Option<Ordered>,
    /// The body as text.
    pub body_text: Option<String>,
    /// The body in base64.
    pub body_b64: Option<String>,
    /// The variables to set from the response: name → dotted path.
    pub capture: BTreeMap<String, String>,
    /// The dotted paths of the response that are not compared.
    pub ignore: Vec<String>,
    /// Repeats the request until the response has a value.
    pub retry: Option<Retry>,
    /// The user to impersonate.
    pub user: Option<String>,
    /// The groups to impersonate.
    pub groups: Vec<String>,
    /// Starts a watch with this name.
    pub watch: Option<String>,
    /// Reads events of the watch with this name.
    pub events: Option<String>,
    /// The number of events to read.
    pub count: usize,
    /// The time limit for events, or the duration of a pause, in seconds.
    pub seconds: Option<f64>,
    /// Stops reading events if there was none for this time, in seconds.
    pub quiet: Option<f64>,
    /// The normalised response of the recorded server.
    pub expect: Value,
}

/// Repeats a request until a part of the response has a value.
#[derive(Clone, Debug, Deserialize)]
pub struct Retry {
    /// The dotted path of the part.
    pub until: String,
    /// The expected value.
    pub equals: Value,
    /// The time limit in seconds. Default: 10.
    pub seconds: Option<f64>,
}

/// JSON whose objects keep the order of their fields.
#[derive(Clone, Debug, PartialEq)]
pub enum Ordered {
    /// Anything that is neither an object nor an array.
    Scalar(Value),
    /// An array.
    Array(Vec<Ordered>),
    /// An object.
    Object(Vec<(String, Ordered)>),
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tree;

        impl<'de> Visitor<'de> for Tree {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(value.into()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(value.into()))
            }

            fn visit_unit<E>(self) -> Result<Ordered, E> {
                Ok(Ordered::Scalar(Value::Null))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Ordered, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = sequence.next_element()? {
                    items.push(item);
                }
                Ok(Ordered::Array(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Ordered::Object(fields))
            }
        }

        deserializer.deserialize_any(Tree)
    }
}

impl From<Value> for Ordered {
    fn from(value: Value) -> Self {
        match value {
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Object(fields) => Self::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| (name, Self::from(value)))
                    .collect(),
            ),
            scalar => Self::Scalar(scalar),
        }
    }
}

impl fmt::Display for Ordered {
    /// Formats JSON with a space after each colon and comma, like the recorder, because some errors quote the body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(value) => write!(f, "{value}"),
            Self::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Object(fields) => {
                f.write_str("{")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{}: {value}", Value::from(name.as_str()))?;
                }
                f.write_str("}")
            }
        }
    }
}

/// An error of reading recordings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or folder cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not a scenario.
    #[error("{} is not a scenario", .path.display())]
    Parse {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
}

/// Reads all scenarios of a folder, ordered by name.
pub fn read_folder(folder: &Path) -> Result<Vec<Scenario>, Error> {
    let read = |source| Error::Read {
        path: folder.to_owned(),
        source,
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(read)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(read)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths.into_iter().map(|path| read_file(&path)).collect()
}

fn read_file(path: &Path) -> Result<Scenario, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_slice(&bytes).map_err(|source| Error::Parse {
        path: path.to_owned(),
        source,
    })
}
