//! Tests of the errors of selectors, with the texts of the API server.

use std::str::FromStr;

use apimachinery::selector::{FieldSelector, LabelSelector};

#[test]
fn all_values_of_a_requirement_are_checked_in_their_order() {
    let label = "a valid label must be an empty string or consist of alphanumeric characters";
    let number = "for 'Gt', 'Lt' operators, the value must be an integer";
    for (text, starts) in [
        (
            "a in (c,b%)",
            vec![format!("values[0][a]: Invalid value: \"b%\": {label}")],
        ),
        (
            "a in (b,b,c%)",
            vec![format!("values[1][a]: Invalid value: \"c%\": {label}")],
        ),
        (
            "a in (c%,b%)",
            vec![
                format!("[values[0][a]: Invalid value: \"b%\": {label}"),
                format!(", values[1][a]: Invalid value: \"c%\": {label}"),
            ],
        ),
        (
            "n>5%",
            vec![
                format!("[values[0]: Invalid value: \"5%\": {number}, "),
                format!("values[0][n]: Invalid value: \"5%\": {label}"),
            ],
        ),
        ("n>x", vec![format!("values[0]: Invalid value: \"x\": {number}")]),
    ] {
        let error = LabelSelector::from_str(text).unwrap_err().to_string();
        let mut rest = error.strip_prefix("unable to parse requirement: ").unwrap();
        for start in starts {
            let (_, after) = rest
                .split_once(start.as_str())
                .unwrap_or_else(|| panic!("{text}: {error}"));
            rest = after;
        }
    }
}

#[test]
fn the_terms_of_a_field_selector_are_sorted() {
    let selector = FieldSelector::from_str("b=1, a=2").unwrap();
    let fields: Vec<&str> = selector.terms.iter().map(|term| term.field.as_str()).collect();
    assert_eq!(fields, [" a", "b"]);
    let error = FieldSelector::from_str("a==b=, c").unwrap_err().to_string();
    assert!(error.ends_with("can't understand ' c'"), "{error}");
}
