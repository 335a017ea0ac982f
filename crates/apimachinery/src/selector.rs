//! Label selectors ([`LabelSelector`]) and field selectors ([`FieldSelector`]).

use std::collections::BTreeSet;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::{go, names, object};

/// A label selector, whose requirements must all hold. [`str::parse`] parses its text.
///
/// ```
/// use apimachinery::selector::LabelSelector;
/// let selector: LabelSelector = "app in (a, b), !old".parse()?;
/// assert!(selector.matches(&serde_json::json!({"metadata": {"labels": {"app": "b"}}})));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Returns true for the selector that selects every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Parses a `metav1.LabelSelector`; an empty selector selects everything. Returns `None` for an unknown operator or
    /// invalid values.
    pub fn from_json(selector: &Value) -> Option<Self> {
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        let equal = labels.into_iter().flatten().map(|(key, value)| {
            Some(Requirement {
                key: key.clone(),
                operator: Operator::In(BTreeSet::from([value.as_str()?.to_owned()])),
            })
        });
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        let expressed = expressions
            .into_iter()
            .flatten()
            .map(Requirement::from_expression);
        let requirements = equal.chain(expressed).collect::<Option<_>>()?;
        Some(Self { requirements })
    }

    /// Returns the requirements as `matchExpressions`, sorted by key. Requirements with `<` and `>` cannot be
    /// represented, and are omitted.
    ///
    /// ```
    /// use apimachinery::selector::LabelSelector;
    /// let selector: LabelSelector = "b, a!=c".parse()?;
    /// let not_in = serde_json::json!({"key": "a", "operator": "NotIn", "values": ["c"]});
    /// assert_eq!(selector.to_expressions(), [not_in, serde_json::json!({"key": "b", "operator": "Exists"})]);
    /// # Ok::<(), String>(())
    /// ```
    pub fn to_expressions(&self) -> Vec<Value> {
        let mut sorted: Vec<&Requirement> = self.requirements.iter().collect();
        sorted.sort_by(|one, other| one.key.cmp(&other.key));
        let expression = |requirement: &Requirement| {
            let key = &requirement.key;
            Some(match &requirement.operator {
                Operator::Exists => json!({"key": key, "operator": "Exists"}),
                Operator::Absent => json!({"key": key, "operator": "DoesNotExist"}),
                Operator::In(values) => json!({"key": key, "operator": "In", "values": values}),
                Operator::NotIn(values) => json!({"key": key, "operator": "NotIn", "values": values}),
                Operator::Greater(_) | Operator::Less(_) => return None,
            })
        };
        sorted.into_iter().filter_map(expression).collect()
    }

    /// Returns true if the labels of an object satisfy all requirements.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object::meta(object, "labels");
        self.requirements.iter().all(|requirement| {
            let value = labels
                .and_then(|labels| labels.get(&requirement.key))
                .and_then(Value::as_str);
            requirement.operator.holds(value)
        })
    }
}

/// Evaluates a `metav1.LabelSelector` without parsing it first. An empty selector selects everything; a value that is
/// not an object selects nothing. `label` returns the value of a label.
///
/// ```
/// use apimachinery::selector::selects;
/// let selector = serde_json::json!({"matchLabels": {"app": "web"}});
/// assert!(selects(&selector, |name| (name == "app").then_some("web")));
/// ```
pub fn selects<'a>(selector: &Value, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let Some(selector) = selector.as_object() else {
        return false;
    };
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let mut labels = labels.into_iter().flatten();
    labels.all(|(name, value)| label(name).is_some_and(|found| value == found))
        && expressions.into_iter().flatten().all(|expression| {
            let value = label(object::text(expression, &["key"]));
            expression_holds(expression, value)
        })
}

