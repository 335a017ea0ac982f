//! The scopes of a quota, which select the objects that it counts.

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use crate::tree::{list, text};

/// One condition of a quota's scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) scope: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

/// Returns the conditions of `spec.scopes` and `spec.scopeSelector`, which must all be true.
pub(super) fn selectors(quota: &Value) -> Vec<Selector> {
    let scopes = list(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
    let scopes = scopes.map(|scope| Selector {
        scope: scope.to_owned(),
        operator: Operator::Exists,
    });
    let expressions = list(quota, &["spec", "scopeSelector", "matchExpressions"]);
    scopes.chain(expressions.iter().map(expressed)).collect()
}

pub(super) fn expressed(expression: &Value) -> Selector {
    let values = list(expression, &["values"]);
    let values = values
        .iter()
        .filter_map(|value| value.as_str().map(str::to_owned));
    Selector {
        scope: text(expression, &["scopeName"]).to_owned(),
        operator: match text(expression, &["operator"]) {
            "In" => Operator::In(values.collect()),
            "NotIn" => Operator::NotIn(values.collect()),
            "DoesNotExist" => Operator::Absent,
            _ => Operator::Exists,
        },
    }
}

impl Selector {
    /// Formats the selector as Go's struct.
    pub(super) fn text(&self) -> String {
        let (operator, values) = match &self.operator {
            Operator::Exists => ("Exists", &[] as &[String]),
            Operator::Absent => ("DoesNotExist", &[] as &[String]),
            Operator::In(values) => ("In", values.as_slice()),
            Operator::NotIn(values) => ("NotIn", values.as_slice()),
        };
        format!("{{{} {operator} [{}]}}", self.scope, values.join(" "))
    }

    /// Returns the error of a selector whose values cannot be the values of a label.
    pub(super) fn fault(&self) -> Option<String> {
        let (Operator::In(values) | Operator::NotIn(values)) = &self.operator else {
            return None;
        };
        let faults: Vec<String> = values
            .iter()
            .enumerate()
            .flat_map(|(index, value)| {
                let path = Path::new("values").index(index).key(&self.scope);
                let faults = names::label_value(value).into_iter();
                faults
                    .map(move |fault| Error::invalid(path.clone(), value.as_str().into(), fault).to_string())
            })
            .collect();
        let listed = match faults.as_slice() {
            [] => return None,
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        Some(format!(
            "error on matching scope {}: failed to parse and convert selector: {listed}",
            self.text()
        ))
    }

    /// Returns true if the selector matches an object with these classes.
    pub(super) fn selects(&self, classes: &[&str]) -> bool {
        let named = |values: &[String]| {
            classes
                .iter()
                .any(|class| values.iter().any(|value| value == class))
        };
        match &self.operator {
            Operator::Exists => !classes.is_empty(),
            Operator::Absent => classes.is_empty(),
            Operator::In(values) => named(values),
            Operator::NotIn(values) => {
                classes.is_empty()
                    || classes
                        .iter()
                        .any(|class| values.iter().all(|value| value != class))
            }
        }
    }
}
