//! The `Accept` header.

use crate::query::Query;
use crate::status::{self, Status};

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) yaml: bool,
    pub(crate) pretty: bool,
    pub(crate) transform: Transform,
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
    fn form(&self, custom: bool) -> Option<Form> {
        let yaml = match self.media {
            "application/json" | "*/*" => false,
            "application/yaml" => true,
            // Answers are JSON where a client lists protobuf first and JSON later.
            _ => return None,
        };
        let _ = custom;
        let transform = match self.get("as") {
            None => Transform::None,
            Some(kind) => {
                if self.get("g") != Some("meta.k8s.io") || self.get("v") != Some("v1") {
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
            pretty: false,
            transform,
        })
    }
}

const BUILTIN_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const CUSTOM_TYPES: &str = "application/json, application/yaml";

/// The first clause of the header that the server can serve; no header means JSON.
pub(crate) fn negotiate(accept: &str, user_agent: &str, query: &Query, custom: bool) -> Result<Form, Status> {
    let mut form = if accept.is_empty() {
        Form::default()
    } else {
        accept
            .split(',')
            .filter_map(|clause| Clause::parse(clause.trim()).form(custom))
            .next()
            .ok_or_else(|| status::not_acceptable(if custom { CUSTOM_TYPES } else { BUILTIN_TYPES }))?
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
