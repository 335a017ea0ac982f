//! ELF headers of Linux programs: architecture and linkage.

/// A static program, which runs in an empty image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Static {
    /// The architecture, as in `GOARCH`, which is also used by images.
    pub(crate) architecture: &'static str,
}

/// A program that cannot run in an empty image.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ElfError {
    #[error("it is not a Linux program")]
    NoProgram,
    #[error("unknown architecture (ELF machine {0})")]
    Architecture(u16),
    #[error("it is not static: it needs the loader {0}")]
    Dynamic(String),
}

/// The machine numbers of 64-bit ELF files.
const ARCHITECTURES: [(u16, &str); 6] = [
    (62, "amd64"),
    (183, "arm64"),
    (22, "s390x"),
    (21, "ppc64le"),
    (243, "riscv64"),
    (258, "loong64"),
];

/// The type of the program header that names a dynamic loader.
const INTERPRETER: u32 = 3;

pub(crate) fn check(program: &[u8]) -> Result<Static, ElfError> {
    let reader = Reader::of(program).ok_or(ElfError::NoProgram)?;
    let machine = reader.u16(18).ok_or(ElfError::NoProgram)?;
    if let Some(loader) = reader.interpreter() {
        return Err(ElfError::Dynamic(loader));
    }
    let known = ARCHITECTURES.iter().find(|(number, _)| *number == machine);
    let (_, architecture) = known.ok_or(ElfError::Architecture(machine))?;
    Ok(Static { architecture })
}

/// Reads numbers in the byte order of the file.
struct Reader<'a> {
    bytes: &'a [u8],
    big: bool,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Returns a reader of a 64-bit ELF file, or `None` for other files.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (magic, class, order) = (bytes.get(..4)?, bytes.get(4)?, bytes.get(5)?);
        (magic == b"\x7fELF" && *class == 2).then_some(Self {
            bytes,
            big: *order == 2,
        })
    }

    fn number(&self, at: usize, width: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at.checked_add(width)?)?;
        let fold = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
        Some(if self.big {
            bytes.iter().fold(0, fold)
        } else {
            bytes.iter().rev().fold(0, fold)
        })
    }

    fn u16(&self, at: usize) -> Option<u16> {
        u16::try_from(self.number(at, 2)?).ok()
    }

    fn position(&self, at: usize) -> Option<usize> {
        usize::try_from(self.number(at, 8)?).ok()
    }

    fn interpreter(&self) -> Option<String> {
        let table = self.position(32)?;
        let (size, count) = (usize::from(self.u16(54)?), usize::from(self.u16(56)?));
        for index in 0..count {
            let header = table.checked_add(index.checked_mul(size)?)?;
            if self.number(header, 4)? == u64::from(INTERPRETER) {
                let (from, length) = (self.position(header + 8)?, self.position(header + 32)?);
                let text = self.bytes.get(from..from.checked_add(length)?)?;
                return Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_test_is_dynamic_or_static_and_says_so() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        match check(&program) {
            Ok(found) => assert!(["amd64", "arm64"].contains(&found.architecture)),
            Err(error) => assert!(
                matches!(&error, ElfError::Dynamic(loader) if loader.starts_with('/')),
                "{error}"
            ),
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(check(b"#!/bin/sh\n"), Err(ElfError::NoProgram));
        assert_eq!(check(b"\x7fELF"), Err(ElfError::NoProgram));
        assert_eq!(check(b""), Err(ElfError::NoProgram));
    }
}
