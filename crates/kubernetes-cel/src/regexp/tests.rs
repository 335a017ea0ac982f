use super::*;

const STEPS: u64 = 10_000_000;

#[track_caller]
fn is_match(pattern: &str, text: &str) -> bool {
    let mut steps = STEPS;
    compile(pattern).unwrap().is_match(text, &mut steps).unwrap()
}

#[track_caller]
fn found<'t>(pattern: &str, text: &'t str) -> Vec<&'t str> {
    let mut steps = STEPS;
    let ranges = compile(pattern)
        .unwrap()
        .find_all(text, usize::MAX, &mut steps)
        .unwrap();
    ranges.into_iter().map(|(start, end)| &text[start..end]).collect()
}

#[test]
fn classes_are_those_of_go() {
    for (pattern, yes, no) in [
        (r"^\d$", "3", "٣"),
        (r"^[\w.-]+$", "a_b.c-d", "é"),
        (r"^[]a]+$", "]a", "b"),
        (r"^[^]a]$", "b", "]"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"\bfoo\b", "a foo b", "afoo"),
        (r"\Boo\B", "xoox", "oo"),
        (r"^[\p{L}\p{N} _-]{1,100}$", "Größe 5_x", "a.b"),
        (r"^\p{Greek}+$", "αβγ", "abc"),
        (r"^\P{Greek}+$", "abc", "αβγ"),
        (r"^\pL$", "é", "1"),
        (r"^[[:alpha:]]+$", "abC", "ab1"),
        (r"^[[:^alpha:]]+$", "12", "a"),
        (r"^[^\D5]$", "4", "5"),
        (r"(?i)^straSSe$", "STRAſſE", "strase"),
        (r"(?i:A)b", "ab", "aB"),
        (r"^a.c$", "abc", "a\nc"),
        (r"(?s)^a.c$", "a\nc", "ac"),
        (r"(?m)^b$", "a\nb\nc", "ab"),
        (r"^b$", "b", "b\n"),
        (r"^\x41\x{e9}\101\0?\.$", "AéA.", "AéA"),
        (r"^[a&&b]$", "&", "c"),
        (r"^a{2,3}$", "aaa", "aaaa"),
        (r"^a{,2}$", "a{,2}", "aa"),
        (r"^(ab|cd)*$", "abcdab", "abc"),
        (r"^$", "", "a"),
        (r"^(a|b|)*c$", "abc", "abd"),
        (r"^[+--]$", ",", "a"),
        (r"a\z", "ba", "ab"),
    ] {
        assert!(is_match(pattern, yes), "{pattern} on {yes}");
        assert!(!is_match(pattern, no), "{pattern} on {no}");
    }
}

#[test]
fn the_first_match_is_the_preferred_one() {
    for (pattern, text, wanted) in [
        ("a+", "baaab", &["aaa"][..]),
        ("a+?", "baaab", &["a", "a", "a"]),
        ("(?U)a+", "baa", &["a", "a"]),
        ("a|ab", "ab", &["a"]),
        ("ab|a", "ab", &["ab"]),
        ("[0-9]*", "a12b", &["", "12", ""]),
        ("(a*)*", "b", &["", ""]),
        (r"\b", "ab c", &["", "", "", ""]),
        ("x*", "é", &["", ""]),
        ("^a", "aaa", &["a"]),
    ] {
        assert_eq!(found(pattern, text), wanted, "{pattern} on {text}");
    }
}

#[test]
fn errors_are_those_of_go() {
    for (pattern, error) in [
        ("(", "missing closing ): `(`"),
        (")", "unexpected ): `)`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1}{2}", "invalid nested repetition operator: `{1}{2}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("(a{50}){100}", "invalid repeat count: `{100}`"),
        ("((a{10}){10}){11}", "invalid repeat count: `{11}`"),
        ("(?:(?:a{0}){1000}){1000}", "invalid repeat count: `{1000}`"),
        (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[a--b]", "invalid character class range: `a--`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        (r"[\b]", r"invalid escape sequence: `\b`"),
        (r"[\Qa\E]", r"invalid escape sequence: `\Q`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\é", r"invalid escape sequence: `\é`"),
        (r"\u0041", r"invalid escape sequence: `\u`"),
        ("[]", "missing closing ]: `[]`"),
        ("[^]", "missing closing ]: `[^]`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("(?x)a b", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ("(?<=a)", "invalid named capture: `(?<=a)`"),
    ] {
        assert_eq!(
            compile(pattern).unwrap_err(),
            format!("error parsing regexp: {error}"),
            "{pattern}"
        );
    }
    for pattern in [
        "a{1000}",
        "(a{10}){100}",
        r"\B",
        "a{",
        r"\_\-\.",
        "[[]",
        "[a~~b]",
        r"\Q\E",
        "(?P<n>a)(?<m>b)",
        "",
    ] {
        assert!(compile(pattern).is_ok(), "{pattern}");
    }
}

#[test]
fn patterns_of_any_depth_and_size_are_judged() {
    let nested = |open: &str, depth: usize| open.repeat(depth) + "a" + &")".repeat(depth);
    assert!(compile(&nested("(", 999)).is_ok());
    for depth in [1001, 100_000] {
        let error = compile(&nested("(", depth)).unwrap_err();
        assert!(error.contains("expression nests too deeply"), "{depth}");
    }
    assert!(is_match(&nested("(", 999), "a"));
    assert!(is_match(&nested("(?:", 100_000), "a"));
    assert!(is_match(&nested("(?:b|", 900), "a"));
    assert!(compile(&nested("(?:b|", 100_000)).is_err());
    let too_large = compile(&"x{1000}".repeat(4000)).unwrap_err();
    assert!(too_large.contains("expression too large"));
    let large = compile(&r"\pL{1000}".repeat(30)).unwrap();
    assert!(large.size() < 200_000, "{}", large.size());
}

#[test]
fn patterns_of_a_definition_have_a_limit_together() {
    let mut patterns = Patterns::default();
    let same: Vec<_> = (0..5000).map(|_| patterns.compile(r"^\pL{40}$")).collect();
    assert!(same.iter().all(Result::is_ok));
    let pattern = |number: usize| format!("a{{1000}}b{{1000}}c{{1000}}{number}");
    assert!(patterns.compile(&pattern(0)).is_ok());
    let refused = (1..5000).find_map(|number| patterns.compile(&pattern(number)).err());
    assert!(refused.unwrap().contains("expression too large"));
}

#[test]
fn matching_counts_its_steps() {
    let pattern = compile("^(a|b|ab)*c$").unwrap();
    let text = "ab".repeat(100_000);
    let mut steps = 1000;
    assert_eq!(pattern.is_match(&text, &mut steps), Err(Exhausted));
    let mut steps = u64::MAX;
    assert_eq!(pattern.is_match(&text, &mut steps), Ok(false));
    assert!(u64::MAX - steps < 20 * 200_000, "{}", u64::MAX - steps);
}
