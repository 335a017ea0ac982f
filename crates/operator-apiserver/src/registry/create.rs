//! Creates objects.

use std::sync::Arc;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::go;
use apimachinery::object;
use serde_json::Value;

use super::{Registry, escalation, metadata, request_signature, service_address, storable};
use crate::admission::{self, Operation};
use crate::identity::authz::Attributes;
use crate::resource::Source;
use crate::resource::crd::conversion;
use crate::status::{self, Status};
use crate::store::Rejected;
use crate::write::Write;

/// The number of attempts to generate a free name.
const GENERATE_NAME_TRIES: usize = 8;
/// The maximum length of the prefix of a generated name.
const GENERATE_NAME_BASE_MAX: usize = 58;

/// Fields that clients cannot set.
pub(crate) const SERVER_FIELDS: [&str; 5] = [
    "creationTimestamp",
    "uid",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

impl Registry {
    /// Creates a decoded and defaulted object. Returns it in the version of the request.
    pub(crate) async fn create(&self, write: &Write, mut object: Value) -> Result<Arc<Value>, Status> {
        if write.definition.is("", "limitranges") && object::name(&object).is_empty() {
            // This kind needs no name.
            object::set_meta(&mut object, "name", Some(self.random.uuid().into()));
        }
        let draws = object::name(&object).is_empty()
            && !object::text(&object, &["metadata", "generateName"]).is_empty();
        let earlier = if draws { GENERATE_NAME_TRIES - 1 } else { 0 };
        for _ in 0..earlier {
            match self.try_create(write, object.clone(), draws).await {
                Ok(created) => return Ok(created),
                Err(Refused::Exists(_)) => {}
                Err(Refused::Other(status)) => return Err(status),
            }
        }
        let last = self.try_create(write, object, draws).await;
        last.map_err(|(Refused::Exists(status) | Refused::Other(status))| status)
    }

    async fn try_create(&self, write: &Write, mut object: Value, draws: bool) -> Result<Arc<Value>, Refused> {
        let definition = &write.definition;
        self.fill_metadata(write, &mut object)?;
        let dropped = definition.drop_empty(&mut object);
        if !write.tracked {
            self.track(write, None, &mut object).await;
        }
        dropped.restore(&mut object);
        admission::admit(&self.admission, write, Operation::Create, &mut object, None).await?;
        // Admission may have changed the namespace.
        fill_namespace(write, &mut object)?;
        escalation::check(self, write, &object, None).await?;
        if draws {
            self.draw_name(&mut object);
            if definition.is("", "namespaces") {
                // Every namespace has its name as a label.
                definition.default(&mut object);
            }
        }
        warn_about_finalizers(write, &object, None);
        for warning in definition.prepare_for_create(&mut object) {
            write.warnings.add(warning);
        }
        if let Source::Builtin { gvk, .. } = &definition.source {
            builtin_kinds::stamp_times(gvk, &mut object, None, &self.timestamp());
        }
        warn_about_owners(write, &metadata::dedupe_owners(&mut object));
        let mut errors = ErrorList::new();
        if definition.is("", "services") {
            errors = service_address::allocate(self, &mut object, None, write.dry_run);
            if errors.is_empty() && !write.dry_run {
                service_address::check_health_port(&object, None)?;
            }
        }
        let outcome = definition.validate_create(&object);
        if errors.is_empty() {
            errors.extend(self.forbidden_admin_access(write, &object));
            errors.extend(metadata::among(definition, &object, outcome.errors));
            errors.extend(request_signature::fault(definition, &object));
        }
        let name = object::name(&object).to_owned();
        // As in the API server, the prefix counts even if the object has a name.
        let generates = !object::text(&object, &["metadata", "generateName"]).is_empty();
        if !errors.is_empty() {
            return Err(Refused::Other(status::invalid(
                definition.stored_subject(),
                &name,
                &errors,
            )));
        }
        for warning in outcome.warnings {
            write.warnings.add(warning);
        }
        self.check_upsert(write).await?;
        admission::validate(&self.admission, write, Operation::Create, &object, None).await?;
        definition.drop_empty(&mut object);
        let stored = conversion::to_storage(&self.converter, definition, object).await?;
        let created = self.insert(write, stored, &name, generates)?;
        conversion::prepare(&self.converter, definition, [&created]).await?;
        Ok(definition.serve(&created))
    }

    /// Checks that a PUT or an apply that creates an object is also allowed as a create.
    async fn check_upsert(&self, write: &Write) -> Result<(), Status> {
        if write.name.is_empty() {
            return Ok(());
        }
        let subject = &write.definition.subject;
        let asked = Attributes {
            version: &write.definition.version,
            namespace: &write.namespace,
            name: &write.name,
            ..Attributes::resource(&write.user, "create", &subject.group, &subject.resource)
        };
        self.authorizer.check(&asked).await
    }

    /// Stores a new object, and charges its quotas; returns the stored form.
    fn insert(
        &self,
        write: &Write,
        mut stored: Value,
        name: &str,
        generates: bool,
    ) -> Result<Arc<Value>, Refused> {
        let definition = &write.definition;
        let key = definition.key(&write.namespace, name);
        if !write.dry_run {
            check_revision(&stored)?;
            storable::check(write, &key, &mut stored)?;
        }
        loop {
            let charges = admission::charge(&self.admission, write, Operation::Create, &stored, None)?;
            if write.dry_run {
                return match self.store.get(&definition.table, &key) {
                    Some(live) => Err(exists(write, name, &live.value, generates)),
                    None => Ok(Arc::new(stored)),
                };
            }
            let reserved = service_address::reserve(self, write, &stored, None)?;
            // Only writes that charge quotas can conflict with each other.
            let value = if charges.is_empty() {
                std::mem::take(&mut stored)
            } else {
                stored.clone()
            };
            let (table, storage) = (&definition.table, &definition.storage);
            match self.store.create_with(table, storage, &key, value, charges) {
                Ok(created) => {
                    drop(reserved);
                    self.committed(definition, &key, None);
                    return Ok(created.value.clone());
                }
                Err(Rejected::Superseded) => {}
                Err(Rejected::Exists(live)) => return Err(exists(write, name, &live.value, generates)),
                Err(Rejected::NotPersisted(error)) => {
                    return Err(Refused::Other(status::not_persisted(&error)));
                }
                Err(Rejected::Gone | Rejected::Moved) => {
                    return Err(Refused::Other(status::internal("the store rejected a create")));
                }
            }
        }
    }

    /// Checks that a claim asks for access to devices in use only in a namespace with the label that allows it.
    fn forbidden_admin_access(&self, write: &Write, object: &Value) -> Option<Error> {
        let is = |resource| write.definition.is("resource.k8s.io", resource);
        let devices: &[&str] = if is("resourceclaims") {
            &["spec", "devices", "requests"]
        } else if is("resourceclaimtemplates") {
            &["spec", "spec", "devices", "requests"]
        } else {
            return None;
        };
        let requests = object::get(object, devices)?.as_array()?;
        // In v1beta1, the field is in the request itself.
        let paths: [&[&str]; 2] = [&["exactly", "adminAccess"], &["adminAccess"]];
        let asks = |request: &Value| {
            let mut found = paths.iter().map(|path| object::get(request, path));
            found.any(|access| access == Some(&true.into()))
        };
        let index = requests.iter().position(asks)?;
        let path = Path::new("spec").child("devices").child("requests").index(index);
        self.forbidden_in_namespace(write, &path)
    }

    /// Returns the error of a status whose devices have admin access, if those of the old status have none.
    pub(super) fn forbidden_admin_status(&self, write: &Write, object: &Value, old: &Value) -> Option<Error> {
        if write.subresource != "status" || !write.definition.is("resource.k8s.io", "resourceclaims") {
            return None;
        }
        let admitted = |claim: &Value| {
            let results = object::get(claim, &["status", "allocation", "devices", "results"])?.as_array()?;
            results
                .iter()
                .position(|result| result.get("adminAccess") == Some(&true.into()))
        };
        let index = admitted(object).filter(|_| admitted(old).is_none())?;
        let path = Path::new("status").child("allocation").child("devices");
        self.forbidden_in_namespace(write, &path.child("results").index(index))
    }

    fn forbidden_in_namespace(&self, write: &Write, path: &Path) -> Option<Error> {
        let namespace = self.store.get("namespaces", &write.namespace);
        let label = ["metadata", "labels", "resource.kubernetes.io/admin-access"];
        if namespace.is_some_and(|namespace| object::text(&namespace.value, &label) == "true") {
            return None;
        }
        let why = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";
        Some(Error::forbidden(path.child("adminAccess"), why))
    }

    fn fill_metadata(&self, write: &Write, object: &mut Value) -> Result<(), Status> {
        fill_namespace(write, object)?;
        let metadata = object::metadata_mut(object);
        // A PUT or an apply that creates an object keeps the fields of a deletion.
        let is_upsert = !write.name.is_empty();
        // An apply adds the selfLink after the fields are reset; the storage, which a dry run does not use, removes it.
        let keeps_link = write.tracked && write.dry_run;
        for field in SERVER_FIELDS {
            if !(is_upsert && field.starts_with("deletion") || keeps_link && field == "selfLink") {
                metadata.remove(field);
            }
        }
        metadata.insert("uid".to_owned(), self.random.uuid().into());
        metadata.insert("creationTimestamp".to_owned(), self.timestamp().into());
        Ok(())
    }

    fn draw_name(&self, object: &mut Value) {
        let prefix = object::text(object, &["metadata", "generateName"]);
        let base: String = prefix.chars().take(GENERATE_NAME_BASE_MAX).collect();
        let name = format!("{base}{}", self.random.suffix());
        object::set_meta(object, "name", Some(name.into()));
    }
}

/// Warns of new finalizers of custom resources whose names have no domain.
pub(super) fn warn_about_finalizers(write: &Write, object: &Value, old: Option<&Value>) {
    if !write.definition.is_custom() || !write.subresource.is_empty() {
        return;
    }
    let known = old.map(object::finalizers).unwrap_or_default();
    for finalizer in object::finalizers(object) {
        if !finalizer.contains('/') && !known.contains(&finalizer) {
            write.warnings.add(format!(
                "metadata.finalizers: {}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers",
                go::quote(finalizer)
            ));
        }
    }
}

/// Warns about repeated owner references with these uids.
pub(super) fn warn_about_owners(write: &Write, uids: &[String]) {
    if !uids.is_empty() {
        write.warnings.add(format!(
            "{DUPLICATE_OWNERS}; duplicate UID(s) observed: {}",
            uids.join(", ")
        ));
    }
}

const DUPLICATE_OWNERS: &str = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests";

/// Checks that a namespace in the body is the namespace of the request.
pub(crate) fn check_namespace(write: &Write, object: &Value) -> Result<(), Status> {
    let given = object::namespace(object);
    if given.is_empty() || given == write.namespace {
        return Ok(());
    }
    Err(status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Sets the namespace of the object to that of the request.
pub(crate) fn fill_namespace(write: &Write, object: &mut Value) -> Result<(), Status> {
    let given = object::namespace(object);
    if !write.definition.namespaced {
        if !given.is_empty() && given != write.namespace {
            object::set_meta(object, "namespace", None);
        }
        return Ok(());
    }
    // With an empty namespace in the path, validation rejects the object.
    if given.is_empty() || write.namespace.is_empty() {
        object::set_meta(object, "namespace", Some(write.namespace.clone().into()));
    }
    check_namespace(write, object)
}

/// Checks that a new object has no resourceVersion. One that is not a number is ignored, as in kube-apiserver.
fn check_revision(object: &Value) -> Result<(), Status> {
    match go::parse_uint(object::resource_version(object)) {
        Ok(1..) => Err(status::plain(
            "resourceVersion should not be set on objects to be created",
        )),
        _ => Ok(()),
    }
}

enum Refused {
    Exists(Status),
    Other(Status),
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::Other(status)
    }
}

fn exists(write: &Write, name: &str, live: &Value, generates: bool) -> Refused {
    let subject = &write.definition.subject;
    Refused::Exists(if generates {
        status::generate_name_conflict(subject, name)
    } else if object::is_terminating(live) {
        status::exists_while_deleted(subject, name)
    } else {
        status::already_exists(subject, name)
    })
}
