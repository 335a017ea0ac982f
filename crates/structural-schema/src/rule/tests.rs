use super::*;
use crate::node;

/// Returns the estimated cost of a rule on `self`.
#[track_caller]
fn cost_of(schema: serde_json::Value, rule: &str) -> u64 {
    let mut schema = schema;
    schema["x-kubernetes-validations"] = serde_json::json!([{"rule": rule}]);
    let node = node::parse(&schema).unwrap();
    let declared = declare(&node, false).unwrap();
    let (compiled, _) = compile(&node.rules[0], &node, &declared);
    compiled.unwrap().max_cost
}

#[test]
fn costs_are_those_of_the_reference_implementation() {
    use serde_json::json;
    let numbers = |max: Option<u64>| json!({"type": "array", "items": {"type": "number"}, "maxItems": max});
    let text = |max: Option<u64>| json!({"type": "string", "maxLength": max});
    let texts = json!({"type": "array", "maxItems": 1200, "items": {"type": "string", "maxLength": 8}});
    for (schema, rule, wanted) in [
        (numbers(None), "self.all(x, true)", 4_718_591),
        (numbers(Some(10)), "self.all(x, true)", 32),
        (text(None), "self.contains('test')", 314_574),
        (text(Some(10)), "self.contains('test')", 5),
        (text(Some(10)), "self.startsWith('test')", 2),
        (text(Some(10)), "self.matches('abcd')", 6),
        (text(Some(10)), "self.replace('a', 'bb').size() > 0", 11),
        (text(Some(5)), "['a', self].join('-') == 'a-b'", u64::MAX),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
            "!has(self.a) || self.a > 1",
            5,
        ),
        (texts, "self.all(x, self.exists_one(y, y == x))", 11_527_202),
    ] {
        assert_eq!(cost_of(schema, rule), wanted, "{rule}");
    }
}
