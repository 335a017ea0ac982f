//! The journal of a data directory ([`Journal`]): every commit is appended to a file before it is acknowledged.
//!
//! The journal treats records as bytes. A data directory has one generation: `snapshot-N` has the records of the state
//! when the generation started, and `log-N` has the commits since then. A record on disk has its length, its CRC-32 and
//! its bytes. The records of a commit are written with one `write` call before the commit is acknowledged. A process
//! that ends at any moment, even by SIGKILL, therefore loses no acknowledged commit. To survive power failures,
//! [`Options::sync`] also waits for the disk.
//!
//! If a log ends inside a record, the server ended while it wrote the record. This incomplete record was never
//! acknowledged; it is moved to a separate file. Damage anywhere else is an error, and nothing is changed. A damaged
//! length can make a record look longer than its file. To detect this, the rest of the file is searched: it must not
//! contain another record, and must not itself be a record of its actual length.
//!
//! A failed write is undone: the log is truncated to its previous end, and the next commit is attempted normally.
//!
//! A [`Compaction`] writes the next generation without the journal, so that commits continue meanwhile: first the
//! snapshot, then the records that were appended to the old log since the snapshot was taken. The generation takes
//! effect when its snapshot gets its final name.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const LOG_MAGIC: &[u8; 8] = b"opsdklg1";
const SNAPSHOT_MAGIC: &[u8; 8] = b"opsdksn1";
/// The size of a record's length and checksum.
const HEADER_LENGTH: usize = 8;
const PARTIAL_SNAPSHOT: &str = "snapshot.partial";
/// The maximum length of a record, which is far more than that of any object.
const RECORD_LENGTH_MAX: usize = 64 << 20;
/// The length of the log below which no new snapshot is written.
const COMPACTION_LENGTH_MIN: u64 = 16 << 20;

/// Errors of a data directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The directory is in use by another server.
    #[error("{} is in use by another server", .directory.display())]
    Locked { directory: PathBuf },
    /// A file has damage that an interrupted write cannot explain.
    #[error("{} is damaged at byte {offset}: restore it from a copy, or remove the data directory to start empty", .file.display())]
    Damaged { file: PathBuf, offset: u64 },
    /// A file has another format.
    #[error("{} is not a {what} of this version", .file.display())]
    Foreign { file: PathBuf, what: &'static str },
    /// A record is too long: it could not be read again.
    #[error("a record of {length} bytes exceeds the journal's limit of {RECORD_LENGTH_MAX} bytes")]
    TooLong { length: usize },
    /// A record is complete but unknown to this version.
    #[error("record {record} of {} cannot be read: {reason}", .directory.display())]
    Unreadable {
        directory: PathBuf,
        record: usize,
        reason: String,
    },
    /// The operating system returned an error.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + use<'a> {
    move |source| Error::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// The options of a journal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Wait until the disk has each record. Slower; needed only against power failures.
    pub(crate) sync: bool,
}

/// An open data directory, locked against other servers until it is dropped.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
    options: Options,
    generation: u64,
    log: File,
    log_length: u64,
    snapshot_length: u64,
    /// The length of the log at which a failed compaction is retried.
    next_compaction: u64,
    /// True if the last record could not be written.
    failing: bool,
    /// True if a write failed and the log may end with a part of it, which is removed before the next record.
    torn: bool,
    /// True if the disk may have lost a record that is in the log. No more commits are accepted.
    unsynced: bool,
    /// True from the start of a compaction to its end.
    is_compacting: bool,
    _lock: File,
}

/// A compaction that was started: the next generation must be written.
#[derive(Debug)]
pub(crate) struct Compaction {
    directory: PathBuf,
    generation: u64,
    /// The length of the old log when the compaction started. The snapshot contains the records up to there.
    log_length: u64,
}

/// The files of the next generation, which is not in effect yet.
#[derive(Debug)]
pub(crate) struct NextGeneration {
    generation: u64,
    snapshot_length: u64,
    log: File,
    log_path: PathBuf,
    log_length: u64,
    old_log: File,
    /// The position in the old log up to which its records are in this generation.
    copied: u64,
}

/// The files of a generation that is not in effect any more.
#[derive(Debug)]
pub(crate) struct OldGeneration {
    directory: PathBuf,
    generation: u64,
}

