//! Admission: the plug-ins between authorization and the registry, in the API server's order.
//!
//! Policies and webhooks are parsed when they are written ([`hooks`]): a request that matches none of them only checks
//! an empty list.

mod attributes;
mod authorizer;
mod certificate_requester;
mod certificate_signer;
mod certificate_subject;
mod configuration;
mod default_toleration_seconds;
mod event_rate_limit;
mod hooks;
mod image_policy;
mod limit_ranger;
mod matching;
mod mutation;
mod namespace_lifecycle;
mod node_restriction;
mod node_taint;
mod pod_security;
mod policy;
mod priority;
mod resource_quota;
mod rounds;
mod runtime_class;
mod service_account;
mod storage_class;
mod storage_protection;
mod token_audience;
mod webhook;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use self::attributes::Attributes;
pub use self::configuration::AdmissionConfiguration;
pub(crate) use self::event_rate_limit::EventLimits;
pub(crate) use self::hooks::{Hooks, configure, is_configuration};
pub(crate) use self::image_policy::ImageReviewer;
use self::mutation::{MutatedObject, Reinvocation};
use crate::clock::Clock;
use crate::identity::authz::Authorizer;
use crate::metrics::{Metrics, Step};
use crate::patch::managed_fields;
use crate::random::Random;
use crate::resource::Resources;
use crate::resource::crd::conversion::Converter;
use crate::status::{self, Status};
use crate::store::{JointUpdate, Store};
use crate::webhook_client::Services;
use crate::write::Write;
use apimachinery::object;

/// The admission plug-ins of one server.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<Random>,
    pub(crate) resources: Arc<Resources>,
    pub(crate) services: Arc<Services>,
    pub(crate) converter: Arc<Converter>,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) metrics: Arc<Metrics>,
    /// The policies and webhooks.
    pub(crate) hooks: Hooks,
    /// The names of the disabled plug-ins.
    pub(crate) disabled_plugins: BTreeSet<String>,
    /// The names of the enabled plug-ins that are off by default.
    pub(crate) enabled_plugins: BTreeSet<String>,
    /// The configuration of the plug-ins.
    pub(crate) configuration: AdmissionConfiguration,
    /// The limits of EventRateLimit.
    pub(crate) event_limits: EventLimits,
    /// The webhook of ImagePolicyWebhook.
    pub(crate) image_reviewer: Option<ImageReviewer>,
}

/// The operation of a request on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// A connection, such as `pods/exec`.
    Connect,
}

/// Counts a step of admission.
async fn measured<T>(
    admission: &Admission,
    operation: Operation,
    mutates: bool,
    step: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let begun = Instant::now();
    let result = step.await;
    admission.metrics.admission_step(Step {
        name: "",
        operation: operation.name(),
        mutates,
        rejected: result.is_err(),
        code: 0,
        time: begun.elapsed(),
    });
    result
}

/// Runs the mutating plug-ins, and the checks that come first.
pub(crate) async fn admit(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let step = Box::pin(admit_step(admission, write, operation, object, old));
    measured(admission, operation, true, step).await
}

async fn admit_step(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if operation == Operation::Create {
        write
            .requested_name
            .get_or_init(|| object::name(object).to_owned());
    }
    if is_enabled(admission, "NamespaceLifecycle") {
        namespace_lifecycle::check(admission, write, operation, object)?;
    }
    if operation == Operation::Create && write.definition.is_terminating() {
        return Err(status::forbidden(
            &write.definition.subject,
            object::name(object),
            "create not allowed while custom resource definition is terminating",
        ));
    }
    restrict_node(admission, write, operation, Some(object), old)?;
    if is_enabled(admission, "LimitRanger") {
        limit_ranger::default(admission, write, operation, object, old)?;
    }
    complete(admission, write, operation, object)?;
    complete_change(admission, write, object, old);
    change(admission, write, operation, Some(object), old).await
}

/// Runs NodeRestriction, which is off by default.
fn restrict_node(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    if !restricts_nodes(admission) || is_carrier(write) {
        return Ok(());
    }
    let attributes = Attributes {
        admission,
        write,
        operation,
        object,
        old,
    };
    node_restriction::check(&attributes)
}

fn restricts_nodes(admission: &Admission) -> bool {
    is_switched_on(admission, "NodeRestriction")
}

/// Returns true if a plug-in that is off by default is enabled.
fn is_switched_on(admission: &Admission, plugin: &str) -> bool {
    admission.enabled_plugins.contains(plugin) && is_enabled(admission, plugin)
}

