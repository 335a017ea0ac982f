//! [`Resources`], the reads and writes of a client for one kind and one type.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kube::api::{ListParams, Patch, Preconditions};
use kube::core::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::request::Target;
use super::{Client, ClientError, Written, merge};
use crate::cache::decode::with_owners;
use crate::cache::informer::CachedState;
use crate::cache::skips::Interest;
use crate::cache::{ListOptions, noop};
use crate::object::{Kind, ObjectKey, View};

/// The objects of one kind as `K`. Each function implements the function of [`Client`] with the same name.
pub(crate) struct Resources<'a, K> {
    pub(crate) client: &'a Client,
    pub(crate) kind: Cow<'a, Kind>,
    objects: PhantomData<fn() -> K>,
}

impl Client {
    /// Returns the target of a request.
    ///
    /// # Errors
    /// Returns an error if the client is limited to another namespace.
    pub(super) fn target(
        &self,
        verb: &'static str,
        kind: &Kind,
        key: ObjectKey,
    ) -> Result<Target, ClientError> {
        let mut target = Target {
            verb,
            kind: kind.clone(),
            key,
        };
        if let Some(own) = self.options.namespace.as_deref().filter(|_| kind.namespaced) {
            match target.key.namespace() {
                Some(other) if other != own => {
                    return Err(ClientError::OtherNamespace {
                        what: target.to_string(),
                        namespace: own.to_owned(),
                    });
                }
                Some(_) => {}
                None => target.key = ObjectKey::namespaced(own, target.key.name()),
            }
        }
        Ok(target)
    }
}

// === impl Resources ===

impl<'a, K: View> Resources<'a, K> {
    pub(crate) fn new(client: &'a Client, kind: Cow<'a, Kind>) -> Self {
        let objects = PhantomData;
        Self {
            client,
            kind,
            objects,
        }
    }

    pub(super) async fn get(&self, key: ObjectKey) -> Result<Option<Arc<K>>, ClientError> {
        let target = self.client.target("get", &self.kind, key)?;
        if self.client.options.live {
            return self.client.get_live(&target).await;
        }
        let informer = self.client.cache.reader_of::<K>(&self.kind)?;
        let consistency = self.client.options.consistency();
        Ok(self
            .client
            .cache
            .read(&informer, &target.key, consistency)
            .await?)
    }

    pub(super) async fn list(&self, options: ListOptions) -> Result<Vec<Arc<K>>, ClientError> {
        let options = self.in_own_namespace("list", options)?;
        if self.client.options.live {
            let key = ObjectKey::new(options.namespace(), "");
            let target = self.client.target("list", &self.kind, key)?;
            return self.client.list_live(&target, &options).await;
        }
        let informer = self.client.cache.reader_of::<K>(&self.kind)?;
        let consistency = self.client.options.consistency();
        Ok(self.client.cache.select(&informer, &options, consistency).await?)
    }

    pub(super) async fn apply(&self, mut desired: K) -> Result<Written<K>, ClientError> {
        let target = self.named("apply", &mut desired)?;
        let configuration = configuration(&target, &desired)?;
        let is_applied = |known: &CachedState<K>| Ok(self.is_applied(&configuration, known));
        if let Some(known) = self.client.skip_if(&target, || Interest::Applied, is_applied)? {
            return Ok(Written::Unchanged(known.object));
        }
        let mut parameters = self.client.options.patch();
        parameters.force = self.client.options.force;
        let patch = Patch::Apply(&configuration);
        let request = target.request().patch(target.key.name(), &parameters, &patch);
        self.client.sent(&target, &Interest::Applied);
        self.client.write(&target, request).await.map(Written::Sent)
    }

    pub(super) async fn create(&self, mut object: K) -> Result<Written<K>, ClientError> {
        let target = self.placed("create", &mut object)?;
        self.whole(&target)?;
        let body = whole_object(&target, &object)?.to_string().into_bytes();
        let request = target.request().create(&self.client.options.post(), body);
        let request = self.client.validated(request);
        self.client.write(&target, request).await.map(Written::Sent)
    }

