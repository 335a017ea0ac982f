use super::ast::describe;
use super::types::Type;
use super::value::Value;
use super::*;

#[track_caller]
fn run(source: &str) -> Result<bool, String> {
    let variables = Variables::from([("d".to_owned(), Type::Dyn)]);
    let checked = parse(source)
        .and_then(|expr| check(expr, &variables))
        .map_err(|issues| describe(source, &issues))?;
    let activation = Activation::from([("d".to_owned(), Value::Int(5))]);
    match evaluate(&checked, &activation, 1_000_000).0 {
        Ok(Value::Bool(result)) => Ok(result),
        Ok(other) => Err(format!("not a bool: {other:?}")),
        Err(failure) => Err(failure.to_string()),
    }
}

#[test]
fn expressions_that_hold() {
    for source in [
        "1 + 2 * 3 == 7 && -5 % 3 == -2",
        "[1, 2, 3].map(x, x * 2).filter(x, x > 2) == [4, 6]",
        "{'a': 1, 'b': 2}.all(k, v, k == 'a' ? v == 1 : v == 2)",
        "[1, 2].transformList(i, v, i + v) == [1, 3]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "[3, 1, 2].sort() == [1, 2, 3] && [[1], [2]].flatten() == [1, 2]",
        "optional.of(1).optMap(x, x + 1).orValue(0) == 2",
        "{'a': 1}.?b.orValue(7) == 7 && [1][?3].hasValue() == false",
        "'%s is %d, %.1f'.format(['x', 5, 1.25]) == 'x is 5, 1.2'",
        "duration('90m').getHours() == 1 && timestamp('2020-01-01T00:00:00Z').getDayOfWeek() == 3",
        "sign(quantity('-1')) == -1 && sign(quantity('0')) == 0",
        "isQuantity('1e5000') && !quantity('2000m').isInteger() && !quantity('99E').isInteger()",
        "quantity('9Ei').compareTo(quantity('8Ei')) == 0 && quantity('3').sub(5).asInteger() == -2",
        "format.dns1123Label().validate('a.b').value() == ['must not contain dots']",
        "duration('1.9999999999s') == duration('1999999999ns')",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('0.5').asApproximateFloat() == 0.5",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && ip('10.0.0.1').family() == 4",
        "url('https://a:80/b?c=d&c=e').getQuery()['c'] == ['d', 'e']",
        "semver('1.2.3-rc.1').isLessThan(semver('1.2.3'))",
        "type(d) == int && d > 4.5 && string(d) == '5'",
        "false && 1 / 0 == 1 || true",
        "[1, 0].exists(x, 1 / x == 1) && !has({'a': 1}.b)",
        "timestamp('2023-07-01T12:00:00Z').getHours('America/New_York') == 8",
        "timestamp('2023-01-01T12:00:00Z').getHours('America/New_York') == 7",
        "timestamp('2023-01-01T12:00:00Z').getMinutes('Asia/Kolkata') == 30",
        "timestamp('2023-01-01T01:00:00Z').getDate('-02:30') == 31",
        "timestamp('2023-01-01T01:00:00Z').getHours('+02:30') == 3",
        "timestamp('2023-01-01T01:00:00Z').getMinutes('02:30') == 30",
        "timestamp('2023-01-01T01:00:00+02:00').getHours() == 23",
        "string(timestamp('2023-01-01T1:00:00,50-02:30')) == '2023-01-01T01:00:00.5-02:30'",
        "string(timestamp('2023-01-01T01:00:00+02:00') + duration('1h')) == '2023-01-01T02:00:00+02:00'",
        "timestamp('2023-01-01T01:00:00+02:00') == timestamp('2022-12-31T23:00:00Z')",
        "timestamp('2022-12-31T23:00:00Z') in [timestamp('2023-01-01T01:00:00+02:00')]",
        "string(duration('9223372036854775807ns')) == '9223372036.854776s'",
        "'%s'.format([[1.5, 'é\"', b'b', 2u, null, duration('1m'), [true]]]) \
            == '[1.500000, \"é\\\\\"\", b\"b\", 2, null, duration(\"60s\"), [true]]'",
        "'%s'.format([{'b': 1, 'a': {2: timestamp(0)}}]) \
            == '{\"a\":{2:timestamp(\"1970-01-01T00:00:00Z\")}, \"b\":1}'",
        "'%f|%.1f|%.0f|%f'.format([1234567.891, -999999.96, 999.5, 'NaN']) == '1,234,567.891000|-1,000,000.0|1,000|NaN'",
        "'%.257f|%f|%f'.format([0.5, -1.0 / 0.0, -0.0]) == '0.5|-∞|0.000000'",
        "'%e|%.3e|%.16e'.format([12345.678, -1.5e-7, 1e300]) == '1.234568×10⁰⁴|-1.500000×10⁻⁰⁷|  1.000000×10³⁰⁰'",
        "'abc'.indexOf('', 9) == 9 && 'abc'.indexOf('c', 4) == -1 && 'abc'.lastIndexOf('a', 3) == -1",
        "'abc'.lastIndexOf('c', 2) == 2 && 'abc'.lastIndexOf('', -1) == -1",
        "double('1_0') == 10.0 && double('0x1p4') == 16.0",
        "has({'a': null}.a) && {'a': null}.?a.hasValue()",
        "url('https://a?b=%zz&c=1').getQuery() == {'c': ['1']}",
        "['ccc', 'a', 'bb'].sortBy(x, size(x)) == ['a', 'bb', 'ccc']",
        "[{'n': 2}, {'n': 1}].sortBy(x, x.n).map(x, x.n) == [1, 2]",
        "sets.equivalent([1, 2, 2], [2, 1]) && b'a' + b'b' == b'ab'",
        "r'\\d' == '\\\\d' && '''a''' == \"a\" && 'a\\u00e9' == 'aé'",
    ] {
        assert_eq!(run(source), Ok(true), "{source}");
    }
}