/// Evaluates an expression of a label selector or of a node selector term for the value of its key. Returns false for
/// an unknown operator.
pub fn expression_holds(expression: &Value, value: Option<&str>) -> bool {
    let values = expression.get("values").and_then(Value::as_array);
    let values = values.map_or(&[][..], Vec::as_slice);
    let is_listed = value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let numbers = || -> Option<(i64, i64)> {
        let bound = values.first()?.as_str()?;
        Some((value?.parse().ok()?, bound.parse().ok()?))
    };
    match object::text(expression, &["operator"]) {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

impl Requirement {
    fn from_expression(expression: &Value) -> Option<Self> {
        let values = expression.get("values").and_then(Value::as_array);
        let values: BTreeSet<String> = values
            .into_iter()
            .flatten()
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect();
        let operator = match (object::text(expression, &["operator"]), values.is_empty()) {
            ("In", false) => Operator::In(values),
            ("NotIn", false) => Operator::NotIn(values),
            ("Exists", true) => Operator::Exists,
            ("DoesNotExist", true) => Operator::Absent,
            _ => return None,
        };
        let key = object::text(expression, &["key"]).to_owned();
        Some(Self { key, operator })
    }
}

impl Operator {
    fn holds(&self, value: Option<&str>) -> bool {
        match (self, value) {
            (Self::Exists, value) => value.is_some(),
            (Self::Absent, value) => value.is_none(),
            (Self::In(values), Some(value)) => values.contains(value),
            (Self::NotIn(values), Some(value)) => !values.contains(value),
            (Self::NotIn(_), None) => true,
            (Self::Greater(bound), Some(value)) => value.parse().is_ok_and(|n: i64| n > *bound),
            (Self::Less(bound), Some(value)) => value.parse().is_ok_and(|n: i64| n < *bound),
            (Self::In(_) | Self::Greater(_) | Self::Less(_), None) => false,
        }
    }
}

impl FromStr for LabelSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Parser::new(text).selector()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

/// A recursive descent parser of the tokens of a label selector.
struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "<", ">", ",", "(", ")"];

impl Parser {
    fn new(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
            let length = match symbol {
                Some(symbol) => {
                    tokens.push(Token::Symbol(symbol));
                    symbol.len()
                }
                None => {
                    let end = rest
                        .find(|c: char| c.is_whitespace() || "=!<>,()".contains(c))
                        .unwrap_or(rest.len());
                    tokens.push(Token::Word(rest.get(..end).unwrap_or_default().to_owned()));
                    end
                }
            };
            rest = rest.get(length..).unwrap_or_default().trim_start();
        }
        tokens.push(Token::End);
        Self { tokens, position: 0 }
    }

    fn peek(&self) -> Token {
        self.tokens.get(self.position).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn selector(mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(LabelSelector::default());
        }
        self.expect_key("!, identifier, or 'end of string'")?;
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                Token::End => break,
                Token::Symbol(",") => self.expect_key("identifier after ','")?,
                other => {
                    return Err(format!(
                        "found '{}', expected: ',' or 'end of string'",
                        literal(&other)
                    ));
                }
            }
        }
        requirements.sort_by(|a: &Requirement, b| a.key.cmp(&b.key));
        Ok(LabelSelector { requirements })
    }

    /// Checks that a requirement starts here: with a key, or with `!`.
    fn expect_key(&self, expected: &str) -> Result<(), String> {
        match self.peek() {
            Token::Word(_) | Token::Symbol("!") => Ok(()),
            other => Err(format!("found '{}', expected: {expected}", literal(&other))),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == Token::Symbol("!");
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => {
                return Err(format!(
                    "unable to parse requirement: found '{}', expected: identifier",
                    literal(&other)
                ));
            }
        };
        check_key(&key)?;
        if absent {
            return Ok(Requirement {
                key,
                operator: Operator::Absent,
            });
        }
        let operator = self.operator(&key)?;
        Ok(Requirement { key, operator })
    }

    fn operator(&mut self, key: &str) -> Result<Operator, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => return Ok(Operator::Exists),
            _ => {}
        }
        match self.next() {
            Token::Symbol("=" | "==") => Ok(Operator::In(checked(key, BTreeSet::from([self.value()?]))?)),
            Token::Symbol("!=") => Ok(Operator::NotIn(checked(key, BTreeSet::from([self.value()?]))?)),
            Token::Symbol(">") => Ok(Operator::Greater(self.number(key)?)),
            Token::Symbol("<") => Ok(Operator::Less(self.number(key)?)),
            Token::Word(word) if word == "in" => Ok(Operator::In(self.values(key)?)),
            Token::Word(word) if word == "notin" => Ok(Operator::NotIn(self.values(key)?)),
            other => Err(format!(
                "unable to parse requirement: found '{}', expected: in, notin, =, ==, !=, gt, lt",
                literal(&other)
            )),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::Word(value) => {
                self.next();
                Ok(value)
            }
            Token::End | Token::Symbol(",") => Ok(String::new()),
            other => Err(format!(
                "unable to parse requirement: found '{}', expected: identifier",
                literal(&other)
            )),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let value = self.value()?;
        let number = value.parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                go::quote(&value)
            )
        });
        let mut errors: Vec<String> = number.as_ref().err().into_iter().cloned().collect();
        errors.extend(value_error(key, 0, &value));
        match number {
            Ok(number) if errors.is_empty() => Ok(number),
            _ => Err(unparsable(&errors)),
        }
    }

    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => {
                return Err(format!(
                    "unable to parse requirement: found '{}' expected: '('",
                    literal(&other)
                ));
            }
        }
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.insert(value);
                    match self.next() {
                        Token::Symbol(")") => break,
                        Token::Symbol(",") if self.peek() == Token::Symbol(")") => {
                            self.next();
                            values.insert(String::new());
                            break;
                        }
                        Token::Symbol(",") => {}
                        other => {
                            return Err(format!(
                                "unable to parse requirement: found '{}', expected: ',' or ')'",
                                literal(&other)
                            ));
                        }
                    }
                }
                Token::Symbol(",") => _ = values.insert(String::new()),
                Token::Symbol(")") if values.is_empty() => {
                    values.insert(String::new());
                    break;
                }
                Token::Symbol(")") => break,
                other => {
                    return Err(format!(
                        "unable to parse requirement: found '{}', expected: ',', ')' or identifier",
                        literal(&other)
                    ));
                }
            }
        }
        checked(key, values)
    }
}

