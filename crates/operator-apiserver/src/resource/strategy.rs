//! The differences between kinds: the methods of [`Definition`] that the generic registry calls.

use std::sync::Arc;

use apimachinery::object;
use serde_json::{Value, json};
use structural_schema::Outcome;

use super::shared_storage;
use super::{Definition, Source};
use crate::resource::crd;
use crate::status::{self, Status};
use builtin_kinds::{Dropped, MetadataChecks, Step};

impl Definition {
    /// Returns true if the CRD of the kind is terminating.
    pub(crate) fn is_terminating(&self) -> bool {
        matches!(&self.source, Source::Custom(version) if version.terminating)
    }

    pub(crate) fn has_generation(&self) -> bool {
        match &self.source {
            Source::Builtin { strategy, .. } => strategy.has_generation,
            Source::Custom(_) => true,
        }
    }

    pub(crate) fn allows_unconditional_update(&self) -> bool {
        match &self.source {
            Source::Builtin { strategy, .. } => strategy.allow_unconditional_update,
            Source::Custom(_) => false,
        }
    }

    pub(crate) fn allows_create_on_update(&self) -> bool {
        match &self.source {
            Source::Builtin { strategy, .. } => strategy.allow_create_on_update,
            Source::Custom(_) => false,
        }
    }

    /// Returns the object of the kind without any field, as the API server writes it.
    pub(crate) fn empty_object(&self) -> Value {
        let mut empty = json!({"apiVersion": self.api_version(), "kind": self.subject.kind});
        if let Source::Builtin { gvk, .. } = &self.source {
            // An object without fields can be decoded.
            let _ = builtin_kinds::decode(gvk, &mut empty);
        }
        empty
    }

    pub(crate) fn returns_deleted_object(&self) -> bool {
        match &self.source {
            Source::Builtin { strategy, .. } => strategy.returns_deleted_object,
            Source::Custom(_) => false,
        }
    }

    pub(crate) fn orphans_by_default(&self) -> bool {
        match &self.source {
            Source::Builtin { strategy, .. } => strategy.orphans_by_default,
            Source::Custom(_) => false,
        }
    }

    /// Normalizes a body by its type; returns its unknown fields.
    pub(crate) fn decode(&self, object: &mut Value) -> Result<Vec<String>, Status> {
        match &self.source {
            Source::Builtin { gvk, .. } => {
                builtin_kinds::decode(gvk, object).map_err(|error| self.undecodable(&error.to_string()))
            }
            Source::Custom(version) => version.decode(object).map_err(|why| self.undecodable(&why)),
        }
    }

    /// Removes the empty lists and maps of a body that are not stored.
    pub(crate) fn drop_empty(&self, object: &mut Value) -> Dropped {
        match &self.source {
            Source::Builtin { gvk, .. } => builtin_kinds::drop_empty(gvk, object),
            Source::Custom(_) => Dropped::default(),
        }
    }

    /// Like [`Self::decode`], for the body of a request; `replaced` are the values that a duplicate of their field
    /// replaced.
    pub(crate) fn decode_body(
        &self,
        object: &mut Value,
        replaced: Vec<(String, Value)>,
    ) -> Result<Vec<String>, Status> {
        match &self.source {
            Source::Builtin { gvk, .. } => builtin_kinds::decode_body(gvk, object, replaced)
                .map_err(|error| self.undecodable(&error.to_string())),
            Source::Custom(version) => version.decode(object).map_err(|why| self.undecodable(&why)),
        }
    }

    fn undecodable(&self, why: &str) -> Status {
        let kind = &self.subject.kind;
        status::bad_request(format!(
            "{kind} in version {} cannot be handled as a {kind}: {why}",
            apimachinery::go::quote(&self.version)
        ))
    }

