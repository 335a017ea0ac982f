//! The span and the values that everything that a manager runs shares.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tracing::Span;

/// What every reconcile and every runnable of a manager is given: a span that its log messages are in, and values that
/// the operator wants at hand everywhere, one of each type. As controller-runtime's `BaseContext`, it has nothing to do
/// with when the manager stops. Clones share the values.
#[derive(Clone)]
pub struct BaseContext {
    span: Span,
    values: Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

// === impl BaseContext ===

impl BaseContext {
    /// No span and no values.
    pub fn new() -> Self {
        Self {
            span: Span::none(),
            values: Arc::default(),
        }
    }

    /// Runs everything in this span: reconciles, whose own span becomes its child, runnables and
    /// webhooks.
    #[must_use]
    pub fn in_span(mut self, span: Span) -> Self {
        self.span = span;
        self
    }

    /// Adds a value. There is one value of each type: another one takes its place.
    #[must_use]
    pub fn with_value<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        Arc::make_mut(&mut self.values).insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// The value of this type, if there is one.
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.values.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// The span that everything runs in; [`Span::none`] unless said otherwise.
    pub fn span(&self) -> &Span {
        &self.span
    }
}

impl Default for BaseContext {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for BaseContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut context = formatter.debug_struct("BaseContext");
        context
            .field("span", &self.span)
            .field("values", &self.values.len())
            .finish()
    }
}
