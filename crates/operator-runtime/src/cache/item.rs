//! Objects of any type behind one pointer, and their conversion to the types of readers. The main type is [`Intake`].
//!
//! Each kind has one watch and one store. Objects are decoded as the narrowest type that serves all readers: metadata
//! only, one Rust type, or the whole object as `DynamicObject`. The store keeps them packed; they are decoded as the
//! type of a reader, and shared while they are [`Hot`].

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use kube::api::DynamicObject;
use kube::core::{ObjectMeta, TypeMeta};
use kube::runtime::watcher::{self, Event as WatchEvent, watcher};
use kube::{Api, Resource};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::decode::{Ingested, Malformed, guarded};
use super::hot::Hot;
use super::packed::{Dictionary, Packed, Reader, Writer};
use super::selection::ListOptions;
use super::store::Scope;
use super::transforms::Transforms;
use crate::object::{Kind, Meta, View};

/// An object of any type.
pub(crate) trait Item: Any + Meta {
    /// Returns the complete object, as far as its type has fields for it.
    fn to_value(&self) -> serde_json::Result<Value>;
    /// Returns the type as a representation of its kind.
    fn representation(&self) -> Representation;
}

impl<K: View> Item for K {
    fn to_value(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }

    fn representation(&self) -> Representation {
        Representation::of::<K>()
    }
}

/// An object in the store.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) packed: Packed,
    /// The fields that the operator applied: API version and `fieldsV1`, separated by a space.
    pub(crate) applied: Option<Arc<str>>,
    form: Form,
}

/// An incoming object, decoded and in the form of the store.
#[derive(Clone)]
pub(crate) struct Arrived {
    pub(crate) object: Arc<dyn Item>,
    pub(crate) stored: Stored,
}

/// The number of a representation among those of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form(u8);

/// An incoming object, or the reason why it cannot be decoded.
pub(crate) type Incoming = Result<Arrived, Malformed>;

/// The objects from a watch.
pub(crate) type Incomings = BoxStream<'static, watcher::Result<WatchEvent<Incoming>>>;

/// Decodes and transforms the objects of a kind, when they arrive and when they are read.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) kind: Kind,
    /// The field manager of the operator.
    pub(crate) manager: Arc<str>,
    pub(super) transforms: Transforms,
    pub(super) dictionary: Dictionary,
    pub(super) hot: Hot,
    /// Representations only become wider, so there are few.
    forms: RwLock<Vec<Representation>>,
}

/// The type in which a store keeps its objects.
#[derive(Clone, Copy)]
pub(crate) struct Representation {
    type_id: TypeId,
    width: Width,
    pub(crate) open: fn(kube::Client, &Scope, watcher::Config, Arc<Intake>, FindOwnWrite) -> Incomings,
    pub(crate) take: fn(Value, &Intake) -> Result<Incoming, serde_json::Error>,
    unpack: Unpack,
}

/// Finds the response to the own write that produced a state of an object.
pub(crate) type FindOwnWrite = Box<dyn Fn(&ObjectMeta) -> Option<Arrived> + Send + Sync>;

type Unpack = fn(&Stored, &Intake) -> Result<Arc<dyn Item>, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    Metadata,
    Typed,
    Dynamic,
}

// === impl Intake ===

impl Intake {
    pub(crate) fn new(kind: Kind, manager: Arc<str>, transforms: &Transforms, keeps_decoded: bool) -> Self {
        Self {
            transforms: transforms.only(&kind),
            kind,
            manager,
            dictionary: Dictionary::default(),
            hot: Hot::new(keeps_decoded),
            forms: RwLock::default(),
        }
    }

    /// Returns the number of a representation, which is assigned on first use.
    pub(super) fn form(&self, representation: Representation) -> Form {
        let place = |forms: &[Representation]| forms.iter().position(|form| *form == representation);
        let known = place(&self.forms.read());
        let number = known.unwrap_or_else(|| {
            let mut forms = self.forms.write();
            place(&forms).unwrap_or_else(|| {
                forms.push(representation);
                forms.len() - 1
            })
        });
        Form(number.try_into().unwrap_or(u8::MAX))
    }

    fn representation(&self, form: Form) -> Option<Representation> {
        self.forms.read().get(usize::from(form.0)).copied()
    }

    pub(super) fn stored(&self, packed: Packed, applied: Option<Arc<str>>, form: Form) -> Stored {
        Stored {
            packed,
            applied,
            form,
        }
    }

    /// Returns the object as a `K`. Concurrent readers share it.
    ///
    /// # Errors
    /// Returns an error if the object cannot be decoded as `K`, or is kept as a narrower type.
    pub(crate) fn read<K: View>(&self, stored: &Stored) -> Result<Arc<K>, String> {
        if let Some(object) = self.hot.get(&stored.packed) {
            return Ok(object);
        }
        let object = Arc::new(self.decode::<K>(stored)?);
        self.hot.put(&stored.packed, object.clone());
        Ok(object)
    }

