//! Objects of any type behind one pointer, and how each is read as the type that somebody wants.
//!
//! Each kind has one watch and one store, whoever reads it and as what. Objects come in as the narrowest type that all
//! readers can be served from: metadata alone, one Rust type, or the whole object as `DynamicObject`. The store keeps
//! them packed; they are decoded as what a reader asks for, and shared while they are [`Hot`].

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
    /// The whole object, as far as its type knows it.
    fn to_value(&self) -> serde_json::Result<Value>;
    /// The type, as a representation of its kind.
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

/// An object as its store keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) packed: Packed,
    /// The fields that the operator applied: API version and `fieldsV1`, separated by a space.
    pub(crate) applied: Option<Arc<str>>,
    form: Form,
}

/// An object as it comes in, and as its store keeps it.
#[derive(Clone)]
pub(crate) struct Arrived {
    pub(crate) object: Arc<dyn Item>,
    pub(crate) stored: Stored,
}

/// The number of a representation among those that the objects of a kind have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form(u8);

/// An object from the server, or why it is none of the type.
pub(crate) type Incoming = Result<Arrived, Malformed>;

/// An object from a watch.
pub(crate) type Incomings = BoxStream<'static, watcher::Result<WatchEvent<Incoming>>>;

/// Decoding and transforming of the objects of a kind, as they come in and as they are read.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) kind: Kind,
    /// The field manager of the operator.
    pub(crate) manager: Arc<str>,
    pub(super) transforms: Transforms,
    pub(super) dictionary: Dictionary,
    pub(super) hot: Hot,
    /// They only become wider, so they are few.
    forms: RwLock<Vec<Representation>>,
}

/// As what a store keeps its objects.
#[derive(Clone, Copy)]
pub(crate) struct Representation {
    type_id: TypeId,
    width: Width,
    pub(crate) open: fn(kube::Client, &Scope, watcher::Config, Arc<Intake>, FindOwnWrite) -> Incomings,
    pub(crate) take: fn(Value, &Intake) -> Result<Incoming, serde_json::Error>,
    unpack: Unpack,
}

/// Finds the answer to the write of the operator that made this state of an object.
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

    /// The number of a representation, which it gets when it is first asked for.
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

    /// The object as a `K`, which those share who read it at about the same time.
    ///
    /// # Errors
    /// If the object does not fit `K`, or is kept as something narrower.
    pub(crate) fn read<K: View>(&self, stored: &Stored) -> Result<Arc<K>, String> {
        if let Some(object) = self.hot.get(&stored.packed) {
            return Ok(object);
        }
        let object = Arc::new(self.decode::<K>(stored)?);
        self.hot.put(&stored.packed, object.clone());
        Ok(object)
    }

    /// The same, of one of many that are read once: they do not displace what is read again and again.
    ///
    /// # Errors
    /// As [`Intake::read`].
    pub(crate) fn look_at<K: View>(&self, stored: &Stored) -> Result<Arc<K>, String> {
        if self.hot.keeps_all() {
            return self.read(stored);
        }
        match self.hot.get(&stored.packed) {
            Some(object) => Ok(object),
            None => self.decode(stored).map(Arc::new),
        }
    }

    /// The whole object as it was kept, with its kind; `None` if it was changed on its way in, or only its metadata was
    /// kept: then it does not show what the server has.
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

    /// The UID of an object in the answer to a write which shows that nothing is left of it, and its revision: it was being
    /// deleted, and the write has removed the last thing that kept it.
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

    /// The object as it came in.
    pub(super) fn unpack(&self, stored: &Stored) -> Option<Arc<dyn Item>> {
        let unpacked = (self.representation(stored.form)?.unpack)(stored, self);
        let complain = |error: &String| {
            let (kind, name) = (&self.kind, stored.packed.name());
            tracing::error!(%kind, namespace = stored.packed.namespace(), name, error, "Object cannot be read again");
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
            return Err(format!("{} is not in the cache as a whole yet", self.kind));
        }
        let mut object: K = if kept != Some(wanted) && wanted.width == Width::Metadata {
            let metadata: Option<Value> = stored.packed.find(&["metadata"], &self.dictionary);
            self.metadata_as(&metadata)?
        } else {
            let decoded = stored.packed.decode(&self.dictionary);
            decoded.map_err(|error| error.to_string())?
        };
        name_kind(&mut object, &self.kind);
        // An object that is kept as `K` was transformed before.
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
    /// Returns true if both came in as the same type.
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

    /// Returns true if objects that are kept as this can be read as `other`.
    pub(crate) fn serves(&self, other: &Self) -> bool {
        self == other || self.width == Width::Dynamic || other.width == Width::Metadata
    }

    /// The narrowest representation that serves both.
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

/// Types need not print their objects for this: that would be code for every field of every type.
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

/// Watches a kind with its objects as `K`.
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
        // The answer to a write of the operator is the same object: it is decoded and packed once.
        WatchEvent::Apply(object) => WatchEvent::Apply(match own_write(object.meta()) {
            Some(arrived) if arrived.stored.form == form => Ok(arrived),
            _ => finish(object),
        }),
        WatchEvent::Delete(object) => WatchEvent::Delete(finish(object)),
    });
    events.boxed()
}

/// Takes one object from the server.
fn take<K: View>(value: Value, intake: &Intake) -> Result<Incoming, serde_json::Error> {
    let ingested: Ingested<K> = serde_json::from_value(value)?;
    Ok(ingested.finish(intake))
}

/// Finishes an object that was decoded: says its kind, which items of lists do not, and lets the user transform it.
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

/// An object that came in, as a `K`: the same pointer if it came as one, else a value made for the reader.
///
/// # Errors
/// If the object does not fit `K`, or came as something narrower.
pub(crate) fn view<K: View>(item: &Arc<dyn Item>, intake: &Intake) -> Result<Arc<K>, String> {
    let any: Arc<dyn Any + Send + Sync> = item.clone();
    if let Ok(object) = any.downcast::<K>() {
        return Ok(object);
    }
    if !item.representation().serves(&Representation::of::<K>()) {
        return Err(format!("{} is not in the cache as a whole yet", intake.kind));
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

/// The value as a `K`, by way of the one reader that the cache has for `K` anyway: what reads a type from a tree as well
/// is a large part of a program that has large types.
///
/// # Errors
/// If the value does not fit `K`.
pub(crate) fn from_value<K: DeserializeOwned>(value: Value) -> Result<K, String> {
    let mut loose = Writer::loose();
    let read = loose.value(value).map_err(|error| error.to_string());
    read.and_then(|()| {
        let object = K::deserialize(&mut Reader::new(loose.bytes(), &[]));
        object.map_err(|error| error.to_string())
    })
}
