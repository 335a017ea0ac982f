//! Label selectors and scheduling terms: whether a set of labels is meant.

use serde_json::Value;

use crate::object::Object;

/// Whether a `metav1.LabelSelector` selects labels. An empty selector selects everything, a missing one nothing.
pub(crate) fn selects(selector: Option<&Value>, labels: &[(&str, &str)]) -> bool {
    let Some(selector) = selector.filter(|selector| selector.is_object()) else {
        return false;
    };
    let mut wanted = selector.texts("/matchLabels").into_iter();
    wanted.all(|pair| labels.contains(&pair)) && expressions(selector.items("/matchExpressions"), labels)
}

/// Whether a plain map of labels, as Services have it, selects labels; an empty map selects nothing.
pub(crate) fn selects_map(wanted: &[(&str, &str)], labels: &[(&str, &str)]) -> bool {
    !wanted.is_empty() && wanted.iter().all(|pair| labels.contains(pair))
}

/// Whether every expression of a list holds.
pub(crate) fn expressions(expressions: &[Value], labels: &[(&str, &str)]) -> bool {
    expressions.iter().all(|expression| holds(expression, labels))
}

fn holds(expression: &Value, labels: &[(&str, &str)]) -> bool {
    let key = expression.text("/key");
    let found = labels
        .iter()
        .find(|(name, _)| *name == key)
        .map(|(_, value)| *value);
    let values = expression.items("/values");
    let listed = found.is_some_and(|found| values.iter().any(|value| value == found));
    match expression.text("/operator") {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compare(found, values).is_some_and(|(found, bound)| found > bound),
        "Lt" => compare(found, values).is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

fn compare(found: Option<&str>, values: &[Value]) -> Option<(i64, i64)> {
    let bound = values.first()?.as_str()?;
    Some((found?.parse().ok()?, bound.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_operator_means_what_kubernetes_means() {
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
