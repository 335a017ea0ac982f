//! The size of a bundle, which OLM unpacks into a ConfigMap with a size limit: [`Size`].

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The total size of a bundle's manifests, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The total size of all files.
    pub plain: u64,
    /// The total size of all files after each was compressed with gzip and encoded in base64.
    pub compressed: u64,
}

impl Size {
    /// Adds a file.
    pub(super) fn add(&mut self, content: &[u8]) {
        self.plain += content.len() as u64;
        let mut encoder = GzEncoder::new(Counter(0), Compression::default());
        // Writing to a counter cannot fail.
        let written = encoder.write_all(content).and_then(|()| encoder.finish());
        let gzip = written.map_or(0, |counter| counter.0);
        self.compressed += gzip.div_ceil(3) * 4;
    }
}

struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Formats a number of bytes in units of 1000: `913.9 kB`.
#[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
pub(crate) fn shown(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1000.0;
    for unit in ["kB", "MB", "GB"] {
        if amount < 1000.0 || unit == "GB" {
            return format!("{amount:.1} {unit}");
        }
        amount /= 1000.0;
    }
    format!("{amount:.1} TB")
}