    pub(crate) fn default(&self, object: &mut Value) {
        match &self.source {
            Source::Builtin { .. } if crd::is_definition_table(self) => {
                structural_schema::crd::default(object);
            }
            Source::Builtin { gvk, .. } => builtin_kinds::default(gvk, object),
            Source::Custom(version) => version.default(object),
        }
    }

    /// Prepares a new object; returns warnings for the client.
    pub(crate) fn prepare_for_create(&self, object: &mut Value) -> Vec<String> {
        let mut warnings = Vec::new();
        match &self.source {
            Source::Builtin { .. } if crd::is_definition_table(self) => {
                structural_schema::crd::prepare_for_create(object);
            }
            Source::Builtin { gvk, .. } => warnings = builtin_kinds::prepare_for_create(gvk, object),
            Source::Custom(version) => version.prepare_for_create(object),
        }
        if self.has_generation() {
            object::set_meta(object, "generation", Some(1.into()));
        }
        warnings
    }

    /// Prepares a changed object. `had_empty` is true if [`Self::drop_empty`] removed something.
    pub(crate) fn prepare_for_update(
        &self,
        subresource: &str,
        object: &mut Value,
        old: &Value,
        had_empty: bool,
    ) {
        match &self.source {
            Source::Builtin { .. } if crd::is_definition_table(self) => {
                crd::prepare_for_update(subresource, object, old);
            }
            Source::Builtin { gvk, .. } => {
                builtin_kinds::prepare_for_update(gvk, subresource, object, old);
            }
            Source::Custom(version) => version.prepare_for_update(subresource, object, old),
        }
        let counts_empty = match &self.source {
            Source::Builtin { gvk, .. } => had_empty && builtin_kinds::counts_empty(gvk),
            Source::Custom(_) => false,
        };
        let changed = subresource != "status" && (counts_empty || self.generation_changed(old, object));
        if changed || self.has_generation() {
            let generation = object::generation(old) + i64::from(changed);
            object::set_meta(object, "generation", Some(generation.into()));
        }
    }

    fn generation_changed(&self, old: &Value, new: &Value) -> bool {
        match &self.source {
            Source::Builtin { gvk, .. } => builtin_kinds::generation_changed(gvk, old, new),
            Source::Custom(version) => version.generation_changed(old, new),
        }
    }

    /// Returns the errors in a new object, except those in its metadata, and the warnings for the client.
    pub(crate) fn validate_create(&self, object: &Value) -> Outcome {
        match &self.source {
            Source::Builtin { .. } if crd::is_definition_table(self) => Outcome {
                errors: structural_schema::crd::validate_new(object),
                warnings: structural_schema::crd::warnings(object, None),
            },
            Source::Builtin { gvk, .. } => Outcome {
                errors: builtin_kinds::validate_create(gvk, object),
                warnings: builtin_kinds::warnings(gvk, object, None),
            },
            Source::Custom(version) => version.validate_create(object),
        }
    }

    /// Returns the errors in a changed object, except those in its metadata, and the warnings for the client.
    pub(crate) fn validate_update(&self, subresource: &str, object: &Value, old: &Value) -> Outcome {
        match &self.source {
            Source::Builtin { .. } if crd::is_definition_table(self) => Outcome {
                errors: match subresource {
                    "status" => structural_schema::crd::validate_status_update(object),
                    _ => structural_schema::crd::validate_update(object, old),
                },
                warnings: structural_schema::crd::warnings(object, Some(old)),
            },
            Source::Builtin { gvk, .. } => Outcome {
                errors: builtin_kinds::validate_update(gvk, subresource, object, old),
                warnings: if matches!(subresource, "" | "scale") {
                    builtin_kinds::warnings(gvk, object, Some(old))
                } else {
                    Vec::new()
                },
            },
            Source::Custom(version) => version.validate_update(subresource, object, old),
        }
    }

