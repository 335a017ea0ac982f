//! The `Accept` header.

use crate::protobuf;
use crate::query::Query;
use crate::status::{self, Status};

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) yaml: bool,
    pub(crate) pretty: bool,
    /// The client reads nothing but protobuf, which only refusals are written in.
    pub(crate) protobuf_only: bool,
    pub(crate) transform: Transform,
    /// Whether a transformed object is of `meta.k8s.io/v1beta1`, as old clients ask for it.
    pub(crate) beta: bool,
}

/// What an object is turned into before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transform {
    #[default]
    None,
    Table,
    PartialObjectMetadata,
    PartialObjectMetadataList,
}

impl Form {
    /// The apiVersion of what an object is transformed into.
    pub(crate) fn meta_version(self) -> &'static str {
        if self.beta {
            "meta.k8s.io/v1beta1"
        } else {
            "meta.k8s.io/v1"
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        if self.yaml {
            "application/yaml"
        } else {
            "application/json"
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

    /// The form that this clause asks for, if the server has it.
    fn form(&self, asked: Asked) -> Option<Form> {
        let yaml = match self.media {
            "application/json" | "*/*" => false,
            "application/yaml" => true,
            "application/*" if asked == Asked::Document => false,
            // Answers are JSON where a client lists protobuf first and JSON later.
            _ => return None,
        };
        let transform = match self.get("as") {
            None => Transform::None,
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
        Some(Form {
            yaml,
            transform,
            beta: transform != Transform::None && self.get("v") == Some("v1beta1"),
            ..Form::default()
        })
    }
}

const BUILTIN_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAM_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// What kind of path a client asks, which decides how a refusal is worded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A built-in resource; `watchable` collections can also be streamed.
    Builtin { watchable: bool },
    /// A custom resource.
    Custom,
    /// Discovery documents.
    Document,
}

/// The first clause of the header that the server can serve; no header means JSON.
pub(crate) fn negotiate(accept: &str, user_agent: &str, query: &Query, asked: Asked) -> Result<Form, Status> {
    let mut form = if accept.is_empty() {
        Form::default()
    } else {
        let clauses: Vec<Clause<'_>> = accept
            .split(',')
            .map(|clause| Clause::parse(clause.trim()))
            .collect();
        let form = clauses.iter().find_map(|clause| clause.form(asked));
        form.ok_or_else(|| refusal(&clauses, asked))?
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

/// The form of an error: what the client asked for, protobuf if that is all it reads, or JSON.
pub(crate) fn negotiate_error(accept: &str, user_agent: &str, query: &Query) -> Form {
    let form = negotiate(accept, user_agent, query, Asked::Document).unwrap_or_else(|_| Form {
        protobuf_only: accept
            .split(',')
            .any(|clause| Clause::parse(clause.trim()).media == protobuf::MEDIA_TYPE),
        ..Form::default()
    });
    Form {
        transform: Transform::None,
        ..form
    }
}

/// The router of the real server refuses unknown media types before the resource is asked about their parameters.
fn refusal(clauses: &[Clause<'_>], asked: Asked) -> Status {
    let known = |clause: &Clause<'_>| {
        BUILTIN_TYPES.split(", ").any(|media| media == clause.media) || clause.media == "*/*"
    };
    match asked {
        Asked::Custom | Asked::Document => status::not_acceptable(BUILTIN_TYPES),
        _ if clauses.iter().any(known) => status::not_acceptable(BUILTIN_TYPES),
        Asked::Builtin { watchable: true } => {
            status::no_representation(&format!("{BUILTIN_TYPES}, {STREAM_TYPES}"))
        }
        _ => status::no_representation(BUILTIN_TYPES),
    }
}
