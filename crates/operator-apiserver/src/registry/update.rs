//! Changes objects: PUT and all kinds of patches.

use std::sync::Arc;

use apimachinery::go;
use apimachinery::object;
use builtin_kinds::Step;
use serde_json::Value;

use super::{Registry, create, escalation, metadata, service_address, storable};
use crate::admission::{self, Operation};
use crate::patch::managed_fields;
use crate::resource::Source;
use crate::resource::crd::conversion;
use crate::status::{self, Status};
use crate::store::{JointUpdate, Rejected, Stored};
use crate::write::Write;

/// A change: computes the new object from the live one, both in the version of the request.
pub(crate) trait Change: Send + Sync {
    /// Returns the new object, before the registry sets defaults.
    fn apply(&self, live: &Value) -> Result<Value, Status>;
}

impl<F> Change for F
where
    F: Fn(&Value) -> Result<Value, Status> + Send + Sync,
{
    fn apply(&self, live: &Value) -> Result<Value, Status> {
        self(live)
    }
}

/// The maximum number of optimistic-lock retries before a conflict is returned to the client.
const CHANGE_TRIES: usize = 100;

/// The maximum number of times that a field manager runs because a conversion to another version was missing. Each run
/// adds at least one conversion, and an object needs a few for each version of its kind.
const CONVERSION_ROUNDS_MAX: usize = 256;

impl Registry {
    /// Changes an object. After a concurrent write, the change is retried on the newer version, unless the new object
    /// has a resourceVersion.
    pub(crate) async fn update(&self, write: &Write, change: &dyn Change) -> Result<Arc<Value>, Status> {
        for _ in 0..CHANGE_TRIES {
            let live = self.load(write)?;
            if let Some(updated) = self.try_update(write, change, &live).await? {
                return Ok(updated);
            }
        }
        Err(status::modified(&write.definition.subject, &write.name))
    }

    /// Changes a stored object without admission, validation or field managers, for changes that the server itself
    /// makes during another request.
    pub(crate) fn rewrite(&self, write: &Write, change: &dyn Change) -> Result<Arc<Value>, Status> {
        for _ in 0..CHANGE_TRIES {
            let live = self.load(write)?;
            let stored = change.apply(&live.value)?;
            if stored == *live.value {
                return Ok(live.value.clone());
            }
            if let Some(updated) = self.replace(write, &live, stored, false, Vec::new())? {
                return Ok(updated);
            }
        }
        Err(status::modified(&write.definition.subject, &write.name))
    }

    async fn try_update(
        &self,
        write: &Write,
        change: &dyn Change,
        live: &Arc<Stored>,
    ) -> Result<Option<Arc<Value>>, Status> {
        let definition = &write.definition;
        conversion::prepare(&self.converter, definition, [&live.value]).await?;
        let old = definition.serve(&live.value);
        let mut object = self.changed(write, change, &old).await?;
        let dropped = definition.drop_empty(&mut object);
        create::fill_namespace(write, &mut object)?;
        self.check_preconditions(write, &object, &old)?;
        restore_server_fields(&mut object, &old, write.dry_run);
        object::copy_meta(&mut object, &old, "generation");
        if !write.tracked {
            self.track(write, Some(&old), &mut object).await;
        }
        admission::admit(&self.admission, write, Operation::Update, &mut object, Some(&old)).await?;
        // Admission may have changed the namespace.
        create::fill_namespace(write, &mut object)?;
        escalation::check(self, write, &object, Some(&old)).await?;
        if let Source::Builtin { gvk, .. } = &definition.source {
            builtin_kinds::stamp_times(gvk, &mut object, Some(&old), &self.timestamp());
        }
        definition.prepare_for_update(&write.subresource, &mut object, &old, dropped.any());
        restore_server_fields(&mut object, &old, write.dry_run);
        create::warn_about_owners(write, &metadata::dedupe_owners(&mut object));
        create::warn_about_finalizers(write, &object, Some(&old));
        if definition.is("", "services") && write.subresource.is_empty() {
            if !write.dry_run {
                service_address::check_node_ports(&object)?;
                service_address::check_health_port(&object, Some(&old))?;
            }
            let errors = service_address::allocate(self, &mut object, Some(&old), write.dry_run);
            if !errors.is_empty() {
                return Err(status::invalid(definition.stored_subject(), &write.name, &errors));
            }
        }
        if !definition.is("", "pods") {
            // An empty overhead is only distinguished in new pods.
            dropped.restore(&mut object);
        }
        self.validate_update(write, &object, &old)?;
        if dropped.any() {
            definition.drop_empty(&mut object);
        }
        admission::validate(&self.admission, write, Operation::Update, &object, Some(&old)).await?;
        object::copy_meta(&mut object, &old, "resourceVersion");
        let removes = is_finished(&object);
        let stored = conversion::to_storage(&self.converter, definition, object).await?;
        if managed_fields::equal_but_times(&live.value, &stored) {
            return Ok(Some(old));
        }
        let charges = admission::charge(
            &self.admission,
            write,
            Operation::Update,
            &stored,
            Some(&live.value),
        )?;
        let Some(updated) = self.replace(write, live, stored, removes, charges)? else {
            return Ok(None);
        };
        conversion::prepare(&self.converter, definition, [&updated]).await?;
        Ok(Some(definition.serve(&updated)))
    }

