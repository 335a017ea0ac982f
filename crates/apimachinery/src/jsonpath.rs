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
    /// `[from:to]`, `[index]` or `[*]`: items of a list.
    Slice(Option<i64>, Option<i64>),
    /// `.*`: all values of an object or a list.
    Wildcard,
    /// `..`: the value and all values below it that have values.
    Descend,
    /// `[a,b]`: the values of each step.
    Union(Vec<Step>),
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
        let steps = parse_steps(inner, 0).map_err(|reason| InvalidPath {
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

    /// Returns all values at the path, in the object's order; empty if a field is missing, an index or a filter is used on
    /// something else than a list, an index is out of bounds, or the path visits more than 100,000 values.
    pub fn find<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        let mut left = VISITS_MAX;
        self.find_within(object, &mut left)
    }

    /// Returns the first value at the path.
    pub fn first<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        self.find(object).first().copied()
    }

    /// Like [`JsonPath::first`], and subtracts the visited values, at least one, from `visits`. Returns `None` if fewer
    /// are left than the path needs.
    pub fn first_within<'v>(&self, object: &'v Value, visits: &mut usize) -> Option<&'v Value> {
        let given = VISITS_MAX.min(*visits);
        let mut left = given;
        let found = self.find_within(object, &mut left);
        *visits = visits.saturating_sub((given - left).max(1));
        found.first().copied()
    }

    fn find_within<'v>(&self, object: &'v Value, left: &mut usize) -> Vec<&'v Value> {
        let mut walk = Walk { left: *left };
        let found = walk.evaluate(&self.steps, object);
        *left = walk.left;
        found.unwrap_or_default()
    }
}

fn parse_steps(text: &str, depth: usize) -> Result<Vec<Step>, &'static str> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        match c {
            '.' if rest.starts_with("..") => {
                if steps.last() == Some(&Step::Descend) {
                    return Err("invalid multiple recursive descent");
                }
                steps.push(Step::Descend);
                rest = rest.get(2..).unwrap_or("");
                if rest.starts_with('*') {
                    return Err("unrecognized character in action: U+002A '*'");
                }
            }
            '.' => {
                let (name, tail) = field_name(rest.get(1..).unwrap_or(""));
                steps.push(match name.as_str() {
                    "*" => Step::Wildcard,
                    _ => Step::Field(name),
                });
                rest = tail;
            }
            '[' => {
                let (inside, tail) = bracket(rest)?;
                steps.push(bracket_step(inside, depth)?);
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

fn bracket_step(inside: &str, depth: usize) -> Result<Step, &'static str> {
    let inside = inside.trim();
    if let Some(filter) = inside.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        return filter_step(filter, depth + 1);
    }
    if inside.contains(',') {
        return inside
            .split(',')
            .map(item_step)
            .collect::<Result<_, _>>()
            .map(Step::Union);
    }
    item_step(inside)
}

/// Parses the text between brackets if it is not a filter or a union.
fn item_step(text: &str) -> Result<Step, &'static str> {
    let text = text.trim();
    if text == "*" {
        return Ok(Step::Slice(None, None));
    }
    if let Some(name) = quoted(text) {
        return Ok(Step::Field(name));
    }
    let number = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| "invalid array index"),
    };
    if let Some((from, to)) = text.split_once(':') {
        let to = to.split(':').next().unwrap_or("");
        return Ok(Step::Slice(number(from)?, number(to)?));
    }
    let index: i64 = text.parse().map_err(|_| "invalid array index")?;
    // The item after the last one is the end of the list.
    let after = index.checked_add(1).filter(|after| *after != 0);
    Ok(Step::Slice(Some(index), after))
}

fn quoted(text: &str) -> Option<String> {
    ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .map(str::to_owned)
}

fn filter_step(text: &str, depth: usize) -> Result<Step, &'static str> {
    if depth > FILTERS_MAX {
        return Err("filters are nested too deeply");
    }
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
            let left = relative_path(left, depth)?;
            return Ok(Step::Filter(left, Some((comparison, operand(right, depth)?))));
        }
    }
    Ok(Step::Filter(relative_path(text, depth)?, None))
}

fn relative_path(text: &str, depth: usize) -> Result<Vec<Step>, &'static str> {
    parse_steps(
        text.trim()
            .strip_prefix('@')
            .ok_or("a filter must begin with @")?,
        depth,
    )
}

fn operand(text: &str, depth: usize) -> Result<Operand, &'static str> {
    let text = text.trim();
    if text.starts_with('@') {
        return relative_path(text, depth).map(Operand::Path);
    }
    if let Some(text) = quoted(text) {
        return Ok(Operand::Constant(text.into()));
    }
    serde_json::from_str(text)
        .map(Operand::Constant)
        .map_err(|_| "unrecognized operand in a filter")
}

/// The maximum number of values that the evaluation of a path visits. Each `..` can multiply them.
const VISITS_MAX: usize = 100_000;
/// The maximum nesting of filters.
const FILTERS_MAX: usize = 8;

/// An evaluation with the number of values that it may still visit. `None` is the result if the path does not fit the object.
struct Walk {
    left: usize,
}