    /// Returns the validation steps of a changed object that follow the first check of its metadata.
    pub(crate) fn update_steps(&self, subresource: &str) -> Vec<Step> {
        match &self.source {
            Source::Builtin { gvk, .. } => builtin_kinds::update_steps(gvk, subresource),
            Source::Custom(_) => vec![Step::Change, Step::Update],
        }
    }

    /// Returns the errors in a name of this kind.
    pub(crate) fn validate_name(&self, name: &str, is_prefix: bool) -> Vec<String> {
        match &self.source {
            Source::Builtin { gvk, .. } => builtin_kinds::validate_name(gvk, name, is_prefix),
            Source::Custom(_) => {
                apimachinery::names::dns1123_subdomain(name.trim_end_matches(if is_prefix {
                    '-'
                } else {
                    '\0'
                }))
            }
        }
    }

    /// Returns the checks of the metadata of a changed object.
    pub(crate) fn metadata_checks(&self, subresource: &str) -> MetadataChecks {
        match &self.source {
            Source::Builtin { gvk, .. } => builtin_kinds::metadata_checks(gvk, subresource),
            Source::Custom(_) => MetadataChecks {
                standard_finalizers: false,
                ..builtin_kinds::PLAIN_METADATA_CHECKS
            },
        }
    }

    /// Returns the value of a field label, or an error text if the label is not supported.
    pub(crate) fn field_label(&self, object: &Value, label: &str) -> Result<String, String> {
        match label {
            "metadata.name" => return Ok(object::name(object).to_owned()),
            "metadata.namespace" if self.namespaced => {
                return Ok(object::namespace(object).to_owned());
            }
            _ => {}
        }
        match &self.source {
            Source::Builtin { gvk, .. } => builtin_kinds::field_label(gvk, object, label),
            Source::Custom(version) => version.field_label(object, label),
        }
    }

    pub(crate) fn columns(&self) -> Vec<builtin_kinds::Column> {
        match &self.source {
            Source::Builtin { gvk, .. } => {
                let columns = builtin_kinds::columns(gvk);
                if columns.is_empty() {
                    builtin_kinds::generic_columns()
                } else {
                    columns
                }
            }
            Source::Custom(version) => version.columns(),
        }
    }

    /// Returns the cells of an object in a table, and subtracts the values that the paths of columns visit from `visits`;
    /// `None` if the cells are too large, or no values are left to visit.
    pub(crate) fn cells(&self, object: &Value, now: i64, visits: &mut usize) -> Option<Vec<Value>> {
        match &self.source {
            Source::Builtin { gvk, .. } => {
                let cells = builtin_kinds::cells(gvk, object, now);
                Some(if cells.is_empty() {
                    builtin_kinds::generic_cells(object, now)
                } else {
                    cells
                })
            }
            Source::Custom(version) => version.cells(object, now, visits),
        }
    }

    /// Returns a stored object in this version.
    pub(crate) fn serve(&self, stored: &Arc<Value>) -> Arc<Value> {
        match &self.source {
            Source::Builtin { .. } => shared_storage::serve(self, stored),
            Source::Custom(version) => version.serve(stored),
        }
    }

    /// Returns true if two definitions are the same version of a resource.
    pub(crate) fn is_same_version(&self, other: &Self) -> bool {
        self.version == other.version && self.subject.group == other.subject.group
    }

    /// Returns an object of this version in another version of the resource: converted by a webhook if there is one, or
    /// else with the other apiVersion.
    pub(crate) fn in_version(&self, object: Value, other: &Self) -> Value {
        let object = match &self.source {
            Source::Builtin { .. } => self.to_storage(object),
            Source::Custom(_) => object,
        };
        Arc::unwrap_or_clone(other.serve(&Arc::new(object)))
    }

    /// Returns an object of this version in its stored form.
    pub(crate) fn to_storage(&self, object: Value) -> Value {
        match &self.source {
            Source::Builtin { .. } => shared_storage::to_storage(self, object),
            Source::Custom(version) => version.to_storage(object),
        }
    }
}
