//! MutatingAdmissionPolicies: changes objects by apply configurations and JSON patches.

use apimachinery::object;
use serde_json::{Map, Value as Json, json};
use structured_merge::Schema;
use structured_merge::typed::overlay;

use super::{Binding, Body, Bound, Invocation, Policy, PolicyObjects, Unconverted, configuration_fault};
use crate::admission::mutation::{MutatedObject, Reinvocation};
use crate::codec::protobuf::go_order;
use crate::patch::json as json_patch;
use crate::resource::{Definition, Source};
use crate::status::Status;
use builtin_kinds::expression::{BUDGET, Environment, Program, Returns, Scope};

/// The mutations of a policy.
#[derive(Debug)]
pub(crate) struct Mutations {
    mutations: Vec<Mutation>,
    /// True if its reinvocation policy is IfNeeded.
    again: bool,
}

#[derive(Debug)]
enum Mutation {
    Apply(Program),
    JsonPatch(Program),
}

impl Body for Mutations {
    const PATCHES: bool = true;

    fn read(spec: &Json, environment: &Environment) -> Self {
        let list = spec.get("mutations").and_then(Json::as_array);
        let mutation = |value: &Json| {
            let source = |field: &str| object::text(value, &[field, "expression"]).to_owned();
            match object::text(value, &["patchType"]) {
                "JSONPatch" => Mutation::JsonPatch(Program::new(
                    environment,
                    &source("jsonPatch"),
                    Returns::JsonPatch,
                )),
                _ => Mutation::Apply(Program::new(
                    environment,
                    &source("applyConfiguration"),
                    Returns::Object,
                )),
            }
        };
        Self {
            mutations: list.into_iter().flatten().map(mutation).collect(),
            again: object::text(spec, &["reinvocationPolicy"]) == "IfNeeded",
        }
    }
}

/// Applies the mutations of policies to an object. All failures are collected.
pub(crate) fn mutate(
    mutated: &mut MutatedObject<'_>,
    policies: &[Bound<Mutations>],
    unconverted: &Unconverted,
    reinvocation: &mut Reinvocation,
) -> Result<(), Status> {
    // A delete has no object to change.
    if mutated.object().is_none_or(Json::is_null) {
        return Ok(());
    }
    reinvocation.begin(mutated.object());
    let mut failures = Vec::new();
    for bound in policies {
        let before = mutated.object().cloned();
        let attributes = mutated.attributes(before.as_ref());
        let Some((target, mut invocations)) = bound.invocations(&attributes) else {
            continue;
        };
        if let Some(why) = unconverted.why(&target)
            && !invocations.is_empty()
        {
            invocations = vec![configuration_fault(None, why)];
        }
        for invocation in invocations {
            if let Err(failure) = bound.policy.invoke(mutated, &target, invocation, reinvocation)? {
                failures.push(failure);
            }
        }
    }
    reinvocation.end(mutated.object());
    let Some((first, reason)) = failures.first() else {
        return Ok(());
    };
    let object = mutated.object().cloned();
    let mut refused = mutated
        .attributes(object.as_ref())
        .forbidden("admission request denied by policy");
    refused.body["message"] = first.as_str().into();
    if !reason.is_empty() {
        refused.body["reason"] = (*reason).into();
    }
    let causes: Vec<Json> = failures
        .iter()
        .map(|(text, _)| json!({"message": text}))
        .collect();
    refused.body["details"]["causes"] = causes.into();
    Err(refused)
}

