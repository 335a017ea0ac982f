//! The audit log file, with one event per line and rotation by size; or the standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use apimachinery::go::quote;
use apimachinery::object;
use jiff::{Timestamp, ToSpan};
use serde_json::Value;

use super::{AuditMode, AuditTruncation};

const MEGABYTE: u64 = 1 << 20;
/// The default size at which a file is rotated, in megabytes.
const SIZE_DEFAULT: u64 = 100;
/// The file of the audit log, and the retention of rotated files: `--audit-log-*` of kube-apiserver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditLog {
    /// The path of the file; `-` is the standard output.
    pub path: PathBuf,
    /// Days after which rotated files are removed. Default: 0, which keeps them.
    pub max_age_days: u32,
    /// The maximum number of rotated files. Default: 0, which keeps all.
    pub max_backups: usize,
    /// Megabytes at which the file is rotated. Default: 0, which means 100.
    pub max_size_megabytes: u64,
    /// True for lines of text instead of JSON: the format `legacy`.
    pub legacy: bool,
    /// The mode. Default: [`AuditMode::Blocking`].
    pub mode: AuditMode,
    /// The size limits of events. Default: none.
    pub truncation: Option<AuditTruncation>,
}

impl AuditLog {
    /// Returns a log in JSON that keeps all its files.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            max_age_days: 0,
            max_backups: 0,
            max_size_megabytes: 0,
            legacy: false,
            mode: AuditMode::Blocking,
            truncation: None,
        }
    }
}

/// The open log.
#[derive(Debug)]
pub(super) struct Writer {
    options: AuditLog,
    file: Option<File>,
    length: u64,
}

