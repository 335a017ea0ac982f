//! The syntax tree of expressions after macro expansion ([`Expr`]).

use std::sync::Arc;

/// A node of an expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The id, which is unique within the expression. The checker stores types by it.
    pub id: u32,
    /// The position in the source, in characters.
    pub offset: usize,
    /// The kind of expression.
    pub kind: Kind,
}

impl Expr {
    /// Returns the dotted name of a chain of selections such as `a.b.c`.
    pub(crate) fn dotted_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select {
                operand,
                field,
                test_only: false,
            } => Some(format!("{}.{field}", operand.dotted_name()?)),
            _ => None,
        }
    }
}

/// The kind of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A constant.
    Literal(Literal),
    /// A variable or a type.
    Ident(String),
    /// `operand.field`, or `has(operand.field)`.
    Select {
        /// The operand.
        operand: Box<Expr>,
        /// The field's name.
        field: String,
        /// True for a presence test (`has`).
        test_only: bool,
    },
    /// A function or operator; methods have a target.
    Call {
        /// The name of the function; operators are written as `_+_`.
        function: String,
        /// The receiver of a method.
        target: Option<Box<Expr>>,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// `[a, ?b]`: each item, and true if it is optional.
    List(Vec<(Expr, bool)>),
    /// `{k: v, ?k: v}`: each key and value, and true if the entry is optional.
    Map(Vec<(Expr, Expr, bool)>),
    /// `Type{field: value, ?field: value}`: the type, each field and value, and true if the field is optional.
    Struct(String, Vec<(String, Expr, bool)>),
    /// A comprehension, to which a macro expands.
    Comprehension(Box<Comprehension>),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`.
    Null,
    /// `true`.
    Bool(bool),
    /// `1`.
    Int(i64),
    /// `1u`.
    Uint(u64),
    /// `1.0`.
    Double(f64),
    /// `'a'`.
    String(Arc<str>),
    /// `b'a'`.
    Bytes(Arc<[u8]>),
}

/// A fold over a list or map.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    /// The item of a list or the key of a map; the index or the key if there is a second variable.
    pub variable: String,
    /// The second variable: the item or the value.
    pub second: Option<String>,
    /// The collection that the loop iterates over.
    pub range: Expr,
    /// The accumulator.
    pub accumulator: String,
    /// The first value of the accumulator.
    pub init: Expr,
    /// The condition for another iteration.
    pub condition: Expr,
    /// The next value of the accumulator.
    pub step: Expr,
    /// The value of the comprehension.
    pub result: Expr,
}

/// An error of an expression, with its position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Issue {
    /// The position in the source, in characters; [`NOWHERE`] for the whole source.
    pub offset: usize,
    /// The error.
    pub message: String,
}

/// The offset of an issue that concerns the whole source.
pub const NOWHERE: usize = usize::MAX;
/// The maximum number of issues in a description.
const MAX_ISSUES: usize = 100;
/// The maximum length of a displayed source line.
const MAX_SNIPPET: usize = 16 << 10;

/// Formats issues as the reference implementation does: each with its source line and a marker below it.
pub fn describe(source: &str, issues: &[Issue]) -> String {
    let mut sorted: Vec<&Issue> = issues.iter().collect();
    sorted.sort_by_key(|issue| issue.offset);
    let lines: Vec<&str> = source.split('\n').collect();
    let mut described: Vec<String> = sorted
        .iter()
        .take(MAX_ISSUES)
        .map(|issue| describe_one(&lines, issue))
        .collect();
    if sorted.len() > MAX_ISSUES {
        described.push(format!(
            "{} more errors were truncated",
            sorted.len() - MAX_ISSUES
        ));
    }
    described.join("\n")
}

fn describe_one(lines: &[&str], issue: &Issue) -> String {
    if issue.offset == NOWHERE {
        return format!("ERROR: <input>:-1:0: {}", issue.message);
    }
    if lines == [""] {
        // The grammar has no position for the end of an empty text.
        return format!("ERROR: <input>:1:0: {}", issue.message);
    }
    let (mut line, mut column) = (0, issue.offset);
    for text in lines {
        let len = text.chars().count();
        if column <= len || line + 1 == lines.len() {
            break;
        }
        column -= len + 1;
        line += 1;
    }
    let head = format!("ERROR: <input>:{}:{}: {}", line + 1, column + 1, issue.message);
    let text = lines.get(line).copied().unwrap_or("");
    if text.len() >= MAX_SNIPPET {
        return head;
    }
    let text = text.replace('\t', " ");
    let wide = |c: char| !c.is_ascii();
    let mut mark: String = text
        .chars()
        .take(column)
        .map(|c| if wide(c) { '．' } else { '.' })
        .collect();
    mark.push(if text.chars().nth(column).is_some_and(wide) {
        '＾'
    } else {
        '^'
    });
    format!("{head}\n | {text}\n | {mark}")
}

/// Returns the direct subexpressions of an expression.
pub(crate) fn children(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        Kind::Literal(_) | Kind::Ident(_) => Vec::new(),
        Kind::Select { operand, .. } => vec![operand],
        Kind::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
        Kind::List(items) => items.iter().map(|(item, _)| item).collect(),
        Kind::Map(entries) => entries.iter().flat_map(|(key, value, _)| [key, value]).collect(),
        Kind::Struct(_, fields) => fields.iter().map(|(_, value, _)| value).collect(),
        Kind::Comprehension(fold) => {
            vec![&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result]
        }
    }
}

/// Returns true if the expression mentions a variable of this name.
pub fn mentions(expr: &Expr, name: &str) -> bool {
    matches!(&expr.kind, Kind::Ident(found) if found == name)
        || children(expr).into_iter().any(|child| mentions(child, name))
}
