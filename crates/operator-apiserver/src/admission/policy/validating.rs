//! ValidatingAdmissionPolicies: accept, reject, warn about or audit requests.

use std::collections::BTreeMap;

use apimachinery::object;
use kubernetes_cel::value::Value;
use serde_json::{Value as Json, json};

use super::{Body, Bound, Policy, PolicyObjects, Unconverted};
use crate::admission::attributes::Attributes;
use crate::status::{self, Status};
use builtin_kinds::expression::{BUDGET, Environment, Program, Returns, Scope};

/// The maximum length of a message expression's result in bytes; a longer one is replaced by the default message.
const MESSAGE_MAX: usize = 5 << 10;

/// The validations of a policy.
#[derive(Debug)]
pub(crate) struct Checks {
    validations: Vec<Validation>,
    annotations: Vec<Annotation>,
}

#[derive(Debug)]
struct Validation {
    program: Program,
    message: String,
    message_expression: Option<Program>,
    /// The reason of a rejection; empty for the default.
    reason: String,
}

/// A value for the audit log. An error rejects the request.
#[derive(Debug)]
struct Annotation {
    key: String,
    program: Program,
}

/// The annotation that lists the violations of bindings with the action `Audit`.
const VALIDATION_FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

impl Body for Checks {
    const PATCHES: bool = false;

    fn read(spec: &Json, environment: &Environment) -> Self {
        let list = |field: &str| spec.get(field).and_then(Json::as_array).into_iter().flatten();
        let texts = environment.without_authorizer();
        let validation = |value: &Json| {
            let text = |field: &str| object::text(value, &[field]);
            let message_expression = text("messageExpression");
            Validation {
                program: Program::new(environment, text("expression"), Returns::Bool),
                message: text("message").trim().to_owned(),
                message_expression: (!message_expression.trim().is_empty())
                    .then(|| Program::new(&texts, message_expression, Returns::Text)),
                reason: text("reason").to_owned(),
            }
        };
        let annotation = |value: &Json| {
            let source = object::text(value, &["valueExpression"]);
            Annotation {
                key: object::text(value, &["key"]).to_owned(),
                program: Program::new(environment, source, Returns::TextOrNull),
            }
        };
        Self {
            validations: list("validations").map(validation).collect(),
            annotations: list("auditAnnotations").map(annotation).collect(),
        }
    }
}

/// A rejection by a policy: the text, and the reason if there is one.
#[derive(Debug)]
struct Refusal {
    message: String,
    reason: String,
    /// The index of the validation in its policy.
    index: usize,
}

impl Refusal {
    fn of(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            reason: String::new(),
            index: 0,
        }
    }
}

/// Evaluates all policies, because those that accept the object may warn; returns the first rejection.
pub(crate) fn validate(
    attributes: &Attributes<'_>,
    policies: &[Bound<Checks>],
    unconverted: &Unconverted,
) -> Result<(), Status> {
    let mut first = None;
    for bound in policies {
        let refused = ask(attributes, bound, unconverted)?;
        first = first.or(refused);
    }
    first.map_or(Ok(()), Err)
}

/// Returns the first rejection of a policy, after all its bindings have been evaluated.
fn ask(
    attributes: &Attributes<'_>,
    bound: &Bound<Checks>,
    unconverted: &Unconverted,
) -> Result<Option<Status>, Status> {
    let Some((target, invocations)) = bound.invocations(attributes) else {
        return Ok(None);
    };
    let policy = &*bound.policy;
    let subjects = PolicyObjects::new(attributes, &target)?;
    let unconverted = unconverted.why(&target);
    let unconverted = unconverted
        .map(|why| format!("failed to configure binding: failed to convert object version: {why}"));
    let mut refusals = Vec::new();
    let mut annotations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for invocation in invocations {
        let name = invocation.binding.map(|binding| binding.name.as_str());
        let seen = |params| unconverted.clone().map_or(Ok(params), Err);
        let params = match invocation.params.and_then(seen) {
            Ok(params) => params,
            Err(_) if policy.fails_open => continue,
            Err(why) => {
                refusals.push((name, Refusal::of(why)));
                continue;
            }
        };
        let Some(binding) = invocation.binding else {
            continue;
        };
        let scope = subjects.scope(attributes, &policy.variables, params.as_deref());
        let verdict = policy.evaluate(&scope);
        for (key, value) in verdict.annotations {
            let values = annotations.entry(key).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        for refusal in verdict.refusals {
            if binding.does("Audit") {
                let failure = json!([{
                    "message": refusal.message, "policy": policy.name, "binding": binding.name,
                    "expressionIndex": refusal.index, "validationActions": binding.actions(),
                }]);
                let warnings = &attributes.write.warnings;
                warnings.annotate(VALIDATION_FAILURE, &failure.to_string());
            }
            if binding.does("Warn") {
                attributes.write.warnings.add(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.name, binding.name, refusal.message
                ));
            }
            if binding.does("Deny") {
                refusals.push((name, refusal));
            }
        }
        let failed = verdict.failed_annotations.into_iter();
        refusals.extend(failed.map(|why| (name, Refusal::of(why))));
    }
    for (key, values) in annotations {
        let key = format!("{}/{key}", policy.name);
        attributes.write.warnings.annotate(&key, &values.join(", "));
    }
    let first = refusals.first();
    Ok(first.map(|(binding, refusal)| denied(attributes, &policy.name, *binding, refusal)))
}

