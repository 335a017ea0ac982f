//! Insertions into Rust source. The location comes from the syntax tree; the text is changed only there.
//!
//! There are no marker comments. A location is described by its syntax (the modules of a file, the end of a function),
//! so users may reorder and reformat. Every function is idempotent: it returns the text unchanged if the code exists.

mod kube_attribute;

use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Expr, File, Item, ItemFn, Stmt};

use crate::source::syntax;

pub(crate) use kube_attribute::set_storage;

/// The reason why the source was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RustEditError {
    #[error("it is not valid Rust: {0}")]
    Syntax(#[from] syn::Error),
    #[error("it has no function `{0}`")]
    NoFunction(String),
    #[error("its function `{0}` does not end in an expression")]
    NoTail(String),
}

/// Adds `pub mod name;` to the modules of the file, in the order of rustfmt.
pub(crate) fn add_module(source: &str, name: &str) -> Result<String, RustEditError> {
    let file = syntax::parse(source)?;
    let modules: Vec<(String, &Item)> = file
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Mod(module) => Some((module.ident.to_string(), item)),
            _ => None,
        })
        .collect();
    if modules.iter().any(|(there, _)| there == name) {
        return Ok(source.to_owned());
    }
    let line = format!("pub mod {name};\n");
    Ok(insert_sorted(source, &modules, name, &line).unwrap_or_else(|| insert_first(source, &file, &line)))
}

/// Adds `pub use module::{…};` to the uses of the file, or after its modules.
pub(crate) fn add_reexport(source: &str, module: &str, names: &[String]) -> Result<String, RustEditError> {
    let file = syntax::parse(source)?;
    let uses: Vec<(String, &Item)> = file
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Use(used) => Some((first_segment(&used.tree), item)),
            _ => None,
        })
        .collect();
    if uses.iter().any(|(there, _)| there == module) {
        return Ok(source.to_owned());
    }
    let line = use_line("pub use", module, names);
    if let Some(edited) = insert_sorted(source, &uses, module, &line) {
        return Ok(edited);
    }
    let modules = file.items.iter().rfind(|item| matches!(item, Item::Mod(_)));
    Ok(match modules {
        Some(last) => insert(source, line_end(source, end_of(last)), &format!("\n{line}")),
        None => insert_first(source, &file, &line),
    })
}

fn first_segment(tree: &syn::UseTree) -> String {
    match tree {
        syn::UseTree::Path(path) => path.ident.to_string(),
        syn::UseTree::Name(name) => name.ident.to_string(),
        _ => String::new(),
    }
}

/// Inserts after the last item with a smaller name, or before the first item. Returns `None` if there are no items.
fn insert_sorted(source: &str, items: &[(String, &Item)], name: &str, line: &str) -> Option<String> {
    let smaller = |(there, _): &&(String, &Item)| version_key(there) < version_key(name);
    if let Some((_, before)) = items.iter().rfind(smaller) {
        return Some(insert(source, line_end(source, end_of(before)), line));
    }
    let (_, first) = items.first()?;
    Some(insert(source, first.span().byte_range().start, line))
}

/// Returns a sort key for the order of rustfmt: digits are compared as numbers, so that `v2` comes before `v10`.
fn version_key(name: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let (text, tail) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
        let (digits, tail) = tail.split_at(tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len()));
        key.push((text.to_owned(), digits.parse().unwrap_or(0)));
        rest = tail;
    }
    key
}

/// Adds method calls to the end of the chain at the end of a function.
pub(crate) fn add_calls(source: &str, function: &str, calls: &[String]) -> Result<String, RustEditError> {
    let mut text = source.to_owned();
    for call in calls {
        let file = syntax::parse(&text)?;
        let tail = tail_of(&find(&file, function)?.block, function)?;
        let wanted: Expr = syn::parse_str(&format!("it.{call}"))?;
        if has_call(tail, &wanted) {
            continue;
        }
        let range = tail.span().byte_range();
        let indent = indent_at(&text, range.start);
        text = insert(&text, range.end, &format!("\n{indent}    .{call}"));
    }
    if text == source {
        return Ok(text);
    }
    laid_out(text, function)
}