/// The text of a failure, and its reason; empty for the default.
type Failure = (String, &'static str);

impl Policy<Mutations> {
    /// Evaluates the policy with one binding and parameter. The inner error is subject to the failure policy.
    fn invoke(
        &self,
        mutated: &mut MutatedObject<'_>,
        target: &Definition,
        invocation: Invocation<'_>,
        reinvocation: &mut Reinvocation,
    ) -> Result<Result<(), Failure>, Status> {
        let fail = |why: &str, reason| {
            if self.fails_open {
                return Ok(());
            }
            let name = &self.name;
            let who = match invocation.binding {
                Some(Binding { name: binding, .. }) => format!("policy '{name}' with binding '{binding}'"),
                None => format!("policy {name:?}"),
            };
            Err((format!("{who} denied request: {why}"), reason))
        };
        let params = match invocation.params {
            Ok(params) => params,
            Err(why) => return Ok(fail(&why, "")),
        };
        let binding = invocation.binding.map(|binding| binding.name.as_str());
        let parameter = params
            .as_deref()
            .map(|params| (object::namespace(params), object::name(params)));
        let key = format!("{}/{}/{parameter:?}", self.name, binding.unwrap_or_default());
        if !reinvocation.is_due(&key) {
            return Ok(Ok(()));
        }
        let before = mutated.object().cloned();
        let mut result = Ok(());
        for mutation in &self.body.mutations {
            // The conditions hold for the object as the mutations before left it.
            match self.applies(mutated, target, params.as_deref())? {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => {
                    result = fail(&why, "Invalid");
                    break;
                }
            }
            if let Err(why) = mutation.run(mutated, target, &self.variables, params.as_deref())? {
                result = fail(&why, "Invalid");
            }
        }
        if before.as_ref() != mutated.object() {
            reinvocation.changed();
        }
        if self.body.again {
            reinvocation.invoked(key);
        }
        Ok(result)
    }

    /// Evaluates the match conditions; the inner error is that of an expression.
    fn applies(
        &self,
        mutated: &MutatedObject<'_>,
        target: &Definition,
        params: Option<&Json>,
    ) -> Result<Result<bool, String>, Status> {
        let live = mutated.object().cloned();
        let attributes = mutated.attributes(live.as_ref());
        let subjects = PolicyObjects::new(&attributes, target)?;
        let scope = subjects.scope(&attributes, &self.variables, params);
        Ok(self.conditions.hold(&scope))
    }
}

impl Mutation {
    /// Changes the object; the inner error is the reason why this was not possible.
    fn run(
        &self,
        mutated: &mut MutatedObject<'_>,
        target: &Definition,
        variables: &builtin_kinds::expression::PolicyVariables,
        params: Option<&Json>,
    ) -> Result<Result<(), String>, Status> {
        let Some(live) = mutated.object().cloned() else {
            return Ok(Ok(()));
        };
        let attributes = mutated.attributes(Some(&live));
        let subjects = PolicyObjects::new(&attributes, target)?;
        let scope = subjects.scope(&attributes, variables, params);
        let shown = attributes.versioned(&live, target);
        let kind = attributes.kind(target);
        let changed = match self {
            Self::Apply(program) => apply(program, &scope, &shown, schema(target, kind))
                .and_then(|changed| converted(target, changed)),
            Self::JsonPatch(program) => patch(program, &scope, &shown),
        };
        match changed {
            Ok(changed) => {
                let is_strict = matches!(self, Self::JsonPatch(_));
                mutated.replace(changed, target, is_strict).map(Ok)
            }
            Err(why) => Ok(Err(why)),
        }
    }
}

/// Returns the server-side apply schema of a kind.
fn schema(target: &Definition, (group, version, kind): (&str, &str, &str)) -> Option<Schema> {
    match &target.source {
        Source::Custom(custom) if kind == target.subject.kind => {
            custom.merge_schemas.get(&custom.api_version).cloned()
        }
        _ => Schema::builtin(group, version, kind),
    }
}

fn value_of(program: &Program, scope: &Scope<'_>) -> Result<Json, String> {
    let mut budget = BUDGET;
    let value = program
        .run(scope, &mut budget)
        .map_err(|spent| spent.to_string())??;
    let objects = match value.check_type_names() {
        Ok(()) => value.to_json(),
        Err(why) => return Err(format!("type mismatch: {why}")),
    };
    objects.map_err(|what| format!("unsupported return type from expression: {what}"))
}

fn apply(program: &Program, scope: &Scope<'_>, live: &Json, schema: Option<Schema>) -> Result<Json, String> {
    let mut config = value_of(program, scope)?;
    for field in ["apiVersion", "kind"] {
        object::copy_field(&mut config, live, field);
    }
    let schema = schema.ok_or("error applying patch: the kind has no type")?;
    let mut changed =
        overlay(&schema, live, &config).map_err(|why| format!("error applying patch: {why}"))?;
    object::copy_meta(&mut changed, live, "managedFields");
    Ok(changed)
}

/// Converts an applied object to the form of the Go struct of its kind.
fn converted(target: &Definition, mut applied: Json) -> Result<Json, String> {
    // The body of a subresource can have another kind.
    let is_own = object::text(&applied, &["kind"]) == target.subject.kind;
    if let Source::Builtin { gvk, .. } = &target.source
        && let Some(kind) = target.builtin_type().filter(|_| is_own)
    {
        builtin_kinds::unstructured::convert(kind, &mut applied, &go_order::position)
            // Quantities are only parsed by the decoder.
            .and_then(|()| {
                let decoded = builtin_kinds::decode(gvk, &mut applied.clone());
                decoded.map(drop).map_err(|error| error.to_string())
            })
            .map_err(|why| {
                let (subject, version) = (&target.subject, &target.version);
                let gvk = format!("{}/{version}, Kind={}", subject.group, subject.kind);
                format!("unable to convert unstructured object to {gvk}: {why}")
            })?;
    }
    Ok(applied)
}

fn patch(program: &Program, scope: &Scope<'_>, live: &Json) -> Result<Json, String> {
    let operations = value_of(program, scope)?;
    let operations = operations.as_array().map_or(&[] as &[Json], Vec::as_slice);
    // A field with the zero value of its type equals a missing one.
    let operations: Vec<Json> = operations.iter().map(without_empty_source).collect();
    let mut changed = live.clone();
    match json_patch::apply(&mut changed, &operations) {
        Ok(()) => Ok(changed),
        // A failed test skips the patch, and is not an error.
        Err(error) if error.is_failed_test() => Ok(live.clone()),
        Err(error) => Err(format!("JSON Patch: {error}")),
    }
}

fn without_empty_source(operation: &Json) -> Json {
    let fields = operation.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, value)| *name != "from" || *value != "");
    Json::Object(
        fields
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Map<_, _>>(),
    )
}
