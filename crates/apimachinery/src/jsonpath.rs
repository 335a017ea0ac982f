//! The JSONPath of printer columns, selectable fields and scale paths ([`JsonPath`]): fields, indexes, wildcards and
//! simple filters.
//!
//! Paths such as `.spec.x`, `.items[0]`, `.items[-1]`, `.items[*].name`, `['a.b']`, `.a\.b` and
//! `.conditions[?(@.type=="Ready")].status` are parsed like in `k8s.io/client-go/util/jsonpath` with missing keys
//! allowed.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    Wildcard,
    /// `..`: the value and all values below it.
    Descend,
    Filter(Vec<Step>, Option<(Comparison, Operand)>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Constant(Value),
    Path(Vec<Step>),
}

/// The reason why a path is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON path {path:?}: {reason}")]
pub struct InvalidPath {
    path: String,
    reason: String,
}

impl JsonPath {
    /// Parses a path such as `.spec.replicas`; braces around it are allowed.
    ///
    /// # Errors
    /// Returns an error for unclosed brackets and unsupported filters.
    ///
    /// ```
    /// use apimachinery::jsonpath::JsonPath;
    /// let path = JsonPath::parse(r#".status.conditions[?(@.type=="Ready")].status"#)?;
    /// let object = serde_json::json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    /// assert_eq!(path.first(&object), Some(&"True".into()));
    /// # Ok::<(), apimachinery::jsonpath::InvalidPath>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        let inner = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
            .unwrap_or(text);
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        let steps = parse_steps(inner).map_err(|reason| InvalidPath {
            path: text.to_owned(),
            reason: reason.to_owned(),
        })?;
        Ok(Self { steps })
    }

    /// Checks the text of a path without braces, with the errors of `k8s.io/client-go/util/jsonpath`.
    ///
    /// # Errors
    /// Returns an error for brackets and quotes that are not closed, invalid numbers, and characters that cannot begin a
    /// step.
    pub fn check(text: &str) -> Result<(), String> {
        const ENDS_FIELD: &str = " .[](){}\"'";
        const ENDS_IDENTIFIER: &str = " .,[]$@{}";
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let after = rest.get(first.len_utf8()..).unwrap_or_default();
            let until = |ends: &str| {
                let end = after.find(|c| ends.contains(c));
                after.get(end.unwrap_or(after.len())..).unwrap_or_default()
            };
            rest = match first {
                ' ' | '$' | '@' => after,
                // The end of the path; the rest is text.
                '}' => return Ok(()),
                '.' => until(ENDS_FIELD),
                '[' => bracket(rest).map_err(str::to_owned)?.1,
                '"' | '\'' => {
                    let end = after.find(first).ok_or("unterminated quoted string")?;
                    after.get(end + 1..).unwrap_or_default()
                }
                '+' | '-' | '0'..='9' => {
                    let end = after.find(|c: char| c != '.' && !c.is_ascii_digit());
                    let length = first.len_utf8() + end.unwrap_or(after.len());
                    let (number, tail) = rest.split_at_checked(length).unwrap_or((rest, ""));
                    if number.parse::<f64>().is_err() {
                        return Err(format!("cannot parse number {number}"));
                    }
                    tail
                }
                '_' => until(ENDS_IDENTIFIER),
                letter if letter.is_alphanumeric() => until(ENDS_IDENTIFIER),
                other => {
                    let code = u32::from(other);
                    return Err(format!(
                        "unrecognized character in action: U+{code:04X} '{other}'"
                    ));
                }
            };
        }
        Ok(())
    }

    /// Returns all values at the path, in the object's order; empty if a field is missing.
    pub fn find<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        evaluate(&self.steps, object)
    }

    /// Returns the first value at the path.
    pub fn first<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        self.find(object).first().copied()
    }
}

fn parse_steps(text: &str) -> Result<Vec<Step>, &'static str> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        match c {
            '.' if rest.starts_with("..") => {
                steps.push(Step::Descend);
                rest = rest.get(1..).unwrap_or("");
                if rest.get(1..).is_some_and(|after| after.starts_with('[')) {
                    rest = rest.get(1..).unwrap_or("");
                }
            }
            '.' => {
                let (name, tail) = field_name(rest.get(1..).unwrap_or(""));
                match name.as_str() {
                    "" => {}
                    "*" => steps.push(Step::Wildcard),
                    _ => steps.push(Step::Field(name)),
                }
                rest = tail;
            }
            '[' => {
                let (inside, tail) = bracket(rest)?;
                steps.push(bracket_step(inside)?);
                rest = tail;
            }
            _ => {
                let (name, tail) = field_name(rest);
                steps.push(Step::Field(name));
                rest = tail;
            }
        }
    }
    Ok(steps)
}

/// Returns a name up to the next `.` or `[`, and the rest. A backslash escapes the next character.
fn field_name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, text.get(index..).unwrap_or("")),
            _ => name.push(c),
        }
    }
    (name, "")
}

/// Returns the text up to the matching bracket, and the rest; quotes and nested brackets are considered.
fn bracket(text: &str) -> Result<(&str, &str), &'static str> {
    let mut depth = 0_usize;
    let mut quote = None;
    for (index, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    let inside = text.get(1..index).unwrap_or("");
                    return Ok((inside, text.get(index + 1..).unwrap_or("")));
                }
            }
            _ => {}
        }
    }
    Err("unterminated array")
}

