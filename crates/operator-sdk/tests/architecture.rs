//! ARCHITECTURE.md names modules that exist, and the modules of a crate do not depend on each other in circles.

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

/// Words of the map in code quotes that look like a module or a crate.
fn named_rooms(map: &str) -> BTreeSet<String> {
    let quoted = map.split('`').skip(1).step_by(2);
    let is_name = |word: &&str| {
        let letters = |letter: char| letter.is_ascii_lowercase() || "_-".contains(letter);
        !word.starts_with('-') && word.chars().all(letters)
    };
    quoted.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn every_room_on_the_map_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut rooms = BTreeSet::new();
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let path = entry.unwrap().path();
        rooms.insert(path.file_name().unwrap().to_string_lossy().into_owned());
        modules_of(&path.join("src"), &mut rooms);
    }
    let named = named_rooms(&map);
    assert!(named.len() > 30, "the map names only {} rooms", named.len());
    let missing: Vec<&String> = named.iter().filter(|name| !rooms.contains(*name)).collect();
    assert!(
        missing.is_empty(),
        "ARCHITECTURE.md names rooms that do not exist: {missing:?}"
    );
}

#[test]
fn every_crate_is_on_the_map() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = named_rooms(&std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap());
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(named.contains(&name), "{name} is not on the map");
    }
}

/// The modules directly below the root of a crate, each with those that it uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Collects the first names of all paths that begin with `crate`, outside of tests.
struct Uses(BTreeSet<String>);

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_for_tests(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if let UseTree::Path(path) = &item.tree
            && path.ident == "crate"
        {
            self.0.extend(first_names(&path.tree));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path.segments.iter();
        if segments.next().is_some_and(|first| first.ident == "crate") {
            self.0.extend(segments.next().map(|name| name.ident.to_string()));
        }
        syn::visit::visit_path(self, path);
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

fn first_names(tree: &UseTree) -> Vec<String> {
    match tree {
        UseTree::Path(path) => vec![path.ident.to_string()],
        UseTree::Name(name) => vec![name.ident.to_string()],
        UseTree::Rename(rename) => vec![rename.ident.to_string()],
        UseTree::Group(group) => group.items.iter().flat_map(first_names).collect(),
        UseTree::Glob(_) => Vec::new(),
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
        let module = path.strip_prefix(source).unwrap().components().next().unwrap();
        let module = module
            .as_os_str()
            .to_string_lossy()
            .trim_end_matches(".rs")
            .to_owned();
        if ["lib", "main"].contains(&module.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let file: File = syn::parse_str(&text).unwrap();
        let mut uses = Uses(BTreeSet::new());
        uses.visit_file(&file);
        uses.0.remove(&module);
        graph.entry(module).or_default().extend(uses.0);
    }
    let modules: BTreeSet<_> = graph.keys().cloned().collect();
    graph
        .values_mut()
        .for_each(|uses| uses.retain(|name| modules.contains(name)));
    graph
}

/// The modules of a cycle in the order of their use, if there is one: modules that use nothing are taken away until none
/// is left or each that is left uses another one.
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
    let mut walk = vec![graph.keys().next()?.clone()];
    loop {
        let next = graph.get(walk.last()?)?.first()?.clone();
        if let Some(start) = walk.iter().position(|name| *name == next) {
            walk.drain(..start);
            walk.push(next);
            return Some(walk);
        }
        walk.push(next);
    }
}

#[test]
fn modules_do_not_depend_on_each_other_in_circles() {
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
        #[cfg(test)]
        mod tests { use crate::c::Y; }
        fn f() -> crate::d::Z { crate::e::make() }
    ";
    let mut uses = Uses(BTreeSet::new());
    uses.visit_file(&syn::parse_str(text).unwrap());
    assert_eq!(uses.0, ["a", "b", "d", "e"].map(str::to_owned).into());
}