    /// Applies a change; retries it after each missing conversion.
    async fn changed(&self, write: &Write, change: &dyn Change, live: &Value) -> Result<Value, Status> {
        write.conversions.clear();
        for _ in 0..CONVERSION_ROUNDS_MAX {
            let changed = change.apply(live);
            if !write.conversions.fill(&self.converter, &write.definition).await {
                return changed;
            }
        }
        change.apply(live)
    }

    /// Updates the managed fields after a write other than an apply; retries it after each missing conversion.
    pub(super) async fn track(&self, write: &Write, live: Option<&Value>, object: &mut Value) {
        let now = self.timestamp();
        if conversion::has_webhook(&write.definition) {
            for _ in 0..CONVERSION_ROUNDS_MAX {
                let mut tracked = object.clone();
                managed_fields::update(&now, write, live, &mut tracked);
                if !write.conversions.fill(&self.converter, &write.definition).await {
                    *object = tracked;
                    return;
                }
            }
        }
        managed_fields::update(&now, write, live, object);
    }

    /// Stores a changed object, or removes it if it is terminating without finalizers. Returns the stored form, or
    /// `None` if the live object, or a quota that is charged, has changed.
    fn replace(
        &self,
        write: &Write,
        live: &Stored,
        mut stored: Value,
        removes: bool,
        charges: Vec<JointUpdate>,
    ) -> Result<Option<Arc<Value>>, Status> {
        let definition = &write.definition;
        if write.dry_run {
            return Ok(Some(Arc::new(stored)));
        }
        if !removes {
            storable::check(write, &live.key, &mut stored)?;
        }
        let reserved = service_address::reserve(self, write, &stored, Some(&live.value))?;
        let result = if removes {
            // Watchers get the last stored form of the object; the client gets the object that it sent.
            self.store
                .delete(&definition.table, &definition.storage, live)
                .map(|_| Arc::new(stored))
        } else {
            self.store
                .update_with(&definition.table, &definition.storage, live, stored, charges)
                .map(|updated| updated.value.clone())
        };
        match result {
            Ok(updated) => {
                drop(reserved);
                self.committed(definition, &live.key, Some(&live.value));
                Ok(Some(updated))
            }
            Err(Rejected::Gone) => Err(write.not_found()),
            Err(Rejected::NotPersisted(error)) => Err(status::not_persisted(&error)),
            Err(Rejected::Moved | Rejected::Superseded | Rejected::Exists(_)) => Ok(None),
        }
    }

    /// Checks that the resourceVersion and the uid of the request are the live ones.
    fn check_preconditions(&self, write: &Write, object: &Value, old: &Value) -> Result<(), Status> {
        let subject = &write.definition.subject;
        let uid = object::uid(object);
        // For a patch, validation rejects another uid.
        if write.replaces && !uid.is_empty() && uid != object::uid(old) {
            return Err(write.precondition_failed("UID", uid, object::uid(old)));
        }
        let version = object::resource_version(object);
        if version.is_empty() || version == "0" {
            if matches!(write.subresource.as_str(), "" | "status")
                && !write.definition.allows_unconditional_update()
            {
                return Err(must_be_specified(write));
            }
            return Ok(());
        }
        let wanted = go::parse_uint(version).map_err(status::plain)?;
        if go::parse_uint(object::resource_version(old)) != Ok(wanted) {
            return Err(status::modified(subject, &write.name));
        }
        Ok(())
    }

    fn validate_update(&self, write: &Write, object: &Value, old: &Value) -> Result<(), Status> {
        let definition = &write.definition;
        let mut errors = metadata::validate_update(definition, &write.subresource, object, old);
        errors.extend(self.forbidden_admin_status(write, object, old));
        let outcome = definition.validate_update(&write.subresource, object, old);
        let mut update = outcome.errors;
        for step in definition.update_steps(&write.subresource) {
            errors.extend(match step {
                Step::Change => metadata::validate_change_again(definition, object, old),
                Step::Whole => metadata::validate_create(definition, object),
                Step::New => definition.validate_create(object).errors,
                Step::Update => std::mem::take(&mut update),
            });
        }
        if errors.is_empty() || definition.is_custom() {
            for warning in outcome.warnings {
                write.warnings.add(warning);
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(status::invalid(definition.stored_subject(), &write.name, &errors))
    }
}

fn must_be_specified(write: &Write) -> Status {
    use apimachinery::field::{Error, Path};
    let error = Error::invalid(
        Path::new("metadata").child("resourceVersion"),
        0.into(),
        "must be specified for an update",
    );
    // The API server names the resource here; other errors name the kind.
    let mut subject = write.definition.subject.clone();
    subject.kind.clone_from(&subject.resource);
    status::invalid(&subject, &write.name, &[error])
}

/// Restores immutable fields.
fn restore_server_fields(object: &mut Value, old: &Value, dry_run: bool) {
    if object::uid(object).is_empty() {
        object::copy_meta(object, old, "uid");
    }
    object::copy_meta(object, old, "creationTimestamp");
    // The storage, which a dry run does not use, removes the selfLink.
    if !dry_run {
        object::copy_meta(object, old, "selfLink");
    }
    // A deletion cannot be cancelled; validation rejects new deletion fields.
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if object::meta(old, field).is_some() {
            object::copy_meta(object, old, field);
        }
    }
    object::set_meta(object, "name", Some(object::name(old).into()));
}

/// Returns true if nothing delays the removal of a terminating object any more.
fn is_finished(object: &Value) -> bool {
    let no_grace = object::meta(object, "deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or_default()
        == 0;
    object::is_terminating(object)
        && no_grace
        && object::finalizers(object).is_empty()
        && !super::delete::has_spec_finalizers(object)
}
