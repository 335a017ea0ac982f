//! Documents with the positions of their nodes, for tools that report positions ([`Document`]).

use std::collections::HashMap;

use granit_parser::Event;
use serde_json::Value;

use super::{Error, Loader, with_indentation};

/// A position in a text. Both numbers start from one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// One document of a YAML (or JSON) file.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The document as a tree, with YAML 1.1 scalars as in a server and kubectl.
    pub value: Value,
    /// The duplicate keys: `line 5: key "k" already set in map`.
    pub duplicates: Vec<String>,
    start: Place,
    places: HashMap<String, Place>,
}

impl Document {
    /// Returns the position of the node at a JSON pointer: the key of a field, or the start of an item. If the node
    /// does not exist or comes from an alias, returns the position of the nearest enclosing node.
    pub fn place(&self, pointer: &str) -> Place {
        let mut pointer = pointer;
        loop {
            if let Some(place) = self.places.get(pointer) {
                return *place;
            }
            match pointer.rfind('/') {
                Some(end) => pointer = pointer.get(..end).unwrap_or_default(),
                None => return self.start,
            }
        }
    }
}

/// The positions found so far, and the pointer of the current node.
#[derive(Default)]
pub(super) struct Places {
    pointer: String,
    found: HashMap<String, Place>,
}

impl Places {
    pub(super) fn enter(&mut self, segment: &str, place: Place) -> usize {
        let outer = self.pointer.len();
        self.pointer.push('/');
        self.pointer
            .push_str(&segment.replace('~', "~0").replace('/', "~1"));
        self.found.insert(self.pointer.clone(), place);
        outer
    }

    pub(super) fn leave(&mut self, outer: usize) {
        self.pointer.truncate(outer);
    }
}

/// Parses all non-empty documents of a text.
///
/// # Errors
/// Returns an error with the text of the YAML parser, and the line: `yaml: line 3: ...`.
///
/// ```
/// let text = "a: 1\n---\nb:\n- c: 2\n";
/// let documents = apimachinery::yaml::documents(text).unwrap();
/// let place = documents[1].place("/b/0/c");
/// assert_eq!((place.line, place.column), (4, 3));
/// assert_eq!(documents[1].place("/b/0/missing"), documents[1].place("/b/0"));
/// ```
pub fn documents(text: &str) -> Result<Vec<Document>, String> {
    with_indentation(text, |text| {
        let mut loader = Loader::new(text);
        let mut found = Vec::new();
        while let Some(document) = next(&mut loader)? {
            if !document.value.is_null() {
                found.push(document);
            }
        }
        Ok(found)
    })
}

fn next(loader: &mut Loader<'_>) -> Result<Option<Document>, Error> {
    loop {
        match loader.event()? {
            (Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _) => {}
            (Event::StreamEnd, _) => return Ok(None),
            (event, start) => {
                loader.places = Some(Places::default());
                let node = loader.node(event, start)?;
                let value = loader.finish(node)?;
                return Ok(Some(Document {
                    value,
                    duplicates: std::mem::take(&mut loader.duplicates),
                    start,
                    places: loader.places.take().unwrap_or_default().found,
                }));
            }
        }
    }
}
