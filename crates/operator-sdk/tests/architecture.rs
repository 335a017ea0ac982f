//! The map names rooms that exist.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::path::Path;

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