#[test]
fn expressions_that_fail_when_they_run() {
    for (source, problem) in [
        ("1 / 0 == 1", "division by zero"),
        (
            "timestamp('2023-01-01T01:00:00Z').getHours('Mars/Base') == 1",
            "unknown time zone Mars/Base",
        ),
        (
            "timestamp('9999-12-31T23:59:59' + '-01:00') == timestamp(0)",
            "timestamp overflow",
        ),
        (
            "uint('+1') == 1u",
            "type conversion error from 'string' to 'uint'",
        ),
        (
            "double('1e400') == 1.0",
            "type conversion error from 'string' to 'double'",
        ),
        (
            "string(b'\\xff') == ''",
            "invalid UTF-8 in bytes, cannot convert to string",
        ),
        ("'abc'.indexOf('a', -1) == 0", "index out of range: -1"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("[1][d] == 1", "index out of bounds: 5"),
        ("{'a': 1}['b'] == 1", "no such key: b"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("d.x == 1", "no such key: x"),
        (
            "lists.range(1000).all(x, lists.range(1000).all(y, x >= 0))",
            "operation cancelled: actual cost limit exceeded",
        ),
    ] {
        assert_eq!(run(source), Err(problem.to_owned()), "{source}");
    }
}

#[test]
fn functions_outside_the_environment_are_unknown() {
    for (source, name) in [
        ("math.greatest(1, 2) == 2", "math"),
        ("quantity('1').sign() == 1", "sign"),
        ("'a'.reverse() == 'a'", ""),
    ] {
        let problem = run(source).unwrap_err();
        assert!(
            problem.starts_with("ERROR: <input>:1:") && problem.contains(name),
            "{source}: {problem}"
        );
    }
}

/// Returns the parse errors of a source in the format of the reference implementation.
#[track_caller]
fn syntax_errors(source: &str) -> String {
    let issues = parse(source).unwrap_err();
    describe(source, &issues)
}

#[test]
fn nesting_has_the_limits_of_the_reference_implementation() {
    for (source, closing) in [
        ("(", ")"),
        ("[", "]"),
        ("true ? true : ", ""),
        ("[1].map(a, a == ", ")"),
    ] {
        let nested = |depth: usize| source.repeat(depth) + "true" + &closing.repeat(depth);
        assert!(parse(&nested(100)).is_ok() || source.contains("map"), "{source}");
        for depth in [250, 5000] {
            let errors = syntax_errors(&nested(depth));
            assert!(
                errors == "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
                    || source.contains("map") && errors.contains("max recursion depth exceeded"),
                "{source} × {depth}: {errors}"
            );
        }
    }
    for (head, tail) in [("1", "+1"), ("a", ".b"), ("a", "[0]"), ("a", ".map(b, b)")] {
        let chain = |length: usize| head.to_owned() + &tail.repeat(length);
        let too_deep = "ERROR: <input>:-1:0: max recursion depth exceeded";
        assert!(parse(&chain(240)).is_ok(), "{tail}");
        for length in [251, 5000] {
            assert_eq!(syntax_errors(&chain(length)), too_deep, "{tail} × {length}");
        }
    }
    assert!(parse(&("!".repeat(5001) + "true")).is_ok());
    assert!(parse(&("true".to_owned() + &" && true".repeat(5000))).is_ok());
}

#[test]
fn types_of_any_size_are_judged() {
    for step in [
        ".map(a, {a: a})",
        ".map(a, {a: {a: a}})",
        ".map(a, {a: optional.of(a)})",
    ] {
        for source in ["[1]", "[]", "[dyn(1)]", "[[]]"] {
            let source = format!("{source}{} == []", step.repeat(60));
            let _ = run(&source);
        }
    }
    let error = run(&format!("[1]{} == []", ".map(a, {a: a})".repeat(60))).unwrap_err();
    assert!(
        error.contains("the type of the expression is too large"),
        "{error}"
    );
    // Each of these expressions creates type variables.
    let many = vec!["[]==[]"; 12_000].join(",");
    assert_eq!(run(&format!("[{many}].all(x, x)")), Ok(true));
}

#[test]
fn the_parser_gives_up_after_thirty_recoveries() {
    for source in ["+-", "!-", "-!", "*!", "*-!", "? ", ")(", "1 "] {
        for depth in [2400, 20_000] {
            let source = "1".to_owned() + &source.repeat(depth);
            let errors = syntax_errors(&source);
            assert!(errors.len() < 1 << 20, "{}", errors.len());
        }
    }
    assert!(
        syntax_errors(&("1".to_owned() + &"+-".repeat(2400)))
            .contains("error recovery attempt limit exceeded: 30")
    );
}

#[test]
fn descriptions_of_errors_are_bounded() {
    let many = syntax_errors(&("#\n".repeat(300) + "1"));
    assert!(many.ends_with("\n200 more errors were truncated"), "{many}");
    let long = syntax_errors(&(" ".repeat(20_000) + "#"));
    assert_eq!(
        long.lines().next(),
        Some("ERROR: <input>:1:20001: Syntax error: token recognition error at: '#'")
    );
    assert!(!long.contains(" | "), "{}", long.len());
    let too_long = syntax_errors(&" ".repeat(100_001));
    assert_eq!(
        too_long,
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"
    );
}

/// Returns the types of a mutating policy: a family of objects, and one type with known fields.
fn patching() -> Variables {
    let fields = [("op", Type::String), ("value", Type::Dyn)];
    let patch = types::ObjectType {
        name: "JSONPatch".to_owned(),
        fields: fields.map(|(name, kind)| (name.to_owned(), kind)).into(),
    };
    Variables::from([
        ("Object".to_owned(), Type::Type(Box::new(Type::Dyn))),
        (
            "JSONPatch".to_owned(),
            Type::Type(Box::new(Type::Object(patch.into()))),
        ),
        ("host.name".to_owned(), Type::String),
    ])
}

fn construct(source: &str) -> Result<serde_json::Value, String> {
    let checked = parse(source)
        .and_then(|expr| check(expr, &patching()))
        .map_err(|issues| describe(source, &issues))?;
    let activation = Activation::from([("host.name".to_owned(), Value::text("h"))]);
    let value = evaluate(&checked, &activation, 1_000_000)
        .0
        .map_err(|failure| failure.to_string())?;
    value.check_type_names()?;
    value.to_json()
}

#[test]
fn expressions_construct_objects_of_known_types() {
    for (source, json) in [
        (
            "Object{spec: Object.spec{replicas: 1 + 1, ?paused: optional.none()}}",
            r#"{"spec":{"replicas":2}}"#,
        ),
        (
            "[JSONPatch{op: 'add', value: [host.name]}]",
            r#"[{"op":"add","value":["h"]}]"#,
        ),
        (
            "Object{spec: Object.spec{items: [Object.spec.items{`a-b`: b'hi'}]}}",
            r#"{"spec":{"items":[{"a-b":"aGk="}]}}"#,
        ),
        ("jsonpatch.escapeKey('a/b~c')", r#""a~1b~0c""#),
    ] {
        assert_eq!(
            construct(source).map(|json| json.to_string()),
            Ok(json.to_owned()),
            "{source}"
        );
    }
}

#[test]
fn constructed_objects_have_the_types_of_their_places() {
    for (source, problem) in [
        ("JSONPatch{nope: 1}", "undefined field 'nope'"),
        (
            "JSONPatch{op: 1}",
            "expected type of field 'op' is 'string' but provided type is 'int'",
        ),
        ("Other{a: 1}", "undeclared reference to 'Other'"),
        (
            "Object{spec: Object.status{a: 1}}",
            "unexpected type name \"Object.status\", expected \"Object.spec\"",
        ),
        (
            "quantity('1') == quantity('1') ? quantity('1') : quantity('2')",
            "kubernetes.Quantity",
        ),
    ] {
        let found = construct(source).unwrap_err();
        assert!(found.contains(problem), "{source}: {found}");
    }
}

/// Evaluates an expression on `self`, a JSON object without a schema, with a cost limit.
#[track_caller]
fn run_on(object: &serde_json::Value, source: &str, limit: u64) -> Result<bool, String> {
    let variables = Variables::from([("self".to_owned(), Type::Dyn)]);
    let checked = parse(source)
        .and_then(|expr| check(expr, &variables))
        .map_err(|issues| describe(source, &issues))?;
    let activation = Activation::from([("self".to_owned(), value::from_json(object, None))]);
    match evaluate(&checked, &activation, limit).0 {
        Ok(Value::Bool(result)) => Ok(result),
        Ok(other) => Err(format!("not a bool: {}", other.type_name())),
        Err(failure) => Err(failure.to_string()),
    }
}

/// Returns an object with 65,000 numbers, 65,000 strings, and one string of a million characters.
fn large() -> serde_json::Value {
    serde_json::json!({
        "items": (0..65_000).collect::<Vec<_>>(),
        "texts": (0..65_000).map(|number| format!("t{number}")).collect::<Vec<_>>(),
        "text": "aé".repeat(500_000),
    })
}

#[test]
fn large_values_take_work_in_proportion_to_their_cost() {
    let large = large();
    for source in [
        "self.items.map(x, x).size() == 65000",
        "self.items.filter(x, x % 2 == 0).size() == 32500",
        "self.items.exists(x, self.items.exists(y, y == 0))",
        "self.texts.all(x, x.matches('^[\\\\pL\\\\pN]{1,60}$'))",
        "(self.items + self.items + self.items).size() == 195000",
        "self.items.transformList(i, v, i == v).size() == 65000",
        "self.texts.transformMap(i, v, v).size() == 65000 || true",
        "self.text.split('').size() == 1000000 || true",
        "self.text.lastIndexOf('éé') == -1",
        "self.texts.sort().size() == 65000",
        "self.texts.distinct().size() == 65000",
        "self.texts.join(',').size() > 65000",
        "self.text.substring(0, 500000).size() == 500000",
        "[self.texts].flatten().reverse().slice(0, 10).size() == 10",
        "self.items.map(x, self.text).size() == 65000",
        "optional.of(self.texts).optMap(t, t.size()).orValue(0) == 65000",
    ] {
        let result = run_on(&large, source, 1_000_000);
        let is_limited = result == Err("operation cancelled: actual cost limit exceeded".to_owned());
        assert!(result == Ok(true) || is_limited, "{source}: {result:?}");
    }
}

#[test]
fn work_that_the_cost_does_not_cover_has_a_limit() {
    let large = large();
    let doubled = |last: &str| {
        let step = ".map(a, a + a)".repeat(40);
        format!("[self.items]{step}.all(a, {last})")
    };
    let shared = |last: &str| format!("[[1]]{}.all(a, {last})", ".map(a, [a, a])".repeat(60));
    let limited = "operation cancelled: actual cost limit exceeded";
    for source in [
        doubled("a.sort().size() > 0"),
        doubled("a == a + a || a == a"),
        doubled("a.exists(x, x < 0)"),
        doubled("'%s'.format([a]) == ''"),
        doubled("a.distinct().size() > 0"),
        shared("a == a"),
        shared("'%s'.format([a]) == ''"),
        shared("a in [a, a]"),
        "self.items.all(x, self.text.size() > 0)".to_owned(),
        "self.items.all(x, self.text.indexOf('ab') < 0)".to_owned(),
        "self.items.all(x, self == self)".to_owned(),
        "self.items.map(x, self.text).join('').size() > 0".to_owned(),
        "self.items.map(x, self.text).sort().size() > 0".to_owned(),
        "self.text.replace('a', self.text).size() > 0".to_owned(),
        format!(
            "'{}'.format([{}]).size() > 0",
            "%s".repeat(3000),
            vec!["self.text"; 3000].join(",")
        ),
        format!(
            "self.items.all(x, [{}].all(y, y))",
            vec!["true"; 19_000].join(",")
        ),
        format!("self.items.all(x, {})", vec!["true"; 10_000].join("&&")),
        "self.text.matches('(a|é|aé|éa|a.|.a){1,500}b')".to_owned(),
        "self.items.all(x, !self.text.matches('^(.*)' + string(x) + 'b'))".to_owned(),
    ] {
        let result = run_on(&large, &source, 40_000);
        let shown: String = source.chars().take(60).collect();
        assert_eq!(result, Err(limited.to_owned()), "{shown}");
    }
}

#[test]
fn lists_are_joined_without_a_copy() {
    for source in [
        "([1, 2] + [3] + [] + [4, 5])[3] == 4",
        "([1] + [2, 3]).map(x, x * 2) == [2, 4, 6]",
        "[[1]].map(a, a + a).map(a, a + a)[0] == [1, 1, 1, 1]",
        "lists.range(40).map(x, [x]).all(x, (x + x).size() == 2)",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.split('', 2) == ['a', 'bc']",
        "''.split('') == [] && ''.split(',') == [''] && 'a,b'.split(',', 0) == []",
        "'abcabc'.lastIndexOf('bc') == 4 && 'abcabc'.lastIndexOf('bc', 3) == 1 && 'abc'.lastIndexOf('') == 3",
        "'tacocat'.substring(4) == 'cat' && ' x '.trim() == 'x' && 'é1é'.charAt(2) == 'é'",
        "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.find('[0-9]+') == '1'",
        "{'b': 1, 'a': 2}.transformMapEntry(k, v, {string(v): k}) == {'1': 'b', '2': 'a'}",
        "sets.contains([dyn(1), dyn(2.0), dyn(3u)], [dyn(2), dyn(3.0)]) && [dyn(1), dyn(1.0), dyn(1u), dyn(2)].distinct() == [1, 2]",
    ] {
        assert_eq!(run(source), Ok(true), "{source}");
    }
}

/// Returns the cost of running an expression on an object with a name and a number.
#[track_caller]
fn running_cost(source: &str) -> u64 {
    let names =
        ["object", "i"].map(|name| (name.to_owned(), if name == "i" { Type::Int } else { Type::Dyn }));
    let variables = Variables::from(names);
    let checked = parse(source).and_then(|expr| check(expr, &variables));
    let checked = checked.map_err(|issues| describe(source, &issues)).unwrap();
    let object = serde_json::json!({"data": {"n": "5"}, "metadata": {"name": "co-11"}});
    let activation = Activation::from([
        ("object".to_owned(), value::from_json(&object, None)),
        ("i".to_owned(), Value::Int(5)),
    ]);
    let (result, cost) = evaluate(&checked, &activation, 1_000_000);
    assert!(result.is_ok(), "{source}: {result:?}");
    cost
}

/// Compares costs with kube-apiserver 1.36.2. There, each expression was repeated in a policy until the budget was
/// exhausted.
#[test]
fn run_time_costs_equal_those_of_the_real_server() {
    let (long, short) = ("abcdefghij".repeat(10), "abcdefghij".repeat(5));
    let numbers: Vec<String> = (1..=21).map(|number| number.to_string()).collect();
    let numbers = format!("[{}]", numbers.join(","));
    let (ten, eleven) = ("[1,2,3,4,5,6,7,8,9,10]", "[1,2,3,4,5,6,7,8,9,10,11]");
    for (source, cost) in [
        ("'LONG'.size()", 1),
        ("'LONG' == 'SHORT'", 5),
        ("'LONG'.startsWith('SHORT')", 10),
        ("'SHORT'.endsWith('LONG')", 5),
        ("'LONG'.find('^[a-z]{1,20}')", 33),
        ("'LONG'.indexOf('b')", 10),
        ("'LONG'.split('')", 20),
        ("'%s and %d'.format(['LONG', 5])", 1),
        ("'LONG%s'.format(['SHORT'])", 11),
        ("strings.quote('LONG')", 10),
        ("b'LONG' + b'SHORT'", 15),
        ("bytes(object.metadata.name + 'LONG')", 25),
        ("NUMBERS.sum()", 21),
        ("NUMBERS.max()", 21),
        ("NUMBERS.sort()", 893),
        ("NUMBERS.distinct()", 893),
        ("NUMBERS.reverse()", 32),
        ("NUMBERS.slice(1, 15)", 25),
        ("['LONG', 'SHORT'].max()", 15),
        ("['LONG', 'SHORT'].sort()", 19),
        ("['LONG', 'SHORT'].distinct()", 19),
        ("['LONG', 'SHORT'].indexOf('b')", 15),
        ("['LONG', 'LONG'].join('SHORT')", 50),
        ("['a','b','c','d','e','f','g','h','i','j','k','l'].join(',')", 5),
        ("[[1,2,3,4,5],[6,7,8,9,10],[11]].flatten()", 14),
        ("[[1,2],[3,4]].flatten(3)", 17),
        ("[3,1,2].sortBy(x, -x)", 74),
        ("lists.range(21)", 32),
        ("sets.contains(ELEVEN, [1,2,3])", 34),
        ("sets.equivalent([1,2,3,4], [1,2,3])", 25),
        ("sets.intersects(ELEVEN, [1,2,3])", 34),
        ("ELEVEN == ELEVEN", 2),
        ("[1,2,3] + [4,5,6]", 1),
        ("TEN.map(x, x)", 131),
        ("TEN.exists_one(x, x > 9)", 24),
        ("TEN.transformList(k, v, v)", 131),
        ("{'a':1,'b':2,'c':3}.transformMap(k, v, v)", 13),
        ("has({'a':1}.a)", 1),
        ("{'a':1}[?'a'].orValue(3)", 2),
        ("optional.of(i).optMap(x, x + 1)", 9),
        ("quantity('100Mi').isLessThan(quantity('1Gi'))", 3),
        ("url('https://example.com:80/SHORT?a=b').getQuery()", 9),
        ("ip.isCanonical('192.168.100.100')", 3),
        ("cidr('192.168.100.0/24').containsIP('192.168.100.100')", 5),
        ("cidr('192.168.100.0/24').containsIP(ip('192.168.100.100'))", 5),
        ("cidr('192.168.100.0/24').containsCIDR('192.168.100.0/25')", 7),
        ("cidr('192.168.100.0/24').masked()", 3),
        ("semver('1.2.3').isLessThan(semver('1.2.4'))", 3),
        ("format.dns1123Label().validate('SHORT')", 49),
        ("format.dns1123Subdomain().validate('SHORT')", 91),
        ("format.labelValue().validate('SHORT')", 61),
        ("format.uuid().validate('SHORT')", 109),
        ("format.byte().validate('SHORT')", 121),
        ("duration('100h20m30s')", 0),
        ("string(12345)", 0),
        ("[1]", 0),
        ("object.data == object.data", 5),
        ("i > 3 ? object.data.n : object.metadata.name", 4),
    ] {
        let source = [
            ("LONG", &*long),
            ("SHORT", &*short),
            ("NUMBERS", &*numbers),
            ("TEN", ten),
            ("ELEVEN", eleven),
        ]
        .into_iter()
        .fold(source.to_owned(), |source, (name, text)| {
            source.replace(name, text)
        });
        assert_eq!(running_cost(&source), cost, "{source}");
    }
}