    /// Returns the object as a `K` without evicting frequently read objects; for lists.
    ///
    /// # Errors
    /// As for [`Intake::read`].
    pub(crate) fn look_at<K: View>(&self, stored: &Stored) -> Result<Arc<K>, String> {
        if self.hot.keeps_all() {
            return self.read(stored);
        }
        match self.hot.get(&stored.packed) {
            Some(object) => Ok(object),
            None => self.decode(stored).map(Arc::new),
        }
    }

    /// Returns the complete object with its kind as the server has it, or `None` if it was transformed or only its
    /// metadata is kept.
    pub(crate) fn whole<K: View>(&self, stored: &Stored) -> Option<Value> {
        let kept = self.representation(stored.form)?;
        let is_whole = kept.width != Width::Metadata || K::metadata_api();
        if !is_whole || self.transforms.are_any() || !self.serves::<K>(stored) {
            return None;
        }
        let mut value: Value = stored.packed.decode(&self.dictionary).ok()?;
        let object = value.as_object_mut()?;
        object.insert("apiVersion".to_owned(), self.kind.api_version().into());
        object.insert("kind".to_owned(), self.kind.kind.clone().into());
        Some(value)
    }

    /// Returns true if the object was kept so that it can be read as a `K`.
    pub(super) fn serves<K: View>(&self, stored: &Stored) -> bool {
        let kept = self.representation(stored.form);
        kept.is_some_and(|kept| kept.serves(&Representation::of::<K>()))
    }

    /// Returns the UID of an object and the revision of its deletion, if the response to a write proves that the object
    /// is gone: it was being deleted, and the write removed the last finalizer.
    pub(crate) fn deletion(&self, arrived: &Arrived) -> Option<(String, Option<u64>)> {
        let (metadata, packed) = (arrived.object.metadata(), &arrived.stored.packed);
        let is_namespace = self.kind.group.is_empty() && self.kind.kind == "Namespace";
        let of_namespace = || packed.find::<Vec<String>>(&["spec", "finalizers"], &self.dictionary);
        let is_gone = metadata.deletion_timestamp.is_some()
            && metadata.deletion_grace_period_seconds.unwrap_or_default() == 0
            && metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
            && (!is_namespace || of_namespace().is_none_or(|finalizers| finalizers.is_empty()))
            && !self.transforms.are_any();
        let revision = Some(packed.revision()).filter(|revision| *revision > 0);
        packed.uid().filter(|_| is_gone).map(|uid| (uid, revision))
    }

    /// Returns true if the labels of an object match.
    pub(super) fn is_wanted(&self, Stored { packed, .. }: &Stored, options: &ListOptions) -> bool {
        let labels = || packed.find(&["metadata", "labels"], &self.dictionary);
        options.matches(|| labels().unwrap_or_default())
    }

    /// Returns the object in the form in which it arrived.
    pub(super) fn unpack(&self, stored: &Stored) -> Option<Arc<dyn Item>> {
        let unpacked = (self.representation(stored.form)?.unpack)(stored, self);
        let complain = |error: &String| {
            let (kind, name) = (&self.kind, stored.packed.name());
            tracing::error!(%kind, namespace = stored.packed.namespace(), name, error, "Object cannot be decoded again");
        };
        unpacked.inspect_err(complain).ok()
    }

    fn decode<K: View>(&self, stored: &Stored) -> Result<K, String> {
        guarded(|| self.decode_unguarded(stored))
    }

    fn decode_unguarded<K: View>(&self, stored: &Stored) -> Result<K, String> {
        let (kept, wanted) = (self.representation(stored.form), Representation::of::<K>());
        let is_enough =
            |kept: Representation| kept.width != Width::Metadata || wanted.width == Width::Metadata;
        if !kept.is_some_and(is_enough) {
            return Err(format!("{} is not completely in the cache yet", self.kind));
        }
        let mut object: K = if kept != Some(wanted) && wanted.width == Width::Metadata {
            let metadata: Option<Value> = stored.packed.find(&["metadata"], &self.dictionary);
            self.metadata_as(&metadata)?
        } else {
            let decoded = stored.packed.decode(&self.dictionary);
            decoded.map_err(|error| error.to_string())?
        };
        name_kind(&mut object, &self.kind);
        // An object that is kept as `K` is already transformed.
        if kept != Some(wanted) {
            self.transforms.apply(&mut object);
        }
        Ok(object)
    }

    fn metadata_as<K: View>(&self, metadata: &impl serde::Serialize) -> Result<K, String> {
        let kind = &self.kind;
        from_value(json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata}))
    }
}

// === impl Stored ===

impl Stored {
    /// Returns true if both arrived as the same type.
    pub(super) fn is_of_form_of(&self, other: &Self) -> bool {
        self.form == other.form
    }
}

