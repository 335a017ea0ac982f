//! Parses the text format of [`Types`]. The text is part of this crate and tested, so invalid lines are skipped.

use std::sync::OnceLock;

use super::{Field, FieldKind, ListType, MapType, Type, TypeId, Types};

/// Parses the packages and the types of the table; the parent module describes the grammar. The types are ordered by
/// name, like the lines.
pub(super) fn table(text: &'static str) -> Types {
    let mut table = Types::default();
    let mut package = ("", "");
    // The positions of the first field of the last type, and of the current line.
    let (mut fields, mut at) = (0, 0);
    for line in text.split_inclusive('\n').chain([""]) {
        if !line.starts_with(' ') {
            if let Some(last) = table.types.last_mut().filter(|last| last.lines.is_empty()) {
                last.lines = text.get(fields..at).unwrap_or_default();
            }
            fields = at + line.len();
            let line = line.trim_end();
            if let Some(rest) = line.strip_prefix("type ") {
                table.types.push(type_line(rest, package));
            } else if let Some(found) = line
                .strip_prefix("package ")
                .and_then(|rest| rest.split_once(' '))
            {
                package = found;
                table.packages.insert(package.0, package.1);
            }
        }
        at += line.len();
    }
    for (id, entry) in (0..).map(TypeId).zip(&table.types) {
        table.by_kind.extend(entry.kinds.iter().map(|kind| (*kind, id)));
    }
    table
}

/// Parses the fields of a type.
pub(super) fn fields(of: &Type, table: &Types) -> Vec<Field> {
    let lines = of.lines.lines().filter_map(|line| line.strip_prefix(' '));
    lines.filter_map(|line| field(line, of, table)).collect()
}

/// Returns the kind of a reference to a type, such as `.Name` or `ALIAS.Name`.
fn reference(text: &str, of: &Type, table: &Types) -> Option<FieldKind> {
    let (alias, name) = text.rsplit_once('.')?;
    let alias = if alias.is_empty() { of.package } else { alias };
    let id = table.id(&format!("{}.{name}", table.packages.get(alias)?))?;
    let special = table.get(id).and_then(|found| found.special.clone());
    Some(special.unwrap_or(FieldKind::Ref(id)))
}

fn special(name: &str) -> Option<FieldKind> {
    Some(match name {
        "quantity" => FieldKind::Quantity,
        "int-or-string" => FieldKind::IntOrString,
        "time" => FieldKind::Time,
        "micro-time" => FieldKind::MicroTime,
        "object" => FieldKind::Object,
        "raw" => FieldKind::Raw,
        "any" => FieldKind::Any,
        _ => return None,
    })
}

fn type_line(line: &'static str, package: (&'static str, &str)) -> Type {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let mut entry = Type {
        name: format!("{}.{name}", package.1),
        kinds: Vec::new(),
        special: None,
        atomic: false,
        required: Vec::new(),
        package: package.0,
        lines: "",
        fields: OnceLock::new(),
    };
    for word in words {
        match word.split_once('=') {
            Some(("gvk", value)) => entry.kinds.extend(kind_name(value)),
            Some(("is", value)) => entry.special = special(value),
            Some(("required", value)) => entry.required = value.split(',').collect(),
            _ => entry.atomic |= word == "atomic",
        }
    }
    entry
}

fn kind_name(text: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    let mut parts = text.split('/');
    Some((parts.next()?, parts.next()?, parts.next()?))
}

fn field(line: &'static str, of: &Type, table: &Types) -> Option<Field> {
    let (line, values) = line.split_once(" |").map_or((line, Vec::new()), split_values);
    let mut words = line.split(' ');
    let (name, kind_text) = (words.next()?, words.next()?);
    let mut field = Field {
        name,
        kind: kind(kind_text, of, table)?,
        required: of.required.contains(&name),
        default: None,
        values,
        list_type: None,
        list_map_keys: Vec::new(),
        map_type: None,
        patch_strategy: None,
        patch_merge_key: None,
    };
    words.for_each(|word| mark(&mut field, word));
    Some(field)
}

fn split_values((line, values): (&'static str, &'static str)) -> (&'static str, Vec<&'static str>) {
    (line, values.split('|').collect())
}

fn kind(text: &str, of: &Type, table: &Types) -> Option<FieldKind> {
    if let Some(items) = text.strip_prefix('[') {
        let items = kind(items.strip_suffix(']')?, of, table)?;
        return Some(FieldKind::List(Box::new(items)));
    }
    if let Some(items) = text.strip_prefix('{') {
        let items = kind(items.strip_suffix('}')?, of, table)?;
        return Some(FieldKind::Map(Box::new(items)));
    }
    Some(match text {
        "string" => FieldKind::String,
        "bytes" => FieldKind::Bytes,
        "boolean" => FieldKind::Boolean,
        "int32" => FieldKind::Int32,
        "int64" => FieldKind::Int64,
        "number" => FieldKind::Number,
        reference => self::reference(reference, of, table)?,
    })
}

fn mark(field: &mut Field, word: &'static str) {
    let is_list = matches!(field.kind, FieldKind::List(_));
    match word.split_once('=').unwrap_or((word, "")) {
        ("default", json) => field.default = serde_json::from_str(json).ok(),
        ("map", keys) => {
            field.list_type = Some(ListType::Map);
            field.list_map_keys = keys.split(',').collect();
        }
        ("set", _) => field.list_type = Some(ListType::Set),
        ("atomic", _) if is_list => field.list_type = Some(ListType::Atomic),
        ("atomic", _) => field.map_type = Some(MapType::Atomic),
        ("granular", _) => field.map_type = Some(MapType::Granular),
        ("patch", strategy) => field.patch_strategy = Some(strategy),
        ("key", key) => field.patch_merge_key = Some(key),
        _ => {}
    }
}