/// Formats the chain at the end of a function like rustfmt: on one line, or with one line per call. A chain with
/// comments is not changed.
fn laid_out(source: String, function: &str) -> Result<String, RustEditError> {
    let file = syntax::parse(&source)?;
    let tail = tail_of(&find(&file, function)?.block, function)?;
    let range = tail.span().byte_range();
    let text = source.get(range.clone()).unwrap_or_default();
    if text.contains("//") || text.contains("/*") || !matches!(tail, Expr::MethodCall(_)) {
        return Ok(source);
    }
    let mut links = Vec::new();
    let mut rest = tail;
    while let Expr::MethodCall(call) = rest {
        let start = call.receiver.span().byte_range().end;
        let link = source
            .get(start..call.span().byte_range().end)
            .unwrap_or_default();
        links.push(link.trim_start());
        rest = &call.receiver;
    }
    let root = source.get(rest.span().byte_range()).unwrap_or_default();
    links.reverse();
    let indent = indent_at(&source, range.start);
    let width = match links.len() {
        1 => MAX_WIDTH.saturating_sub(indent.len()),
        _ => CHAIN_WIDTH,
    };
    let line = format!("{root}{}", links.concat());
    let chain = if line.len() <= width && !line.contains('\n') {
        line
    } else {
        let links = links.iter().map(|link| format!("\n{indent}    {link}"));
        format!("{root}{}", links.collect::<String>())
    };
    let mut laid = source.clone();
    laid.replace_range(range, &chain);
    Ok(laid)
}

/// rustfmt's maximum widths: of a line, and of a chain with several calls on one line.
pub(crate) const MAX_WIDTH: usize = 100;
const CHAIN_WIDTH: usize = 60;

/// Removes `mod name;`, with the comments and attributes of the item.
pub(crate) fn remove_module(source: &str, name: &str) -> Result<String, RustEditError> {
    remove_item(
        source,
        |item| matches!(item, Item::Mod(module) if module.ident == name),
    )
}

/// Removes `use module::…;`.
pub(crate) fn remove_reexport(source: &str, module: &str) -> Result<String, RustEditError> {
    remove_item(
        source,
        |item| matches!(item, Item::Use(used) if first_segment(&used.tree) == module),
    )
}

fn remove_item(source: &str, wanted: impl Fn(&Item) -> bool) -> Result<String, RustEditError> {
    let file = syntax::parse(source)?;
    let found = file.items.iter().find(|item| wanted(item));
    Ok(found.map_or_else(
        || source.to_owned(),
        |item| without_lines(source, item.span().byte_range()),
    ))
}

/// Returns true if a file contains only comments and attributes. Invalid source is not empty.
pub(crate) fn has_no_items(source: &str) -> bool {
    syntax::parse(source).is_ok_and(|file| file.items.is_empty())
}

/// Removes method calls from the chain at the end of a function.
pub(crate) fn remove_calls(source: &str, function: &str, calls: &[String]) -> Result<String, RustEditError> {
    let mut text = source.to_owned();
    for call in calls {
        let file = syntax::parse(&text)?;
        let tail = tail_of(&find(&file, function)?.block, function)?;
        let wanted: Expr = syn::parse_str(&format!("it.{call}"))?;
        if let Some(range) = range_of_call(tail, &|there| is_call(there, &wanted)) {
            text.replace_range(range, "");
        }
    }
    if text == source {
        return Ok(text);
    }
    laid_out(text, function)
}

/// Removes every call of a method, with any arguments, from the chain at the end of a function.
pub(crate) fn remove_method(source: &str, function: &str, method: &str) -> Result<String, RustEditError> {
    let file = syntax::parse(source)?;
    let tail = tail_of(&find(&file, function)?.block, function)?;
    let Some(range) = range_of_call(tail, &|there| there.method == method) else {
        return Ok(source.to_owned());
    };
    let mut text = source.to_owned();
    text.replace_range(range, "");
    laid_out(text, function)
}