/// The content of a data directory when it was opened: the records, oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// The state when the generation started.
    pub(crate) snapshot: Vec<Vec<u8>>,
    /// The later commits.
    pub(crate) log: Vec<Vec<u8>>,
    /// The number of bytes of an incomplete record that were removed.
    pub(crate) cut_off: u64,
}

/// The bytes written to check that the disk accepts records.
const PROBE: &[u8] = &[0; 4096];

impl Journal {
    /// Opens a data directory, creating it if needed, and reads its records.
    pub(crate) fn open(directory: &Path, options: Options) -> Result<(Self, Recovered), Error> {
        // The directory contains Secrets, so only its owner may read it.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(io_error("create", directory))?;
        let lock = lock(directory)?;
        let generation = newest_generation(directory)?;
        let (snapshot, snapshot_length) = match generation {
            0 => (Vec::new(), 0),
            generation => read_snapshot(&snapshot_path(directory, generation))?,
        };
        let path = log_path(directory, generation);
        let mut log = open_log(&path)?;
        let contents = read_log(&mut log, &path)?;
        remove_other_generations(directory, generation)?;
        let recovered = Recovered {
            snapshot,
            log: contents.records,
            cut_off: contents.cut_off,
        };
        let journal = Self {
            directory: directory.to_owned(),
            options,
            generation,
            log,
            log_length: contents.length,
            snapshot_length,
            next_compaction: 0,
            failing: false,
            torn: false,
            unsynced: false,
            is_compacting: false,
            _lock: lock,
        };
        Ok((journal, recovered))
    }

    /// Appends the records of a commit, all or none. When this returns, they survive the end of the process.
    ///
    /// After an error the log is unchanged, and more records can be appended. The exception is a failed sync: the disk
    /// may have lost records, so the journal accepts no more of them until it is opened again.
    pub(crate) fn append<R: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = R>,
    ) -> Result<(), Error> {
        let path = log_path(&self.directory, self.generation);
        let mut frames = Vec::new();
        for record in records {
            add_frame(&mut frames, record.as_ref())?;
        }
        if self.unsynced {
            let source = io::Error::other("an earlier write may be lost; restart the server");
            return Err(io_error("append to", &path)(source));
        }
        if self.torn {
            self.cut_off_torn().map_err(io_error("repair", &path))?;
        }
        if let Err(source) = self.log.write_all(&frames) {
            self.failing = true;
            // If the truncation also fails, it is retried before the next record.
            self.torn = true;
            let _ = self.cut_off_torn();
            return Err(io_error("append to", &path)(source));
        }
        if self.options.sync
            && let Err(source) = self.log.sync_data()
        {
            self.failing = true;
            self.unsynced = true;
            return Err(io_error("sync", &path)(source));
        }
        self.log_length += frames.len() as u64;
        self.failing = false;
        Ok(())
    }

    /// Checks that records can be written. After a failure, it writes and removes a few bytes, to check that the disk
    /// accepts writes again.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        if !self.failing {
            return Ok(());
        }
        let before = self.log_length;
        self.append([PROBE])?;
        self.failing = true;
        self.torn = true;
        self.log_length = before;
        let path = log_path(&self.directory, self.generation);
        let cut = self.cut_off_torn();
        cut.map_err(io_error("repair", &path))?;
        self.failing = false;
        Ok(())
    }

    /// Removes the rest of a failed write at the end of the log.
    fn cut_off_torn(&mut self) -> io::Result<()> {
        self.log.set_len(self.log_length)?;
        self.log.seek(SeekFrom::Start(self.log_length))?;
        self.torn = false;
        Ok(())
    }

    /// Returns the length of the log: the position after the last record.
    pub(crate) fn log_length(&self) -> u64 {
        self.log_length
    }

    /// Starts a compaction if the log is long and no other one was started. It must be finished by
    /// [`Self::finish_compaction`].
    pub(crate) fn start_compaction(&mut self) -> Option<Compaction> {
        let least = COMPACTION_LENGTH_MIN.max(self.snapshot_length.saturating_mul(2));
        let is_due = self.log_length > least.max(self.next_compaction);
        (is_due && !self.is_compacting).then(|| self.compaction())
    }

    fn compaction(&mut self) -> Compaction {
        self.is_compacting = true;
        Compaction {
            directory: self.directory.clone(),
            generation: self.generation + 1,
            log_length: self.log_length,
        }
    }

    /// Puts the next generation into effect, with the records that were appended meanwhile. Returns the old one, which
    /// can be removed.
    ///
    /// After an error, the old generation stays in effect, and the compaction is retried when the log is longer.
    pub(crate) fn finish_compaction(
        &mut self,
        next: Result<NextGeneration, Error>,
    ) -> Result<OldGeneration, Error> {
        self.is_compacting = false;
        let old = self.generation;
        if let Err(error) = next.and_then(|next| self.switch_to(next)) {
            self.next_compaction = self.log_length + COMPACTION_LENGTH_MIN;
            // On a full disk, these files would take the last space.
            let log = log_path(&self.directory, self.generation + 1);
            for path in [partial_snapshot(&self.directory), log] {
                let _ = fs::remove_file(path);
            }
            return Err(error);
        }
        Ok(OldGeneration {
            directory: self.directory.clone(),
            generation: old,
        })
    }

    fn switch_to(&mut self, mut next: NextGeneration) -> Result<(), Error> {
        next.copy_log(self.log_length)?;
        if self.options.sync {
            next.log.sync_data().map_err(io_error("sync", &next.log_path))?;
        }
        let temporary = partial_snapshot(&self.directory);
        let snapshot = snapshot_path(&self.directory, next.generation);
        fs::rename(&temporary, &snapshot).map_err(io_error("rename", &temporary))?;
        // From here on, the next start reads the new generation.
        self.log = next.log;
        self.log_length = next.log_length;
        self.snapshot_length = next.snapshot_length;
        self.generation = next.generation;
        self.next_compaction = 0;
        self.torn = false;
        // Without the new name on the disk, a power failure would return to the old log.
        self.unsynced = self.options.sync && sync_directory(&self.directory).is_err();
        Ok(())
    }
}