fn literal(token: &Token) -> &str {
    match token {
        Token::Word(word) => word,
        Token::Symbol(symbol) => symbol,
        Token::End => "",
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let faults = names::qualified_name(key);
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!(
        "unable to parse requirement: <nil>: Invalid value: {}: {}",
        go::quote(key),
        faults.join("; ")
    ))
}

/// Checks the values of a requirement, and reports all errors.
fn checked(key: &str, values: BTreeSet<String>) -> Result<BTreeSet<String>, String> {
    let indexed = values.iter().enumerate();
    let errors: Vec<String> = indexed
        .filter_map(|(index, value)| value_error(key, index, value))
        .collect();
    if errors.is_empty() {
        Ok(values)
    } else {
        Err(unparsable(&errors))
    }
}

fn value_error(key: &str, index: usize, value: &str) -> Option<String> {
    let faults = names::label_value(value);
    (!faults.is_empty()).then(|| {
        let (value, faults) = (go::quote(value), faults.join("; "));
        format!("values[{index}][{key}]: Invalid value: {value}: {faults}")
    })
}

fn unparsable(errors: &[String]) -> String {
    let shown = match errors {
        [error] => error.clone(),
        errors => format!("[{}]", errors.join(", ")),
    };
    format!("unable to parse requirement: {shown}")
}

/// A field selector: fields that must, or must not, equal a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The terms, sorted as texts.
    pub terms: Vec<FieldTerm>,
}

/// A term `field=value` or `field!=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The label of the field, such as `metadata.name`.
    pub field: String,
    /// True for `=`; false for `!=`.
    pub equal: bool,
    /// The value.
    pub value: String,
}

impl FieldSelector {
    /// Returns true for the selector that selects every object.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }
}

impl FromStr for FieldSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut terms = split_terms(text);
        terms.sort();
        let terms = terms
            .into_iter()
            .filter(|term| !matches!(term.as_str(), "" | "=" | "=="))
            .map(|term| parse_term(&term, text))
            .collect::<Result<_, _>>()?;
        Ok(Self { terms })
    }
}

/// Splits at commas that are not escaped by a backslash.
fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for character in text.chars() {
        if character == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = character == '\\' && !escaped;
        if let Some(last) = terms.last_mut() {
            last.push(character);
        }
    }
    terms
}

fn parse_term(term: &str, whole: &str) -> Result<FieldTerm, String> {
    let mut escaped = false;
    for (index, character) in term.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        if character == '\\' {
            escaped = true;
            continue;
        }
        let rest = term.get(index..).unwrap_or_default();
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Ok(FieldTerm {
                    field: term.get(..index).unwrap_or_default().to_owned(),
                    equal,
                    value: unescape(value)?,
                });
            }
        }
    }
    Err(format!("invalid selector: '{whole}'; can't understand '{term}'"))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut text = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                Some(other) => {
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{other}"
                    ));
                }
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(character)
                ));
            }
            other => text.push(other),
        }
    }
    Ok(text)
}
