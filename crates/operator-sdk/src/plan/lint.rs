//! Problems of the operator's CRDs, reported in terms of the Rust types that they are derived from.
//!
//! There are three sources: the types (problems that no schema shows), the CRDs (the findings of `crd lint`), and the
//! serde attributes in the source (which neither of them shows).

use operator_manifests::crd::Crd;
use operator_manifests::operator::{OperatorManifests, TypeSchema};
use operator_manifests::types::{self, Field};
use serde_json::Value;
use structural_schema::crd::lint;

use crate::failure::Failure;
use crate::project::Tree;
use crate::source::types::{self as source, Remark, TypeSource};
use crate::source::{Place, Sources};

/// A problem of a type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lint {
    pub(crate) is_error: bool,
    pub(crate) rule: String,
    /// The type and field, such as `MemcachedSpec.size`.
    pub(crate) subject: String,
    pub(crate) place: Option<Place>,
    pub(crate) message: String,
    pub(crate) fix: Option<String>,
    /// The field, which is used to report each problem once.
    field: Field,
}

/// The fixes in Rust for rules of `crd lint`, whose own fixes are for YAML.
const RUST_FIXES: [(&str, &str); 8] = [
    (
        "floating-point",
        "use an integer of a smaller unit (`i64` thousandths), `Quantity` of k8s-openapi, or a `String`",
    ),
    (
        "empty-default",
        "make it an `Option` with `#[serde(default, skip_serializing_if = \"Option::is_none\")]`, or omit the default from \
         the definition with `#[schemars(extend(\"default\" = null))]`",
    ),
    (
        "atomic-list",
        "declare the keys of the items: `#[schemars(extend(\"x-kubernetes-list-type\" = \"map\", \"x-kubernetes-list-map-keys\" = \
         [\"name\"]))]`; or `\"atomic\"` if the list has one owner",
    ),
    (
        "conditions-list-type",
        "use `operator_runtime::Conditions` as its type",
    ),
    (
        "field-case",
        "add `#[serde(rename_all = \"camelCase\")]` on the struct",
    ),
    (
        "generated-description",
        "add a doc comment to the type, or `doc = \"...\"` to its `kube` attribute",
    ),
    (
        "no-status-subresource",
        "add `status = \"...\"` to the `kube` attribute",
    ),
    (
        "lossy-conversion",
        "add a conversion with `operator-sdk create webhook --conversion`, or give both versions the same fields",
    ),
];

/// Rules that the generator always satisfies.
const SETTLED: [&str; 2] = ["too-large-for-apply", "no-type-meta"];

/// Returns all problems: errors first, ordered by location.
pub(crate) fn lint(tree: &Tree, operator: &OperatorManifests, crds: &[Crd]) -> Vec<Lint> {
    let sources = source::types(&Sources::of(tree));
    let mut lints: Vec<Lint> = Vec::new();
    for schema in &operator.schemas {
        of_types(schema, &sources, &mut lints);
    }
    of_problems(operator, &sources, &mut lints);
    for crd in crds {
        of_definition(crd, operator, &sources, &mut lints);
    }
    for schema in &operator.schemas {
        of_sources(schema, &sources, &mut lints);
    }
    lints.extend(crds.iter().filter_map(|crd| of_size(crd, operator, &sources)));
    lints.sort_by(|left, right| {
        (!left.is_error, &left.place, &left.subject).cmp(&(!right.is_error, &right.place, &right.subject))
    });
    lints
}

fn of_types(schema: &TypeSchema, sources: &[TypeSource], lints: &mut Vec<Lint>) {
    for finding in types::lint(schema) {
        let known = lints
            .iter()
            .any(|there| there.rule == finding.rule && there.field == finding.field);
        if known {
            continue;
        }
        let (subject, place) = located(&finding.field, &schema.type_name, sources);
        lints.push(Lint {
            is_error: finding.is_error,
            rule: finding.rule.to_owned(),
            subject,
            place,
            message: finding.message.to_owned(),
            fix: Some(finding.fix.to_owned()),
            field: finding.field,
        });
    }
}

