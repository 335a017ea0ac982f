//! The descriptions of built-in types and fields: a compressed table that is decompressed when it is first used.

use std::collections::HashMap;
use std::io::Read;
use std::sync::OnceLock;

use flate2::read::ZlibDecoder;

/// The maximum size of a decompressed table.
const BYTES_MAX: u64 = 16 << 20;
/// The type from which custom resources take the descriptions of the fields that every object has.
const EXAMPLE: &str = "io.k8s.api.core.v1.Pod";
/// The type from which lists take the description of `metadata`.
const LIST_EXAMPLE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// The table of a server; empty if it has none.
#[derive(Debug, Default)]
pub(crate) struct Descriptions {
    compressed: &'static [u8],
    texts: OnceLock<HashMap<Box<str>, Box<str>>>,
}

impl Descriptions {
    pub(crate) fn new(compressed: &'static [u8]) -> Self {
        Self {
            compressed,
            texts: OnceLock::new(),
        }
    }

    /// Returns true if the server has no table.
    pub(crate) fn is_empty(&self) -> bool {
        self.compressed.is_empty()
    }

    fn get(&self, key: &str) -> Option<&str> {
        let texts = self.texts.get_or_init(|| {
            read(self.compressed).unwrap_or_else(|error| {
                tracing::error!(%error, "cannot read the table of descriptions");
                HashMap::new()
            })
        });
        texts.get(key).map(|text| &**text)
    }

    /// Returns the description of a built-in type.
    pub(super) fn of_type(&self, name: &str) -> Option<&str> {
        self.get(name)
    }

    /// Returns the description of a field of a built-in type.
    pub(super) fn of_field(&self, name: &str, field: &str) -> Option<&str> {
        let own = self.get(&format!("{name}/{field}"));
        // The table has no lists, because its source has one type for the lists of all kinds.
        let is_list = name.ends_with("List") && matches!(field, "apiVersion" | "kind" | "metadata");
        own.or_else(|| is_list.then(|| self.of_list(field)).flatten())
    }

    /// Returns the description of a field that every object has.
    pub(super) fn of_object(&self, field: &str) -> Option<&str> {
        self.get(&format!("{EXAMPLE}/{field}"))
    }

    /// Returns the description of a parameter that is not a field of options.
    pub(super) fn of_parameter(&self, name: &str) -> Option<&str> {
        self.get(&format!("parameter/{name}"))
    }

    /// Returns the description of a field of an embedded resource.
    pub(super) fn of_embedded(&self, field: &str) -> Option<&str> {
        self.get(&format!("embedded/{field}"))
    }

    /// Returns the description of a field that every list has.
    pub(super) fn of_list(&self, field: &str) -> Option<&str> {
        self.get(&format!("{LIST_EXAMPLE}/{field}"))
    }
}

fn read(compressed: &[u8]) -> std::io::Result<HashMap<Box<str>, Box<str>>> {
    let mut text = String::new();
    if !compressed.is_empty() {
        ZlibDecoder::new(compressed)
            .take(BYTES_MAX)
            .read_to_string(&mut text)?;
    }
    let mut parts = text.split('\0');
    let mut texts = HashMap::new();
    while let (Some(key), Some(text)) = (parts.next(), parts.next()) {
        texts.insert(key.into(), text.into());
    }
    Ok(texts)
}