    pub(super) async fn update(&self, mut object: K) -> Result<Written<K>, ClientError> {
        let target = self.named("update", &mut object)?;
        self.whole(&target)?;
        let body = whole_object(&target, &object)?;
        let is_same = |known: &CachedState<K>| is_same_state(&target, &body, known.object.as_ref());
        if let Some(known) = self.client.skip_if(&target, || Interest::Everything, is_same)? {
            return Ok(Written::Unchanged(known.object));
        }
        let body = body.to_string().into_bytes();
        let parameters = self.client.options.post();
        let request = target.request().replace(target.key.name(), &parameters, body);
        let request = self.client.validated(request);
        self.client.sent(&target, &Interest::Everything);
        self.client.write(&target, request).await.map(Written::Sent)
    }

    pub(super) async fn patch<P: Serialize + fmt::Debug>(
        &self,
        key: ObjectKey,
        patch: &Patch<P>,
    ) -> Result<Written<K>, ClientError> {
        let target = self.client.target("patch", &self.kind, key)?;
        target.check()?;
        let interest = match patch {
            Patch::Merge(patch) => {
                let patch = serde_json::to_value(patch).map_err(|source| target.unserializable(source))?;
                let is_noop = |known: &CachedState<K>| Ok(merge::changes_nothing(&patch, &known.value));
                let interest = Interest::of_merge_patch(&patch);
                if let Some(known) = self.client.skip_if(&target, || interest.clone(), is_noop)? {
                    return Ok(Written::Unchanged(known.object));
                }
                interest
            }
            Patch::Json(patch) => {
                let is_noop = |known: &CachedState<K>| {
                    let mut after = known.value.clone();
                    let is_patched = !patch.0.is_empty() && json_patch::patch(&mut after, patch).is_ok();
                    Ok(is_patched && known.value == after)
                };
                if let Some(known) = self.client.skip_if(&target, || Interest::Everything, is_noop)? {
                    return Ok(Written::Unchanged(known.object));
                }
                Interest::Everything
            }
            _ => Interest::Everything,
        };
        let mut parameters = self.client.options.patch();
        parameters.force = matches!(patch, Patch::Apply(_)) && self.client.options.force;
        let request = target.request().patch(target.key.name(), &parameters, patch);
        self.client.sent(&target, &interest);
        self.client.write(&target, request).await.map(Written::Sent)
    }

