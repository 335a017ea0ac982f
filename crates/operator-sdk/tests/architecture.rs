//! Tests that ARCHITECTURE.md names only existing modules, and that the modules of a crate have no dependency cycles.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Attribute, File, ItemMod, UseTree};

fn modules_of(source: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            modules_of(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(stem);
        }
    }
}

/// Returns the words in code quotes that look like the name of a module or a crate.
fn names_in(text: &str) -> BTreeSet<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_name = |word: &&str| {
        let letters = |letter: char| letter.is_ascii_lowercase() || "_-".contains(letter);
        !word.starts_with('-') && word.chars().all(letters)
    };
    quoted.filter(is_name).map(str::to_owned).collect()
}

fn architecture() -> (PathBuf, BTreeSet<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    (root, names_in(&text))
}

#[test]
fn every_module_that_the_document_names_exists() {
    let (root, named) = architecture();
    let mut existing = BTreeSet::new();
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let path = entry.unwrap().path();
        existing.insert(path.file_name().unwrap().to_string_lossy().into_owned());
        modules_of(&path.join("src"), &mut existing);
    }
    assert!(
        named.len() > 30,
        "ARCHITECTURE.md names only {} modules",
        named.len()
    );
    let missing: Vec<&String> = named.difference(&existing).collect();
    assert!(
        missing.is_empty(),
        "ARCHITECTURE.md names modules that do not exist: {missing:?}"
    );
}

#[test]
fn the_document_names_every_crate() {
    let (root, named) = architecture();
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(
            named.contains(&name),
            "ARCHITECTURE.md does not name the crate {name}"
        );
    }
}

/// The modules directly below the root of a crate, each with the modules that it uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Collects the top-level modules in paths outside of tests, relative to `crate` or `super`.
struct Uses {
    found: BTreeSet<String>,
    /// The number of modules between the root of the crate and the current code.
    depth: usize,
}

impl Uses {
    fn of(text: &str, depth: usize) -> BTreeSet<String> {
        let file: File = syn::parse_str(text).unwrap();
        let mut uses = Self {
            found: BTreeSet::new(),
            depth,
        };
        uses.visit_file(&file);
        uses.found
    }

    /// Adds the top-level module of a path, if the path goes through the root of the crate.
    fn add(&mut self, path: &[String]) {
        let path = path.iter().skip_while(|name| *name == "self");
        let mut names = path.clone().skip_while(|name| *name == "super");
        let supers = path.count() - names.clone().count();
        let name = match supers {
            0 if names.next().is_some_and(|first| first == "crate") => names.next(),
            0 => None,
            _ if supers == self.depth => names.next(),
            _ => None,
        };
        self.found.extend(name.cloned());
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_for_tests(&module.attrs) {
            self.depth += 1;
            syn::visit::visit_item_mod(self, module);
            self.depth -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for path in paths(&item.tree) {
            self.add(&path);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|name| name.ident.to_string()).collect();
        self.add(&names);
        syn::visit::visit_path(self, path);
    }

    /// The arguments of macros are tokens, so paths are found in their text.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let text = call.tokens.to_string().replace(" :: ", "::");
        let is_in_path = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
        for path in text.split(|letter| !is_in_path(letter)) {
            let names: Vec<String> = path.split("::").map(str::to_owned).collect();
            self.add(&names);
        }
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|condition| condition == "test")
    })
}

/// Returns the paths in a `use`.
fn paths(tree: &UseTree) -> Vec<Vec<String>> {
    match tree {
        UseTree::Path(path) => {
            let mut paths = paths(&path.tree);
            for rest in &mut paths {
                rest.insert(0, path.ident.to_string());
            }
            paths
        }
        UseTree::Name(name) => vec![vec![name.ident.to_string()]],
        UseTree::Rename(rename) => vec![vec![rename.ident.to_string()]],
        UseTree::Group(group) => group.items.iter().flat_map(paths).collect(),
        UseTree::Glob(_) => vec![Vec::new()],
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.file_stem().and_then(|stem| stem.to_str()) {
            Some("tests") => {}
            _ if path.is_dir() => sources(&path, found),
            _ if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            _ => {}
        }
    }
}

fn graph(source: &Path) -> Graph {
    let mut files = Vec::new();
    sources(source, &mut files);
    let mut graph = Graph::new();
    for path in files {
        let inside = path.strip_prefix(source).unwrap().with_extension("");
        let names: Vec<_> = inside
            .iter()
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        let module = names[0].clone();
        if ["lib", "main"].contains(&module.as_str()) {
            continue;
        }
        let mut uses = Uses::of(&std::fs::read_to_string(&path).unwrap(), names.len());
        uses.remove(&module);
        graph.entry(module).or_default().extend(uses);
    }
    let modules: BTreeSet<_> = graph.keys().cloned().collect();
    graph
        .values_mut()
        .for_each(|uses| uses.retain(|name| modules.contains(name)));
    graph
}

/// Returns the modules of a cycle in the order of their use, if there is one. Modules without uses are removed until
/// none remains, or until each remaining module uses another one.
fn cycle(mut graph: Graph) -> Option<Vec<String>> {
    loop {
        let leaves: Vec<_> = graph
            .iter()
            .filter(|(_, uses)| uses.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        if leaves.is_empty() {
            break;
        }
        graph.retain(|name, _| !leaves.contains(name));
        graph
            .values_mut()
            .for_each(|uses| uses.retain(|name| !leaves.contains(name)));
    }
    let mut path = vec![graph.keys().next()?.clone()];
    loop {
        let next = graph.get(path.last()?)?.first()?.clone();
        if let Some(start) = path.iter().position(|name| *name == next) {
            path.drain(..start);
            path.push(next);
            return Some(path);
        }
        path.push(next);
    }
}

#[test]
fn the_modules_of_a_crate_form_no_cycle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in std::fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let cycle = cycle(graph(&folder.join("src")));
        assert_eq!(cycle, None, "{name}");
    }
}

#[test]
fn cycles_are_found() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph
                .entry((*from).to_owned())
                .or_default()
                .insert((*to).to_owned());
            graph.entry((*to).to_owned()).or_default();
        }
        graph
    };
    assert_eq!(cycle(graph(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let found = cycle(graph(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]));
    assert_eq!(found, Some(["b", "c", "b"].map(str::to_owned).into()));
}

#[test]
fn uses_are_found_outside_of_tests() {
    let text = "
        use crate::{a::X, b};
        use super::{c::Y, self as root};
        #[cfg(test)]
        mod tests { use crate::hidden::Y; }
        mod inner { use super::X; use super::super::d::Z; }
        fn f() -> crate::e::Z { format!(\"{}\", crate::f::make()) }
        fn g() { super::g::run(); super::super::outside(); }
    ";
    let expected = ["a", "b", "c", "d", "e", "f", "g", "self"];
    assert_eq!(Uses::of(text, 1), expected.map(str::to_owned).into());
}

#[test]
fn super_in_a_submodule_leads_to_its_parent() {
    let text = "use super::sibling; use super::super::other;";
    assert_eq!(Uses::of(text, 2), ["other".to_owned()].into());
}