/// Adds the problems that the operator itself reports, unless their cause is already known.
fn of_problems(operator: &OperatorManifests, sources: &[TypeSource], lints: &mut Vec<Lint>) {
    for problem in &operator.problems {
        let name = problem.type_name.rsplit("::").next().unwrap_or_default();
        let field = Field {
            type_name: name.to_owned(),
            name: None,
        };
        let schema = operator
            .schemas
            .iter()
            .find(|schema| schema.type_name == problem.type_name);
        let names: Vec<&str> = schema.into_iter().flat_map(TypeSchema::type_names).collect();
        let is_explained = |there: &Lint| there.is_error && names.contains(&there.field.type_name.as_str());
        if lints.iter().any(is_explained) {
            continue;
        }
        let (subject, place) = located(&field, &problem.type_name, sources);
        let (rule, fix) = match schema {
            Some(_) => (
                "no-definition",
                "look for an enum in it, whose variants must have one form",
            ),
            None => (
                "operator",
                "the parts of `operator` in src/lib.rs are added to a manager without a cluster here: they must not need one",
            ),
        };
        lints.push(Lint {
            is_error: true,
            rule: rule.to_owned(),
            subject,
            place,
            message: problem.message.clone(),
            fix: Some(fix.to_owned()),
            field,
        });
    }
}

/// Adds the findings of `crd lint`, located at the Rust field that causes them.
fn of_definition(crd: &Crd, operator: &OperatorManifests, sources: &[TypeSource], lints: &mut Vec<Lint>) {
    let value = crd.value();
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    let converted = operator
        .conversions
        .iter()
        .any(|conversion| conversion["crd"] == name);
    for finding in lint::lint(value) {
        if SETTLED.contains(&finding.rule) || (converted && finding.rule == "lossy-conversion") {
            continue;
        }
        let path = finding.path.as_str();
        let version = version_of(value, path);
        let schema = operator
            .schemas
            .iter()
            .find(|schema| schema.crd == name && version.is_none_or(|version| schema.version == version));
        let Some(schema) = schema else { continue };
        let fields = types::fields_at(schema, path);
        let said = |there: &Lint| {
            there.is_error
                && fields.iter().any(|field| {
                    there.field == *field
                        || (there.field.name.is_none() && there.field.type_name == field.type_name)
                })
        };
        if lints.iter().any(said) {
            continue;
        }
        let known = |field: &&Field| source::find(sources, &field.type_name, &schema.type_name).is_some();
        let kind = Field {
            type_name: schema.name().to_owned(),
            name: None,
        };
        let field = fields.iter().rfind(known).cloned().unwrap_or(kind);
        if lints
            .iter()
            .any(|there| there.rule == finding.rule && there.field == field)
        {
            continue;
        }
        let (subject, place) = located(&field, &schema.type_name, sources);
        let fix = RUST_FIXES.iter().find(|(rule, _)| *rule == finding.rule);
        lints.push(Lint {
            is_error: finding.severity == lint::Severity::Error,
            rule: finding.rule.to_owned(),
            subject,
            place,
            message: finding.message,
            fix: fix.map(|(_, fix)| (*fix).to_owned()).or(finding.fix),
            field,
        });
    }
}

/// Returns the version that a path belongs to.
fn version_of<'a>(crd: &'a Value, path: &str) -> Option<&'a str> {
    let rest = path.strip_prefix("spec.versions[")?;
    let index: usize = rest.split(']').next()?.parse().ok()?;
    crd.pointer("/spec/versions")?.get(index)?["name"].as_str()
}

/// Reports descriptions that must be truncated, with the field that takes most of the space.
fn of_size(crd: &Crd, operator: &OperatorManifests, sources: &[TypeSource]) -> Option<Lint> {
    let limit = crd.clone().shorten(None)?;
    let value = crd.value();
    let name = value["metadata"]["name"].as_str()?;
    let schema = operator.schemas.iter().find(|schema| schema.crd == name)?;
    let versions = value.pointer("/spec/versions")?.as_array()?;
    let version = versions
        .iter()
        .find(|version| version["name"] == schema.version)?;
    let (path, size) = largest(version.pointer("/schema/openAPIV3Schema")?);
    let fields = types::fields_at(schema, &format!("openAPIV3Schema{path}"));
    let known = |field: &&Field| source::find(sources, &field.type_name, &schema.type_name).is_some();
    let field = fields.iter().rfind(known)?.clone();
    let (subject, place) = located(&field, &schema.type_name, sources);
    Some(Lint {
        is_error: false,
        rule: "descriptions-cut".to_owned(),
        subject,
        place,
        message: format!(
            "the definition has {} bytes, of which {size} come from here: its descriptions are cut to {limit} characters, so that \
             `kubectl apply` can take it",
            value.to_string().len()
        ),
        fix: Some(
            "set the limit with `--max-description-len`, or use only the fields that the operator needs"
                .to_owned(),
        ),
        field,
    })
}

