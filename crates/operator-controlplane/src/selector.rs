//! Matches label selectors and scheduling terms against the labels of objects.

use apimachinery::selector;
use serde_json::Value;

use crate::object::Object;

/// Returns true if a `metav1.LabelSelector` matches labels. An empty selector matches everything; a missing one matches
/// nothing.
pub(crate) fn selects(selector: Option<&Value>, labels: &[(&str, &str)]) -> bool {
    selector.is_some_and(|selector| selector::selects(selector, |name| value_of(labels, name)))
}

/// Returns true if a plain label map, as in Services, matches labels; an empty map matches nothing.
pub(crate) fn selects_map(wanted: &[(&str, &str)], labels: &[(&str, &str)]) -> bool {
    !wanted.is_empty() && wanted.iter().all(|pair| labels.contains(pair))
}

/// Returns true if every expression of a list matches.
pub(crate) fn expressions(expressions: &[Value], labels: &[(&str, &str)]) -> bool {
    expressions
        .iter()
        .all(|expression| selector::expression_holds(expression, value_of(labels, expression.text("/key"))))
}

fn value_of<'a>(labels: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    labels
        .iter()
        .find(|(label, _)| *label == name)
        .map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_operator_has_the_semantics_of_kubernetes() {
        let labels = [("app", "web"), ("n", "5")];
        let cases = [
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "web", "tier": "x"}}), false),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["web"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["4"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "n", "operator": "Lt", "values": ["4"]}]}),
                false,
            ),
        ];
        for (selector, expected) in cases {
            assert_eq!(selects(Some(&selector), &labels), expected, "{selector}");
        }
        assert!(!selects(None, &labels));
        assert!(!selects_map(&[], &labels));
    }
}
