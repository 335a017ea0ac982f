//! CEL rules of the property `olm.constraint`, which are evaluated on the properties of a bundle: [`Rule`].

use std::fmt;

use kubernetes_cel::ast::{self, Expr, Kind, Literal};
use kubernetes_cel::types::Type;
use kubernetes_cel::value::{Value, from_json};
use kubernetes_cel::{Activation, Checked, Variables, check, evaluate, parse};
use serde_json::json;

use super::Property;

/// The cost limit of the evaluation of a rule.
const COST_MAX: u64 = 1_000_000;
/// The name of the variable with the properties.
const VARIABLE: &str = "properties";

/// A parsed and checked rule.
pub struct Rule(Checked);

impl fmt::Debug for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Rule").finish_non_exhaustive()
    }
}

impl Rule {
    /// Parses a rule about `properties`, a list of types and values. OLM's function `semver_compare(a, b)` returns -1,
    /// 0 or 1.
    ///
    /// # Errors
    /// Returns an error if the rule cannot be parsed, or its result is not boolean.
    ///
    /// ```
    /// use operator_olm::catalog::{Property, rule::Rule};
    /// let rule = Rule::parse("properties.exists(p, p.type == 'a.b' && semver_compare(p.value, '1.2.0') >= 0)").unwrap();
    /// let property = |value: &str| Property { kind: "a.b".to_owned(), value: value.into() };
    /// assert!(rule.holds(&[property("1.10.0")]));
    /// assert!(!rule.holds(&[property("1.1.0")]));
    /// ```
    pub fn parse(rule: &str) -> Result<Self, String> {
        let mut expression = parse(rule).map_err(|issues| ast::describe(rule, &issues))?;
        declare_semver_compare(&mut expression);
        let variables = Variables::from([(
            VARIABLE.to_owned(),
            Type::list(Type::map(Type::String, Type::Dyn)),
        )]);
        let checked = check(expression, &variables).map_err(|issues| ast::describe(rule, &issues))?;
        if checked.result == Type::Bool || checked.result.is_dyn() {
            Ok(Self(checked))
        } else {
            Err("cel expressions must have type Bool".to_owned())
        }
    }

    /// Returns true if the rule holds for some properties. Returns false also if it cannot be evaluated.
    pub fn holds(&self, properties: &[Property]) -> bool {
        let properties = properties
            .iter()
            .map(|property| json!({"type": property.kind, "value": property.value}))
            .collect();
        let properties = serde_json::Value::Array(properties);
        let variables = Activation::from([(VARIABLE.to_owned(), from_json(&properties, None))]);
        matches!(
            evaluate(&self.0, &variables, COST_MAX),
            (Ok(Value::Bool(true)), _)
        )
    }
}

/// Replaces calls of `semver_compare(a, b)` by `semver(a, true).compareTo(semver(b, true))`. The parser limits the
/// depth of the tree.
fn declare_semver_compare(expression: &mut Expr) {
    match &mut expression.kind {
        Kind::Literal(_) | Kind::Ident(_) => {}
        Kind::Select { operand, .. } => declare_semver_compare(operand),
        Kind::List(items) => items
            .iter_mut()
            .for_each(|(item, _)| declare_semver_compare(item)),
        Kind::Map(entries) => {
            for (key, value, _) in entries {
                declare_semver_compare(key);
                declare_semver_compare(value);
            }
        }
        Kind::Struct(_, fields) => fields
            .iter_mut()
            .for_each(|(_, value, _)| declare_semver_compare(value)),
        Kind::Comprehension(fold) => {
            for part in [
                &mut fold.range,
                &mut fold.init,
                &mut fold.condition,
                &mut fold.step,
                &mut fold.result,
            ] {
                declare_semver_compare(part);
            }
        }
        Kind::Call {
            function,
            target,
            args,
        } => {
            if let Some(target) = target {
                declare_semver_compare(target);
            }
            args.iter_mut().for_each(declare_semver_compare);
            if function == "semver_compare" && target.is_none() && args.len() == 2 {
                "compareTo".clone_into(function);
                let (call, offset) = (expression.id, expression.offset);
                // The ids of the new parts count down from the largest number; the parser's ids count up.
                let id = |part: u32| u32::MAX.wrapping_sub(call.wrapping_mul(4)).wrapping_sub(part);
                let expr = |part: u32, kind: Kind| Expr {
                    id: id(part),
                    offset,
                    kind,
                };
                let mut versions = (0..).zip(args.drain(..)).map(|(index, version)| {
                    let lenient = expr(2 * index, Kind::Literal(Literal::Bool(true)));
                    let call = Kind::Call {
                        function: "semver".to_owned(),
                        target: None,
                        args: vec![version, lenient],
                    };
                    expr(2 * index + 1, call)
                });
                let left = versions.next();
                let right = versions.next();
                drop(versions);
                *target = left.map(Box::new);
                args.extend(right);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_sees_all_properties_and_an_error_is_no_match() {
        let properties = [
            Property {
                kind: "olm.package".to_owned(),
                value: json!({"packageName": "cache", "version": "1.10.0"}),
            },
            Property {
                kind: "certified".to_owned(),
                value: json!(true),
            },
        ];
        let cases = [
            ("properties.exists(p, p.type == 'certified')", true),
            ("properties.exists(p, p.type == 'certified' && p.value)", true),
            (
                "properties.exists(p, p.type == 'olm.package' && semver_compare(p.value.version, '1.9.0') == 1)",
                true,
            ),
            (
                "properties.exists(p, p.type == 'olm.package' && semver_compare('v1.10', p.value.version) == 0)",
                true,
            ),
            (
                "properties.exists(p, p.type == 'olm.package' && semver_compare(p.value.version, '2.0.0') >= 0)",
                false,
            ),
            ("semver_compare('no version', '1.0.0') == 0", false),
            ("properties[5].value", false),
            ("size(properties) == 2", true),
        ];
        for (rule, expected) in cases {
            assert_eq!(Rule::parse(rule).unwrap().holds(&properties), expected, "{rule}");
        }
        assert_eq!(
            Rule::parse("semver_compare('1.0.0', '1.0.0')").unwrap_err(),
            "cel expressions must have type Bool"
        );
    }
}
