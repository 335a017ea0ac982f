//! Properties that hold for any input; shared by the fuzz targets and the test `fuzz`.

use apimachinery::field::{Error, ErrorList};
use apimachinery::jsonpath;
use kubernetes_cel::{self as cel, types::Type};
use serde_json::{Value, json};
use structural_schema::Schema;
use structural_schema::crd::{self, diff, lint};

fn parts<const N: usize>(bytes: &[u8]) -> Option<[&[u8]; N]> {
    let parts: Vec<&[u8]> = bytes.splitn(N, |byte| *byte == 0).collect();
    parts.try_into().ok()
}

fn definition_of(schema: &Value) -> Value {
    let mut crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    crd::default(&mut crd);
    crd::prepare_for_create(&mut crd);
    crd
}

/// Checks that no schema and no object causes a panic, that the errors are bounded, that pruning and defaulting are
/// idempotent, and that a schema does not differ from itself.
pub(crate) fn definition(bytes: &[u8]) {
    let Some([schema, object, old]) = parts::<3>(bytes) else {
        return;
    };
    let Ok(source) = serde_json::from_slice::<Value>(schema) else {
        return;
    };
    let crd = definition_of(&source);
    let shown = |error: &Error| error.field.as_str().len() + error.value.as_ref().map_or(0, String::len);
    let errors: usize = crd::validate_create(&crd).iter().map(shown).sum();
    assert!(
        errors < ErrorList::SIZE_MAX + 16 * (1024 + bytes.len()),
        "{errors} bytes of errors"
    );
    let _ = lint::lint(&crd);
    assert!(diff::diff(&crd, &crd).is_empty());
    let (Ok(object), Ok(old)) = (
        serde_json::from_slice::<Value>(object),
        serde_json::from_slice::<Value>(old),
    ) else {
        return;
    };
    let _ = crd::validate_create(&object);
    let _ = crd::validate_update(&crd, &object);
    let _ = diff::diff(&crd, &definition_of(&object));
    let Ok(schema) = Schema::compile(&source) else {
        return;
    };
    let mut decoded = object.clone();
    let _ = schema.decode(&mut decoded);
    let mut pruned = object.clone();
    schema.prune(&mut pruned);
    assert!(schema.prune(&mut pruned).is_empty());
    schema.default(&mut pruned);
    let once = pruned.clone();
    schema.default(&mut pruned);
    assert_eq!(once, pruned);
    let _ = schema.check(&object, Some(&old));
    let _ = schema.check_status(&object, Some(&old));
    // Unchanged values are never rejected.
    let fresh = schema.check(&object, None);
    if fresh.errors.is_empty() {
        assert!(has_transition(&source) || schema.check(&object, Some(&object)).errors.is_empty());
    }
}

fn has_transition(source: &Value) -> bool {
    source.to_string().contains("oldSelf")
}

/// Checks that no text makes the parser, the checker or the evaluation panic or run for long, and that every issue has
/// a description.
pub(crate) fn expression(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = jsonpath::JsonPath::parse(source).map(|path| path.find(&json!({"a": [{"b": "c"}]})).len());
    let variables = cel::Variables::from([
        ("a".to_owned(), Type::Dyn),
        ("s".to_owned(), Type::String),
        ("l".to_owned(), Type::list(Type::Int)),
    ]);
    match cel::parse(source).and_then(|expr| cel::check(expr, &variables)) {
        Ok(checked) => {
            let activation = cel::Activation::from([
                ("a".to_owned(), cel::value::Value::Int(1)),
                ("s".to_owned(), cel::value::Value::String("a-b.c/d".into())),
            ]);
            let _ = cel::evaluate(&checked, &activation, 100_000);
        }
        Err(issues) => assert!(!cel::ast::describe(source, &issues).is_empty()),
    }
}

/// Checks that no rule causes a panic of a CRD's validation or of an object's validation.
pub(crate) fn rule(bytes: &[u8]) {
    let Some([rule, object]) = parts::<2>(bytes) else {
        return;
    };
    let (Ok(rule), Ok(object)) = (std::str::from_utf8(rule), serde_json::from_slice::<Value>(object)) else {
        return;
    };
    let source = json!({
        "type": "object",
        "properties": {
            "i": {"type": "integer"}, "s": {"type": "string", "maxLength": 20}, "t": {"type": "string", "format": "date-time"},
            "d": {"type": "string", "format": "duration"}, "x": {"x-kubernetes-int-or-string": true},
            "l": {"type": "array", "items": {"type": "string"}, "maxItems": 5, "x-kubernetes-list-type": "set"},
            "m": {"type": "object", "additionalProperties": {"type": "number"}, "maxProperties": 5},
        },
        "x-kubernetes-validations": [{"rule": rule, "messageExpression": rule}],
    });
    let _ = crd::validate_create(&definition_of(&source));
    if let Ok(schema) = Schema::compile(&source) {
        let _ = schema.check(&object, None);
        let _ = schema.check(&object, Some(&json!({"i": 1, "s": "a"})));
    }
}

/// Checks that no pattern makes the validation of a CRD or of a string panic or run for long.
pub(crate) fn pattern(bytes: &[u8]) {
    let Some([pattern, text]) = parts::<2>(bytes) else {
        return;
    };
    let (Ok(pattern), Ok(text)) = (std::str::from_utf8(pattern), std::str::from_utf8(text)) else {
        return;
    };
    let source = json!({"type": "object", "properties": {"s": {"type": "string", "pattern": pattern}}});
    let _ = crd::validate_create(&definition_of(&source));
    if let Ok(schema) = Schema::compile(&source) {
        let _ = schema.check(&json!({"s": text}), None);
    }
}
