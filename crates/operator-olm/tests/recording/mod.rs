//! Recorded bundles: two bundles, and the operations that change them.

#![allow(dead_code, reason = "not every test uses all of it")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use operator_olm::files::Files;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The recording.
pub(crate) struct Recording(Value);

/// Returns the name of a case.
pub(crate) fn name(case: &Value) -> &str {
    case["name"].as_str().unwrap()
}

/// Calls a function for each item on all cores; returns the results in the order of the items.
pub(crate) fn on_all_cores<'i, T: Sync, R: Send>(items: &'i [T], call: impl Fn(&'i T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let part = items.len().div_ceil(cores).max(1);
    std::thread::scope(|scope| {
        let call = &call;
        let parts = items
            .chunks(part)
            .map(|part| scope.spawn(move || part.iter().map(call).collect::<Vec<R>>()));
        let parts: Vec<_> = parts.collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    })
}

impl Recording {
    /// Reads the recording.
    pub(crate) fn read() -> Self {
        Self(serde_json::from_str(include_str!("../recorded/bundles.json")).unwrap())
    }

    /// Returns the cases.
    pub(crate) fn cases(&self) -> &[Value] {
        self.0["cases"].as_array().unwrap()
    }

    /// Returns the unchanged files of a bundle.
    pub(crate) fn base(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let files = self.0["base"][name].as_object().into_iter().flatten();
        files
            .map(|(path, text)| (path.clone(), text.as_str().unwrap().as_bytes().to_vec()))
            .collect()
    }

    /// Returns the files of a case.
    pub(crate) fn files(&self, case: &Value) -> Files {
        let mut tree = Tree {
            files: self.base(case["base"].as_str().unwrap_or_default()),
            dirs: Vec::new(),
        };
        for operation in case["ops"].as_array().into_iter().flatten() {
            tree.apply(operation);
        }
        tree.into_files()
    }
}

struct Tree {
    files: Vec<(String, Vec<u8>)>,
    dirs: Vec<String>,
}

impl Tree {
    fn into_files(self) -> Files {
        let mut files = Files::new("bundle");
        for dir in self.dirs {
            files.insert_dir(&dir);
        }
        for (path, content) in self.files {
            files.insert(&path, content);
        }
        files
    }

    fn content(&self, path: &str) -> &[u8] {
        let found = self.files.iter().find(|(name, _)| name == path);
        &found.unwrap_or_else(|| panic!("no file {path}")).1
    }

    fn write(&mut self, path: &str, content: Vec<u8>) {
        self.files.retain(|(name, _)| name != path);
        self.files.push((path.to_owned(), content));
    }

    fn apply(&mut self, operation: &Value) {
        let text = |field: &str| operation[field].as_str().unwrap_or_default();
        let file = text("file");
        match text("op") {
            "write" => {
                let content = match operation["base64"].as_str() {
                    Some(encoded) => STANDARD.decode(encoded).unwrap(),
                    None => text("text").as_bytes().to_vec(),
                };
                self.write(file, content);
            }
            "sub" => {
                let content = String::from_utf8(self.content(file).to_vec()).unwrap();
                assert!(content.contains(text("old")));
                self.write(file, content.replacen(text("old"), text("new"), 1).into_bytes());
            }
            "delete" => {
                if let Some((parent, _)) = file.rsplit_once('/') {
                    self.dirs.push(parent.to_owned());
                }
                self.files
                    .retain(|(name, _)| name != file && !name.starts_with(&format!("{file}/")));
            }
            "mkdir" => self.dirs.push(file.to_owned()),
            "copy" => self.write(text("to"), self.content(file).to_vec()),
            "move" => {
                for (name, _) in &mut self.files {
                    if let Some(rest) = name.strip_prefix(file)
                        && (rest.is_empty() || rest.starts_with('/'))
                    {
                        *name = format!("{}{rest}", text("to"));
                    }
                }
            }
            kind => {
                let source = std::str::from_utf8(self.content(file)).unwrap();
                let mut document = apimachinery::yaml::parse(source).unwrap().value;
                let path = text("path");
                match kind {
                    "pad" => {
                        let size = usize::try_from(operation["bytes"].as_u64().unwrap()).unwrap();
                        patch(&mut document, path, Some(noise(size).into()));
                    }
                    "json" => {
                        let inner = document.pointer(path).and_then(Value::as_str).unwrap();
                        let mut inner: Value = serde_json::from_str(inner).unwrap();
                        let remove = operation["remove"].as_bool().unwrap_or_default();
                        patch(
                            &mut inner,
                            text("at"),
                            (!remove).then(|| operation["value"].clone()),
                        );
                        *document.pointer_mut(path).unwrap() = spaced(&inner).into();
                    }
                    "remove" => patch(&mut document, path, None),
                    "replace" => *document.pointer_mut(path).unwrap() = operation["value"].clone(),
                    "add" => patch(&mut document, path, Some(operation["value"].clone())),
                    other => panic!("unknown operation {other}"),
                }
                let text = serde_json::to_string_pretty(&document).unwrap();
                self.write(file, text.replace('\u{7f}', "\\u007f").into_bytes());
            }
        }
    }
}

/// Adds or removes the value at a pointer.
fn patch(document: &mut Value, path: &str, value: Option<Value>) {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match (document.pointer_mut(parent).unwrap(), value) {
        (Value::Array(items), Some(value)) if key == "-" => items.push(value),
        (Value::Array(items), Some(value)) => items.insert(key.parse().unwrap(), value),
        (Value::Array(items), None) => drop(items.remove(key.parse().unwrap())),
        (Value::Object(fields), Some(value)) => drop(fields.insert(key, value)),
        (Value::Object(fields), None) => drop(fields.remove(&key).unwrap()),
        _ => panic!("{path} is in no list or object"),
    }
}

/// Returns JSON with the blanks that the recorder writes.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(spaced).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                format!("{}: {}", Value::from(name.as_str()), spaced(value))
            };
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns a text that cannot be compressed.
fn noise(size: usize) -> String {
    let (mut text, mut hash) = (String::new(), b"seed".to_vec());
    while text.len() < size {
        hash = Sha256::digest(&hash).to_vec();
        text.extend(hash.iter().map(|byte| format!("{byte:02x}")));
    }
    text.truncate(size);
    text
}
