//! Defaults: sets the fields that a written object omits.
//!
//! Every rule belongs to a Go type (`core.v1.Container`) and applies to every value of that type, so that a pod
//! template has the same defaults in a Deployment and in a CronJob. As in the API server, rules are applied from the
//! outside in: a parent is processed before its children.

mod apps;
mod core;
mod pod;
mod policy;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;
use structured_merge::builtin::{FieldKind, Type, TypeId, types};

use crate::tree::{self, Object};
use crate::{horizontal_pod_autoscaler, resource_v1beta1};
use apimachinery::gvk::Gvk;

/// Sets the defaults of a kind. Idempotent.
pub fn default(gvk: &Gvk, object: &mut Value) {
    let plans = &*PLANS;
    let root = types()
        .for_kind(gvk.group, gvk.version, gvk.kind)
        .and_then(|root| plans.by_name.get(root.name.as_str()));
    if let Some(&plan) = root {
        plans.apply(plan, object);
    }
    if (gvk.group, gvk.version, gvk.kind) == ("autoscaling", "v1", "HorizontalPodAutoscaler") {
        horizontal_pod_autoscaler::settle(object);
    }
    if resource_v1beta1::v1_kind(gvk).is_some() {
        *object = resource_v1beta1::from_v1(&resource_v1beta1::in_v1(object));
    }
}

/// One default of one type.
#[derive(Clone, Copy)]
enum Rule {
    /// Sets a missing or null field to a constant.
    Text(&'static str, &'static str),
    /// Like [`Rule::Text`], but also replaces an empty string.
    FilledText(&'static str, &'static str),
    Number(&'static str, i64),
    /// Like [`Rule::Number`], but also replaces zero.
    PositiveNumber(&'static str, i64),
    Flag(&'static str, bool),
    /// Sets a missing or null field to `{}`.
    Struct(&'static str),
    /// Calls a function.
    Code(fn(&mut Object)),
}

impl Rule {
    fn apply(self, object: &mut Object) {
        match self {
            Self::Text(field, value) => tree::set_if_nil(object, field, value),
            Self::FilledText(field, value) => tree::set_if_zero(object, field, value),
            Self::Number(field, value) => tree::set_if_nil(object, field, value),
            Self::PositiveNumber(field, value) => tree::set_if_zero(object, field, value),
            Self::Flag(field, value) => tree::set_if_nil(object, field, value),
            Self::Struct(field) => tree::set_if_nil(object, field, Object::new()),
            Self::Code(code) => code(object),
        }
    }
}

/// The name of a type without `io.k8s.api.`, and its rules.
type TypeRules = (&'static str, &'static [Rule]);

/// The structure between a field and its struct values.
#[derive(Clone, Copy)]
enum Shape {
    Struct,
    List,
    Map,
}

/// The plan for values of one type: its rules, and the fields with rules below them.
#[derive(Default)]
struct Plan {
    rules: Vec<Rule>,
    fields: Vec<(&'static str, Shape, usize)>,
}

/// The plans of all types, indexed by type.
#[derive(Default)]
struct Plans {
    plans: Vec<Plan>,
    by_name: HashMap<&'static str, usize>,
}

static PLANS: LazyLock<Plans> = LazyLock::new(Plans::new);

impl Plans {
    fn new() -> Self {
        let mut rules: HashMap<String, Vec<Rule>> = HashMap::new();
        for (name, of_type) in [core::RULES, pod::RULES, apps::RULES, policy::RULES].concat() {
            let name = format!("io.k8s.{name}");
            rules.entry(name).or_default().extend(of_type);
        }
        let mut plans = Self::default();
        for (index, of_type) in types().iter().enumerate() {
            plans.by_name.insert(&of_type.name, index);
        }
        plans.plans = types()
            .iter()
            .map(|of_type| Plan {
                rules: rules.remove(&of_type.name).unwrap_or_default(),
                fields: plans.fields_of(of_type),
            })
            .collect();
        plans.forget_idle_fields();
        plans
    }

    fn fields_of(&self, of_type: &'static Type) -> Vec<(&'static str, Shape, usize)> {
        let below = |field: &'static structured_merge::builtin::Field| {
            let (shape, id) = reference(&field.kind)?;
            let plan = self.by_name.get(id.resolve().name.as_str())?;
            Some((field.name, shape, *plan))
        };
        of_type.fields().iter().filter_map(below).collect()
    }

    /// Removes the fields without rules below them, so that they are not visited.
    fn forget_idle_fields(&mut self) {
        let mut busy: Vec<bool> = self.plans.iter().map(|p| !p.rules.is_empty()).collect();
        loop {
            let wakes = |plan: &Plan| plan.fields.iter().any(|(_, _, below)| busy[*below]);
            let woken: Vec<usize> = (0..self.plans.len())
                .filter(|&index| !busy[index] && wakes(&self.plans[index]))
                .collect();
            if woken.is_empty() {
                break;
            }
            for index in woken {
                busy[index] = true;
            }
        }
        for plan in &mut self.plans {
            plan.fields.retain(|(_, _, below)| busy[*below]);
        }
    }

    fn apply(&self, index: usize, value: &mut Value) {
        let (Some(plan), Some(object)) = (self.plans.get(index), value.as_object_mut()) else {
            return;
        };
        for rule in &plan.rules {
            rule.apply(object);
        }
        for (name, shape, below) in &plan.fields {
            let Some(value) = object.get_mut(*name) else {
                continue;
            };
            match (shape, value) {
                (Shape::Struct, value) => self.apply(*below, value),
                (Shape::List, Value::Array(items)) => {
                    items.iter_mut().for_each(|item| self.apply(*below, item));
                }
                (Shape::Map, Value::Object(entries)) => {
                    entries.values_mut().for_each(|item| self.apply(*below, item));
                }
                _ => {}
            }
        }
    }
}

/// Returns the struct type of a field, or of the items of its list or map.
fn reference(kind: &FieldKind) -> Option<(Shape, TypeId)> {
    let inner = |kind: &FieldKind| match kind {
        FieldKind::Ref(id) => Some(*id),
        _ => None,
    };
    match kind {
        FieldKind::Ref(id) => Some((Shape::Struct, *id)),
        FieldKind::List(item) => Some((Shape::List, inner(item)?)),
        FieldKind::Map(item) => Some((Shape::Map, inner(item)?)),
        _ => None,
    }
}
