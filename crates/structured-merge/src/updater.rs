//! The effect of a write on the managers of an object, in terms of field sets, like the Updater of
//! `structured-merge-diff`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::convert::{ConvertError, Converter};
use crate::field_set::FieldSet;
use crate::go;
use crate::managed_fields::{Manager, Owned};
use crate::schema::Schema;
use crate::typed::{self, Comparison, Duplicates, TypedErrors};

pub(crate) type Owners = BTreeMap<Manager, Owned>;

/// The fields that an applier sets and another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedByOther {
    pub(crate) manager: Manager,
    pub(crate) fields: FieldSet,
}

/// The reason why the managers could not be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpdateError {
    #[error("conflicts")]
    Conflicts(Vec<OwnedByOther>),
    #[error("failed to compare objects: {0}")]
    Compare(TypedErrors),
    #[error("failed to merge config: {0}")]
    Merge(TypedErrors),
    #[error("{0}")]
    Convert(String),
    #[error("{context}: {message}")]
    ConvertWhile { context: String, message: String },
}

/// The properties of a kind for the updater.
pub(crate) struct Updater<'a> {
    pub(crate) schemas: &'a BTreeMap<String, Schema>,
    pub(crate) reset_fields: &'a BTreeMap<String, FieldSet>,
    pub(crate) converter: &'a dyn Converter,
}

/// An object in one version.
#[derive(Clone, Copy)]
struct Versioned<'a> {
    object: &'a Value,
    version: &'a str,
}

