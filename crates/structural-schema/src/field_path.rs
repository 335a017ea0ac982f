//! Resolves the `fieldPath` of rules and the `jsonPath` of selectable fields in a schema.

use apimachinery::field::Path;

use crate::node::Node;

/// Resolves a field path (`.spec.x`, `['a.b']`) in a schema; returns the path as the server formats it, and the schema
/// at the path.
///
/// An index is rejected, because list items have no stable position.
pub(crate) fn resolve<'n>(text: &str, schema: &'n Node) -> Result<(Path, &'n Node), String> {
    let mut rest = text;
    let mut path = Path::default();
    let mut node = schema;
    while !rest.is_empty() {
        let (name, tail) = next_segment(rest)?;
        rest = tail;
        if node.kind == "array" || name.starts_with('\u{0}') {
            return Err("array notation is not allowed".to_owned());
        }
        let (child, is_property) = match node.properties.get(&name) {
            Some(child) => (child, true),
            None => match node.additional_schema() {
                Some(child) => (child, false),
                None => return Err("does not refer to a valid field".to_owned()),
            },
        };
        path = if is_property {
            path.child(&name)
        } else {
            path.key(&name)
        };
        node = child;
    }
    Ok((path, node))
}

/// Returns the next name of a field path, and the rest. An index is returned with a leading NUL.
fn next_segment(text: &str) -> Result<(String, &str), String> {
    if let Some(after) = text.strip_prefix('.') {
        let end = after.find(['.', '[']).unwrap_or(after.len());
        let (name, tail) = after.split_at(end);
        if name.is_empty() {
            return Err("unexpected end of JSON path".to_owned());
        }
        return Ok((name.to_owned(), tail));
    }
    let Some(after) = text.strip_prefix('[') else {
        let end = text.find(['.', '[']).unwrap_or(text.len());
        let got = text.get(..end).unwrap_or(text);
        return Err(format!("expected [ or . but got: {got}"));
    };
    if let Some(quoted) = after.strip_prefix('\'') {
        let mut name = String::new();
        let mut chars = quoted.char_indices();
        while let Some((index, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                '\'' => {
                    let tail = quoted.get(index + 1..).unwrap_or("");
                    let tail = tail.strip_prefix(']').ok_or("expected ] but got none")?;
                    return Ok((name, tail));
                }
                _ => name.push(c),
            }
        }
        return Err("unexpected end of JSON path".to_owned());
    }
    let Some(end) = after.find(']') else {
        return Err("unexpected end of JSON path".to_owned());
    };
    let (index, tail) = after.split_at(end);
    Ok((format!("\u{0}{index}"), tail.get(1..).unwrap_or("")))
}