/// Returns true if a file contains the last of these functions.
pub(crate) fn has_last_function(source: &str, functions: &str) -> bool {
    let name = syntax::parse(functions).ok().and_then(|file| {
        file.items.iter().rev().find_map(|item| match item {
            Item::Fn(function) => Some(function.sig.ident.to_string()),
            _ => None,
        })
    });
    name.is_some_and(|name| syntax::parse(source).is_ok_and(|file| find(&file, &name).is_ok()))
}

/// Adds names to `use path::{…};`, which is created if it does not exist.
pub(crate) fn add_imports(source: &str, path: &str, names: &[&str]) -> Result<String, RustEditError> {
    let file = syntax::parse(source)?;
    let found = file.items.iter().find_map(|item| match item {
        Item::Use(used) => imported(&used.tree, path).map(|there| (item, there)),
        _ => None,
    });
    let mut all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let Some((item, there)) = found else {
        return Ok(insert_use(
            source,
            &file,
            path,
            &use_line("use", path, &sorted(all)),
        ));
    };
    if all.iter().all(|name| there.contains(name)) || there.iter().any(|name| name == "*") {
        return Ok(source.to_owned());
    }
    all.extend(there);
    let mut edited = source.to_owned();
    let line = use_line("use", path, &sorted(all));
    edited.replace_range(item.span().byte_range(), line.trim_end());
    Ok(edited)
}

/// Inserts after the use of the same crate that precedes it alphabetically, or in a new group.
fn insert_use(source: &str, file: &File, path: &str, line: &str) -> String {
    let text_of = |item: &Item| match item {
        Item::Use(used) => Some(used.tree.to_token_stream().to_string().replace(' ', "")),
        _ => None,
    };
    let root = path.split("::").next().unwrap_or(path);
    let uses: Vec<(String, &Item)> = file
        .items
        .iter()
        .filter_map(|item| Some((text_of(item)?, item)))
        .collect();
    let near = |(there, _): &&(String, &Item)| there.split("::").next() == Some(root);
    let before = uses.iter().filter(near).rfind(|(there, _)| there.as_str() < path);
    if let Some((_, before)) = before {
        return insert(source, line_end(source, end_of(before)), line);
    }
    if let Some((_, after)) = uses.iter().find(near) {
        return insert(source, after.span().byte_range().start, line);
    }
    match uses.last() {
        Some((_, last)) => insert(source, line_end(source, end_of(last)), &format!("\n{line}")),
        None => insert_first(source, file, line),
    }
}

/// Removes names from `use path::{…};`. The item is removed with its last name.
pub(crate) fn remove_imports(source: &str, path: &str, names: &[&str]) -> Result<String, RustEditError> {
    let file = syntax::parse(source)?;
    let found = file.items.iter().find_map(|item| match item {
        Item::Use(used) => imported(&used.tree, path).map(|there| (item, there)),
        _ => None,
    });
    let Some((item, mut there)) = found else {
        return Ok(source.to_owned());
    };
    there.retain(|name| !names.contains(&name.as_str()));
    let range = item.span().byte_range();
    if there.is_empty() {
        return Ok(without_lines(source, range));
    }
    let mut edited = source.to_owned();
    edited.replace_range(range, use_line("use", path, &sorted(there)).trim_end());
    Ok(edited)
}