    /// Reads an object from the API server.
    pub(crate) async fn get_live(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, ClientError> {
        let target = self.client.target("get", &self.kind, key.clone())?;
        self.client.get_live(&target).await
    }

    /// Records that the server no longer has this object.
    pub(crate) fn take_gone(&self, key: &ObjectKey, object: &ObjectMeta) -> Result<(), ClientError> {
        let target = self.client.target("get", &self.kind, key.clone())?;
        self.client.take_gone(&target, object);
        Ok(())
    }

    /// Replaces the finalizers of an object at this resource version.
    pub(crate) async fn patch_finalizers(
        &self,
        key: &ObjectKey,
        finalizers: &[String],
        version: Option<&str>,
    ) -> Result<Written<K>, ClientError> {
        let target = self
            .client
            .target("patch the finalizers of", &self.kind, key.clone())?;
        target.check()?;
        let wanted = json!(finalizers);
        let interest = || Interest::Members(json!({"metadata": {"finalizers": null}}));
        let is_noop = |known: &CachedState<K>| {
            let current = &known.value["metadata"]["finalizers"];
            Ok(*current == wanted || (current.is_null() && finalizers.is_empty()))
        };
        if let Some(known) = self.client.skip_if(&target, interest, is_noop)? {
            return Ok(Written::Unchanged(known.object));
        }
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}}));
        let request = target
            .request()
            .patch(target.key.name(), &self.client.options.patch(), &patch);
        self.client.sent(&target, &interest());
        self.client.write(&target, request).await.map(Written::Sent)
    }

    pub(super) async fn patch_from(&self, old: &K, new: K) -> Result<Written<K>, ClientError> {
        let target = self.client.target("patch", &self.kind, ObjectKey::of(old))?;
        let version = match self.client.options.optimistic_lock {
            false => None,
            true => {
                // The server would ignore null.
                let version = old.meta().resource_version.as_deref();
                let version = version.filter(|version| !version.is_empty());
                Some(version.ok_or_else(|| ClientError::Incomplete {
                    verb: "patch",
                    kind: self.kind.to_string(),
                    field: "resourceVersion",
                })?)
            }
        };
        let Some(mut patch) = difference(&target, old, &new)? else {
            return Ok(Written::Unchanged(Arc::new(new)));
        };
        if let Some(version) = version {
            patch["metadata"]["resourceVersion"] = version.into();
        }
        self.patch(target.key, &Patch::Merge(patch)).await
    }

    /// Deletes an object. The UID becomes a precondition unless the options already have preconditions.
    pub(super) async fn delete(&self, key: ObjectKey, uid: Option<String>) -> Result<(), ClientError> {
        let mut parameters = self.client.options.delete.clone();
        if uid.is_some() && parameters.preconditions.is_none() {
            parameters.preconditions = Some(Preconditions {
                uid,
                resource_version: None,
            });
        }
        let target = self.client.target("delete", &self.kind, key)?;
        target.check()?;
        parameters.dry_run |= self.client.options.dry_run;
        let request = target.request().delete(target.key.name(), &parameters);
        let only = parameters.preconditions.and_then(|only| only.uid);
        let answer = self.client.send::<Value>(&target, request).await;
        let deletion = match answer {
            Err(error) if error.is_not_found() => only.map(|uid| (uid, None)),
            Err(error) => return Err(error),
            Ok(_) if parameters.dry_run => None,
            Ok(answer) => match deletion_by_delete(&answer) {
                Some(deletion) => Some(deletion),
                None => {
                    // The object stays until its finalizers are removed or its grace period is over.
                    self.client.take_changed(&target, answer);
                    None
                }
            },
        };
        if let Some((uid, at)) = deletion {
            self.client.take_deleted(&target, &uid, at);
        }
        Ok(())
    }

    pub(super) async fn delete_all_of(&self, options: ListOptions) -> Result<(), ClientError> {
        const VERB: &str = "delete all of";
        let options = self.in_own_namespace(VERB, options)?;
        let mut parameters = self.client.options.delete.clone();
        if options.are_of_the_cache() {
            // An index may omit an object that cannot be decoded as its type.
            if let Some(malformed) = self.client.cache.malformed(&self.kind, options.namespace()) {
                return Err(malformed.into());
            }
            for object in self.list(options).await? {
                self.delete(ObjectKey::of(object.as_ref()), None).await?;
            }
            return Ok(());
        }
        let key = ObjectKey::new(options.namespace(), "");
        let target = self.client.target(VERB, &self.kind, key)?;
        if self.kind.namespaced && target.key.namespace().is_none() {
            let (verb, kind, field) = (VERB, self.kind.to_string(), "namespace");
            return Err(ClientError::Incomplete { verb, kind, field });
        }
        let labels = &options.labels;
        let selected = ListParams {
            label_selector: (!labels.selects_all()).then(|| labels.to_string()),
            field_selector: options.field_selector(),
            ..ListParams::default()
        };
        parameters.dry_run |= self.client.options.dry_run;
        let request = target.request().delete_collection(&parameters, &selected);
        // The response contains the objects before the deletion, and does not show which of them are gone.
        self.client.send::<Value>(&target, request).await.map(drop)
    }

    /// Returns the target of an object, with the namespace of the client by default.
    pub(super) fn placed(&self, verb: &'static str, object: &mut K) -> Result<Target, ClientError> {
        let target = self.client.target(verb, &self.kind, ObjectKey::of(object))?;
        if object.meta().namespace.is_none() {
            object.meta_mut().namespace = target.key.namespace().map(str::to_owned);
        }
        Ok(target)
    }

    /// Returns the target of an object that must have a name; see [`Resources::placed`].
    fn named(&self, verb: &'static str, object: &mut K) -> Result<Target, ClientError> {
        let target = self.placed(verb, object)?;
        target.check()?;
        Ok(target)
    }

    fn whole(&self, target: &Target) -> Result<(), ClientError> {
        if K::metadata_api() {
            let what = target.to_string();
            return Err(ClientError::MetadataOnly { what });
        }
        Ok(())
    }

    fn in_own_namespace(&self, verb: &'static str, options: ListOptions) -> Result<ListOptions, ClientError> {
        let key = ObjectKey::new(options.namespace(), "");
        let target = self.client.target(verb, &self.kind, key)?;
        Ok(options.within(target.key.namespace()))
    }

    fn is_applied(&self, configuration: &Value, known: &CachedState<K>) -> bool {
        let is_own_manager = *self.client.options.field_manager == *self.client.cache.manager();
        let applied = known.applied.as_deref().filter(|_| is_own_manager);
        applied.is_some_and(|applied| {
            let applied = with_owners(applied, &known.value);
            noop::is_applied(configuration, &applied, &known.value)
        })
    }
}

