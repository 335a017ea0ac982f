//! What everything that a manager runs has in common.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tracing::Span;

/// What every reconcile and every runnable of a manager is given: a span that its log messages are in, and values that
/// the operator wants at hand everywhere, one of each type. As controller-runtime's `BaseContext`, it has nothing to do
/// with when the manager stops. Clones share the values.
///
/// ```no_run
/// use operator_runtime::manager::BaseContext;
/// use operator_runtime::prelude::*;
///
/// /// Where this operator works.
/// struct Region(String);
///
/// # struct Mine;
/// impl Reconciler for Mine {
///     async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
///         let region = ctx.value::<Region>().map_or("everywhere", |region| region.0.as_str());
///         tracing::info!(region, "reconciling");
///         Ok(Action::done())
///     }
/// }
///
/// # async fn example() -> Result<()> {
/// let context = BaseContext::new()
///     .in_span(tracing::info_span!("operator", version = env!("CARGO_PKG_VERSION")))
///     .with_value(Region("eu-1".to_owned()));
/// let manager = Manager::builder("example-operator").base_context(context).build().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct BaseContext {
    span: Span,
    values: Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

// === impl BaseContext ===

impl BaseContext {
    /// No span and no values.
    ///
    /// ```
    /// use operator_runtime::manager::BaseContext;
    ///
    /// assert!(BaseContext::new().value::<String>().is_none());
    /// ```
    pub fn new() -> Self {
        Self {
            span: Span::none(),
            values: Arc::default(),
        }
    }

    /// Runs everything in this span: reconciles, whose own span becomes its child, runnables and
    /// webhooks.
    ///
    /// ```
    /// use operator_runtime::manager::BaseContext;
    ///
    /// // Every message of the operator says in which cluster it runs.
    /// let context = BaseContext::new().in_span(tracing::info_span!("operator", cluster = "eu-1"));
    /// ```
    #[must_use]
    pub fn in_span(mut self, span: Span) -> Self {
        self.span = span;
        self
    }

    /// Adds a value. There is one value of each type: another one takes its place.
    ///
    /// ```
    /// use operator_runtime::manager::BaseContext;
    ///
    /// let context = BaseContext::new().with_value(1_u16).with_value(2_u16);
    /// assert_eq!(context.value::<u16>(), Some(&2));
    /// ```
    #[must_use]
    pub fn with_value<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        Arc::make_mut(&mut self.values).insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// The value of this type, if there is one.
    ///
    /// ```
    /// use operator_runtime::manager::BaseContext;
    ///
    /// struct Token(String);
    ///
    /// let context = BaseContext::new().with_value(Token("secret".to_owned()));
    /// assert_eq!(context.value::<Token>().map(|token| token.0.as_str()), Some("secret"));
    /// assert!(context.value::<String>().is_none());
    /// ```
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.values.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// The span that everything runs in; [`Span::none`] unless said otherwise.
    ///
    /// ```
    /// use operator_runtime::manager::BaseContext;
    ///
    /// assert!(BaseContext::new().span().is_none());
    /// ```
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
