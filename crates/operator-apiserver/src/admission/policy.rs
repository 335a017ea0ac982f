//! The common parts of validating and mutating admission policies.

pub(super) mod mutating;
pub(super) mod validating;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use apimachinery::object;
use serde_json::Value;

use super::attributes::Attributes;
use super::authorizer;
use super::matching::{self, Criteria};
use crate::admission::Admission;
use crate::resource::{Definition, api_version};
use crate::status::Status;
use builtin_kinds::expression::{
    Conditions, Environment, Mentions, PolicyVariables, Program, Returns, Scope,
};
use builtin_kinds::selects;

/// The body of a policy: its validations or its mutations.
pub(crate) trait Body: Debug + Sized {
    /// True if the expressions construct patches.
    const PATCHES: bool;

    /// Parses the body from the specification; the environment contains the variables of the policy.
    fn read(spec: &Value, environment: &Environment) -> Self;
}

/// A policy with its expressions compiled.
#[derive(Debug)]
pub(crate) struct Policy<B> {
    pub(crate) name: String,
    /// The uid and the generation of the parsed policy.
    identity: (String, i64),
    criteria: Criteria,
    conditions: Conditions,
    variables: PolicyVariables,
    fails_open: bool,
    param_kind: Option<ParamKind>,
    body: B,
}

#[derive(Debug)]
struct ParamKind {
    api_version: String,
    kind: String,
}

/// The scope of a policy, its parameters, and its failure policy.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    policy: String,
    criteria: Option<Criteria>,
    param_ref: Option<Value>,
    actions: Vec<String>,
}

/// A policy with its bindings.
#[derive(Debug)]
pub(crate) struct Bound<B> {
    pub(crate) policy: Arc<Policy<B>>,
    bindings: Vec<Binding>,
}

impl<B: Body> Policy<B> {
    fn read(object: &Value) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let param_kind = spec.get("paramKind").filter(|kind| kind.is_object());
        let mentions = Mentions {
            params: param_kind.is_some(),
            authorizer: true,
            patches: B::PATCHES,
        };
        let mut environment = Environment::new(mentions);
        let variables = variables(spec, &mut environment);
        Self {
            name: object::name(object).to_owned(),
            identity: identity(object),
            criteria: Criteria::of_policy(spec.get("matchConstraints").unwrap_or(&Value::Null)),
            conditions: Conditions::read(
                spec,
                Mentions {
                    patches: false,
                    ..mentions
                },
            ),
            variables,
            fails_open: object::text(spec, &["failurePolicy"]) == "Ignore",
            param_kind: param_kind.map(|kind| ParamKind {
                api_version: object::text(kind, &["apiVersion"]).to_owned(),
                kind: object::text(kind, &["kind"]).to_owned(),
            }),
            body: B::read(spec, &environment),
        }
    }
}

fn variables(spec: &Value, environment: &mut Environment) -> PolicyVariables {
    let mut variables = PolicyVariables::default();
    for variable in spec
        .get("variables")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let name = object::text(variable, &["name"]);
        let source = object::text(variable, &["expression"]);
        let program = Program::new(environment, source, Returns::Anything);
        environment.compose(name, &program.result());
        variables.push(name, program);
    }
    variables
}

fn identity(object: &Value) -> (String, i64) {
    (object::uid(object).to_owned(), object::generation(object))
}

impl Binding {
    /// Returns the actions for failures.
    fn actions(&self) -> &[String] {
        &self.actions
    }

    /// Returns true if failures have this action.
    fn does(&self, action: &str) -> bool {
        self.actions.iter().any(|known| known == action)
    }

    fn read(object: &Value) -> Self {
        let part = |path: &[&str]| object::get(object, path).filter(|part| part.is_object());
        let actions = object::get(object, &["spec", "validationActions"]).and_then(Value::as_array);
        let actions = actions.into_iter().flatten().filter_map(Value::as_str);
        Self {
            name: object::name(object).to_owned(),
            policy: object::text(object, &["spec", "policyName"]).to_owned(),
            criteria: part(&["spec", "matchResources"]).map(Criteria::of_policy),
            param_ref: part(&["spec", "paramRef"]).cloned(),
            actions: actions.map(str::to_owned).collect(),
        }
    }
}

