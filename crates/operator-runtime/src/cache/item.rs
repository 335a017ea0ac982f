//! Objects of any type behind one pointer, and how each is read as the type that somebody wants.
//!
//! Each kind has one watch and one store, whoever reads it and as what. The store keeps the narrowest type that all its
//! readers can be served from: metadata alone, one Rust type, or the whole object as `DynamicObject`. Readers of that
//! very type share the pointer; others get a value that is made for them.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use kube::Api;
use kube::api::DynamicObject;
use kube::core::TypeMeta;
use kube::runtime::watcher::{self, Event as WatchEvent, watcher};
use serde_json::{Value, json};

use super::decode::{Ingested, Malformed};
use super::selection::Transforms;
use super::store::{Scope, Stored};
use crate::object::{Kind, Meta, View};

/// An object of any type.
pub(crate) trait Item: Any + Meta + fmt::Debug {
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

/// An object from the server, as its store keeps it, or why it is none of the type.
pub(crate) type Incoming = Result<Stored, Malformed>;

/// What a watch brings.
pub(crate) type Incomings = BoxStream<'static, watcher::Result<WatchEvent<Incoming>>>;

/// What is done to the objects of a kind as they come in.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) kind: Kind,
    /// The field manager of the operator.
    pub(crate) manager: Arc<str>,
    pub(crate) transforms: Transforms,
}

/// As what a store keeps its objects.
#[derive(Clone, Copy)]
pub(crate) struct Representation {
    type_id: TypeId,
    width: Width,
    pub(crate) open: fn(kube::Client, &Scope, watcher::Config, Arc<Intake>) -> Incomings,
    pub(crate) take: fn(Value, &Intake) -> Result<Incoming, serde_json::Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    Metadata,
    Typed,
    Dynamic,
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
        }
    }

    /// Whether objects that are kept as this can be read as `other`.
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
) -> Incomings {
    let resource = intake.kind.api_resource();
    let api: Api<Ingested<K>> = match scope {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let finish = move |ingested: Ingested<K>| ingested.finish(&intake);
    let events = watcher(api, config).map_ok(move |event| match event {
        WatchEvent::Init => WatchEvent::Init,
        WatchEvent::InitApply(object) => WatchEvent::InitApply(finish(object)),
        WatchEvent::InitDone => WatchEvent::InitDone,
        WatchEvent::Apply(object) => WatchEvent::Apply(finish(object)),
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
pub(super) fn prepare<K: View>(object: &mut K, intake: &Intake) {
    if let Some(dynamic) = (object as &mut dyn Any).downcast_mut::<DynamicObject>() {
        dynamic.types.get_or_insert_with(|| type_meta(&intake.kind));
    }
    intake.transforms.apply(object);
}

fn type_meta(kind: &Kind) -> TypeMeta {
    TypeMeta {
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
    }
}

/// The object as a `K`: the same pointer if it is kept as one, else a value made for the reader.
///
/// # Errors
/// If the object does not fit `K`, or is kept as something narrower.
pub(crate) fn view<K: View>(item: &Arc<dyn Item>, intake: &Intake) -> Result<Arc<K>, String> {
    let any: Arc<dyn Any + Send + Sync> = item.clone();
    if let Ok(object) = any.downcast::<K>() {
        return Ok(object);
    }
    if !item.representation().serves(&Representation::of::<K>()) {
        return Err(format!("{} is not in the cache as a whole yet", intake.kind));
    }
    let value = if K::metadata_api() {
        let kind = &intake.kind;
        Ok(json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": item.metadata()}))
    } else {
        item.to_value()
    };
    let mut object: K = value
        .and_then(serde_json::from_value)
        .map_err(|error| error.to_string())?;
    prepare(&mut object, intake);
    Ok(Arc::new(object))
}