impl Writer {
    /// Opens the log.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(super) fn open(options: AuditLog) -> io::Result<Self> {
        let mut writer = Self {
            options,
            file: None,
            length: 0,
        };
        if !writer.is_standard_output() {
            writer.reopen()?;
        }
        Ok(writer)
    }

    fn is_standard_output(&self) -> bool {
        self.options.path == Path::new("-")
    }

    fn reopen(&mut self) -> io::Result<&mut File> {
        if let Some(folder) = self
            .options
            .path
            .parent()
            .filter(|path| !path.as_os_str().is_empty())
        {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&self.options.path)?;
        self.length = file.metadata()?.len();
        Ok(self.file.insert(file))
    }

    /// Writes one event.
    pub(super) fn write(&mut self, event: &Value) -> io::Result<()> {
        let Some(truncation) = self.options.truncation else {
            return self.append(event);
        };
        match truncation.apply(event.clone()) {
            Some(event) => self.append(&event),
            None => Ok(()),
        }
    }

    pub(super) fn mode(&self) -> AuditMode {
        self.options.mode
    }

    fn append(&mut self, event: &Value) -> io::Result<()> {
        let line = if self.options.legacy {
            legacy(event)
        } else {
            format!("{event}\n")
        };
        if self.is_standard_output() {
            return io::stdout().lock().write_all(line.as_bytes());
        }
        let limit = match self.options.max_size_megabytes {
            0 => SIZE_DEFAULT,
            megabytes => megabytes,
        };
        let limit = limit.saturating_mul(MEGABYTE);
        let added = line.len() as u64;
        if self.length > 0 && self.length.saturating_add(added) > limit {
            self.rotate()?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.reopen()?,
        };
        let written = file.write_all(line.as_bytes());
        match written {
            Ok(()) => self.length += added,
            // The next event reopens the file.
            Err(_) => self.file = None,
        }
        written
    }

    /// Renames the file to include the time, and removes old files.
    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let path = &self.options.path;
        let mut time = Timestamp::now();
        let mut backup = self.backup(time);
        while backup.exists() {
            time += 1.millisecond();
            backup = self.backup(time);
        }
        fs::rename(path, backup)?;
        self.reopen()?;
        self.remove_old()
    }

    /// Returns the path of a rotated file: `audit-TIME.log` beside `audit.log`.
    fn backup(&self, time: Timestamp) -> PathBuf {
        let (stem, extension) = self.name();
        let time = time.strftime("%Y-%m-%dT%H-%M-%S%.3f");
        self.options
            .path
            .with_file_name(format!("{stem}-{time}{extension}"))
    }

    fn name(&self) -> (String, String) {
        let path = &self.options.path;
        let text = |part: Option<&std::ffi::OsStr>| {
            part.map(|part| part.to_string_lossy().into_owned())
                .unwrap_or_default()
        };
        let extension = match text(path.extension()) {
            extension if extension.is_empty() => extension,
            extension => format!(".{extension}"),
        };
        (text(path.file_stem()), extension)
    }

    fn remove_old(&self) -> io::Result<()> {
        let (stem, extension) = self.name();
        let folder = self
            .options
            .path
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        let mut backups: Vec<(Timestamp, PathBuf)> = Vec::new();
        for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let time = name
                .strip_prefix(&format!("{stem}-"))
                .and_then(|rest| rest.strip_suffix(&extension))
                .and_then(time_of);
            if let Some(time) = time {
                backups.push((time, entry.path()));
            }
        }
        backups.sort();
        backups.reverse();
        let days = i64::from(self.options.max_age_days);
        let oldest = (days > 0).then(|| Timestamp::now() - (24 * days).hours());
        let kept = match self.options.max_backups {
            0 => usize::MAX,
            kept => kept,
        };
        for (index, (time, path)) in backups.iter().enumerate() {
            if index >= kept || oldest.is_some_and(|oldest| *time < oldest) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Parses the time in the name of a rotated file.
fn time_of(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once('T')?;
    let time = time.replacen('-', ":", 2);
    format!("{date}T{time}Z").parse().ok()
}

/// Formats an event as a line of text.
fn legacy(event: &Value) -> String {
    let text = |path: &[&str]| object::text(event, path).to_owned();
    let quoted = |path: &[&str]| quote(&text(path));
    let groups = |path: &[&str]| {
        let groups = object::get(event, path).and_then(Value::as_array);
        let groups: Vec<String> = groups
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(quote)
            .collect();
        quote(&match groups.as_slice() {
            [] => "<none>".to_owned(),
            groups => groups.join(","),
        })
    };
    let or = |text: String, other: &str| quote(if text.is_empty() { other } else { &text });
    let code = event.pointer("/responseStatus/code").and_then(Value::as_i64);
    let code = code.map_or("<deferred>".to_owned(), |code| code.to_string());
    let ip = event
        .pointer("/sourceIPs/0")
        .and_then(Value::as_str)
        .unwrap_or_default();
    format!(
        "{} AUDIT: id={} stage={} ip={} method={} user={} groups={} as={} asgroups={} user-agent={} namespace={} uri={} response=\"{code}\"\n",
        text(&["requestReceivedTimestamp"]),
        quoted(&["auditID"]),
        quoted(&["stage"]),
        quote(ip),
        quoted(&["verb"]),
        or(text(&["user", "username"]), "<none>"),
        groups(&["user", "groups"]),
        or(text(&["impersonatedUser", "username"]), "<self>"),
        if event.get("impersonatedUser").is_some() {
            groups(&["impersonatedUser", "groups"])
        } else {
            quote("<lookup>")
        },
        quoted(&["userAgent"]),
        or(text(&["objectRef", "namespace"]), "<none>"),
        quoted(&["requestURI"]),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_log_that_has_grown_is_renamed_and_few_are_kept() {
        let folder = std::env::temp_dir().join(format!("audit-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let mut options = AuditLog::new(folder.join("a.log"));
        options.max_size_megabytes = 1;
        options.max_backups = 2;
        let mut writer = Writer::open(options).unwrap();
        let event = json!({"x": "y".repeat(700_000)});
        for _ in 0..5 {
            writer.write(&event).unwrap();
        }
        let files = fs::read_dir(&folder).unwrap().count();
        assert_eq!(files, 3);
        let length = fs::metadata(folder.join("a.log")).unwrap().len();
        assert!(length < MEGABYTE, "{length}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
