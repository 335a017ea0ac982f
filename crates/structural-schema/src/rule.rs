//! `x-kubernetes-validations`: compiles rules for their schema, and evaluates them on objects.

mod declare;

use std::collections::{BTreeMap, HashMap};

use apimachinery::field::{Error, ErrorType, Path};
use kubernetes_cel::ast::{describe, mentions};
use kubernetes_cel::declared::Declared;
use kubernetes_cel::types::Type;
use kubernetes_cel::value::{Value, from_json};
use kubernetes_cel::work::Work;
use kubernetes_cel::{Activation, Checked, Failure, Variables, check, cost, evaluate_with, parse, plan};
use serde_json::Value as Json;

use crate::field_path;
use crate::node::{Node, Rule};
use crate::outcome::Outcome;

pub(crate) use declare::declare;

/// The cost limit of one rule at run time.
const PER_CALL_LIMIT: u64 = 1_000_000;
/// The cost limit of all rules of one request.
const BUDGET: u64 = 10_000_000;
/// The work limit of all rules of one request. Rules with only constants have no cost, but there can be many.
const STEPS: u64 = 500_000_000;
/// The constant number of steps for each evaluation of a rule.
const STEPS_PER_RULE: u64 = 16;
/// The maximum length of a message expression's result in bytes; a longer one is replaced by the default message.
const MAX_MESSAGE: usize = 5 << 10;

/// A compiled rule.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    program: Checked,
    message: Option<Checked>,
    pub(crate) uses_old_self: bool,
    optional_old_self: bool,
    field_path: Option<Path>,
    pub(crate) max_cost: u64,
    pub(crate) message_cost: Option<u64>,
}

/// An error of compiling a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    Rule(String),
    MessageExpression(String),
}

/// Compiles a rule of a schema. Both of its expressions are compiled, so that the errors of both are reported.
pub(crate) fn compile(rule: &Rule, node: &Node, declared: &Declared) -> (Option<Compiled>, Vec<Problem>) {
    let mut problems = Vec::new();
    let optional = rule.optional_old_self == Some(true);
    let old = if optional {
        Type::optional(declared.kind.clone())
    } else {
        declared.kind.clone()
    };
    let variables = Variables::from([
        ("self".to_owned(), declared.kind.clone()),
        ("oldSelf".to_owned(), old),
    ]);
    let bounds = HashMap::from([("self".to_owned(), declared), ("oldSelf".to_owned(), declared)]);
    let program = match expression(&rule.rule, &variables) {
        Ok(program) if program.result == Type::Bool => match plan(&program.expr) {
            Ok(()) => Some(program),
            Err(problem) => {
                problems.push(Problem::Rule(format!("program instantiation failed: {problem}")));
                None
            }
        },
        Ok(_) => {
            problems.push(Problem::Rule("cel expression must evaluate to a bool".to_owned()));
            None
        }
        Err(problem) => {
            problems.push(Problem::Rule(format!("compilation failed: {problem}")));
            None
        }
    };
    let mut message = None;
    if program.is_some() && !rule.message_expression.trim().is_empty() {
        match expression(&rule.message_expression, &variables) {
            Ok(found) if found.result == Type::String => match plan(&found.expr) {
                Ok(()) => message = Some(found),
                Err(problem) => {
                    let detail = format!("messageExpression instantiation failed: {problem}");
                    problems.push(Problem::MessageExpression(detail));
                }
            },
            Ok(_) => {
                let detail = "messageExpression must evaluate to a string".to_owned();
                problems.push(Problem::MessageExpression(detail));
            }
            Err(problem) => {
                let detail = format!("messageExpression compilation failed: {problem}");
                problems.push(Problem::MessageExpression(detail));
            }
        }
    }
    let field_path = Some(&rule.field_path).filter(|path| !path.is_empty());
    let compiled = program.map(|program| Compiled {
        uses_old_self: mentions(&program.expr, "oldSelf"),
        optional_old_self: optional,
        field_path: field_path
            .and_then(|path| field_path::resolve(path, node).ok())
            .map(|(path, _)| path),
        max_cost: cost::estimate(&program, &bounds),
        message_cost: message.as_ref().map(|message| cost::estimate(message, &bounds)),
        program,
        message,
    });
    (compiled, problems)
}

fn expression(source: &str, variables: &Variables) -> Result<Checked, String> {
    parse(source)
        .and_then(|expr| check(expr, variables))
        .map_err(|issues| describe(source, &issues))
}

