//! The selectors of a request, as a SubjectAccessReview contains them.

use apimachinery::object;
use apimachinery::selector::{FieldSelector, LabelSelector};
use serde_json::{Value, json};

/// The requirements of a field selector and a label selector. A selector that cannot be parsed has no requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selectors {
    fields: Vec<Value>,
    labels: Vec<Value>,
}

impl Selectors {
    /// Parses the parameters `fieldSelector` and `labelSelector` of a request.
    pub(crate) fn parse(fields: &str, labels: &str) -> Self {
        let mut parsed = Self::default();
        if let Some(Ok(selector)) = given(fields).map(str::parse::<FieldSelector>) {
            let mut terms = selector.terms;
            terms.sort_by(|one, other| one.field.cmp(&other.field));
            parsed.fields = terms
                .iter()
                .map(|term| {
                    let operator = if term.equal { "In" } else { "NotIn" };
                    json!({"key": term.field, "operator": operator, "values": [term.value]})
                })
                .collect();
        }
        if let Some(Ok(selector)) = given(labels).map(str::parse::<LabelSelector>) {
            parsed.labels = selector.to_expressions();
        }
        parsed
    }

    /// Parses the `fieldSelector` and the `labelSelector` of a SubjectAccessReview.
    pub(crate) fn read(attributes: &Value) -> Self {
        let raw = |field: &str| object::text(attributes, &[field, "rawSelector"]);
        let mut read = Self::parse(raw("fieldSelector"), raw("labelSelector"));
        let requirements = |field: &str| {
            let list = object::get(attributes, &[field, "requirements"]);
            let list = list.and_then(Value::as_array).cloned();
            list.unwrap_or_default()
        };
        read.fields.extend(requirements("fieldSelector"));
        read.labels.extend(requirements("labelSelector"));
        read
    }

    /// Adds the selectors to the `resourceAttributes` of a SubjectAccessReview.
    pub(super) fn write(&self, attributes: &mut Value) {
        for (field, requirements) in [("fieldSelector", &self.fields), ("labelSelector", &self.labels)] {
            if !requirements.is_empty() {
                attributes[field] = json!({"requirements": requirements});
            }
        }
    }
}

fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_sorted_by_key() {
        let selectors = Selectors::parse("spec.nodeName=a,metadata.name!=x", "a in (b,c),!d,e!=f");
        let mut attributes = json!({});
        selectors.write(&mut attributes);
        assert_eq!(
            attributes,
            json!({
                "fieldSelector": {"requirements": [
                    {"key": "metadata.name", "operator": "NotIn", "values": ["x"]},
                    {"key": "spec.nodeName", "operator": "In", "values": ["a"]},
                ]},
                "labelSelector": {"requirements": [
                    {"key": "a", "operator": "In", "values": ["b", "c"]},
                    {"key": "d", "operator": "DoesNotExist"},
                    {"key": "e", "operator": "NotIn", "values": ["f"]},
                ]},
            })
        );
    }

    #[test]
    fn an_invalid_selector_is_omitted() {
        let mut attributes = json!({});
        Selectors::parse("a", "a in").write(&mut attributes);
        assert_eq!(attributes, json!({}));
    }
}