#[derive(Debug, Default)]
struct Verdict {
    refusals: Vec<Refusal>,
    /// The audit annotations: keys and values.
    annotations: Vec<(String, String)>,
    /// Errors of audit annotations, which reject the request regardless of the binding's actions.
    failed_annotations: Vec<String>,
}

impl Policy<Checks> {
    fn evaluate(&self, scope: &Scope<'_>) -> Verdict {
        let failed = |why: String| Verdict {
            refusals: self.fault(why).into_iter().collect(),
            ..Verdict::default()
        };
        match self.conditions.hold(scope) {
            Ok(true) => {}
            Ok(false) => return Verdict::default(),
            Err(why) => return failed(why),
        }
        let mut budget = BUDGET;
        let mut results = Vec::new();
        for (index, validation) in self.body.validations.iter().enumerate() {
            match validation.program.run(scope, &mut budget) {
                Ok(result) => results.push((index, validation, result)),
                Err(spent) => return failed(spent.to_string()),
            }
        }
        let mut verdict = Verdict::default();
        for (index, validation, result) in results {
            let refusal = match result {
                Ok(Value::Bool(true)) => None,
                Ok(_) => match validation.refusal(scope, &mut budget) {
                    Ok(refusal) => Some(refusal),
                    Err(why) => self.fault(why),
                },
                Err(why) => self.fault(why),
            };
            let refusal = refusal.map(|refusal| Refusal { index, ..refusal });
            verdict.refusals.extend(refusal);
        }
        let mut budget = BUDGET;
        for Annotation { key, program } in &self.body.annotations {
            match program.run(scope, &mut budget) {
                Ok(Ok(Value::String(text))) => {
                    verdict.annotations.push((key.clone(), text.trim().to_owned()));
                }
                Ok(Err(why)) if !self.fails_open => verdict.failed_annotations.push(why),
                Ok(_) => {}
                Err(spent) => return failed(spent.to_string()),
            }
        }
        verdict
    }

    /// Returns the rejection for an expression that failed, if the failure policy demands it.
    fn fault(&self, why: String) -> Option<Refusal> {
        (!self.fails_open).then(|| Refusal::of(why))
    }
}

impl Validation {
    /// Returns the rejection for a false validation.
    ///
    /// # Errors
    /// Returns an error if the message expression exceeds the cost limit.
    fn refusal(&self, scope: &Scope<'_>, budget: &mut u64) -> Result<Refusal, String> {
        let text = match &self.message_expression {
            None => None,
            Some(program) => match program.run(scope, budget) {
                Ok(Ok(Value::String(text))) => Some(text.trim().to_owned()),
                Ok(_) => None,
                Err(spent) => return Err(format!("failed messageExpression: {spent}")),
            },
        };
        let usable = |text: &String| !text.is_empty() && text.len() <= MESSAGE_MAX && !text.contains('\n');
        let message = text
            .filter(usable)
            .or_else(|| Some(self.message.clone()).filter(|message| !message.is_empty()))
            .unwrap_or_else(|| format!("failed expression: {}", self.program.source.trim()));
        Ok(Refusal {
            message,
            reason: self.reason.clone(),
            index: 0,
        })
    }
}

fn denied(attributes: &Attributes<'_>, policy: &str, binding: Option<&str>, refusal: &Refusal) -> Status {
    let with = binding.map_or(String::new(), |name| format!(" with binding '{name}'"));
    let text = format!(
        "ValidatingAdmissionPolicy '{policy}'{with} denied request: {}",
        refusal.message
    );
    let (reason, code) = match refusal.reason.as_str() {
        "Forbidden" => ("Forbidden", 403),
        "RequestEntityTooLarge" => ("RequestEntityTooLarge", 413),
        _ => ("Invalid", 422),
    };
    status::with_reason(attributes.forbidden(&text), code, reason, &text)
}