/// The rules of a schema and of its children.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// The rules of the schema itself, with their indexes in its list.
    own: Vec<(usize, Compiled)>,
    properties: BTreeMap<String, Rules>,
    /// The rules of additional properties, or of items.
    inner: Option<Box<Rules>>,
}

impl Rules {
    /// Compiles the rules of a schema; skips rules that do not compile.
    pub(crate) fn of(node: &Node, is_resource: bool) -> Self {
        let below = |node: &Node| Self::of(node, node.embedded_resource);
        let properties = node
            .properties
            .iter()
            .map(|(name, node)| (name.clone(), below(node)));
        let inner = node.items.as_deref().or(node.additional_schema()).map(below);
        Self {
            own: Self::own(node, is_resource),
            properties: properties.filter(|(_, rules)| !rules.is_empty()).collect(),
            inner: inner.filter(|rules| !rules.is_empty()).map(Box::new),
        }
    }

    fn own(node: &Node, is_resource: bool) -> Vec<(usize, Compiled)> {
        if node.rules.is_empty() {
            return Vec::new();
        }
        let Some(declared) = declare(node, is_resource || node.embedded_resource) else {
            return Vec::new();
        };
        let compiled = node.rules.iter().enumerate();
        compiled
            .filter_map(|(index, rule)| Some((index, compile(rule, node, &declared).0?)))
            .collect()
    }

    /// Returns true if there are no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.properties.is_empty() && self.inner.is_none()
    }

    /// Evaluates all rules on a value. With `ratchet`, a failure that the old value also has is a warning.
    pub(crate) fn validate(
        &self,
        value: &Json,
        old: Option<&Json>,
        node: &Node,
        path: &Path,
        ratchet: bool,
    ) -> Outcome {
        let mut run = Run {
            budget: BUDGET,
            steps: STEPS,
            exhausted: false,
            outcome: Outcome::default(),
        };
        let unchanged = ratchet && old == Some(value);
        run.node(
            self,
            value,
            old,
            node,
            path,
            Ratchet {
                enabled: ratchet,
                unchanged,
            },
        );
        run.outcome
    }
}

#[derive(Clone, Copy)]
struct Ratchet {
    enabled: bool,
    /// True if the value, or the nearest enclosing value that has an old value, is unchanged.
    unchanged: bool,
}

struct Run {
    budget: u64,
    /// The remaining steps.
    steps: u64,
    exhausted: bool,
    outcome: Outcome,
}

