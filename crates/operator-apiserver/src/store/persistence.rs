//! Persists the store in its journal: one record for each commit, and one snapshot of the whole state.
//!
//! A record is a line of JSON with the key, the table and the revision, followed by the object. A record without an
//! object is a deletion; a record without a key contains only the revision of a snapshot.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use apimachinery::json;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use super::{Event, Frozen, Horizon, State, Store, Stored, Table, TableId};
use crate::store::EventType;
use crate::store::journal::{Compaction, Error, Journal, Options, Recovered};
use apimachinery::gvk::Gvr;

#[derive(Serialize, Deserialize)]
struct Header<'a> {
    revision: u64,
    #[serde(borrow)]
    table: std::borrow::Cow<'a, str>,
    group: std::borrow::Cow<'a, str>,
    version: std::borrow::Cow<'a, str>,
    resource: std::borrow::Cow<'a, str>,
    key: std::borrow::Cow<'a, str>,
}

impl<'a> Header<'a> {
    fn new(table: &'a str, gvr: &'a Gvr, key: &'a str, revision: u64) -> Self {
        Self {
            revision,
            table: table.into(),
            group: gvr.group.as_str().into(),
            version: gvr.version.as_str().into(),
            resource: gvr.resource.as_str().into(),
            key: key.into(),
        }
    }

    fn record(&self, object: &[u8]) -> Vec<u8> {
        let mut record = serde_json::to_vec(self).unwrap_or_default();
        record.push(b'\n');
        record.extend(object);
        record
    }
}

/// Appends the events of a commit, all or none.
pub(super) fn append(journal: &mut Journal, events: &[(TableId, Arc<Event>)]) -> Result<(), Error> {
    let records = events.iter().map(|(table, event)| {
        let header = Header::new(table, &event.gvr, &event.object.key, event.revision);
        let object: &[u8] = match event.kind {
            EventType::Added | EventType::Modified => event.object.bytes(),
            EventType::Deleted => &[],
        };
        header.record(object)
    });
    journal.append(records)
}

impl Store {
    /// Opens a data directory, and returns a store with its content that persists its commits there. The history is
    /// empty: a watch from before the restart gets `Expired`.
    ///
    /// # Errors
    /// Returns an error if the directory is in use, damaged, or cannot be read or written.
    pub(crate) fn open(horizon: Horizon, directory: &Path, options: Options) -> Result<Self, Error> {
        let (journal, recovered) = Journal::open(directory, options)?;
        if recovered.cut_off > 0 {
            tracing::warn!(
                bytes = recovered.cut_off,
                directory = %directory.display(),
                "the journal ended with an incomplete record, which was moved to a file named log-*.unfinished"
            );
        }
        let mut store = Self::new(horizon);
        {
            let mut state = store.state.write();
            state.recover(directory, &recovered)?;
            state.journal = Some(journal);
            store.changes.send(state.revision);
        }
        let compactor = Compactor::start(store.state.clone());
        store.compactor = Some(compactor.map_err(|source| Error::Io {
            action: "start the thread that compacts",
            path: directory.to_owned(),
            source,
        })?);
        Ok(store)
    }
}

impl State {
    fn recover(&mut self, directory: &Path, recovered: &Recovered) -> Result<(), Error> {
        for (number, record) in recovered.snapshot.iter().chain(&recovered.log).enumerate() {
            self.recover_record(record).map_err(|reason| Error::Unreadable {
                directory: directory.to_owned(),
                record: number,
                reason,
            })?;
        }
        self.forget_all();
        Ok(())
    }

    fn recover_record(&mut self, record: &[u8]) -> Result<(), String> {
        let end = record.iter().position(|byte| *byte == b'\n').ok_or("no header")?;
        let (header, object) = record.split_at(end);
        let header: Header<'_> = serde_json::from_slice(header).map_err(|error| error.to_string())?;
        self.revision = self.revision.max(header.revision);
        if header.key.is_empty() {
            return Ok(());
        }
        let gvr = Arc::new(Gvr::new(&header.group, &header.version, &header.resource));
        let table_id: TableId = header.table.as_ref().into();
        let table = self
            .tables
            .entry(table_id)
            .or_insert_with(|| Table::new(gvr.clone(), 0));
        table.gvr = gvr;
        let key: Arc<str> = header.key.as_ref().into();
        match object {
            [_] => {
                Arc::make_mut(&mut table.objects).remove(&key);
            }
            object => {
                // The parser of requests is used so that numbers are parsed in the same way.
                let value = json::parse_stored(object)?;
                Arc::make_mut(&mut table.objects).insert(Stored::new(key, header.revision, value));
            }
        }
        Ok(())
    }

    /// Starts a compaction of the journal if its log is long.
    pub(super) fn start_compaction(&mut self) -> Option<Job> {
        let compaction = self.journal.as_mut()?.start_compaction()?;
        Some(Job {
            compaction,
            objects: self.freeze(),
        })
    }
}

/// A compaction, and the objects when it started.
#[derive(Debug)]
pub(super) struct Job {
    compaction: Compaction,
    objects: Frozen,
}

/// The thread that compacts the journal, so that no request waits for the snapshot. When this is dropped, a compaction
/// that has not finished is cancelled.
#[derive(Debug)]
pub(super) struct Compactor {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    is_cancelled: Arc<AtomicBool>,
}

impl Compactor {
    fn start(state: Arc<RwLock<State>>) -> std::io::Result<Self> {
        let (jobs, received) = mpsc::channel();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let cancelled = is_cancelled.clone();
        let run = move || {
            for job in received {
                if let Err(error) = compact(&state, job, &cancelled)
                    && !cancelled.load(Ordering::Relaxed)
                {
                    tracing::error!(%error, "cannot compact the journal");
                }
            }
        };
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(run)?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            is_cancelled,
        })
    }

    pub(super) fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The thread receives until the sender is dropped.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes a new generation of the journal. The store is locked only to put it into effect. After an error, the old
/// generation stays in effect.
fn compact(state: &RwLock<State>, job: Job, is_cancelled: &AtomicBool) -> Result<(), Error> {
    let Job { compaction, objects } = job;
    let nowhere = Gvr::new("", "", "");
    let mark = Header::new("", &nowhere, "", objects.revision()).record(&[]);
    let records = objects.objects().map(|(table, gvr, object)| {
        Header::new(table, gvr, &object.key, object.revision).record(object.bytes())
    });
    let mut next = compaction.write(std::iter::once(mark).chain(records), is_cancelled);
    // Most of the later records are copied before the store is locked.
    let length = state.read().journal.as_ref().map(Journal::log_length);
    if let Some(length) = length {
        next = next.and_then(|mut next| next.copy_log(length).map(|()| next));
    }
    let finished = match &mut state.write().journal {
        Some(journal) => journal.finish_compaction(next),
        None => return Ok(()),
    };
    finished?.remove()
}