/// Returns the policies of a kind that have bindings, by name; those that did not change since `known` was read are
/// kept.
pub(super) fn read<B: Body>(admission: &Admission, resource: &str, known: &[Bound<B>]) -> Vec<Bound<B>> {
    let list = |resource: String| {
        let table = format!("{resource}.admissionregistration.k8s.io");
        admission.store.list(&table, "").objects
    };
    let (singular, ending) = resource.split_at(resource.len().saturating_sub("ies".len()));
    debug_assert_eq!(ending, "ies");
    let mut bindings: Vec<Binding> = list(format!("{singular}ybindings"))
        .iter()
        .map(|binding| Binding::read(&binding.value))
        .collect();
    let mut bound = Vec::new();
    for stored in list(resource.to_owned()) {
        let name = object::name(&stored.value);
        let own: Vec<Binding> = bindings
            .extract_if(.., |binding| binding.policy == name)
            .collect();
        if own.is_empty() {
            continue;
        }
        let identity = identity(&stored.value);
        let same = known.iter().find(|bound| bound.policy.identity == identity);
        let policy = same.map_or_else(
            || Arc::new(Policy::read(&stored.value)),
            |bound| bound.policy.clone(),
        );
        bound.push(Bound {
            policy,
            bindings: own,
        });
    }
    bound
}

/// A policy to evaluate, or the error that prevents the evaluation. An error without a binding is the policy's own.
struct Invocation<'b> {
    binding: Option<&'b Binding>,
    params: Result<Option<Arc<Value>>, String>,
}

/// The versions to which the objects of a request could not be converted, with the errors.
#[derive(Debug, Default)]
pub(super) struct Unconverted(Vec<(String, String)>);

impl Unconverted {
    /// Returns the error of the conversion to this definition's version.
    fn why(&self, target: &Definition) -> Option<&str> {
        let found = self.0.iter().find(|(version, _)| *version == target.version);
        found.map(|(_, why)| why.as_str())
    }
}

/// Converts the objects of a request into the versions that policies request. A failed conversion is an error of the
/// policy that requests it, and subject to its failure policy.
pub(super) async fn prepare<B>(attributes: &Attributes<'_>, policies: &[Bound<B>]) -> Unconverted {
    let mut unconverted = Unconverted::default();
    if !attributes.write.definition.is_custom() {
        return unconverted;
    }
    for bound in policies {
        // An error in the criteria is reported when the policy is evaluated.
        if let Ok(Some(target)) = bound.policy.criteria.matches(attributes)
            && let Err(failed) = attributes.prepare(&target).await
        {
            let why = failed.message().to_owned();
            unconverted.0.push((target.version.clone(), why));
        }
    }
    unconverted
}

impl<B> Bound<B> {
    /// Returns the requested version of the resource, and the evaluations of the policy.
    fn invocations(&self, attributes: &Attributes<'_>) -> Option<(Arc<Definition>, Vec<Invocation<'_>>)> {
        let policy = &self.policy;
        if matching::is_exempt_from_policies(&attributes.write.definition) {
            return None;
        }
        let target = match policy.criteria.matches(attributes) {
            Ok(target) => target?,
            Err(status) => {
                let fault = configuration_fault(None, status.message());
                return Some((attributes.write.definition.clone(), vec![fault]));
            }
        };
        let kind = match self.param_definition(attributes.admission) {
            Ok(kind) => kind,
            Err(why) => return Some((target, vec![configuration_fault(None, &why)])),
        };
        let mut invocations = Vec::new();
        for binding in &self.bindings {
            let applies = binding
                .criteria
                .as_ref()
                .map_or(Ok(true), |criteria| criteria.narrows_to(attributes));
            match applies {
                Ok(false) => continue,
                Ok(true) => {}
                Err(status) => {
                    invocations.push(configuration_fault(Some(binding), status.message()));
                    continue;
                }
            }
            match params(attributes, kind.as_deref(), binding.param_ref.as_ref()) {
                Ok(found) => invocations.extend(found.into_iter().map(|params| Invocation {
                    binding: Some(binding),
                    params: Ok(params),
                })),
                Err(why) => invocations.push(configuration_fault(Some(binding), &why)),
            }
        }
        Some((target, invocations))
    }