// === impl Compaction ===

impl Compaction {
    /// Writes the snapshot `records`, which is the whole state when the compaction started, and an empty log.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written, or after `is_cancelled` was set.
    pub(crate) fn write<R: AsRef<[u8]>>(
        self,
        records: impl IntoIterator<Item = R>,
        is_cancelled: &AtomicBool,
    ) -> Result<NextGeneration, Error> {
        let snapshot_length = write_snapshot(&partial_snapshot(&self.directory), records, is_cancelled)?;
        let old = log_path(&self.directory, self.generation - 1);
        let mut old_log = File::open(&old).map_err(io_error("open", &old))?;
        old_log
            .seek(SeekFrom::Start(self.log_length))
            .map_err(io_error("read", &old))?;
        let log_path = log_path(&self.directory, self.generation);
        Ok(NextGeneration {
            generation: self.generation,
            snapshot_length,
            log: begin_log(&log_path)?,
            log_path,
            log_length: LOG_MAGIC.len() as u64,
            old_log,
            copied: self.log_length,
        })
    }
}

// === impl NextGeneration ===

impl NextGeneration {
    /// Copies the records up to a position of the old log.
    pub(crate) fn copy_log(&mut self, end: u64) -> Result<(), Error> {
        let missing = end.saturating_sub(self.copied);
        let copied = io::copy(&mut (&self.old_log).take(missing), &mut self.log);
        let copied = copied.map_err(io_error("copy the log to", &self.log_path))?;
        if copied < missing {
            let source = io::ErrorKind::UnexpectedEof.into();
            return Err(io_error("copy the log to", &self.log_path)(source));
        }
        self.copied += copied;
        self.log_length += copied;
        Ok(())
    }
}

// === impl OldGeneration ===

impl OldGeneration {
    /// Removes the files, after the disk has the name of the new snapshot.
    pub(crate) fn remove(self) -> Result<(), Error> {
        sync_directory(&self.directory)?;
        for path in [
            log_path(&self.directory, self.generation),
            snapshot_path(&self.directory, self.generation),
        ] {
            match fs::remove_file(&path) {
                // The first generation has no snapshot.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(io_error("remove", &path))?,
            }
        }
        Ok(())
    }
}

fn partial_snapshot(directory: &Path) -> PathBuf {
    directory.join(PARTIAL_SNAPSHOT)
}

fn log_path(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("log-{generation}"))
}

fn snapshot_path(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("snapshot-{generation}"))
}

fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join("lock");
    let file = File::create(&path).map_err(io_error("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked {
            directory: directory.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(io_error("lock", &path)(source)),
    }
}

/// Returns the newest generation with a complete snapshot; 0 is the initial empty one.
fn newest_generation(directory: &Path) -> Result<u64, Error> {
    Ok(files(directory)?
        .filter_map(|name| name.strip_prefix("snapshot-")?.parse().ok())
        .max()
        .unwrap_or(0))
}

