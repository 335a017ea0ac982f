//! Tar archives in the POSIX format (ustar): all files belong to root and have the time 0.

const BLOCK: usize = 512;

/// Maximum length of a path, in bytes.
pub(super) const LONGEST: usize = 100;

/// One file or directory.
pub(crate) struct Entry<'a> {
    mode: u32,
    kind: u8,
    bytes: &'a [u8],
}

/// An archive under construction.
#[derive(Default)]
pub(crate) struct Archive(Vec<u8>);

// === impl Entry ===

impl<'a> Entry<'a> {
    pub(crate) fn file(bytes: &'a [u8]) -> Self {
        Self {
            mode: 0o644,
            kind: b'0',
            bytes,
        }
    }

    pub(crate) fn program(bytes: &'a [u8]) -> Self {
        Self {
            mode: 0o755,
            kind: b'0',
            bytes,
        }
    }

    pub(crate) fn folder(mode: u32) -> Self {
        Self {
            mode,
            kind: b'5',
            bytes: &[],
        }
    }
}

// === impl Archive ===

impl Archive {
    /// Adds an entry. Its path has at most [`LONGEST`] bytes.
    pub(crate) fn add(&mut self, path: &str, entry: &Entry<'_>) {
        self.0.extend_from_slice(&header(path, entry));
        self.0.extend_from_slice(entry.bytes);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

fn header(path: &str, entry: &Entry<'_>) -> Vec<u8> {
    let mut header = Vec::with_capacity(BLOCK);
    let mut field = |text: &str, width: usize| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(width, 0);
        header.extend_from_slice(&bytes);
    };
    field(path, LONGEST);
    field(&format!("{:07o}", entry.mode), 8);
    field("0000000", 8);
    field("0000000", 8);
    field(&format!("{:011o}", entry.bytes.len()), 12);
    field("00000000000", 12);
    // The checksum is computed with spaces in its own field.
    field("        ", 8);
    field(char::from(entry.kind).encode_utf8(&mut [0; 4]), 1);
    field("", 100);
    field("ustar\0", 6);
    field("00", 2);
    field("root", 32);
    field("root", 32);
    field("0000000", 8);
    field("0000000", 8);
    field("", 155);
    field("", 12);
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header.splice(148..156, format!("{sum:06o}\0 ").into_bytes());
    header
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_systems_tar_reads_it() {
        let mut archive = Archive::default();
        archive.add("etc/", &Entry::folder(0o755));
        archive.add("etc/a", &Entry::file(&[b'x'; 700]));
        archive.add("manager", &Entry::program(b"#!"));
        let mut child = Command::new("tar")
            .args(["--utc", "--full-time", "-tvf", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), &archive.finish()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            words[0],
            ["drwxr-xr-x", "root/root", "0", "1970-01-01", "00:00:00", "etc/"]
        );
        assert_eq!(
            words[1],
            [
                "-rw-r--r--",
                "root/root",
                "700",
                "1970-01-01",
                "00:00:00",
                "etc/a"
            ]
        );
        assert_eq!(
            words[2],
            [
                "-rwxr-xr-x",
                "root/root",
                "2",
                "1970-01-01",
                "00:00:00",
                "manager"
            ]
        );
    }
}
