use proptest::prelude::*;
use serde_json::json;

use super::*;

fn value(text: &str) -> Value {
    parse(text.as_bytes()).unwrap().value
}

fn error(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err()
}

#[test]
fn values_are_read() {
    let text = r#" {"a": [1, -2.5, true, false, null, {}], "b": "x\n\u00e9\ud83d\ude00\/", "c": []} "#;
    assert_eq!(
        value(text),
        json!({"a": [1, -2.5, true, false, null, {}], "b": "x\né😀/", "c": []})
    );
}

#[test]
fn numbers_are_whole_if_they_can_be() {
    assert_eq!(value("9223372036854775807"), json!(i64::MAX));
    assert_eq!(value("-0"), json!(0));
    assert_eq!(value("1.0"), json!(1.0));
    assert!(value("9223372036854775808").is_f64());
    assert_eq!(
        error("1e400"),
        "json: cannot unmarshal number 1e400 into Go value of type float64"
    );
}

#[test]
fn lone_surrogates_and_broken_utf8_are_replaced() {
    assert_eq!(value(r#""\ud800x""#), json!("\u{fffd}x"));
    assert_eq!(value(r#""\ud800\u0041""#), json!("\u{fffd}A"));
    assert_eq!(parse(b"\"a\xffb\"").unwrap().value, json!("a\u{fffd}b"));
}

#[test]
fn errors_have_the_words_of_go() {
    for (text, message) in [
        ("", "unexpected end of JSON input"),
        ("{\"a\":1", "unexpected end of JSON input"),
        (
            "{nope",
            "invalid character 'n' looking for beginning of object key string",
        ),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        (
            "{\"a\":1 \"b\"}",
            "invalid character '\"' after object key:value pair",
        ),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{} x", "invalid character 'x' after top-level value"),
        (
            "apiVersion: v1",
            "invalid character 'a' looking for beginning of value",
        ),
        ("trve", "invalid character 'v' in literal true (expecting 'u')"),
        ("-x", "invalid character 'x' in numeric literal"),
        (
            "1.x",
            "invalid character 'x' after decimal point in numeric literal",
        ),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("\"a\nb\"", "invalid character '\\n' in string literal"),
        ("\"\\x\"", "invalid character 'x' in string escape code"),
        (
            "\"\\u00g0\"",
            "invalid character 'g' in \\u hexadecimal character escape",
        ),
    ] {
        assert_eq!(error(text), message, "{text}");
    }
}

#[test]
fn deep_nesting_is_refused_before_the_stack_ends() {
    assert_eq!(error(&"[".repeat(1_000_000)), "exceeded max depth");
    assert_eq!(error(&"{\"a\":".repeat(1_000_000)), "exceeded max depth");
}

#[test]
fn duplicate_fields_are_reported_once_and_the_last_counts() {
    let text = br#"{"metadata":{"name":"a","name":"b","name":"c"},"list":[{"k":1},{"k":1,"k":2}],"k":1}"#;
    let parsed = parse(text).unwrap();
    assert_eq!(
        parsed.duplicates,
        [
            "duplicate field \"metadata.name\"",
            "duplicate field \"list[1].k\""
        ]
    );
    assert_eq!(
        parsed.value,
        json!({"metadata": {"name": "c"}, "list": [{"k": 1}, {"k": 2}], "k": 1})
    );
}

#[test]
fn fields_are_found_in_the_order_of_the_document() {
    let body = br#"{"z":{"b":1,"a":[{"x":2}]},"y":3,"z":1}"#;
    let first = |path| Wanted {
        path,
        repeated: false,
    };
    let wanted = ["y", "z.a[0].x", "z", "z.a", "none", "z.b"].map(first);
    assert_eq!(positions(body, &wanted), [4, 3, 0, 2, usize::MAX, 1]);
    assert_eq!(positions(b"{", &[first("z")]), [usize::MAX]);
    let again = Wanted {
        path: "z",
        repeated: true,
    };
    assert_eq!(positions(body, &[again, first("z")]), [5, 0]);
}

#[test]
fn members_of_a_repeated_field_are_combined_for_structs() {
    let body = br#"{"a":{"x":1,"y":{"z":1}},"a":{"x":2,"y":{}},"b":[1],"b":[]}"#;
    let parsed = parse_typed(body).unwrap();
    assert_eq!(parsed.value, json!({"a": {"x": 2, "y": {"z": 1}}, "b": []}));
    assert_eq!(
        parsed.duplicates,
        ["duplicate field \"a\"", "duplicate field \"b\""]
    );
}

#[test]
fn the_number_of_reported_duplicates_is_limited() {
    let fields: Vec<String> = (0..1000)
        .map(|index| format!(r#""a{index}":1,"a{index}":2"#))
        .collect();
    let parsed = parse(format!("{{{}}}", fields.join(",")).as_bytes()).unwrap();
    assert_eq!(parsed.duplicates.len(), FAULTS_MAX);
    assert_eq!(parsed.duplicates[FAULTS_MAX - 1], "duplicate field \"a99\"");
}

#[test]
fn a_long_key_above_duplicates_costs_a_bounded_number_of_bytes() {
    let fields = vec![r#""a":{"x":1,"x":2}"#; 10_000].join(",");
    let text = format!(r#"{{"{}":{{{fields}}}}}"#, "k".repeat(1 << 20));
    let mut parser = Parser::new(text.as_bytes());
    parser.document().unwrap();
    assert!(
        parser.duplicate_bytes < 2 * FAULT_BYTES_MAX,
        "{}",
        parser.duplicate_bytes
    );
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn it_agrees_with_serde_json(text in r#"[\[\]{}:,"\\a-f0-9eE.+ \-]{0,40}"#) {
        if let Ok(expected) = serde_json::from_str::<Value>(&text) {
            let parsed = parse(text.as_bytes()).unwrap().value;
            prop_assert_eq!(parsed.to_string().replace("-0.0", "0"), expected.to_string().replace("-0.0", "0"));
        } else if let Ok(parsed) = parse(text.as_bytes()) {
            prop_assert!(text.contains("\\u"), "{} gave {}", text, parsed.value);
        }
    }
}