/// Removes the functions whose names end with the suffix, with their attributes.
pub(crate) fn remove_functions(source: &str, suffix: &str) -> Result<String, RustEditError> {
    let mut text = source.to_owned();
    loop {
        let next = remove_item(
            &text,
            |item| matches!(item, Item::Fn(function) if function.sig.ident.to_string().ends_with(suffix)),
        )?;
        if next == text {
            return Ok(text);
        }
        text = next;
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

/// Returns the names that a tree imports from a path, if it imports only plain names from this path.
fn imported(tree: &syn::UseTree, path: &str) -> Option<Vec<String>> {
    let Some((head, rest)) = path.split_once("::").or((!path.is_empty()).then_some((path, ""))) else {
        return match tree {
            syn::UseTree::Name(name) => Some(vec![name.ident.to_string()]),
            syn::UseTree::Glob(_) => Some(vec!["*".to_owned()]),
            syn::UseTree::Group(group) => group
                .items
                .iter()
                .map(|item| match item {
                    syn::UseTree::Name(name) => Some(name.ident.to_string()),
                    _ => None,
                })
                .collect(),
            _ => None,
        };
    };
    match tree {
        syn::UseTree::Path(step) if step.ident == head => imported(&step.tree, rest),
        _ => None,
    }
}

/// Returns `use path::{…};` on one line, or wrapped like rustfmt. `start` may be `pub use`.
pub(crate) fn use_line(start: &str, path: &str, names: &[String]) -> String {
    if let [one] = names {
        return format!("{start} {path}::{one};\n");
    }
    let line = format!("{start} {path}::{{{}}};", names.join(", "));
    // rustfmt leaves two columns empty.
    if line.len() + 2 <= MAX_WIDTH {
        return format!("{line}\n");
    }
    let mut lines = vec![String::new()];
    for name in names {
        let current = lines.last().map_or(0, String::len);
        if current > 0 && current + name.len() + 6 > MAX_WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            let gap = if line.is_empty() { "    " } else { " " };
            line.push_str(&format!("{gap}{name},"));
        }
    }
    format!("{start} {path}::{{\n{}\n}};\n", lines.join("\n"))
}

/// Returns true if a file implements a trait for a type. Both are compared by their last path segments.
pub(crate) fn has_impl(source: &str, trait_: &str, type_: &str) -> bool {
    let Ok(file) = syntax::parse(source) else {
        return false;
    };
    let last = |path: &syn::Path| path.segments.last().map(|segment| segment.ident.to_string());
    file.items.iter().any(|item| match item {
        Item::Impl(block) => {
            let of_trait = block.trait_.as_ref().and_then(|(path, _)| last(path));
            let on_type = match &*block.self_ty {
                syn::Type::Path(path) => last(&path.path),
                _ => None,
            };
            of_trait.as_deref() == Some(trait_) && on_type.as_deref() == Some(type_)
        }
        _ => false,
    })
}

/// Adds an item at the end of a file.
pub(crate) fn add_item(source: &str, item: &str) -> String {
    format!("{}\n\n{}\n", source.trim_end(), item.trim())
}

/// Returns the range from the end of the receiver to the end of the call.
fn range_of_call(
    chain: &Expr,
    wanted: &dyn Fn(&syn::ExprMethodCall) -> bool,
) -> Option<std::ops::Range<usize>> {
    let Expr::MethodCall(there) = chain else {
        return None;
    };
    if wanted(there) {
        let receiver = there.receiver.span().byte_range().end;
        return Some(receiver..there.span().byte_range().end);
    }
    range_of_call(&there.receiver, wanted)
}

fn without_lines(source: &str, range: std::ops::Range<usize>) -> String {
    let start = source
        .get(..range.start)
        .and_then(|before| before.rfind('\n'))
        .map_or(0, |newline| newline + 1);
    let before = source.get(..start).unwrap_or_default();
    let after = source.get(line_end(source, range.end)..).unwrap_or_default();
    // Avoids two empty lines instead of the item, and an empty line at the end.
    let after = match before.is_empty() || before.ends_with("\n\n") {
        true => after.trim_start_matches('\n'),
        false => after,
    };
    match after.trim().is_empty() {
        true => format!("{}\n", before.trim_end()),
        false => format!("{before}{after}"),
    }
}

/// Returns true if the chain has a call with the method and arguments of `wanted`.
fn has_call(chain: &Expr, wanted: &Expr) -> bool {
    match chain {
        Expr::MethodCall(there) => is_call(there, wanted) || has_call(&there.receiver, wanted),
        _ => false,
    }
}

fn is_call(there: &syn::ExprMethodCall, wanted: &Expr) -> bool {
    matches!(wanted, Expr::MethodCall(wanted) if there.method == wanted.method
        && same(&there.turbofish, &wanted.turbofish)
        && same(&there.args, &wanted.args))
}

/// Returns true if two pieces of syntax differ at most in their formatting.
fn same(left: &impl ToTokens, right: &impl ToTokens) -> bool {
    left.to_token_stream().to_string() == right.to_token_stream().to_string()
}

fn find<'a>(file: &'a File, name: &str) -> Result<&'a ItemFn, RustEditError> {
    let functions = file.items.iter().filter_map(|item| match item {
        Item::Fn(function) => Some(function),
        _ => None,
    });
    let mut named = functions.filter(|function| function.sig.ident == name);
    named
        .next()
        .ok_or_else(|| RustEditError::NoFunction(name.to_owned()))
}