impl Walk {
    fn evaluate<'v>(&mut self, steps: &[Step], object: &'v Value) -> Option<Vec<&'v Value>> {
        let mut found = vec![object];
        for step in steps {
            found = self.apply(step, &found)?;
        }
        Some(found)
    }

    fn apply<'v>(&mut self, step: &Step, values: &[&'v Value]) -> Option<Vec<&'v Value>> {
        let mut found = Vec::new();
        if let Step::Union(steps) = step {
            for step in steps {
                found.extend(self.apply(step, values)?);
            }
            return Some(found);
        }
        for value in values.iter().copied().filter(|value| !value.is_null()) {
            self.visit(1)?;
            match step {
                Step::Field(name) => found.extend(value.as_object().and_then(|map| map.get(name))),
                Step::Slice(from, to) => match slice(value.as_array()?, *from, *to)? {
                    // The API server stops at the first empty slice.
                    [] => break,
                    items => {
                        self.visit(items.len())?;
                        found.extend(items);
                    }
                },
                Step::Wildcard => {
                    self.visit(children(value).count())?;
                    found.extend(children(value));
                }
                Step::Descend => self.descend(value, &mut found)?,
                Step::Filter(path, comparison) => {
                    for item in value.as_array()? {
                        if self.matches_filter(item, path, comparison.as_ref())? {
                            found.push(item);
                        }
                    }
                }
                Step::Union(_) => {}
            }
        }
        Some(found)
    }

    fn visit(&mut self, count: usize) -> Option<()> {
        let left = self.left.checked_sub(count);
        self.left = left.unwrap_or(0);
        left.map(|_| ())
    }

    fn descend<'v>(&mut self, value: &'v Value, found: &mut Vec<&'v Value>) -> Option<()> {
        let mut next = vec![value];
        while let Some(value) = next.pop() {
            self.visit(1)?;
            let below = next.len();
            next.extend(children(value));
            if next.len() > below {
                found.push(value);
                next.get_mut(below..)?.reverse();
            }
        }
        Some(())
    }

    fn matches_filter(
        &mut self,
        value: &Value,
        path: &[Step],
        comparison: Option<&(Comparison, Operand)>,
    ) -> Option<bool> {
        self.visit(1)?;
        let left = self.evaluate(path, value)?;
        let Some((comparison, operand)) = comparison else {
            return Some(!left.is_empty());
        };
        let right = match operand {
            Operand::Constant(constant) => Some(constant),
            Operand::Path(path) => self.evaluate(path, value)?.first().copied(),
        };
        let (Some(left), Some(right)) = (left.first(), right) else {
            return Some(false);
        };
        let order = order(left, right);
        Some(match comparison {
            Comparison::Equal => order == Some(std::cmp::Ordering::Equal),
            Comparison::NotEqual => order != Some(std::cmp::Ordering::Equal),
            Comparison::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Comparison::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Comparison::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            Comparison::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        })
    }
}

/// Returns the items of a slice; `None` if it is out of bounds.
fn slice(items: &[Value], from: Option<i64>, to: Option<i64>) -> Option<&[Value]> {
    let len = i64::try_from(items.len()).ok()?;
    let from_end = |index: i64| if index < 0 { index + len } else { index };
    let (from, to) = (from_end(from.unwrap_or(0)), from_end(to.unwrap_or(len)));
    if from == to {
        return Some(&[]);
    }
    items
        .get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
        .filter(|items| !items.is_empty())
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let (items, fields) = match value {
        Value::Array(items) => (Some(items.iter()), None),
        Value::Object(map) => (None, Some(map.values())),
        _ => (None, None),
    };
    items.into_iter().flatten().chain(fields.into_iter().flatten())
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
    fn malformed_paths_are_refused() {
        let nested = |depth: usize| format!(".a{}{}", "[?(@".repeat(depth), ")]".repeat(depth));
        assert!(JsonPath::parse(&nested(8)).is_ok());
        for path in [
            ".spec[",
            "....",
            ".a....b",
            "..*",
            ".a[x]",
            &nested(9),
            &nested(100_000),
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path:.20}");
        }
    }

    #[test]
    fn a_path_is_evaluated_as_by_the_api_server() {
        let object = json!({
            "b": 1, "a": {"c": {"b": 2, "x": "ax"}, "b": 3, "y": "ay"},
            "l": [{"n": "one", "d": {"b": 3}}, {"n": "two", "b": 2}], "zz": null,
        });
        for (path, expected) in [
            ("..", Some(object.clone())),
            (".a..b", Some(json!(3))),
            (".a...b", Some(json!(3))),
            ("..b", Some(json!(1))),
            ("..b..b", None),
            ("..b..", None),
            ("..a..", Some(object["a"].clone())),
            ("..[*]", None),
            ("..[0]", None),
            ("..[?(@.b==2)].b", None),
            ("..l[1:]..b", Some(json!(2))),
            (".l..b", Some(json!(3))),
            (".l[*]..", Some(object["l"][0].clone())),
            (".l[?(@..b==3)].n", Some(json!("one"))),
            ("..['b','n']", Some(json!(1))),
            (".a['x','y']", Some(json!("ay"))),
            (".l[0,1].n", Some(json!("one"))),
            (".l[-1].n", Some(json!("two"))),
            (".l[2].n", None),
            (".l[1:3].n", None),
            (".", None),
            (".a.", None),
        ] {
            assert_eq!(
                JsonPath::parse(path).unwrap().first(&object),
                expected.as_ref(),
                "{path}"
            );
        }
    }

    #[test]
    fn the_work_of_an_evaluation_is_limited() {
        let nested = (0..200).fold(json!({}), |inner, _| json!([inner, {}]));
        assert!(find(&format!("..{}", "[*]..".repeat(300)), &nested).is_empty());
        let path = format!(".a{}", "...*".repeat(300));
        assert!(find(&path, &json!({"a": nested})).is_empty());
        let long = json!({"l": vec![0; 1000]});
        assert_eq!(find(".l[*]", &long).len(), 1000);
        assert!(find(&format!(".l[{}*]", "*,".repeat(1000)), &long).is_empty());
    }
}
