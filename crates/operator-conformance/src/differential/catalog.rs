//! The kinds for which requests are sent ([`Catalog`]): base objects, discovery, and the OpenAPI document of a server.

use serde_json::{Map, Value};

use super::Error;
use super::random::Random;

/// One valid object on each line, with the resource in which it is created.
const BASES: &str = include_str!("bases.json");

/// A built-in resource.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) resource: String,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
    /// The names of subresources, such as `status`.
    pub(crate) subresources: Vec<String>,
    pub(crate) bases: Vec<Value>,
    /// The name of the kind's definition in the OpenAPI document.
    pub(crate) schema: String,
}

impl Kind {
    /// Returns the path of the group and the version.
    pub(crate) fn root(&self) -> String {
        group_path(&self.api_version)
    }

    /// Returns the path of the collection.
    pub(crate) fn collection(&self, namespace: &str) -> String {
        let root = self.root();
        if self.namespaced {
            format!("{root}/namespaces/{namespace}/{}", self.resource)
        } else {
            format!("{root}/{}", self.resource)
        }
    }

    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|allowed| allowed == verb)
    }

    /// Returns a base object with a name that contains `number`.
    pub(crate) fn object(&self, number: u64, random: &mut Random) -> Value {
        let base = random.pick(&self.bases).cloned().unwrap_or_default();
        let mut object = numbered(&base, number);
        // Reviews and bindings are not stored, and have no names.
        if self.allows("get")
            && let Some(Value::Object(metadata)) = object.get_mut("metadata")
        {
            metadata
                .entry("name")
                .or_insert_with(|| format!("d{number}").into());
        }
        object
    }
}

/// Replaces `${n}` in all strings.
fn numbered(value: &Value, number: u64) -> Value {
    match value {
        Value::String(text) => text.replace("${n}", &number.to_string()).into(),
        Value::Array(items) => items.iter().map(|item| numbered(item, number)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), numbered(value, number)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn group_path(api_version: &str) -> String {
    if api_version.contains('/') {
        format!("/apis/{api_version}")
    } else {
        format!("/api/{api_version}")
    }
}

/// All kinds and the schemas of their fields.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) kinds: Vec<Kind>,
    definitions: Map<String, Value>,
}

impl Catalog {
    /// Returns the paths of the discovery documents that [`Catalog::new`] needs.
    pub(crate) fn discovery_paths() -> Result<Vec<String>, Error> {
        let mut paths: Vec<String> = bases()?
            .iter()
            .filter_map(|(resource, _)| resource.rsplit_once('/').map(|(version, _)| group_path(version)))
            .collect();
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// Combines the base objects with the discovery documents and the OpenAPI v2 document of a server. Kinds that the
    /// server does not serve are omitted. If `wanted` is not empty, all other kinds are omitted, too.
    pub(crate) fn new(discovery: &[Value], openapi: Value, wanted: &[String]) -> Result<Self, Error> {
        let Value::Object(mut document) = openapi else {
            return Err(Error::Data("the OpenAPI document is not an object".to_owned()));
        };
        let Some(Value::Object(definitions)) = document.remove("definitions") else {
            return Err(Error::Data("the OpenAPI document has no definitions".to_owned()));
        };
        let mut catalog = Self {
            kinds: Vec::new(),
            definitions,
        };
        for (resource, object) in bases()? {
            let Some((api_version, plural)) = resource.rsplit_once('/') else {
                continue;
            };
            let known = |kind: &&mut Kind| kind.api_version == api_version && kind.resource == plural;
            if let Some(kind) = catalog.kinds.iter_mut().find(known) {
                kind.bases.push(object);
                continue;
            }
            if let Some(kind) = catalog.kind(discovery, api_version, plural, object) {
                let is_wanted = |name: &String| *name == kind.kind || *name == kind.resource;
                if wanted.is_empty() || wanted.iter().any(is_wanted) {
                    catalog.kinds.push(kind);
                }
            }
        }
        if catalog.kinds.is_empty() {
            return Err(Error::Data("no kinds to send requests for".to_owned()));
        }
        Ok(catalog)
    }

    fn kind(&self, discovery: &[Value], api_version: &str, plural: &str, object: Value) -> Option<Kind> {
        let document = discovery
            .iter()
            .find(|document| document["groupVersion"] == api_version)?;
        let resources = document["resources"].as_array()?;
        let served = resources.iter().find(|resource| resource["name"] == plural)?;
        let kind = served["kind"].as_str()?.to_owned();
        let prefix = format!("{plural}/");
        let subresources = resources
            .iter()
            .filter_map(|resource| resource["name"].as_str()?.strip_prefix(&prefix))
            .map(str::to_owned)
            .collect();
        let verbs = served["verbs"].as_array()?;
        Some(Kind {
            api_version: api_version.to_owned(),
            schema: self.definition_of(api_version, &kind).unwrap_or_default(),
            kind,
            resource: plural.to_owned(),
            namespaced: served["namespaced"] == true,
            verbs: verbs
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            subresources,
            bases: vec![object],
        })
    }

    fn definition_of(&self, api_version: &str, kind: &str) -> Option<String> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let is_kind =
            |known: &Value| known["group"] == group && known["version"] == version && known["kind"] == kind;
        self.definitions
            .iter()
            .find(|(_, definition)| {
                definition["x-kubernetes-group-version-kind"]
                    .as_array()
                    .is_some_and(|known| matches!(&known[..], [only] if is_kind(only)))
            })
            .map(|(name, _)| name.clone())
    }

    /// Returns the schema of a kind.
    pub(crate) fn schema(&self, kind: &Kind) -> &Value {
        self.definitions.get(&kind.schema).unwrap_or(&Value::Null)
    }

    /// Resolves a reference to a definition.
    pub(crate) fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        schema["$ref"]
            .as_str()
            .and_then(|reference| self.definitions.get(reference.strip_prefix("#/definitions/")?))
            .unwrap_or(schema)
    }
}

fn bases() -> Result<Vec<(String, Value)>, Error> {
    let lines: Vec<Value> = serde_json::from_str(BASES)
        .map_err(|error| Error::Data(format!("cannot read base objects: {error}")))?;
    Ok(lines
        .into_iter()
        .map(|mut line| {
            let resource = line["resource"].as_str().unwrap_or_default().to_owned();
            (resource, line["object"].take())
        })
        .collect())
}