impl Run {
    fn node(
        &mut self,
        rules: &Rules,
        value: &Json,
        old: Option<&Json>,
        node: &Node,
        path: &Path,
        ratchet: Ratchet,
    ) {
        if value.is_null() || self.exhausted {
            return;
        }
        for (index, compiled) in &rules.own {
            if let Some(rule) = node.rules.get(*index) {
                self.rule(rule, compiled, value, old, node, path, ratchet);
            }
            if self.exhausted {
                return;
            }
        }
        let below = |value: &Json, old: Option<&Json>| Ratchet {
            unchanged: ratchet.enabled && old.map_or(ratchet.unchanged, |old| old == value),
            ..ratchet
        };
        match value {
            Json::Object(map) => {
                for (name, field) in map {
                    let old = old.and_then(|old| old.get(name));
                    let found = match (node.properties.get(name), node.additional_schema()) {
                        (Some(child), _) => rules
                            .properties
                            .get(name)
                            .map(|rules| (rules, child, path.child(name))),
                        (None, Some(child)) => {
                            rules.inner.as_deref().map(|rules| (rules, child, path.key(name)))
                        }
                        (None, None) => None,
                    };
                    if let Some((rules, child, path)) = found {
                        self.node(rules, field, old, child, &path, below(field, old));
                    }
                }
            }
            Json::Array(items) => {
                let (Some(rules), Some(child)) = (rules.inner.as_deref(), node.items.as_deref()) else {
                    return;
                };
                let correlation = old.map(|old| crate::validate::Correlation::new(value, old, node));
                for (index, item) in items.iter().enumerate() {
                    let old = correlation
                        .as_ref()
                        .and_then(|found| found.item(item))
                        .map(|found| found.old);
                    self.node(rules, item, old, child, &path.index(index), below(item, old));
                }
            }
            _ => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a rule's place is all of these")]
    fn rule(
        &mut self,
        rule: &Rule,
        compiled: &Compiled,
        value: &Json,
        old: Option<&Json>,
        node: &Node,
        path: &Path,
        ratchet: Ratchet,
    ) {
        let old = old.filter(|old| !old.is_null());
        if compiled.uses_old_self && !compiled.optional_old_self && old.is_none() {
            return;
        }
        let mut variables = Activation::from([("self".to_owned(), from_json(value, Some(node)))]);
        let old_value = old.map(|old| from_json(old, Some(node)));
        let old_self = if compiled.optional_old_self {
            Some(Value::Optional(old_value.map(Box::new)))
        } else {
            old_value
        };
        variables.extend(old_self.map(|old| ("oldSelf".to_owned(), old)));
        let (result, cost) = self.evaluate(&compiled.program, &variables, PER_CALL_LIMIT);
        let here = if path.is_root() { Path::nil() } else { path.clone() };
        if cost > self.budget {
            let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
            self.outcome
                .errors
                .push(Error::invalid(here, node.kind.as_str().into(), detail));
            self.exhausted = true;
            return;
        }
        self.budget -= cost;
        let error = match result {
            Ok(Value::Bool(true)) => return,
            Ok(_) => self.failed(rule, compiled, value, path, &variables),
            Err(failure) => {
                let detail = failure_text(&failure, rule);
                self.exhausted = failure == Failure::CostLimit;
                Error::invalid(here, node.kind.as_str().into(), detail)
            }
        };
        if ratchet.unchanged && !compiled.uses_old_self {
            self.outcome.warnings.push(error.to_string());
        } else {
            self.outcome.errors.push(error);
        }
    }

    /// Evaluates an expression within the work limit of all rules of a request.
    fn evaluate<'a>(
        &mut self,
        program: &Checked,
        variables: &Activation<'a>,
        limit: u64,
    ) -> (Result<Value<'a>, Failure>, u64) {
        let work = Work::of_cost(limit);
        work.limit_steps(self.steps);
        let before = work.steps();
        let evaluated = evaluate_with(program, variables, limit, &work);
        self.steps = self.steps.saturating_sub(before - work.steps() + STEPS_PER_RULE);
        evaluated
    }

    fn failed(
        &mut self,
        rule: &Rule,
        compiled: &Compiled,
        value: &Json,
        path: &Path,
        variables: &Activation<'_>,
    ) -> Error {
        let field = match &compiled.field_path {
            Some(below) => path.child(below.as_str()),
            None if path.is_root() => Path::nil(),
            None => path.clone(),
        };
        let detail = self
            .message(compiled, variables)
            .unwrap_or_else(|| plain_message(rule));
        let shown = (!value.is_object() && !value.is_array()).then(|| apimachinery::field::render(value));
        let (kind, value, detail) = match rule.reason.as_deref() {
            Some("FieldValueForbidden") => (ErrorType::Forbidden, None, detail),
            Some("FieldValueRequired") => (ErrorType::Required, None, detail),
            Some("FieldValueDuplicate") => (ErrorType::Duplicate, shown, String::new()),
            _ => (ErrorType::Invalid, shown, detail),
        };
        Error {
            kind,
            field,
            value,
            detail,
        }
    }

    /// Returns the result of the message expression; `None` if it fails, or is blank, too long or has several lines.
    fn message(&mut self, compiled: &Compiled, variables: &Activation<'_>) -> Option<String> {
        let limit = PER_CALL_LIMIT.min(self.budget);
        let (result, cost) = self.evaluate(compiled.message.as_ref()?, variables, limit);
        self.budget = self.budget.saturating_sub(cost);
        match result {
            Ok(Value::String(text)) => {
                let text = text.trim();
                let fits = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains(['\n', '\r']);
                fits.then(|| text.to_owned())
            }
            _ => None,
        }
    }
}

fn plain_message(rule: &Rule) -> String {
    match rule.message.trim() {
        "" => format!("failed rule: {}", rule.rule.trim()),
        message => message.to_owned(),
    }
}

fn failure_text(failure: &Failure, rule: &Rule) -> String {
    let shown = match rule.message.trim() {
        "" => rule.rule.trim(),
        message => message,
    };
    match failure {
        Failure::CostLimit => format!(
            "'{failure}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
        ),
        Failure::Error(text) if text.starts_with("no such overload") => format!(
            "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
        ),
        Failure::Error(text) => format!("{text} evaluating rule: {shown}"),
    }
}

#[cfg(test)]
mod tests;