    /// Returns the resource of the parameters.
    fn param_definition(&self, admission: &Admission) -> Result<Option<Arc<Definition>>, String> {
        let Some(kind) = &self.policy.param_kind else {
            return Ok(None);
        };
        let custom = admission.resources.custom();
        let mut all = admission
            .resources
            .builtin()
            .definitions()
            .iter()
            .chain(custom.definitions());
        let found = all.find(|definition| {
            let subject = &definition.subject;
            subject.kind == kind.kind && api_version(&subject.group, &definition.version) == kind.api_version
        });
        let ParamKind { api_version, kind } = kind;
        let unknown = || {
            let shown = if api_version.contains('/') {
                format!("{api_version}, Kind={kind}")
            } else {
                format!("/{api_version}, Kind={kind}")
            };
            format!("failed to find resource referenced by paramKind: '{shown}'")
        };
        found.cloned().map(Some).ok_or_else(unknown)
    }
}

fn configuration_fault<'b>(binding: Option<&'b Binding>, why: &str) -> Invocation<'b> {
    let what = if binding.is_some() { "binding" } else { "policy" };
    Invocation {
        binding,
        params: Err(format!("failed to configure {what}: {why}")),
    }
}

/// Returns the parameters that a binding refers to; a single null if the kind or the reference is missing.
fn params(
    attributes: &Attributes<'_>,
    kind: Option<&Definition>,
    reference: Option<&Value>,
) -> Result<Vec<Option<Arc<Value>>>, String> {
    let (Some(kind), Some(reference)) = (kind, reference) else {
        return Ok(vec![None]);
    };
    let given = object::text(reference, &["namespace"]);
    let namespace = match (kind.namespaced, given) {
        (true, "") => attributes.namespace(),
        (true, given) => given,
        (false, "") => "",
        (false, _) => {
            return Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned(),
            );
        }
    };
    if kind.namespaced && namespace.is_empty() {
        return Err(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                .to_owned(),
        );
    }
    let store = &attributes.admission.store;
    let name = object::text(reference, &["name"]);
    let found: Vec<_> = if name.is_empty() {
        let selector = reference.get("selector").unwrap_or(&Value::Null);
        let listed = store.list(&kind.table, &kind.key_prefix(namespace)).objects;
        let labels = |value: &Value| object::meta(value, "labels").cloned().unwrap_or(Value::Null);
        listed
            .into_iter()
            .filter(|stored| selects(selector, &labels(&stored.value)))
            .collect()
    } else {
        store
            .get(&kind.table, &kind.key(namespace, name))
            .into_iter()
            .collect()
    };
    if found.is_empty() && object::text(reference, &["parameterNotFoundAction"]) == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found
        .into_iter()
        .map(|stored| Some(kind.serve(&stored.value)))
        .collect())
}

/// The variables of a policy's expressions, except its parameters.
#[derive(Debug)]
pub(super) struct PolicyObjects<'a> {
    request: Value,
    object: Option<Cow<'a, Value>>,
    old: Option<Cow<'a, Value>>,
    namespace: Option<Arc<Value>>,
}

impl<'a> PolicyObjects<'a> {
    pub(super) fn new(attributes: &Attributes<'a>, target: &Definition) -> Result<Self, Status> {
        let in_namespace = !attributes.is_namespace() && !attributes.namespace().is_empty();
        let namespace = in_namespace
            .then(|| matching::namespace(attributes))
            .transpose()?;
        Ok(Self {
            namespace,
            ..Self::without_namespace(attributes, target)
        })
    }

    /// Returns the variables of match conditions of webhooks, which do not include the namespace.
    pub(super) fn without_namespace(attributes: &Attributes<'a>, target: &Definition) -> Self {
        let versioned = |object: Option<&'a Value>| object.map(|object| attributes.versioned(object, target));
        Self {
            request: Value::Object(attributes.request(target)),
            object: versioned(attributes.object),
            old: versioned(attributes.old),
            namespace: None,
        }
    }

    pub(super) fn scope<'s>(
        &'s self,
        attributes: &Attributes<'_>,
        variables: &'s PolicyVariables,
        params: Option<&'s Value>,
    ) -> Scope<'s> {
        let mut scope = Scope::new(variables);
        scope.set("object", self.object.as_deref());
        scope.set("oldObject", self.old.as_deref());
        scope.set("request", Some(&self.request));
        scope.set("namespaceObject", self.namespace.as_deref());
        scope.set("params", params);
        for (name, value) in authorizer::values(attributes) {
            scope.set_value(name, value);
        }
        scope
    }
}
