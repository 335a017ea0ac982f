//! Splits catalogs into compressed parts for ConfigMaps.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::Catalog;

/// The maximum size of a part before compression, in bytes. A ConfigMap has at most 1 MiB in total, in base64.
const PART_MAX: usize = 700 << 10;

/// Returns a catalog as gzipped YAML streams. Each fits into a ConfigMap, unless a single document is too large.
///
/// # Errors
/// Returns an error if the compression fails.
pub fn parts(catalog: &Catalog) -> std::io::Result<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    let mut text = String::new();
    for document in catalog.documents() {
        let document = format!("---\n{document}\n");
        if !text.is_empty() && text.len() + document.len() > PART_MAX {
            parts.push(compressed(&text)?);
            text.clear();
        }
        text.push_str(&document);
    }
    parts.push(compressed(&text)?);
    Ok(parts)
}

fn compressed(text: &str) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::catalog::Package;

    #[test]
    fn a_large_catalog_is_split_between_documents() {
        let package = |name: &str| Package {
            name: name.to_owned(),
            description: "x".repeat(400 << 10),
            ..Package::default()
        };
        let catalog = Catalog {
            packages: vec![package("a"), package("b")],
            ..Catalog::default()
        };
        let parts = parts(&catalog).unwrap();
        assert_eq!(parts.len(), 2);
        let mut loaded = Catalog::default();
        for part in parts {
            let mut text = String::new();
            GzDecoder::new(part.as_slice()).read_to_string(&mut text).unwrap();
            loaded.merge(Catalog::load(&text).unwrap());
        }
        assert_eq!(loaded, catalog);
    }
}
