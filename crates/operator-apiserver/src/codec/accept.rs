//! The `Accept` header.

use std::cmp::Reverse;

use crate::codec::protobuf;
use crate::query::Query;
use crate::status::{self, Status};

/// The format of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) yaml: bool,
    pub(crate) pretty: bool,
    pub(crate) protobuf: bool,
    pub(crate) transform: Transform,
    /// True if a transformed object is of `meta.k8s.io/v1beta1`, which old clients request.
    pub(crate) beta: bool,
}

/// The conversion of an object before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transform {
    #[default]
    None,
    Table,
    PartialObjectMetadata,
    PartialObjectMetadataList,
}

impl Form {
    /// The apiVersion of the transformed object.
    pub(crate) fn meta_version(self) -> &'static str {
        if self.beta {
            "meta.k8s.io/v1beta1"
        } else {
            "meta.k8s.io/v1"
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        if self.protobuf {
            protobuf::MEDIA_TYPE
        } else if self.yaml {
            "application/yaml"
        } else {
            "application/json"
        }
    }

    /// Returns the media type of a watch.
    pub(crate) fn stream_type(self) -> Result<&'static str, Status> {
        match self {
            Self { yaml: true, .. } => Err(status::not_acceptable(STREAM_TYPES)),
            Self { protobuf: true, .. } => Ok(protobuf::STREAM_TYPE),
            _ => Ok(self.content_type()),
        }
    }
}

/// One clause of an `Accept` header.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters = parts
            .filter_map(|part| part.split_once('='))
            .map(|(key, value)| (key.trim(), value.trim()))
            .collect();
        Self { media, parameters }
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.parameters
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    }

    /// Returns the weight in thousandths.
    fn weight(&self) -> u16 {
        let weight: f64 = self.get("q").and_then(|text| text.parse().ok()).unwrap_or(1.0);
        (weight.clamp(0.0, 1.0) * 1000.0) as u16
    }

    /// Returns the format that this clause requests, if the server supports it.
    fn form(&self, offered: Representations) -> Option<Form> {
        let (yaml, protobuf) = match self.media {
            "application/json" | "*/*" => (false, false),
            "application/yaml" => (true, false),
            protobuf::MEDIA_TYPE => (false, true),
            "application/*" if offered == Representations::Document => (false, false),
            _ => return None,
        };
        if self.get("stream").is_some_and(|stream| stream != "watch") {
            return None;
        }
        let converts = ["as", "g", "v"].iter().any(|name| self.get(name).is_some());
        let transform = match self.get("as") {
            None if converts => return None,
            None => Transform::None,
            Some(_) if offered == Representations::Document => return None,
            Some(kind) => {
                let known = matches!(self.get("v"), Some("v1" | "v1beta1"));
                if self.get("g") != Some("meta.k8s.io") || !known {
                    return None;
                }
                match kind {
                    "Table" => Transform::Table,
                    "PartialObjectMetadata" => Transform::PartialObjectMetadata,
                    "PartialObjectMetadataList" => Transform::PartialObjectMetadataList,
                    _ => return None,
                }
            }
        };
        let has_form = match transform {
            Transform::None => !(protobuf && offered == Representations::Custom),
            Transform::Table => !protobuf && offered != Representations::Untabled,
            _ => true,
        };
        has_form.then(|| Form {
            yaml,
            protobuf,
            transform,
            beta: transform != Transform::None && self.get("v") == Some("v1beta1"),
            ..Form::default()
        })
    }
}

const BUILTIN_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAM_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// The representations of a path. They decide the text of a 406 error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representations {
    /// A built-in resource; `watchable` collections can also be streamed.
    Builtin { watchable: bool },
    /// A built-in resource without columns.
    Untabled,
    /// A custom resource.
    Custom,
    /// Discovery documents and errors.
    Document,
}

/// Returns the first clause of the header that the server can serve; no header means JSON.
pub(crate) fn negotiate(
    accept: &str,
    user_agent: &str,
    query: &Query,
    offered: Representations,
) -> Result<Form, Status> {
    let mut form = if accept.is_empty() {
        Form::default()
    } else {
        let mut clauses: Vec<Clause<'_>> = accept
            .split(',')
            .map(|clause| Clause::parse(clause.trim()))
            .collect();
        clauses.sort_by_key(|clause| {
            let wildcards = clause.media.matches('*').count();
            (Reverse(clause.weight()), wildcards)
        });
        let form = clauses.iter().find_map(|clause| clause.form(offered));
        form.ok_or_else(|| refusal(&clauses, offered))?
    };
    let browser = ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|name| user_agent.starts_with(name));
    form.pretty = match query.get("pretty") {
        Some(_) => query.flag("pretty"),
        None => browser,
    };
    Ok(form)
}

/// Returns the format of an error: the client's preference without transforms, or JSON.
pub(crate) fn negotiate_error(accept: &str, user_agent: &str, query: &Query) -> Form {
    negotiate(accept, user_agent, query, Representations::Document).unwrap_or(Form {
        pretty: true,
        ..Form::default()
    })
}

/// Returns the error for a header without a supported format: the router rejects unknown media types before the
/// resource checks their parameters.
fn refusal(clauses: &[Clause<'_>], offered: Representations) -> Status {
    let known = |clause: &Clause<'_>| {
        BUILTIN_TYPES.split(", ").any(|media| media == clause.media) || clause.media == "*/*"
    };
    match offered {
        Representations::Custom | Representations::Document => status::not_acceptable(BUILTIN_TYPES),
        _ if clauses.iter().any(known) => status::not_acceptable(BUILTIN_TYPES),
        Representations::Builtin { watchable: true } => {
            status::no_representation(&format!("{BUILTIN_TYPES}, {STREAM_TYPES}"))
        }
        _ => status::no_representation(BUILTIN_TYPES),
    }
}