fn tail_of<'a>(body: &'a syn::Block, function: &str) -> Result<&'a Expr, RustEditError> {
    match body.stmts.last() {
        Some(Stmt::Expr(tail, None)) => Ok(tail),
        _ => Err(RustEditError::NoTail(function.to_owned())),
    }
}

fn end_of(item: &Item) -> usize {
    item.span().byte_range().end
}

/// Returns the start of the line after the one that contains the byte.
fn line_end(source: &str, at: usize) -> usize {
    let rest = source.get(at..).unwrap_or_default();
    rest.find('\n').map_or(source.len(), |newline| at + newline + 1)
}

fn indent_at(source: &str, at: usize) -> String {
    let before = source.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.chars().take_while(|c| c.is_whitespace()).collect()
}

fn insert(source: &str, at: usize, text: &str) -> String {
    let (before, after) = (
        source.get(..at).unwrap_or(source),
        source.get(at..).unwrap_or_default(),
    );
    let gap = if before.is_empty() || before.ends_with(['\n', ' ']) || !text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{before}{gap}{text}{after}")
}

/// Inserts before the first item, or at the end of a file without items.
fn insert_first(source: &str, file: &File, line: &str) -> String {
    match file.items.first() {
        Some(first) => insert(source, first.span().byte_range().start, &format!("{line}\n")),
        None if source.trim().is_empty() => line.to_owned(),
        None => format!("{}\n\n{line}", source.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(edit: impl Fn(&str) -> Result<String, RustEditError>, before: &str, after: &str) {
        assert_eq!(edit(before).unwrap(), after);
        assert_eq!(edit(after).unwrap(), after, "a second time changes nothing");
    }

    #[test]
    fn a_module_goes_behind_the_last_one() {
        check(
            |source| add_module(source, "b"),
            "//! Doc.\n\npub mod a; // why\n\nfn f() {}\n",
            "//! Doc.\n\npub mod a; // why\npub mod b;\n\nfn f() {}\n",
        );
    }

    #[test]
    fn modules_stay_in_the_order_of_rustfmt() {
        check(
            |source| add_module(source, "a"),
            "pub mod b;\n",
            "pub mod a;\npub mod b;\n",
        );
        check(
            |source| add_module(source, "v2"),
            "pub mod v1;\npub mod v1alpha1;\npub mod v10;\n",
            "pub mod v1;\npub mod v1alpha1;\npub mod v2;\npub mod v10;\n",
        );
    }

    #[test]
    fn the_first_module_goes_below_the_head() {
        check(
            |source| add_module(source, "a"),
            "//! Doc.\n",
            "//! Doc.\n\npub mod a;\n",
        );
        check(|source| add_module(source, "a"), "", "pub mod a;\n");
        check(
            |source| add_module(source, "a"),
            "//! Doc.\n\n/// An item.\nfn f() {}\n",
            "//! Doc.\n\npub mod a;\n\n/// An item.\nfn f() {}\n",
        );
    }

    #[test]
    fn a_reexport_goes_behind_the_others() {
        let names = ["B".to_owned(), "BSpec".to_owned()];
        check(
            |source| add_reexport(source, "b", &names),
            "pub mod a;\npub mod b;\n\npub use a::A;\n",
            "pub mod a;\npub mod b;\n\npub use a::A;\npub use b::{B, BSpec};\n",
        );
        check(
            |source| add_reexport(source, "b", &names),
            "pub mod b;\n",
            "pub mod b;\n\npub use b::{B, BSpec};\n",
        );
    }

    #[test]
    fn calls_go_at_the_end_of_the_chain() {
        let calls = ["crd::<B>()".to_owned(), "rules(B::rules())".to_owned()];
        check(
            |source| add_calls(source, "manifests", &calls),
            "fn manifests() -> M {\n    M::new()\n        // first\n        .crd::<A>()\n}\n",
            "fn manifests() -> M {\n    M::new()\n        // first\n        .crd::<A>()\n        .crd::<B>()\n        .rules(B::rules())\n}\n",
        );
        check(
            |source| add_calls(source, "manifests", &calls),
            "fn manifests() -> M {\n    M::new()\n}\n",
            "fn manifests() -> M {\n    M::new().crd::<B>().rules(B::rules())\n}\n",
        );
    }

    #[test]
    fn added_code_can_be_removed() {
        let before = "//! Doc.\n\npub mod a;\npub mod c;\n\npub use a::A;\n";
        let added = add_reexport(&add_module(before, "b").unwrap(), "b", &["B".to_owned()]).unwrap();
        let removed = remove_reexport(&remove_module(&added, "b").unwrap(), "b").unwrap();
        assert_eq!(removed, before);
        let first = add_module("//! Doc.\n", "a").unwrap();
        assert_eq!(remove_module(&first, "a").unwrap(), "//! Doc.\n");
    }

    #[test]
    fn calls_can_be_removed() {
        let calls = ["crd::<B>()".to_owned(), "rules(B::rules())".to_owned()];
        let before = "fn manifests() -> M {\n    M::new().crd::<A>()\n}\n";
        let added = add_calls(before, "manifests", &calls).unwrap();
        assert_eq!(remove_calls(&added, "manifests", &calls).unwrap(), before);
        assert_eq!(remove_calls(before, "manifests", &calls).unwrap(), before);
    }

    #[test]
    fn chains_are_laid_out_as_rustfmt_does() {
        let calls = ["a()".to_owned()];
        check(
            |source| add_calls(source, "f", &calls),
            "fn f() -> M {\n    M::new()\n}\n",
            "fn f() -> M {\n    M::new().a()\n}\n",
        );
        let long = ["b(a_name_that_is_long_enough_to_need_a_line_of_its_own)".to_owned()];
        check(
            |source| add_calls(source, "f", &long),
            "fn f() -> M {\n    M::new().a()\n}\n",
            "fn f() -> M {\n    M::new()\n        .a()\n        .b(a_name_that_is_long_enough_to_need_a_line_of_its_own)\n}\n",
        );
    }

    #[test]
    fn names_join_those_that_are_imported() {
        check(
            |source| add_imports(source, "a::b", &["C", "A"]),
            "use a::b::B;\n\nfn f() {}\n",
            "use a::b::{A, B, C};\n\nfn f() {}\n",
        );
        check(
            |source| add_imports(source, "a::b", &["C"]),
            "use a::b::*;\n",
            "use a::b::*;\n",
        );
        check(
            |source| add_imports(source, "a::b", &["C"]),
            "use x::Y;\n",
            "use x::Y;\n\nuse a::b::C;\n",
        );
        let names: Vec<String> = (0..9).map(|n| format!("AVeryLongNameIndeed{n}")).collect();
        let wrapped = add_imports("", "a", &names.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        assert!(wrapped.lines().all(|line| line.len() <= MAX_WIDTH), "{wrapped}");
        assert!(
            wrapped.starts_with("use a::{\n    AVeryLongNameIndeed0,"),
            "{wrapped}"
        );
    }

    #[test]
    fn source_that_cannot_be_edited_is_an_error() {
        assert!(matches!(add_module("fn {", "a"), Err(RustEditError::Syntax(_))));
        assert!(matches!(
            add_calls("fn g() {}", "f", &["a()".to_owned()]),
            Err(RustEditError::NoFunction(_))
        ));
        assert!(matches!(
            add_calls("fn f() { g(); }", "f", &["a()".to_owned()]),
            Err(RustEditError::NoTail(_))
        ));
    }

    #[test]
    fn text_that_is_not_ascii_keeps_its_place() {
        check(
            |source| add_calls(source, "f", &["b()".to_owned()]),
            "//! Größe 木\nfn f() -> R {\n    a(\"é\") // 木\n}\n",
            "//! Größe 木\nfn f() -> R {\n    a(\"é\").b() // 木\n}\n",
        );
    }
}