/// Runs the plug-ins that complete a changed pod in the same way as a new one.
fn complete_change(admission: &Admission, write: &Write, object: &mut Value, old: Option<&Value>) {
    let Some(old) = old.filter(|_| write.definition.is("", "pods") && write.subresource.is_empty()) else {
        return;
    };
    if is_enabled(admission, "Priority") {
        priority::keep(object, old);
    }
    if is_enabled(admission, "DefaultTolerationSeconds") {
        default_toleration_seconds::admit(object);
    }
}

/// Runs the plug-ins that complete a new object of a built-in kind.
fn complete(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    object: &mut Value,
) -> Result<(), Status> {
    if operation != Operation::Create || !write.subresource.is_empty() || write.definition.is_custom() {
        return Ok(());
    }
    let subject = &write.definition.subject;
    match (subject.group.as_str(), subject.resource.as_str()) {
        ("", "pods") => {
            if is_enabled(admission, "ServiceAccount") {
                service_account::admit(admission, write, object)?;
            }
            if is_enabled(admission, "Priority") {
                priority::admit(admission, write, object)?;
            }
            if is_enabled(admission, "DefaultTolerationSeconds") {
                default_toleration_seconds::admit(object);
            }
            if is_enabled(admission, "RuntimeClass") {
                runtime_class::admit(admission, write, object)?;
            }
        }
        ("", "nodes") => {
            if is_enabled(admission, "TaintNodesByCondition") {
                node_taint::admit(object);
            }
        }
        ("certificates.k8s.io", "certificatesigningrequests") => {
            certificate_requester::admit(&write.user, object);
        }
        _ => {
            storage_class::default(admission, subject, object);
            if is_enabled(admission, "StorageObjectInUseProtection") {
                storage_protection::admit(subject, object);
            }
        }
    }
    Ok(())
}

/// Calls the mutating policies and webhooks. If one of them changes the object, the earlier ones with the reinvocation
/// policy IfNeeded are called once more.
async fn change(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    object: Option<&mut Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    let hooks = admission.hooks.current();
    if !hooks.mutates() || is_carrier(write) {
        return Ok(());
    }
    let managed_before = object
        .as_deref()
        .and_then(|object| object::meta(object, "managedFields").cloned());
    let mut mutated = MutatedObject::new(admission, write, operation, object.as_deref(), old);
    let (mut policies, mut webhooks) = (Reinvocation::default(), Reinvocation::default());
    let mut unconverted = policy::Unconverted::default();
    if write.definition.is_custom() {
        let before = mutated.object().cloned();
        unconverted = policy::prepare(&mutated.attributes(before.as_ref()), &hooks.mutating_policies).await;
    }
    rounds::mutate(
        &mut mutated,
        &hooks.mutating_policies,
        &unconverted,
        &mut policies,
    )
    .await?;
    Box::pin(webhook::mutate(
        &mut mutated,
        &hooks.mutating_webhooks,
        &mut webhooks,
    ))
    .await?;
    if policies.is_needed() || webhooks.is_needed() {
        if let Some(object) = mutated.own_object() {
            if is_enabled(admission, "LimitRanger") {
                limit_ranger::default(admission, write, operation, object, old)?;
            }
            complete(admission, write, operation, object)?;
        }
        rounds::mutate(
            &mut mutated,
            &hooks.mutating_policies,
            &unconverted,
            &mut policies,
        )
        .await?;
        Box::pin(webhook::mutate(
            &mut mutated,
            &hooks.mutating_webhooks,
            &mut webhooks,
        ))
        .await?;
    }
    if let Some(object) = object {
        mutated.finish(object);
        restore_managed_fields(write, object, managed_before);
    }
    Ok(())
}

/// Restores the managed fields from before admission if admission made them invalid.
fn restore_managed_fields(write: &Write, object: &mut Value, before: Option<Value>) {
    if let Err(why) = managed_fields::check(object) {
        object::set_meta(object, "managedFields", before);
        write.warnings.add(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {why}"
        ));
    }
}

/// Runs the plug-ins that only validate a new or changed object.
pub(crate) async fn validate(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let step = Box::pin(validate_step(admission, write, operation, object, old));
    measured(admission, operation, false, step).await
}

async fn validate_step(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let attributes = Attributes {
        admission,
        write,
        operation,
        object: Some(object),
        old,
    };
    if is_enabled(admission, "LimitRanger") {
        limit_ranger::check(&attributes)?;
    }
    if is_enabled(admission, "PodSecurity") {
        pod_security::check(&attributes)?;
    }
    if is_enabled(admission, "PersistentVolumeClaimResize") {
        storage_class::check_growth(&attributes)?;
    }
    if is_enabled(admission, "RuntimeClass") {
        runtime_class::check(&attributes)?;
    }
    if is_enabled(admission, "CertificateSubjectRestriction") {
        certificate_subject::check(&attributes)?;
    }
    if let Some(old) = old {
        certificate_signer::check(admission, write, object, old).await?;
    }
    if is_switched_on(admission, "EventRateLimit") {
        event_rate_limit::check(&admission.event_limits, &attributes)?;
    }
    if is_switched_on(admission, "ImagePolicyWebhook")
        && let Some(reviewer) = &admission.image_reviewer
    {
        reviewer.check(&admission.services, &attributes).await?;
    }
    ask(admission, write, operation, Some(object), old).await
}

