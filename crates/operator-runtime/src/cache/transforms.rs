//! [`Transforms`] change objects before the cache stores them.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube::core::ObjectMeta;

use crate::object::{Kind, Object, View};

/// Functions that change objects before the cache stores them, usually to remove fields that the operator never reads.
///
/// `metadata.managedFields` is removed in any case. A transform belongs to one kind, read as one type. It runs whenever
/// the cache decodes an object of that type, including the response to a write. The cache stores the result in its
/// serialized form.
///
/// Do not remove fields that the operator applies. The cache then cannot recognize an apply that changes nothing, and
/// every apply is sent.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use operator_runtime::cache::{CacheOptions, Transforms};
///
/// let transforms = Transforms::default()
///     .of::<ConfigMap>(|config| config.binary_data = None)
///     .of_metadata(|metadata| metadata.annotations = None);
/// let options = CacheOptions { transforms, ..CacheOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone, Default)]
pub struct Transforms {
    by_type: HashMap<(String, TypeId), Transform>,
    of_metadata: Option<MetadataTransform>,
    /// The transforms of single namespaces. Used only in the transforms of one kind.
    by_namespace: HashMap<String, Transforms>,
}

type Transform = Arc<dyn Fn(&mut dyn Any) + Send + Sync>;
type MetadataTransform = Arc<dyn Fn(&mut ObjectMeta) + Send + Sync>;

// === impl Transforms ===

impl Transforms {
    /// Changes each object of `K` before it is stored. Replaces an earlier transform of `K`.
    #[must_use]
    pub fn of<K: Object>(self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.of_kind(&Kind::of::<K>(), transform)
    }

    /// Changes each object of a kind that is read as `K`, such as `DynamicObject`, before it is stored.
    #[must_use]
    pub fn of_kind<K: View>(
        mut self,
        kind: &Kind,
        transform: impl Fn(&mut K) + Send + Sync + 'static,
    ) -> Self {
        let transform = move |object: &mut dyn Any| {
            if let Some(object) = object.downcast_mut() {
                transform(object);
            }
        };
        let key = (kind.path(), TypeId::of::<K>());
        self.by_type.insert(key, Arc::new(transform));
        self
    }

    /// Changes the metadata of the objects of every kind that has no transform of its own.
    #[must_use]
    pub fn of_metadata(mut self, transform: impl Fn(&mut ObjectMeta) + Send + Sync + 'static) -> Self {
        self.of_metadata = Some(Arc::new(transform));
        self
    }

    /// Returns these transforms, with those of `wider` for the kinds that have none.
    #[must_use]
    pub(super) fn or(mut self, wider: &Self) -> Self {
        for (key, transform) in &wider.by_type {
            self.by_type
                .entry(key.clone())
                .or_insert_with(|| transform.clone());
        }
        self.of_metadata = self.of_metadata.or_else(|| wider.of_metadata.clone());
        self
    }

    /// Returns these transforms with others for single namespaces.
    pub(super) fn with_namespaces(self, by_namespace: HashMap<String, Self>) -> Self {
        Self { by_namespace, ..self }
    }

    /// Returns the transforms of one kind.
    pub(super) fn only(&self, kind: &Kind) -> Self {
        let path = kind.path();
        let of_kind = self.by_type.iter().filter(|((of, _), _)| *of == path);
        let by_namespace = self.by_namespace.iter();
        Self {
            by_type: of_kind
                .map(|((_, type_id), transform)| ((String::new(), *type_id), transform.clone()))
                .collect(),
            of_metadata: self.of_metadata.clone(),
            by_namespace: by_namespace
                .map(|(namespace, transforms)| (namespace.clone(), transforms.only(kind)))
                .collect(),
        }
    }

    /// Returns true if there are any transforms.
    pub(super) fn are_any(&self) -> bool {
        self.of_metadata.is_some()
            || !self.by_type.is_empty()
            || self.by_namespace.values().any(Self::are_any)
    }

    pub(super) fn change<K: View>(&self) -> bool {
        self.of_metadata.is_some()
            || self.by_type.contains_key(&(String::new(), TypeId::of::<K>()))
            || self.by_namespace.values().any(Self::change::<K>)
    }

    /// Changes an object with the transform of its kind. After a panic the object stays as it is at that point.
    pub(super) fn apply<K: View>(&self, object: &mut K) {
        let namespace = object.meta().namespace.as_deref();
        let own = namespace.and_then(|namespace| self.by_namespace.get(namespace));
        let transforms = own.unwrap_or(self);
        if catch_unwind(AssertUnwindSafe(|| transforms.apply_here(object))).is_err() {
            let meta = object.meta();
            tracing::error!(
                namespace = meta.namespace.as_deref(),
                name = meta.name.as_deref(),
                "Transform panicked"
            );
        }
    }

    fn apply_here<K: View>(&self, object: &mut K) {
        let key = || (String::new(), TypeId::of::<K>());
        let of_type = (!self.by_type.is_empty())
            .then(|| self.by_type.get(&key()))
            .flatten();
        match (of_type, &self.of_metadata) {
            (Some(transform), _) => transform(object),
            (None, Some(transform)) => transform(object.meta_mut()),
            (None, None) => {}
        }
    }
}

impl fmt::Debug for Transforms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.by_type.keys().map(|(kind, _)| kind.as_str());
        let all = self.of_metadata.iter().map(|_| "*");
        formatter.debug_set().entries(kinds.chain(all)).finish()
    }
}
