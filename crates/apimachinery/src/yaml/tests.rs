use proptest::prelude::*;
use serde_json::json;

use super::*;

fn value(text: &str) -> Value {
    parse(text).unwrap().value
}

#[test]
fn plain_scalars_are_those_of_yaml_1_1() {
    for (text, expected) in [
        ("no", json!(false)),
        ("Yes", json!(true)),
        ("'no'", json!("no")),
        ("010", json!(8)),
        ("0x1F", json!(31)),
        ("0b101", json!(5)),
        ("1_000", json!(1000)),
        ("1e3", json!(1000)),
        ("1.5e3", json!(1500)),
        ("0.5", json!(0.5)),
        ("08", json!(8)),
        ("-7", json!(-7)),
        ("~", json!(null)),
        ("", json!(null)),
        ("1.2.3", json!("1.2.3")),
        ("100m", json!("100m")),
        ("+-1", json!("+-1")),
        ("2024-01-02", json!("2024-01-02")),
        ("!!str 5", json!("5")),
        ("!!int '5'", json!(5)),
        ("18446744073709551615", json!(18446744073709551615_u64 as f64)),
        ("._5", json!("._5")),
        ("1_0.5", json!(10.5)),
        ("!!float 3", json!(3)),
        ("!!binary aGVsbG8=", json!("hello")),
        ("!<x> 1", json!("1")),
        ("!!boo yes", json!("yes")),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn keys_become_texts() {
    assert_eq!(
        value("n: 1\n8080: 2\n\"y\": 3\n"),
        json!({"false": 1, "8080": 2, "y": 3})
    );
    // Floats have the precision of 32 bits.
    assert_eq!(
        value("{.inf: 1, -.Inf: 2, .nan: 3, 123456789.5: 4, 1e30: 5, !!binary YQ==: 6}"),
        json!({".inf": 1, "-.inf": 2, ".nan": 3, "1.2345679e+08": 4, "1e+30": 5, "a": 6})
    );
}

#[test]
fn quoted_lines_need_no_indentation() {
    assert_eq!(
        value("a:\n  b: \"c\nd\n\n\te\"\nf: 'g\nh'\n"),
        json!({"a": {"b": "c d\ne"}, "f": "g h"})
    );
    let documents = documents("a: 'b\nc'\n---\nd: 1\n").unwrap();
    assert_eq!(documents[1].place("/d").line, 4);
    let lines = "x\n".repeat(100_000);
    assert!(parse(&format!("a: '{lines}'")).is_err());
}

#[test]
fn merged_keys_replace_earlier_ones() {
    for (text, expected) in [
        ("{<<: {a: 1, b: 2}, a: 3}", json!({"a": 3, "b": 2})),
        ("{a: 3, <<: {a: 1, b: 2}}", json!({"a": 1, "b": 2})),
        ("{<<: [{a: 1}, {a: 2, b: 3}]}", json!({"a": 1, "b": 3})),
        ("{'<<': {a: 1}}", json!({"<<": {"a": 1}})),
        ("{!!merge <<: {a: 1}}", json!({"a": 1})),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn duplicate_keys_are_reported_with_their_line() {
    let parsed = parse("metadata:\n  labels: {a: b, a: c}\ndata:\n  k: \"1\"\n  k: \"2\"\n").unwrap();
    assert_eq!(
        parsed.duplicates,
        [
            "line 2: key \"a\" already set in map",
            "line 5: key \"k\" already set in map"
        ]
    );
    // The line is that of the value.
    for (text, duplicate) in [
        ("a: 1\na:\n\n  b: 2\n", "line 4: key \"a\""),
        ("a: 1\na: |\n  b\n", "line 2: key \"a\""),
        ("a: 1\na: &b\n  c: d\n", "line 2: key \"a\""),
        ("1: a\n0x1: b\n", "line 2: key 1"),
        ("1.5: a\n1.5: b\n", "line 2: key 1.5"),
        ("a: 1\n<<:\n  a: 2\n", "line 3: key \"a\""),
    ] {
        let expected = format!("{duplicate} already set in map");
        assert_eq!(parse(text).unwrap().duplicates, [expected], "{text}");
    }
    for text in ["1: a\n'1': b\n", ".nan: a\n.nan: b\n"] {
        assert!(parse(text).unwrap().duplicates.is_empty(), "{text}");
    }
    assert_eq!(
        parsed.value,
        json!({"metadata": {"labels": {"a": "c"}}, "data": {"k": "2"}})
    );
}

#[test]
fn anchors_aliases_and_merges_are_resolved() {
    assert_eq!(value("x: &v one\nz: *v\n"), json!({"x": "one", "z": "one"}));
    let text = "base: &b {a: 1, b: 2}\nmore:\n  <<: *b\n  b: 3\n";
    assert_eq!(value(text)["more"], json!({"a": 1, "b": 3}));
}

#[test]
fn aliases_cannot_blow_a_body_up() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert_eq!(
        parse(&text).unwrap_err(),
        "yaml: document contains excessive aliasing"
    );
}

#[test]
fn aliases_are_charged_by_the_bytes_that_they_copy() {
    let long = "x".repeat(100_000);
    let aliases = |count: usize| {
        let aliases: String = (0..count).map(|index| format!(", k{index}: *a")).collect();
        format!("{{k: &a \"{long}\"{aliases}}}")
    };
    assert!(parse(&aliases(100)).is_ok());
    let excessive = "yaml: document contains excessive aliasing";
    assert_eq!(parse(&aliases(1_000)).unwrap_err(), excessive);
    // Each anchor stores a copy of its whole content.
    let nested: String = (0..60).map(|index| format!("&a{index} [")).collect();
    let text = format!("{nested}\"{}\"{}", long.repeat(10), "]".repeat(60));
    assert_eq!(parse(&text).unwrap_err(), excessive);
    let keys = format!("[{}]", vec!["*a"; 2_000].join(", "));
    let text = format!("a: &a {{? {long} : 1}}\nb: {keys}\n");
    assert_eq!(parse(&text).unwrap_err(), excessive);
}

#[test]
fn many_anchors_and_duplicates_are_read_in_time() {
    let anchors: String = (0..50_000)
        .map(|index| format!("k{index}: &a{index} x\nl{index}: *a{index}\n"))
        .collect();
    assert_eq!(value(&anchors).as_object().unwrap().len(), 100_000);
    let duplicates: String = (0..50_000)
        .map(|index| format!("k{index}: x\nk{index}: z\n"))
        .collect();
    let parsed = parse(&duplicates).unwrap();
    let bytes: usize = parsed.duplicates.iter().map(String::len).sum();
    assert!(
        (DUPLICATE_BYTES_MAX..DUPLICATE_BYTES_MAX + 100).contains(&bytes),
        "{bytes}"
    );
}

#[test]
fn only_the_first_document_counts() {
    assert_eq!(value("a: 1\n---\nb: 2\n"), json!({"a": 1}));
    assert_eq!(value("--- {a: 1}\n...\n"), json!({"a": 1}));
    assert_eq!(value("# nothing\n"), json!(null));
}

#[test]
fn json_is_yaml() {
    assert_eq!(
        value("{\"a\": [1, {\"b\": \"c\"}]}"),
        json!({"a": [1, {"b": "c"}]})
    );
    assert_eq!(
        value("{\"a\\\\/\": \"\\u00e9\\ue000\"}"),
        json!({"a\\/": "é\u{e000}"})
    );
}

#[test]
fn errors_have_the_words_and_lines_of_libyaml() {
    for (text, message) in [
        ("a: [", "yaml: line 1: did not find expected node content"),
        (
            "kind: x\na: b\n metadata: x\n",
            "yaml: line 3: mapping values are not allowed in this context",
        ),
        (
            "a: b\nkind:\tx\nmetadata:\n\tname: t\n",
            "yaml: line 4: found character that cannot start any token",
        ),
        ("a: [b", "yaml: line 1: did not find expected ',' or ']'"),
        ("a: .inf\n", "json: unsupported value: +Inf"),
        (
            "a: b: c\n",
            "yaml: mapping values are not allowed in this context",
        ),
        ("a: *b\n", "yaml: unknown anchor 'b' referenced"),
        ("a: &b [*b]\n", "yaml: anchor 'b' value contains itself"),
        (
            "a: 1\nb: \"\\q\"\n",
            "yaml: line 2: found unknown escape character",
        ),
        ("{\"a\": \"\\/\"}", "yaml: found unknown escape character"),
        (
            "{\"a\":\n\"\\\\ \\ud83d\\ude00\"}",
            "yaml: line 2: found invalid Unicode character escape code",
        ),
        ("a: 'b\n", "yaml: line 2: found unexpected end of stream"),
        (
            "a: b\nc\n# d\n\ne: f\n",
            "yaml: line 5: could not find expected ':'",
        ),
        ("a: b\nc\n\n", "yaml: line 4: could not find expected ':'"),
        ("a: 1\nb: 'c' d\n", "yaml: line 1: did not find expected key"),
        ("a: \u{1}\n", "yaml: control characters are not allowed"),
        ("a: !!int x\n", "yaml: cannot decode !!str `x` as a !!int"),
        ("a: !!null 1\n", "yaml: cannot decode !!int `1` as a !!null"),
        (
            "a: !!binary x\n",
            "yaml: !!binary value contains invalid base64 data",
        ),
        (
            "? [a, {b: 1.5}]\n: 1\n",
            "yaml: invalid map key: []interface {}{\"a\", map[interface {}]interface {}{\"b\":1.5}}",
        ),
        (
            "~: [1]\n",
            "unsupported map key of type: %!s(<nil>), key: <nil>, value: []interface {}{1}",
        ),
        (
            "18446744073709551615: x\n",
            "unsupported map key of type: uint64, key: 0xffffffffffffffff, value: \"x\"",
        ),
        // Errors of the syntax come first, then those of types, keys and values.
        (
            "a: .inf\n~: x\nb: !!int x\nc: 'd\n",
            "yaml: line 5: found unexpected end of stream",
        ),
        (
            "a: .inf\n~: x\nb: !!int x\n",
            "yaml: cannot decode !!str `x` as a !!int",
        ),
        (
            "a: .inf\n~: x\n",
            "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"x\"",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err(), message, "{text}");
    }
}

#[test]
fn bytes_that_are_not_text_have_the_errors_of_libyaml() {
    for (bytes, problem) in [
        (&b"a\x80"[..], "invalid leading UTF-8 octet"),
        (b"a\xff", "invalid leading UTF-8 octet"),
        (b"a\xc3", "incomplete UTF-8 octet sequence"),
        (b"a\xc3b", "invalid trailing UTF-8 octet"),
        (b"a\xc0\x80", "invalid length of a UTF-8 sequence"),
        (b"a\xe0\x80\x80", "invalid length of a UTF-8 sequence"),
        (b"a\xed\xa0\x80", "invalid Unicode character"),
        (b"a\xf4\x90\x80\x80", "invalid Unicode character"),
    ] {
        assert_eq!(encoding_error(bytes), format!("yaml: {problem}"), "{bytes:?}");
    }
}

#[test]
fn deep_nesting_is_refused_before_the_stack_ends() {
    assert!(parse(&"[".repeat(100_000)).is_err());
}

#[test]
fn trees_are_written_as_go_writes_them() {
    let tree = json!({
        "kind": "List", "empty": {}, "none": [], "nothing": null, "number": 1.5,
        "items": [{"name": "a", "ports": [80, 443]}, [1, 2], "x"],
        "text": "one\ntwo\n", "quoted": "yes", "colon": "a: b", "star": "*x", "time": "2024-01-02T00:00:00Z",
    });
    let expected = "colon: 'a: b'\nempty: {}\nitems:\n- name: a\n  ports:\n  - 80\n  - 443\n- - 1\n  - 2\n- x\n\
                    kind: List\nnone: []\nnothing: null\nnumber: 1.5\nquoted: \"yes\"\nstar: '*x'\n\
                    text: |\n  one\n  two\ntime: \"2024-01-02T00:00:00Z\"\n";
    assert_eq!(to_string(&tree), expected);
}

#[test]
fn long_texts_are_folded_and_keys_are_in_natural_order() {
    let tree = json!({"n10": 1, "n2": 2, "f:a": 3, ".": 4, "long": "word ".repeat(20)});
    let words = |count: usize| vec!["word"; count].join(" ");
    let expected = format!(
        ".: 4\nf:a: 3\nlong: '{}\n  {} '\nn2: 2\nn10: 1\n",
        words(15),
        words(5)
    );
    assert_eq!(to_string(&tree), expected);
    assert_eq!(value(&to_string(&tree)), tree);
}

fn trees() -> impl Strategy<Value = Value> {
    let texts = prop_oneof![
        "[ -~]{0,12}",
        "([a-z]{1,9} ){10,20}[a-z']{3}",
        "[a-z:#'\"\\n\\t ]{0,10}",
        prop::sample::select(vec![
            "yes",
            "010",
            "1e3",
            "~",
            "",
            "<<",
            "2024-01-02",
            "\u{e9}\u{2028}",
            "|",
            "- a"
        ])
        .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        texts.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(texts.clone(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn written_yaml_reads_back(tree in trees()) {
        let text = to_string(&tree);
        prop_assert_eq!(parse(&text).map(|parsed| parsed.value), Ok(tree), "{}", text);
    }

    #[test]
    fn json_has_the_same_meaning_in_yaml(tree in trees(), spaces in " {0,2}\n?") {
        let text = format!("{{{spaces}\"a\":{spaces}{tree}}}");
        let quick = parse_json(&text).map(|parsed| parsed.value);
        prop_assume!(quick.is_some());
        prop_assert_eq!(load(&text).ok().map(|parsed| parsed.value), quick, "{}", text);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "[\\[\\]{}:,&*!|>'\"%@a-c0-1 \\n\\t-]{0,60}") {
        let _ = parse(&text);
    }
}

#[test]
fn keys_without_a_total_order_are_written() {
    let names = [
        "a",
        "A",
        "b",
        "a1",
        "a10",
        "a2",
        "a02",
        "a010",
        "1",
        "10",
        "2",
        "02",
        "a-b",
        "a.b",
        "a_b",
        "ab",
        "aB",
        "true",
        "yes",
        "y",
        "null",
        "~",
        "1.5",
        "2001-01-01",
        "0x1",
        "a/b",
        "é",
        "日",
        "-a",
        ".a",
        "a b",
        "b c d",
        "1a",
        "01a",
        "a1b2",
        "a1b10",
        "a01b",
        "aa",
        "a-1",
        "a-10",
        "a-2",
        "A1",
        "_a",
        "",
        " ",
        "x y",
        "#",
        "a:",
        "k: v",
        "it's",
        "\"",
        "\n",
        "a\nb",
        "a\tb",
    ];
    let tree = Value::Object(
        names
            .map(|name| (name.to_owned(), json!(name)))
            .into_iter()
            .collect(),
    );
    assert_eq!(parse(&to_string(&tree)).unwrap().value, tree);
}
