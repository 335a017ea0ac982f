//! Attribute macros of `operator-runtime`, which re-exports them; depend on that crate, not on this one.

use proc_macro::TokenStream;

mod rbac;

/// Declares a permission that a controller needs in addition to those that follow from the kinds it watches and owns.
///
/// Put it on a function that returns a `Controller`, once for each rule. It adds the rule to the controller, as
/// `Controller::rules` does. `operator-sdk generate manifests` writes it to `config/rbac/role.yaml`.
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
/// Every rule has `verbs`, and either `groups` and `resources` or `urls`; otherwise it does not compile.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::apps::v1::Deployment;
/// use operator_runtime::prelude::*;
///
/// #[rbac(groups = "core", resources = "pods;pods/log", verbs = "get;list;watch")]
/// #[rbac(groups = "core", resources = "secrets", resource_names = "license", verbs = "get", namespace = "licenses")]
/// pub fn controller() -> Controller<Deployment> {
///     Controller::new(reconcile)
/// }
///
/// async fn reconcile(deployment: Arc<Deployment>, ctx: Context<Deployment>) -> Result<Action> {
///     Ok(Action::done())
/// }
///
/// let manifests = Operator::new("logs").controller(controller()).manifests();
/// assert!(manifests.contains("pods/log"));
/// ```
#[proc_macro_attribute]
pub fn rbac(arguments: TokenStream, item: TokenStream) -> TokenStream {
    rbac::expand(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