fn bracket_step(inside: &str) -> Result<Step, &'static str> {
    let inside = inside.trim();
    if inside == "*" {
        return Ok(Step::Wildcard);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        return filter_step(filter);
    }
    if let Some(name) = quoted(inside) {
        return Ok(Step::Field(name));
    }
    if let Some((from, to)) = inside.split_once(':') {
        let number = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| "invalid array index"),
        };
        let to = to.split(':').next().unwrap_or("");
        return Ok(Step::Slice(number(from)?, number(to)?));
    }
    inside.parse().map(Step::Index).map_err(|_| "invalid array index")
}

fn quoted(text: &str) -> Option<String> {
    ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .map(str::to_owned)
}

fn filter_step(text: &str) -> Result<Step, &'static str> {
    let operators = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    for (operator, comparison) in operators {
        if let Some((left, right)) = text.split_once(operator) {
            let left = relative_path(left)?;
            return Ok(Step::Filter(left, Some((comparison, operand(right)?))));
        }
    }
    Ok(Step::Filter(relative_path(text)?, None))
}

fn relative_path(text: &str) -> Result<Vec<Step>, &'static str> {
    parse_steps(
        text.trim()
            .strip_prefix('@')
            .ok_or("a filter must begin with @")?,
    )
}

fn operand(text: &str) -> Result<Operand, &'static str> {
    let text = text.trim();
    if text.starts_with('@') {
        return relative_path(text).map(Operand::Path);
    }
    if let Some(text) = quoted(text) {
        return Ok(Operand::Constant(text.into()));
    }
    serde_json::from_str(text)
        .map(Operand::Constant)
        .map_err(|_| "unrecognized operand in a filter")
}

fn evaluate<'v>(steps: &[Step], object: &'v Value) -> Vec<&'v Value> {
    let mut found = vec![object];
    for step in steps {
        found = found.into_iter().flat_map(|value| apply(step, value)).collect();
    }
    found
}

fn apply<'v>(step: &Step, value: &'v Value) -> Vec<&'v Value> {
    match step {
        Step::Field(name) => value
            .as_object()
            .and_then(|map| map.get(name))
            .into_iter()
            .collect(),
        Step::Index(index) => item(value, *index).into_iter().collect(),
        Step::Slice(from, to) => slice(value, *from, *to),
        Step::Wildcard => children(value),
        Step::Descend => descend(value),
        Step::Filter(path, comparison) => children(value)
            .into_iter()
            .filter(|child| matches_filter(child, path, comparison.as_ref()))
            .collect(),
    }
}

fn item(value: &Value, index: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let index = if index < 0 {
        index + i64::try_from(items.len()).ok()?
    } else {
        index
    };
    items.get(usize::try_from(index).ok()?)
}

fn slice(value: &Value, from: Option<i64>, to: Option<i64>) -> Vec<&Value> {
    let Some(items) = value.as_array() else {
        return Vec::new();
    };
    let len = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let clamp = |index: i64| (if index < 0 { index + len } else { index }).clamp(0, len);
    let (from, to) = (clamp(from.unwrap_or(0)), clamp(to.unwrap_or(len)));
    let range = usize::try_from(from).unwrap_or(0)..usize::try_from(to).unwrap_or(0);
    items
        .get(range)
        .map(|items| items.iter().collect())
        .unwrap_or_default()
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn descend(value: &Value) -> Vec<&Value> {
    let mut found = vec![value];
    let mut next = 0;
    while let Some(value) = found.get(next).copied() {
        found.extend(children(value));
        next += 1;
    }
    found
}

fn matches_filter(value: &Value, path: &[Step], comparison: Option<&(Comparison, Operand)>) -> bool {
    let left = evaluate(path, value);
    let Some((comparison, operand)) = comparison else {
        return !left.is_empty();
    };
    let right = match operand {
        Operand::Constant(constant) => Some(constant),
        Operand::Path(path) => evaluate(path, value).first().copied(),
    };
    let (Some(left), Some(right)) = (left.first(), right) else {
        return false;
    };
    let order = order(left, right);
    match comparison {
        Comparison::Equal => order == Some(std::cmp::Ordering::Equal),
        Comparison::NotEqual => order != Some(std::cmp::Ordering::Equal),
        Comparison::Less => order.is_some_and(std::cmp::Ordering::is_lt),
        Comparison::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
        Comparison::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
        Comparison::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
    }
}

fn order(left: &Value, right: &Value) -> Option<std::cmp::Ordering> {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(path: &str, object: &Value) -> Vec<Value> {
        JsonPath::parse(path)
            .unwrap()
            .find(object)
            .into_iter()
            .cloned()
            .collect()
    }

    #[test]
    fn paths_of_every_kind() {
        let object = json!({
            "a": {"b.c": 1, "d": [{"n": 1}, {"n": 2}, {"n": 3}]},
            "metadata": {"labels": {"x/y": "z"}},
        });
        assert_eq!(find(".a.b\\.c", &object), [json!(1)]);
        assert_eq!(find("{.metadata.labels['x/y']}", &object), [json!("z")]);
        assert_eq!(find(".a.d[-1].n", &object), [json!(3)]);
        assert_eq!(find(".a.d[*].n", &object), [json!(1), json!(2), json!(3)]);
        assert_eq!(find(".a.d[0:2].n", &object), [json!(1), json!(2)]);
        assert_eq!(find(".a.d[?(@.n>=2)].n", &object), [json!(2), json!(3)]);
        assert_eq!(find("..n", &object), [json!(1), json!(2), json!(3)]);
        assert_eq!(find(".missing.x[0]", &object), Vec::<Value>::new());
    }

    #[test]
    fn unterminated_brackets_are_refused() {
        assert!(JsonPath::parse(".spec[").is_err());
    }
}