/// Runs the last plug-in: checks the quotas of the namespace, and returns the writes that must be committed together
/// with this one. `object` and `old` are in their stored form.
pub(crate) fn charge(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
) -> Result<Vec<JointUpdate>, Status> {
    if !is_enabled(admission, "ResourceQuota") {
        return Ok(Vec::new());
    }
    resource_quota::charge(admission, write, operation, object, old)
}

fn is_enabled(admission: &Admission, plugin: &str) -> bool {
    !admission.disabled_plugins.contains(plugin)
}

/// Runs all plug-ins for an object that is to be deleted.
pub(crate) async fn delete(admission: &Admission, write: &Write, old: &Value) -> Result<(), Status> {
    if is_enabled(admission, "NamespaceLifecycle") {
        namespace_lifecycle::check(admission, write, Operation::Delete, old)?;
    }
    let operation = Operation::Delete;
    restrict_node(admission, write, operation, None, Some(old))?;
    let step = change(admission, write, operation, None, Some(old));
    measured(admission, operation, true, step).await?;
    let step = ask(admission, write, operation, None, Some(old));
    measured(admission, operation, false, step).await
}

/// Calls all policies and webhooks for a body that is not stored: a Binding, an Eviction, a review, or the options of
/// an exec. The change that follows from the body does not pass admission again.
pub(crate) async fn admit_body(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    body: &mut Value,
) -> Result<(), Status> {
    let step = mutate_body(admission, write, operation, body);
    measured(admission, operation, true, step).await?;
    let step = validate_body(admission, write, operation, body);
    measured(admission, operation, false, step).await
}

/// Calls the mutating policies and webhooks for a body that is not stored: the first half of [`admit_body`].
pub(crate) async fn mutate_body(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    body: &mut Value,
) -> Result<(), Status> {
    if restricts_nodes(admission) {
        node_restriction::check_body(admission, write, body).await?;
    }
    let hooks = admission.hooks.current();
    if hooks.mutates() {
        let mut mutated = MutatedObject::new(admission, write, operation, Some(body), None);
        let (mut policies, mut webhooks) = (Reinvocation::default(), Reinvocation::default());
        rounds::mutate(
            &mut mutated,
            &hooks.mutating_policies,
            &policy::Unconverted::default(),
            &mut policies,
        )
        .await?;
        Box::pin(webhook::mutate(
            &mut mutated,
            &hooks.mutating_webhooks,
            &mut webhooks,
        ))
        .await?;
        mutated.finish(body);
    }
    Ok(())
}

/// Calls the validating policies and webhooks for a body that is not stored: the second half of [`admit_body`].
pub(crate) async fn validate_body(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    body: &Value,
) -> Result<(), Status> {
    let hooks = admission.hooks.current();
    if hooks.validates() {
        look(admission, write, operation, (Some(body), None), &hooks).await?;
    }
    Ok(())
}

/// Returns true if admission has already processed the body of the request.
fn is_carrier(write: &Write) -> bool {
    matches!(write.subresource.as_str(), "binding" | "eviction")
}

/// Calls the validating policies and webhooks.
async fn ask(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    let hooks = admission.hooks.current();
    if !hooks.validates() || is_carrier(write) {
        return Ok(());
    }
    if write.subresource == "scale" {
        let scale = |object: Option<&Value>| object.map(|object| mutation::body_of(write, object));
        let (object, old) = (scale(object), scale(old));
        return look(
            admission,
            write,
            operation,
            (object.as_ref(), old.as_ref()),
            &hooks,
        )
        .await;
    }
    look(admission, write, operation, (object, old), &hooks).await
}

async fn look(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    (object, old): (Option<&Value>, Option<&Value>),
    hooks: &hooks::Configured,
) -> Result<(), Status> {
    let attributes = Attributes {
        admission,
        write,
        operation,
        object,
        old,
    };
    let unconverted = policy::prepare(&attributes, &hooks.validating_policies).await;
    rounds::validate(&attributes, &hooks.validating_policies, &unconverted).await?;
    // Boxed because the future is large and the stack of the caller is small.
    Box::pin(webhook::validate(&attributes, &hooks.validating_webhooks)).await
}
