//! A compiled schema of custom resources, which is the entry point of the crate: [`Schema`].

use std::sync::Arc;

use apimachinery::field::{Error, ErrorList, ErrorType, Path};
use serde_json::Value;

use crate::metadata::{self, MalformedMetadata};
use crate::node::{self, Node};
use crate::outcome::Outcome;
use crate::rule::Rules;
use crate::{default, list_type, prune, validate};

/// A compiled schema of one version of a custom resource. Cloning shares it.
///
/// ```
/// use serde_json::json;
/// use structural_schema::Schema;
/// let schema = Schema::compile(&json!({
///     "type": "object",
///     "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1, "maximum": 3}}}},
/// })).unwrap();
/// let mut object = json!({"spec": {"extra": true}});
/// assert_eq!(schema.prune(&mut object), ["spec.extra"]);
/// schema.default(&mut object);
/// assert_eq!(object, json!({"spec": {"size": 1}}));
/// let errors = schema.validate(&json!({"spec": {"size": 4}}), None);
/// assert_eq!(errors[0].to_string(), "spec.size: Invalid value: 4: spec.size in body should be less than or equal to 3");
/// ```
#[derive(Clone, Debug)]
pub struct Schema {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Value,
    root: Node,
    rules: Rules,
}

impl Schema {
    /// Compiles an `openAPIV3Schema`.
    ///
    /// # Errors
    /// Returns an error if a keyword has the wrong JSON type, or the schema is nested too deeply. A schema that is not
    /// structural also compiles; [`crate::crd`] checks that it is structural.
    pub fn compile(open_api_v3_schema: &Value) -> Result<Self, ErrorList> {
        let root = node::parse(open_api_v3_schema)?;
        let rules = Rules::of(&root, true);
        Ok(Self {
            inner: Arc::new(Inner {
                source: open_api_v3_schema.clone(),
                root,
                rules,
            }),
        })
    }

    /// Returns the schema as it was written, for publication.
    pub fn source(&self) -> &Value {
        &self.inner.source
    }

    /// Returns the schema as a tree.
    pub fn root(&self) -> &Node {
        &self.inner.root
    }

    /// Decodes a body in the order of the API server's steps: coerces `metadata`, prunes, drops nulls, coerces embedded
    /// resources. Returns the paths of unknown fields, in the order of the server's warnings.
    ///
    /// # Errors
    /// Returns an error if fields of the metadata have the wrong type. The API server returns a 400 with this text.
    pub fn decode(&self, object: &mut Value) -> Result<Vec<String>, MalformedMetadata> {
        let mut unknown = metadata::coerce_root(object)?;
        unknown.extend(self.prune(object));
        self.drop_nulls(object);
        unknown.extend(metadata::coerce_embedded(
            object,
            self.root(),
            &Path::default(),
            true,
        )?);
        Ok(unknown)
    }

    /// Decodes the result of an apply: like [`Schema::decode`], but nulls are kept, and rejected later.
    ///
    /// # Errors
    /// The same errors as [`Schema::decode`].
    pub fn decode_applied(&self, object: &mut Value) -> Result<(), MalformedMetadata> {
        metadata::coerce_root(object)?;
        self.prune(object);
        metadata::coerce_embedded(object, self.root(), &Path::default(), true)?;
        Ok(())
    }

    /// Drops unknown fields; returns their sorted paths: `spec.foo`, `spec.list[0].x`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(object, self.root())
    }

    /// Drops nulls of fields that are not nullable and have no default.
    pub fn drop_nulls(&self, object: &mut Value) {
        default::drop_nulls(object, self.root());
    }

    /// Sets defaults, also for nulls that are not allowed. Idempotent.
    pub fn default(&self, object: &mut Value) {
        default::default(object, self.root());
    }

    /// Returns the errors of a create (without `old`) or an update; see [`Schema::check`].
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> ErrorList {
        self.check(object, old).errors
    }

    /// Validates an object: the schema's keywords, embedded resources, sets and map lists. With `old`, errors of
    /// unchanged values are tolerated.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Outcome {
        self.check_with(object, old, ErrorList::new())
    }

    /// Like [`Schema::check`], with errors of other validators, which follow the errors of the schema's keywords.
    pub fn check_with(&self, object: &Value, old: Option<&Value>, others: ErrorList) -> Outcome {
        let mut errors = validate::validate(object, old, self.root(), &Path::default());
        errors.extend(others);
        self.check_rest(object, old, errors)
    }

    /// Validates a write to the status subresource: first the schema of `status`, then like [`Schema::check`].
    pub fn check_status(&self, object: &Value, old: Option<&Value>) -> Outcome {
        self.check_status_with(object, old, ErrorList::new())
    }

    /// Like [`Schema::check_status`], with errors of other validators like [`Schema::check_with`].
    pub fn check_status_with(&self, object: &Value, old: Option<&Value>, others: ErrorList) -> Outcome {
        let status = self.root().properties.get("status");
        let mut errors = match (object.get("status"), status) {
            (Some(value), Some(schema)) => {
                let old = old.and_then(|old| old.get("status"));
                validate::validate(value, old, schema, &Path::new("status"))
            }
            _ => ErrorList::new(),
        };
        errors.extend(others);
        self.check_rest(object, old, errors)
    }

    /// Validates the apiVersion, kind and metadata of a new object, which does not depend on the schema.
    pub fn check_root(object: &Value) -> ErrorList {
        metadata::validate_root(object)
    }

    fn check_rest(&self, object: &Value, old: Option<&Value>, mut errors: ErrorList) -> Outcome {
        let root = Path::default();
        errors.extend(embedded_errors(object, self.root()));
        let duplicates = list_type::validate(object, self.root(), &root);
        let had_duplicates =
            || old.is_some_and(|old| !list_type::validate(old, self.root(), &root).is_empty());
        if !duplicates.is_empty() && !had_duplicates() {
            errors.extend(duplicates);
        }
        if self.inner.rules.is_empty() {
            return Outcome {
                errors,
                warnings: Vec::new(),
            };
        }
        if errors.iter().any(is_blocking) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(Error::invalid(Path::nil(), Value::Null, detail));
            return Outcome {
                errors,
                warnings: Vec::new(),
            };
        }
        let outcome = self
            .inner
            .rules
            .validate(object, old, self.root(), &root, old.is_some());
        errors.extend(outcome.errors);
        Outcome {
            errors,
            warnings: outcome.warnings,
        }
    }
}

/// Validates embedded resources. The server validates the metadata of the root itself.
fn embedded_errors(object: &Value, root: &Node) -> ErrorList {
    metadata::validate(object, root, &Path::default(), false)
}

/// Returns true if rules must not be evaluated because of an error: values may not have the types that rules expect.
pub(crate) fn is_blocking(error: &Error) -> bool {
    matches!(
        error.kind,
        ErrorType::NotSupported
            | ErrorType::Required
            | ErrorType::TooLong
            | ErrorType::TooMany
            | ErrorType::TypeInvalid
    )
}