/// Returns the innermost property that is more than half of its parent, and its size in bytes.
fn largest(schema: &Value) -> (String, usize) {
    let (mut path, mut at) = (String::new(), schema);
    let mut size = schema.to_string().len();
    loop {
        let inner = at.get("items").or_else(|| at.get("additionalProperties"));
        if let Some(inner) = inner.filter(|inner| inner.is_object()) {
            path.push_str(if at.get("items").is_some() {
                ".items"
            } else {
                ".additionalProperties"
            });
            at = inner;
            continue;
        }
        let properties = at.get("properties").and_then(Value::as_object);
        let sizes = properties
            .into_iter()
            .flatten()
            .map(|(name, inner)| (inner.to_string().len(), name, inner));
        match sizes.max_by_key(|(size, ..)| *size) {
            Some((inner_size, name, inner)) if inner_size * 2 > size => {
                path.push_str(&format!(".properties[{name}]"));
                (at, size) = (inner, inner_size);
            }
            _ => return (path, size),
        }
    }
}

/// Adds the problems of the serde attributes of the types of a kind.
fn of_sources(schema: &TypeSchema, sources: &[TypeSource], lints: &mut Vec<Lint>) {
    let names = schema.type_names().filter(|name| *name != schema.name());
    for name in names {
        let Some(found) = source::find(sources, name, &schema.type_name) else {
            continue;
        };
        for field in &found.fields {
            let Some(remark) = field.remark else { continue };
            let (rule, message, fix) = text_of(remark);
            let at = Field {
                type_name: name.to_owned(),
                name: Some(field.json.clone()),
            };
            let known = |there: &Lint| there.place.as_ref() == Some(&field.place);
            if lints.iter().any(known) {
                continue;
            }
            lints.push(Lint {
                is_error: false,
                rule: rule.to_owned(),
                subject: format!("{name}.{}", field.name),
                place: Some(field.place.clone()),
                message: message.to_owned(),
                fix: Some(fix.to_owned()),
                field: at,
            });
        }
    }
}

fn text_of(remark: Remark) -> (&'static str, &'static str, &'static str) {
    match remark {
        Remark::NestedOption => (
            "nested-option",
            "JSON has one null: `None` and `Some(None)` cannot be distinguished",
            "use a single `Option`",
        ),
        Remark::RequiredButSkipped => (
            "required-but-skipped",
            "the CRD requires the field, and serde omits it when it is empty: the API server rejects such an \
             object when the operator writes it",
            "add `default` to its `#[serde(...)]`",
        ),
        Remark::WritesNull => (
            "writes-null",
            "`None` is written as null, which server-side apply stores as a value",
            "add `#[serde(default, skip_serializing_if = \"Option::is_none\")]` to it",
        ),
    }
}

/// Returns a field in Rust terms with its line, or in terms of the schema if the type is from another crate.
fn located(field: &Field, near: &str, sources: &[TypeSource]) -> (String, Option<Place>) {
    let Some(found) = source::find(sources, &field.type_name, near) else {
        return (field.to_string(), None);
    };
    let inner = field
        .name
        .as_ref()
        .and_then(|name| found.fields.iter().find(|there| there.json == *name));
    match inner {
        Some(inner) => (
            format!("{}.{}", found.name, inner.name),
            Some(inner.place.clone()),
        ),
        None => (field.to_string(), Some(found.place.clone())),
    }
}

// === impl Lint ===

impl Lint {
    /// Returns `FILE:LINE: SUBJECT: MESSAGE [RULE]`.
    pub(crate) fn text(&self) -> String {
        let place = self.place.as_ref().map(|place| format!("{place}: "));
        format!(
            "{}{}: {} [{}]",
            place.unwrap_or_default(),
            self.subject,
            self.message,
            self.rule
        )
    }
}

impl From<Lint> for Failure {
    fn from(lint: Lint) -> Self {
        Self {
            message: lint.text(),
            hint: lint.fix,
        }
    }
}