/// Returns the UID of the object that the response to a DELETE proves to be gone, and the revision of the deletion if
/// known. kube-apiserver responds with a `Status` or, for some kinds, with the deleted object, which was never marked
/// for deletion. An object that remains has a deletion timestamp.
fn deletion_by_delete(answer: &Value) -> Option<(String, Option<u64>)> {
    if answer["kind"] == "Status" && answer["status"] == "Success" {
        let uid = answer["details"]["uid"].as_str()?;
        return Some((uid.to_owned(), None));
    }
    let metadata = &answer["metadata"];
    if metadata["deletionTimestamp"].is_string() {
        return deletion_by_write(answer);
    }
    Some((metadata["uid"].as_str()?.to_owned(), revision_in(metadata)))
}

/// Returns the UID and the revision like [`deletion_by_delete`], for any response that is an object: the write has
/// removed the last finalizer.
pub(super) fn deletion_by_write(answer: &Value) -> Option<(String, Option<u64>)> {
    let metadata = &answer["metadata"];
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let is_namespace = answer["kind"] == "Namespace" && answer["apiVersion"] == "v1";
    let is_gone = metadata["deletionTimestamp"].is_string()
        && metadata["deletionGracePeriodSeconds"]
            .as_u64()
            .unwrap_or_default()
            == 0
        && is_empty(&metadata["finalizers"])
        && (!is_namespace || is_empty(&answer["spec"]["finalizers"]));
    let uid = metadata["uid"].as_str().filter(|_| is_gone)?;
    Some((uid.to_owned(), revision_in(metadata)))
}

fn revision_in(metadata: &Value) -> Option<u64> {
    metadata["resourceVersion"].as_str()?.parse().ok()
}

/// Returns the object with its kind, which not every type serializes, and without nulls, which are unset `Option`s.
pub(super) fn whole_object(target: &Target, object: &impl Serialize) -> Result<Value, ClientError> {
    let mut value = serde_json::to_value(object).map_err(|source| target.unserializable(source))?;
    noop::remove_nulls(&mut value);
    if let Some(object) = value.as_object_mut() {
        object.insert("apiVersion".to_owned(), target.kind.api_version().into());
        object.insert("kind".to_owned(), target.kind.kind.clone().into());
    }
    Ok(value)
}

/// Returns the merge patch from one state of an object to another, without the resource version.
///
/// # Errors
/// Returns an error if they are states of two different objects.
fn difference<K: View>(target: &Target, old: &K, new: &K) -> Result<Option<Value>, ClientError> {
    if ObjectKey::of(old) != ObjectKey::of(new) {
        let what = target.to_string();
        return Err(ClientError::Renamed { what });
    }
    let (mut old, mut new) = (whole_object(target, old)?, whole_object(target, new)?);
    for value in [&mut old, &mut new] {
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
        }
    }
    Ok(merge::difference(&old, &new))
}

/// Returns the body of an apply: without the status, which has its own subresource.
fn configuration(target: &Target, desired: &impl Serialize) -> Result<Value, ClientError> {
    let mut value = whole_object(target, desired)?;
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    Ok(value)
}

/// Returns true if `body` is the known state, including the resource version.
fn is_same_state<K: View>(target: &Target, body: &Value, known: &K) -> Result<bool, ClientError> {
    let mut known = whole_object(target, known)?;
    let mut body = body.clone();
    for value in [&mut known, &mut body] {
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
    }
    Ok(known == body)
}
