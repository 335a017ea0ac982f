//! Attribute macros of `operator-runtime`, which re-exports them; depend on that crate, not on this one.

use proc_macro::TokenStream;

mod rbac;

/// Declares what a reconciler needs from the API server, beside the code that needs it.
///
/// Put it on an `impl` block, as often as there are rules. It implements `operator_runtime::manifests::Rbac` for the
/// type of the block, whose `rules()` lists the rules in the order written. `operator-sdk generate manifests` asks the
/// operator for them and writes `config/rbac/role.yaml`.
///
/// The arguments have the names and the `;` lists of kubebuilder's RBAC markers:
///
/// | argument | meaning |
/// |---|---|
/// | `groups` | API groups; `core` or `""` is the core group |
/// | `resources` | plural names, subresources as `pods/log` |
/// | `verbs` | `get;list;watch;create;update;patch;delete`, or `*` |
/// | `resource_names` | limits the rule to objects of these names |
/// | `urls` | non-resource URLs; excludes `groups` and `resources` |
/// | `namespace` | makes the rule part of a Role in that namespace instead of the ClusterRole |
///
/// Every rule has `verbs`, and either `groups` and `resources` or `urls`; the compiler says so where one has not.
///
/// ```
/// use operator_runtime::prelude::*;
///
/// struct MemcachedReconciler;
///
/// #[rbac(groups = "core", resources = "pods;pods/log", verbs = "get;list;watch")]
/// #[rbac(groups = "core", resources = "secrets", resource_names = "license", verbs = "get", namespace = "licenses")]
/// impl Reconciler for MemcachedReconciler {
///     async fn reconcile(&self, _: Context, _: Request) -> Result<Action> {
///         Ok(Action::done())
///     }
/// }
///
/// let [pods, license] = MemcachedReconciler::rules().try_into().expect("there are two");
/// assert_eq!((pods.api_groups[0].as_str(), pods.resources[1].as_str()), ("", "pods/log"));
/// assert_eq!(license.namespace.as_deref(), Some("licenses"));
/// ```
#[proc_macro_attribute]
pub fn rbac(arguments: TokenStream, item: TokenStream) -> TokenStream {
    rbac::expand(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