fn files(directory: &Path) -> Result<impl Iterator<Item = String>, Error> {
    let entries = fs::read_dir(directory).map_err(io_error("read", directory))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()))
}

fn remove_other_generations(directory: &Path, generation: u64) -> Result<(), Error> {
    let keep = [format!("log-{generation}"), format!("snapshot-{generation}")];
    let ours = |name: &String| {
        let number = name
            .strip_prefix("log-")
            .or_else(|| name.strip_prefix("snapshot-"));
        name == PARTIAL_SNAPSHOT || number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    for name in files(directory)?.filter(ours).filter(|name| !keep.contains(name)) {
        let path = directory.join(name);
        fs::remove_file(&path).map_err(io_error("remove", &path))?;
    }
    Ok(())
}

fn sync_directory(directory: &Path) -> Result<(), Error> {
    File::open(directory)
        .and_then(|file| file.sync_all())
        .map_err(io_error("sync", directory))
}

/// Returns the checksum of a record. It covers the length, too, so that no record is all zeros on disk.
fn checksum(length: [u8; 4], record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(record);
    hasher.finalize()
}

/// Appends a record with its length and checksum.
fn add_frame(frames: &mut Vec<u8>, record: &[u8]) -> Result<(), Error> {
    let too_long = || Error::TooLong { length: record.len() };
    if record.len() > RECORD_LENGTH_MAX {
        return Err(too_long());
    }
    let length = u32::try_from(record.len()).map_err(|_| too_long())?.to_le_bytes();
    frames.reserve(HEADER_LENGTH + record.len());
    frames.extend(length);
    frames.extend(checksum(length, record).to_le_bytes());
    frames.extend(record);
    Ok(())
}

fn log_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

/// Opens a log for appending. A log without a header gets one.
fn open_log(path: &Path) -> Result<File, Error> {
    let file = log_options()
        .truncate(false)
        .open(path)
        .map_err(io_error("open", path))?;
    let length = file.metadata().map_err(io_error("read", path))?.len();
    if length < LOG_MAGIC.len() as u64 {
        return begin_log(path);
    }
    Ok(file)
}

/// Creates an empty log, replacing one of an earlier attempt.
fn begin_log(path: &Path) -> Result<File, Error> {
    let mut file = log_options()
        .truncate(true)
        .open(path)
        .map_err(io_error("open", path))?;
    file.write_all(LOG_MAGIC).map_err(io_error("write", path))?;
    Ok(file)
}

struct LogContents {
    records: Vec<Vec<u8>>,
    length: u64,
    cut_off: u64,
}

/// Keeps a copy of the end of a log before it is truncated.
fn keep_unfinished(log: &Path, rest: &[u8]) -> Result<(), Error> {
    let path = log.with_extension("unfinished");
    log_options()
        .truncate(true)
        .open(&path)
        .and_then(|mut file| file.write_all(rest))
        .map_err(io_error("write", &path))
}

/// Returns true if the end of a log contains records after a damaged length.
fn hides_records(rest: &[u8]) -> bool {
    // The record itself may be complete.
    if let Some((_, record)) = rest.split_first_chunk::<4>()
        && let Some((sum, record)) = record.split_first_chunk::<4>()
        && let Ok(length) = u32::try_from(record.len())
        && checksum(length.to_le_bytes(), record) == u32::from_le_bytes(*sum)
    {
        return true;
    }
    // Records are text without zero bytes, but lengths contain zero bytes. So only few positions need a checksum.
    (1..rest.len()).any(|start| {
        let rest = rest.get(start..).unwrap_or_default();
        let is_empty = rest.starts_with(&[0; 4]);
        !is_empty && matches!(next_record(rest), Next::Record { .. })
    })
}

/// Reads a log, removes an incomplete record at its end, and sets the position of the file to the end.
fn read_log(log: &mut File, path: &Path) -> Result<LogContents, Error> {
    let mut bytes = Vec::new();
    log.seek(SeekFrom::Start(0))
        .and_then(|_| log.read_to_end(&mut bytes))
        .map_err(io_error("read", path))?;
    let mut rest = bytes.strip_prefix(LOG_MAGIC).ok_or_else(|| Error::Foreign {
        file: path.to_owned(),
        what: "journal",
    })?;
    let mut records = Vec::new();
    let end = |rest: &[u8]| (bytes.len() - rest.len()) as u64;
    loop {
        match next_record(rest) {
            Next::Record { record, after } => {
                records.push(record.to_vec());
                rest = after;
            }
            Next::End => break,
            Next::Unfinished => break,
            Next::Damaged => {
                return Err(Error::Damaged {
                    file: path.to_owned(),
                    offset: end(rest),
                });
            }
        }
    }
    if hides_records(rest) {
        return Err(Error::Damaged {
            file: path.to_owned(),
            offset: end(rest),
        });
    }
    let length = end(rest);
    let cut_off = rest.len() as u64;
    if cut_off > 0 {
        keep_unfinished(path, rest)?;
    }
    log.set_len(length)
        .and_then(|()| log.seek(SeekFrom::Start(length)))
        .map_err(io_error("truncate", path))?;
    Ok(LogContents {
        records,
        length,
        cut_off,
    })
}

enum Next<'a> {
    Record { record: &'a [u8], after: &'a [u8] },
    End,
    Unfinished,
    Damaged,
}

