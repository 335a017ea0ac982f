//! The `storage` argument of the `kube` attribute of a type.

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Item, Lit, Meta, Token};

use super::{RustEditError, indent_at, insert, line_end};
use crate::source::syntax;

/// The arguments that identify a version of a kind. `storage` is inserted after them.
const NAMES: [&str; 4] = ["group", "version", "kind", "plural"];

/// Makes the version in this file the storage version of a kind, or not, by removing or adding `storage = false`. A
/// file without the type is not changed.
pub(crate) fn set_storage(source: &str, kind: &str, stored: bool) -> Result<String, RustEditError> {
    let file = syntax::parse(source)?;
    let attributes = file.items.iter().filter_map(|item| match item {
        Item::Struct(item) => Some(&item.attrs),
        _ => None,
    });
    let arguments = attributes.flatten().filter_map(arguments_of);
    let Some(arguments) = { arguments }.find(|arguments| text_of(arguments, "kind").as_deref() == Some(kind))
    else {
        return Ok(source.to_owned());
    };
    let named = |argument: &&Meta| argument.path().is_ident("storage");
    Ok(match (arguments.iter().find(named), stored) {
        (Some(there), true) => without_argument(source, there),
        (Some(there), false) => {
            let mut edited = source.to_owned();
            edited.replace_range(there.span().byte_range(), "storage = false");
            edited
        }
        (None, true) => source.to_owned(),
        (None, false) => {
            let names = |argument: &&Meta| NAMES.iter().any(|name| argument.path().is_ident(name));
            match arguments.iter().rfind(names) {
                Some(before) => with_argument(source, before),
                None => source.to_owned(),
            }
        }
    })
}

fn arguments_of(attribute: &Attribute) -> Option<Punctuated<Meta, Token![,]>> {
    let is_kube = attribute.path().is_ident("kube");
    let parse = || attribute.parse_args_with(Punctuated::parse_terminated).ok();
    is_kube.then(parse).flatten()
}

fn text_of(arguments: &Punctuated<Meta, Token![,]>, name: &str) -> Option<String> {
    arguments.iter().find_map(|argument| match argument {
        Meta::NameValue(pair) if pair.path.is_ident(name) => match &pair.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text), ..
            }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Inserts after an argument, on a new line if that argument is on its own line.
fn with_argument(source: &str, before: &Meta) -> String {
    let range = before.span().byte_range();
    let end = line_end(source, range.end);
    let rest = source.get(range.end..end).unwrap_or_default();
    if rest.trim_end() == "," {
        let indent = indent_at(source, range.start);
        return insert(source, end, &format!("{indent}storage = false,\n"));
    }
    insert(source, range.end, ", storage = false")
}

/// Removes an argument with its comma, and its line if it is then empty.
fn without_argument(source: &str, argument: &Meta) -> String {
    let range = argument.span().byte_range();
    let before = source.get(..range.start).unwrap_or_default();
    let after = source.get(range.end..).unwrap_or_default();
    let (before, after) = match after.trim_start().strip_prefix(',') {
        Some(rest) => (before, rest),
        None => (before.trim_end().trim_end_matches(','), after),
    };
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    let alone = before.get(line..).is_some_and(|text| text.trim().is_empty());
    match (alone, after.split_once('\n')) {
        (true, Some((rest, below))) if rest.trim().is_empty() => {
            format!("{}{below}", before.get(..line).unwrap_or_default())
        }
        _ => format!("{before}{}", after.trim_start_matches(' ')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "#[kube(\n    group = \"a\",\n    kind = \"K\",\n    plural = \"ks\",\n    namespaced\n)]\nstruct S;\n";
    const LINE: &str = "#[kube(group = \"a\", kind = \"K\", namespaced)]\nstruct S;\n";

    #[test]
    fn storage_comes_and_goes() {
        for source in [LINES, LINE] {
            let without = set_storage(source, "K", false).unwrap();
            assert_eq!(without.matches("storage = false").count(), 1, "{without}");
            assert_eq!(set_storage(&without, "K", false).unwrap(), without);
            assert_eq!(set_storage(&without, "K", true).unwrap(), source);
            assert_eq!(set_storage(source, "K", true).unwrap(), source);
            assert_eq!(set_storage(source, "Other", false).unwrap(), source);
        }
    }

    #[test]
    fn last_argument_goes_with_the_comma_before_it() {
        let last = "#[kube(kind = \"K\", storage = true)]\nstruct S;\n";
        assert_eq!(
            set_storage(last, "K", false).unwrap(),
            last.replace("true", "false")
        );
        assert_eq!(
            set_storage(last, "K", true).unwrap(),
            "#[kube(kind = \"K\")]\nstruct S;\n"
        );
    }
}