// === impl Representation ===

impl Representation {
    pub(crate) fn of<K: View>() -> Self {
        let type_id = TypeId::of::<K>();
        let width = if K::metadata_api() {
            Width::Metadata
        } else if type_id == TypeId::of::<DynamicObject>() {
            Width::Dynamic
        } else {
            Width::Typed
        };
        Self {
            type_id,
            width,
            open: open::<K>,
            take: take::<K>,
            unpack: |stored, intake| Ok(intake.look_at::<K>(stored)?),
        }
    }

    /// Returns true if objects in this representation can be read as `other`.
    pub(crate) fn serves(&self, other: &Self) -> bool {
        self == other || self.width == Width::Dynamic || other.width == Width::Metadata
    }

    /// Returns the narrowest representation that serves both.
    pub(crate) fn join(self, other: Self) -> Self {
        if self.serves(&other) {
            self
        } else if other.serves(&self) {
            other
        } else {
            Self::of::<DynamicObject>()
        }
    }
}

impl PartialEq for Representation {
    fn eq(&self, other: &Self) -> bool {
        self.type_id == other.type_id
    }
}

/// Does not need `Debug` of the types, which would add code for every field of every type.
impl fmt::Debug for Arrived {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.stored, formatter)
    }
}

impl fmt::Debug for Representation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.width, formatter)
    }
}

/// Watches a kind and decodes its objects as `K`.
fn open<K: View>(
    client: kube::Client,
    scope: &Scope,
    config: watcher::Config,
    intake: Arc<Intake>,
    own_write: FindOwnWrite,
) -> Incomings {
    let resource = kube::api::ApiResource::from(&intake.kind);
    let api: Api<Ingested<K>> = match scope {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let form = intake.form(Representation::of::<K>());
    let finish = move |ingested: Ingested<K>| ingested.finish(&intake);
    let events = watcher(api, config).map_ok(move |event| match event {
        WatchEvent::Init => WatchEvent::Init,
        WatchEvent::InitApply(object) => WatchEvent::InitApply(finish(object)),
        WatchEvent::InitDone => WatchEvent::InitDone,
        // The response to an own write is the same object, already decoded and packed.
        WatchEvent::Apply(object) => WatchEvent::Apply(match own_write(object.meta()) {
            Some(arrived) if arrived.stored.form == form => Ok(arrived),
            _ => finish(object),
        }),
        WatchEvent::Delete(object) => WatchEvent::Delete(finish(object)),
    });
    events.boxed()
}

/// Decodes one object from the server.
fn take<K: View>(value: Value, intake: &Intake) -> Result<Incoming, serde_json::Error> {
    let ingested: Ingested<K> = serde_json::from_value(value)?;
    Ok(ingested.finish(intake))
}

/// Completes a decoded object: sets its kind, which the items of lists lack, and applies the transform.
pub(crate) fn prepare<K: View>(object: &mut K, intake: &Intake) {
    name_kind(object, &intake.kind);
    intake.transforms.apply(object);
}

fn name_kind<K: View>(object: &mut K, kind: &Kind) {
    if let Some(dynamic) = (object as &mut dyn Any).downcast_mut::<DynamicObject>() {
        dynamic.types.get_or_insert_with(|| TypeMeta {
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
        });
    }
}

/// Returns an incoming object as a `K`: the same pointer if it already is one, otherwise a new value.
///
/// # Errors
/// Returns an error if the object cannot be decoded as `K`, or arrived as a narrower type.
pub(crate) fn view<K: View>(item: &Arc<dyn Item>, intake: &Intake) -> Result<Arc<K>, String> {
    let any: Arc<dyn Any + Send + Sync> = item.clone();
    if let Ok(object) = any.downcast::<K>() {
        return Ok(object);
    }
    if !item.representation().serves(&Representation::of::<K>()) {
        return Err(format!("{} is not completely in the cache yet", intake.kind));
    }
    guarded(|| {
        let mut object: K = if K::metadata_api() {
            intake.metadata_as(item.metadata())?
        } else {
            from_value(item.to_value().map_err(|error| error.to_string())?)?
        };
        prepare(&mut object, intake);
        Ok::<_, String>(Arc::new(object))
    })
}

/// Converts the value to a `K` with the deserializer that the cache already uses for `K`. A second one, for JSON trees,
/// would add much code to programs with large types.
///
/// # Errors
/// Returns an error if the value cannot be decoded as `K`.
pub(crate) fn from_value<K: DeserializeOwned>(value: Value) -> Result<K, String> {
    let mut loose = Writer::loose();
    let read = loose.value(value).map_err(|error| error.to_string());
    read.and_then(|()| {
        let object = K::deserialize(&mut Reader::new(loose.bytes(), &[]));
        object.map_err(|error| error.to_string())
    })
}