fn next_record(bytes: &[u8]) -> Next<'_> {
    if bytes.is_empty() {
        return Next::End;
    }
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Next::Unfinished;
    };
    let Some((sum, rest)) = rest.split_first_chunk::<4>() else {
        return Next::Unfinished;
    };
    // If a file grew but its data did not reach the disk, it ends with zeros.
    if *length == [0; 4] && bytes.iter().all(|byte| *byte == 0) {
        return Next::Unfinished;
    }
    let record_length = u32::from_le_bytes(*length) as usize;
    if record_length > RECORD_LENGTH_MAX {
        return Next::Damaged;
    }
    match rest.split_at_checked(record_length) {
        None => Next::Unfinished,
        Some((record, after)) if checksum(*length, record) == u32::from_le_bytes(*sum) => {
            Next::Record { record, after }
        }
        Some((record, after)) if is_unwritten(record) && after.iter().all(|byte| *byte == 0) => {
            Next::Unfinished
        }
        Some(_) => Next::Damaged,
    }
}

/// Returns true if a part of a record was never written: the part reads as zeros, which do not occur in text. A single
/// damaged bit cannot create two zeros, nor a zero as the last byte.
fn is_unwritten(record: &[u8]) -> bool {
    record.last() == Some(&0) || record.windows(2).any(|pair| pair == [0, 0])
}

/// Writes a snapshot: its records, and an empty record that marks the end. Returns the length of the file.
fn write_snapshot<R: AsRef<[u8]>>(
    path: &Path,
    records: impl IntoIterator<Item = R>,
    is_cancelled: &AtomicBool,
) -> Result<u64, Error> {
    let write = || -> io::Result<u64> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut writer = BufWriter::new(options.open(path)?);
        writer.write_all(SNAPSHOT_MAGIC)?;
        let mut length = SNAPSHOT_MAGIC.len() as u64;
        let end: &[u8] = &[];
        let mut frame = Vec::new();
        for record in records {
            if is_cancelled.load(Ordering::Relaxed) {
                return Err(io::Error::other("the server ends"));
            }
            frame.clear();
            add_frame(&mut frame, record.as_ref()).map_err(io::Error::other)?;
            writer.write_all(&frame)?;
            length += frame.len() as u64;
        }
        frame.clear();
        add_frame(&mut frame, end).map_err(io::Error::other)?;
        writer.write_all(&frame)?;
        writer
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .sync_all()?;
        Ok(length + frame.len() as u64)
    };
    write().map_err(io_error("write", path))
}

/// Reads a snapshot. It was complete when it got its final name, so a missing end record is damage.
fn read_snapshot(path: &Path) -> Result<(Vec<Vec<u8>>, u64), Error> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| BufReader::new(file).read_to_end(&mut bytes))
        .map_err(io_error("read", path))?;
    let mut rest = bytes.strip_prefix(SNAPSHOT_MAGIC).ok_or_else(|| Error::Foreign {
        file: path.to_owned(),
        what: "snapshot",
    })?;
    let mut records = Vec::new();
    loop {
        match next_record(rest) {
            Next::Record {
                record: [],
                after: [],
            } => return Ok((records, bytes.len() as u64)),
            Next::Record { record, after } => {
                records.push(record.to_vec());
                rest = after;
            }
            Next::End | Next::Unfinished | Next::Damaged => {
                let offset = (bytes.len() - rest.len()) as u64;
                return Err(Error::Damaged {
                    file: path.to_owned(),
                    offset,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