impl Updater<'_> {
    /// Returns the managers after a write other than an apply: `me` gets the differences between `live` and `new`.
    pub(crate) fn update(
        &self,
        live: &Value,
        new: &Value,
        version: &str,
        owners: Owners,
        me: &Manager,
    ) -> Result<Owners, UpdateError> {
        let mut owners = self.reconcile(
            Versioned {
                object: live,
                version,
            },
            owners,
        )?;
        let changes = self.take(live, new, version, &mut owners, me, true)?;
        let before = owners.remove(me).map(|owned| owned.fields).unwrap_or_default();
        let fields = before
            .difference(&changes.removed)
            .union(&changes.modified)
            .union(&changes.added);
        let fields = self.without_reset_fields(fields, version);
        if !fields.is_empty() {
            owners.insert(
                me.clone(),
                Owned {
                    fields: Arc::new(fields),
                    api_version: version.to_owned(),
                    applied: false,
                },
            );
        }
        Ok(owners)
    }

    /// Returns the merged object (`None` if nothing changed), and the managers after an apply.
    pub(crate) fn apply(
        &self,
        live: &Value,
        config: &Value,
        version: &str,
        owners: Owners,
        me: &Manager,
        force: bool,
    ) -> Result<(Option<Value>, Owners), UpdateError> {
        let Some(schema) = self.schemas.get(version) else {
            return Ok((None, owners));
        };
        let mut owners = self.reconcile(
            Versioned {
                object: live,
                version,
            },
            owners,
        )?;
        let merged = typed::merge(schema, live, config).map_err(UpdateError::Merge)?;
        let fields = self.without_reset_fields(typed::field_set(schema, config), version);
        let last = owners.insert(
            me.clone(),
            Owned {
                fields: Arc::new(fields),
                api_version: version.to_owned(),
                applied: true,
            },
        );
        let new = match last.filter(|last| !last.fields.is_empty()) {
            Some(last) => self.prune(merged, version, &owners, me, &last)?,
            None => merged,
        };
        if same_object(live, &new) {
            owners.retain(|_, owned| !owned.fields.is_empty());
            return Ok((None, owners));
        }
        self.take(live, &new, version, &mut owners, me, force)?;
        Ok((Some(new), owners))
    }

    fn without_reset_fields(&self, fields: FieldSet, version: &str) -> FieldSet {
        match self.reset_fields.get(version) {
            Some(reset) => fields.recursive_difference(reset),
            None => fields,
        }
    }

    /// Removes the differences between `old` and `new` from all managers except `me`.
    fn take(
        &self,
        old: &Value,
        new: &Value,
        version: &str,
        owners: &mut Owners,
        me: &Manager,
        force: bool,
    ) -> Result<Comparison, UpdateError> {
        let mut changes = BTreeMap::new();
        changes.insert(version.to_owned(), self.compare(old, new, version)?);
        let mut unknown = Vec::new();
        for (manager, owned) in owners.iter().filter(|(manager, _)| *manager != me) {
            if changes.contains_key(&owned.api_version) {
                continue;
            }
            match self.compare_in(old, new, version, &owned.api_version)? {
                Some(found) => _ = changes.insert(owned.api_version.clone(), found),
                None => unknown.push(manager.clone()),
            }
        }
        unknown.iter().for_each(|manager| _ = owners.remove(manager));

        let written: BTreeMap<&String, FieldSet> = changes
            .iter()
            .map(|(version, changes)| (version, changes.modified.union(&changes.added)))
            .collect();
        let others = owners.iter().filter(|(manager, _)| *manager != me);
        let mut conflicts = Vec::new();
        for (manager, owned) in others {
            let Some(written) = written.get(&owned.api_version) else {
                continue;
            };
            conflicts.push(OwnedByOther {
                manager: manager.clone(),
                fields: owned.fields.intersection(written),
            });
        }
        if !force && conflicts.iter().any(|conflict| !conflict.fields.is_empty()) {
            conflicts.retain(|conflict| !conflict.fields.is_empty());
            return Err(UpdateError::Conflicts(conflicts));
        }
        for OwnedByOther {
            manager,
            fields: taken,
        } in conflicts
        {
            let Some(owned) = owners.get_mut(&manager) else {
                continue;
            };
            let Some(changes) = changes.get(&owned.api_version) else {
                continue;
            };
            if !taken.is_empty() || !changes.removed.is_empty() {
                owned.fields = Arc::new(owned.fields.difference(&taken).difference(&changes.removed));
            }
        }
        owners.retain(|_, owned| !owned.fields.is_empty());
        Ok(changes.remove(version).unwrap_or_default())
    }

    /// Compares two objects. All objects were checked before: those of the caller by the field manager, others by
    /// [`convert`](Self::convert).
    fn compare(&self, old: &Value, new: &Value, version: &str) -> Result<Comparison, UpdateError> {
        let Some(schema) = self.schemas.get(version) else {
            return Ok(Comparison::default());
        };
        let found = typed::compare_valid(schema, old, new).map_err(UpdateError::Compare)?;
        Ok(found.without(self.reset_fields.get(version)))
    }

    fn compare_in(
        &self,
        old: &Value,
        new: &Value,
        from: &str,
        to: &str,
    ) -> Result<Option<Comparison>, UpdateError> {
        let old = self.convert(
            Versioned {
                object: old,
                version: from,
            },
            to,
            "failed to convert old object",
        )?;
        let Some(old) = old else { return Ok(None) };
        let new = self.convert(
            Versioned {
                object: new,
                version: from,
            },
            to,
            "failed to convert new object",
        )?;
        let Some(new) = new else { return Ok(None) };
        self.compare(&old, &new, to).map(Some)
    }

    /// Converts the object to another version; returns `None` if the version does not exist.
    fn convert<'v>(
        &self,
        from: Versioned<'v>,
        to: &str,
        context: &str,
    ) -> Result<Option<Cow<'v, Value>>, UpdateError> {
        let failed = |message| {
            if context.is_empty() {
                UpdateError::Convert(message)
            } else {
                UpdateError::ConvertWhile {
                    context: context.to_owned(),
                    message,
                }
            }
        };
        if from.version == to {
            return Ok(Some(Cow::Borrowed(from.object)));
        }
        let converted = match self.converter.convert(from.object, to) {
            Ok(converted) => converted,
            Err(ConvertError::MissingVersion) => return Ok(None),
            Err(ConvertError::Failed(message)) => return Err(failed(message)),
        };
        let Some(schema) = self.schemas.get(to) else {
            return Ok(None);
        };
        typed::validate(schema, &converted, Duplicates::Allowed)
            .map_err(|errors| failed(errors.to_string()))?;
        Ok(Some(Cow::Owned(converted)))
    }

    /// Updates the managers after a change of the schema. Managers of removed versions are dropped.
    fn reconcile(&self, live: Versioned<'_>, owners: Owners) -> Result<Owners, UpdateError> {
        let mut out = Owners::new();
        for (manager, mut owned) in owners {
            if self.convert(live, &owned.api_version, "")?.is_none() {
                continue;
            }
            let schema = self.schemas.get(&owned.api_version);
            if let Some(fields) = schema.and_then(|schema| typed::reconcile(schema, &owned.fields)) {
                owned.fields = Arc::new(fields);
            }
            out.insert(manager, owned);
        }
        Ok(out)
    }

    // === impl Updater: what an applier gives up ===

    /// Removes the fields that `me` applied before, does not apply now, and that no other manager owns.
    fn prune(
        &self,
        merged: Value,
        version: &str,
        owners: &Owners,
        me: &Manager,
        last: &Owned,
    ) -> Result<Value, UpdateError> {
        let kept =
            |owned: &Owned| owned.api_version == last.api_version && last.fields.is_subset(&owned.fields);
        if last.api_version == version && owners.get(me).is_some_and(kept) {
            return Ok(merged);
        }
        let context = "failed to prune fields: failed to convert merged object to last applied version";
        let from = Versioned {
            object: &merged,
            version,
        };
        let Some(in_last) = self.convert(from, &last.api_version, context)? else {
            return Ok(merged);
        };
        let Some(schema) = self.schemas.get(&last.api_version) else {
            return Ok(merged);
        };
        let pruned = typed::remove(schema, &in_last, &typed::with_named_fields(schema, &last.fields));
        let (pruned, pruned_version) = self.add_back_owned(&in_last, pruned, &last.api_version, owners)?;
        let pruned = self.add_back_dangling(&in_last, &pruned, &pruned_version, last)?;
        let back = Versioned {
            object: &pruned,
            version: &last.api_version,
        };
        let converted = self
            .convert(back, version, "failed to prune fields")?
            .map(Cow::into_owned);
        Ok(converted.unwrap_or(pruned))
    }

    /// Restores the fields that any manager owns, in each version that managers use.
    fn add_back_owned(
        &self,
        merged: &Value,
        pruned: Value,
        version: &str,
        owners: &Owners,
    ) -> Result<(Value, String), UpdateError> {
        let mut by_version: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for owned in owners.values() {
            let fields = by_version.entry(&owned.api_version).or_default();
            *fields = fields.union(&owned.fields);
        }
        let mut at = (Cow::Borrowed(merged), pruned, version.to_owned());
        // The pruned version is processed first: a later conversion might need fields that were pruned.
        let first = by_version.remove_entry(version);
        for (to, owned) in first.into_iter().chain(by_version) {
            let context = |part: &str| {
                format!(
                    "failed to prune fields: failed add back owned items: failed to convert {part} object at version {to}"
                )
            };
            let Some(merged) = self.convert(
                Versioned {
                    object: &at.0,
                    version: &at.2,
                },
                to,
                &context("merged"),
            )?
            else {
                continue;
            };
            let Some(pruned) = self.convert(
                Versioned {
                    object: &at.1,
                    version: &at.2,
                },
                to,
                &context("pruned"),
            )?
            else {
                continue;
            };
            let Some(schema) = self.schemas.get(to) else {
                continue;
            };
            let named = |fields: &FieldSet| typed::with_named_fields(schema, fields);
            let present = named(&typed::field_set(schema, &merged));
            let left = named(&typed::field_set(schema, &pruned)).union(&named(&owned));
            let pruned = typed::remove(schema, &merged, &present.difference(&left));
            at = (Cow::Owned(merged.into_owned()), pruned, to.to_owned());
        }
        Ok((at.1, at.2))
    }

    /// Restores fields that were removed although `me` did not apply them: the unowned parts of removed fields.
    fn add_back_dangling(
        &self,
        merged: &Value,
        pruned: &Value,
        pruned_version: &str,
        last: &Owned,
    ) -> Result<Value, UpdateError> {
        let context = "failed to prune fields: failed add back dangling items";
        let from = Versioned {
            object: pruned,
            version: pruned_version,
        };
        let Some(pruned) = self.convert(from, &last.api_version, context)? else {
            return Ok(merged.clone());
        };
        let Some(schema) = self.schemas.get(&last.api_version) else {
            return Ok(merged.clone());
        };
        let named = |fields: &FieldSet| typed::with_named_fields(schema, fields);
        let present = named(&typed::field_set(schema, merged));
        let left = named(&typed::field_set(schema, &pruned));
        Ok(typed::remove(
            schema,
            merged,
            &present.difference(&left).intersection(&named(&last.fields)),
        ))
    }
}

/// Returns true if a merge changed nothing. The merged object has no managedFields.
fn same_object(live: &Value, merged: &Value) -> bool {
    let (Some(live), Some(merged)) = (live.as_object(), merged.as_object()) else {
        return live == merged;
    };
    live.len() == merged.len()
        && live
            .iter()
            .all(|(key, value)| match (key.as_str(), value, merged.get(key)) {
                (_, _, None) => false,
                ("metadata", Value::Object(live), Some(Value::Object(merged))) => same_metadata(live, merged),
                (_, value, Some(other)) => go::equal(value, other),
            })
}

fn same_metadata(live: &Map<String, Value>, merged: &Map<String, Value>) -> bool {
    live.len() - usize::from(live.contains_key("managedFields")) == merged.len()
        && merged
            .iter()
            .all(|(key, value)| live.get(key).is_some_and(|other| go::equal(value, other)))
}
