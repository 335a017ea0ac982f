use proptest::prelude::*;

use super::*;

fn open(directory: &Path) -> (Journal, Recovered) {
    Journal::open(directory, Options::default()).unwrap()
}

/// Returns the next generation with a snapshot, without the records that are appended later.
fn written<R: AsRef<[u8]>>(
    journal: &mut Journal,
    records: impl IntoIterator<Item = R>,
) -> Result<NextGeneration, Error> {
    journal.compaction().write(records, &AtomicBool::new(false))
}

fn compact<R: AsRef<[u8]>>(journal: &mut Journal, records: impl IntoIterator<Item = R>) -> Result<(), Error> {
    let next = written(journal, records);
    journal.finish_compaction(next)?.remove()
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = files(directory).unwrap().collect();
    names.sort();
    names
}

fn texts(records: &[Vec<u8>]) -> Vec<&str> {
    records
        .iter()
        .map(|record| std::str::from_utf8(record).unwrap())
        .collect()
}

#[test]
fn appended_records_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, recovered) = open(directory.path());
    assert_eq!(recovered, Recovered::default());
    journal.append([b"one"]).unwrap();
    journal.append([b"two"]).unwrap();
    drop(journal);
    let (mut journal, recovered) = open(directory.path());
    assert_eq!(texts(&recovered.log), ["one", "two"]);
    journal.append([b"three"]).unwrap();
    drop(journal);
    assert_eq!(texts(&open(directory.path()).1.log), ["one", "two", "three"]);
}

#[test]
fn a_compaction_starts_a_generation_and_removes_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append([b"one"]).unwrap();
    journal.append([b"two"]).unwrap();
    compact(&mut journal, ["both"]).unwrap();
    journal.append([b"three"]).unwrap();
    drop(journal);
    let (_, recovered) = open(directory.path());
    assert_eq!(
        (texts(&recovered.snapshot), texts(&recovered.log)),
        (vec!["both"], vec!["three"])
    );
    assert_eq!(names(directory.path()), ["lock", "log-1", "snapshot-1"]);
}

#[test]
fn a_server_that_died_while_it_compacted_has_lost_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append([b"one"]).unwrap();
    drop(journal);
    fs::write(
        directory.path().join("snapshot.partial"),
        b"opsdksn1 and half a rec",
    )
    .unwrap();
    fs::write(directory.path().join("log-1"), b"ops").unwrap();
    let (mut journal, recovered) = open(directory.path());
    assert_eq!(texts(&recovered.log), ["one"]);
    compact(&mut journal, ["one"]).unwrap();
    drop(journal);
    assert_eq!(texts(&open(directory.path()).1.snapshot), ["one"]);
}

#[test]
fn commits_during_a_compaction_are_in_the_new_generation() {
    let directory = tempfile::tempdir().unwrap();
    for sync in [false, true] {
        let (mut journal, _) = Journal::open(directory.path(), Options { sync }).unwrap();
        journal.append(["before"]).unwrap();
        let mut next = written(&mut journal, ["state"]).unwrap();
        journal.append(["first"]).unwrap();
        next.copy_log(journal.log_length()).unwrap();
        journal.append(["second", "third"]).unwrap();
        journal.finish_compaction(Ok(next)).unwrap().remove().unwrap();
        journal.append(["after"]).unwrap();
        drop(journal);
        let (journal, recovered) = open(directory.path());
        assert_eq!(texts(&recovered.snapshot), ["state"]);
        assert_eq!(texts(&recovered.log), ["first", "second", "third", "after"]);
        let generation = journal.generation;
        assert_eq!(
            names(directory.path()),
            [
                "lock".to_owned(),
                format!("log-{generation}"),
                format!("snapshot-{generation}")
            ]
        );
    }
}

#[test]
fn a_server_that_dies_at_any_step_of_a_compaction_loses_nothing() {
    for steps in 0..4 {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(directory.path());
        journal.append(["one"]).unwrap();
        let mut next = written(&mut journal, ["one"]).unwrap();
        journal.append(["two"]).unwrap();
        if steps > 0 {
            next.copy_log(journal.log_length()).unwrap();
        }
        journal.append(["three"]).unwrap();
        if steps > 1 {
            let old = journal.finish_compaction(Ok(next)).unwrap();
            if steps > 2 {
                journal.append(["four"]).unwrap();
                old.remove().unwrap();
            }
        }
        drop(journal);
        let (_, recovered) = open(directory.path());
        let records = [&recovered.snapshot[..], &recovered.log[..]].concat();
        let all = ["one", "two", "three", "four"];
        assert_eq!(texts(&records), all[..if steps > 2 { 4 } else { 3 }], "{steps}");
        assert_eq!(recovered.snapshot.is_empty(), steps < 2, "{steps}");
    }
}

#[test]
fn a_failed_write_during_a_compaction_is_not_copied() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(["one"]).unwrap();
    let next = written(&mut journal, ["one"]);
    journal.append(["two"]).unwrap();
    // A part of a failed write that could not be undone.
    journal.log.write_all(b"half of a record").unwrap();
    journal.torn = true;
    journal.finish_compaction(next).unwrap().remove().unwrap();
    journal.append(["three"]).unwrap();
    drop(journal);
    assert_eq!(texts(&open(directory.path()).1.log), ["two", "three"]);
}

#[test]
fn one_compaction_is_in_progress_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    let long = vec![b'x'; 1 << 20];
    while journal.log_length() <= COMPACTION_LENGTH_MIN {
        assert!(journal.start_compaction().is_none());
        journal.append([&long]).unwrap();
    }
    let compaction = journal.start_compaction().unwrap();
    assert!(journal.start_compaction().is_none());
    let next = compaction.write(["all"], &AtomicBool::new(true));
    journal.finish_compaction(next).unwrap_err();
    assert_eq!(names(directory.path()), ["lock", "log-0"]);
    // It is retried when the log is longer.
    assert!(journal.start_compaction().is_none());
    while journal.log_length() <= 2 * COMPACTION_LENGTH_MIN + (1 << 20) {
        journal.append([&long]).unwrap();
    }
    assert!(journal.start_compaction().is_some());
}

#[test]
fn two_servers_cannot_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (_journal, _) = open(directory.path());
    let error = Journal::open(directory.path(), Options::default()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
}

#[test]
fn damage_in_the_middle_is_an_error_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append([b"one"]).unwrap();
    journal.append([b"two"]).unwrap();
    drop(journal);
    let path = log_path(directory.path(), 0);
    let mut bytes = fs::read(&path).unwrap();
    bytes[HEADER_LENGTH + 8] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = Journal::open(directory.path(), Options::default()).unwrap_err();
    assert!(matches!(error, Error::Damaged { offset: 8, .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_file_of_another_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(log_path(directory.path(), 0), b"something else").unwrap();
    let error = Journal::open(directory.path(), Options::default()).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
}

/// Returns the log of a directory with some records, and the start of each record.
fn log_of(directory: &Path, records: &[&[u8]]) -> (PathBuf, Vec<u8>) {
    let (mut journal, _) = open(directory);
    for record in records {
        journal.append([record]).unwrap();
    }
    drop(journal);
    let path = log_path(directory, 0);
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

#[test]
fn no_flipped_bit_loses_a_record_silently() {
    let directory = tempfile::tempdir().unwrap();
    let records: [&[u8]; 3] = [b"{\"a\":1}", b"{\"key\": \"@ value\"}", b"{}\n"];
    let (path, bytes) = log_of(directory.path(), &records);
    for bit in LOG_MAGIC.len() * 8..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &damaged).unwrap();
        let error = Journal::open(directory.path(), Options::default()).expect_err(&format!("bit {bit}"));
        assert!(matches!(error, Error::Damaged { .. }), "{bit}: {error}");
        assert_eq!(fs::read(&path).unwrap(), damaged, "{bit}");
    }
}

#[test]
fn cut_off_bytes_are_kept_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let (path, bytes) = log_of(directory.path(), &[b"one", b"two"]);
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let (_, recovered) = open(directory.path());
    assert_eq!(texts(&recovered.log), ["one"]);
    let kept = fs::read(directory.path().join("log-0.unfinished")).unwrap();
    assert_eq!(kept, bytes[bytes.len() - 11..bytes.len() - 1]);
}

#[test]
fn an_end_that_never_reached_the_disk_is_unfinished() {
    let directory = tempfile::tempdir().unwrap();
    let (path, bytes) = log_of(directory.path(), &[b"one", b"{\"two\": 2}"]);
    for lost in 1..HEADER_LENGTH + 10 {
        let mut damaged = bytes.clone();
        let end = damaged.len();
        damaged[end - lost..].fill(0);
        damaged.extend([0; 100]);
        fs::write(&path, &damaged).unwrap();
        let (_, recovered) = open(directory.path());
        assert_eq!(texts(&recovered.log), ["one"], "{lost}");
    }
}

#[test]
fn a_commit_is_appended_as_a_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append([b"one"]).unwrap();
    let long = vec![b'x'; RECORD_LENGTH_MAX + 1];
    let error = journal.append([b"two", long.as_slice()]).unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
    journal.append([b"three"]).unwrap();
    drop(journal);
    assert_eq!(texts(&open(directory.path()).1.log), ["one", "three"]);
}

#[test]
fn a_failed_write_is_undone_before_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append([b"one"]).unwrap();
    // A part of a failed write that could not be undone.
    journal.log.write_all(b"half of a record").unwrap();
    journal.torn = true;
    journal.append([b"two"]).unwrap();
    drop(journal);
    assert_eq!(texts(&open(directory.path()).1.log), ["one", "two"]);
}

#[test]
fn a_failed_compaction_leaves_nothing_behind_and_is_tried_again_later() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append([b"one"]).unwrap();
    let long = vec![b'x'; RECORD_LENGTH_MAX + 1];
    compact(&mut journal, [long.as_slice()]).unwrap_err();
    assert_eq!(names(directory.path()), ["lock", "log-0"]);
    assert!(journal.next_compaction > journal.log_length);
    journal.append([b"two"]).unwrap();
    compact(&mut journal, ["both"]).unwrap();
    journal.append([b"three"]).unwrap();
    drop(journal);
    let (_, recovered) = open(directory.path());
    assert_eq!(texts(&recovered.snapshot), ["both"]);
    assert_eq!(texts(&recovered.log), ["three"]);
}

#[test]
fn a_log_that_an_earlier_attempt_left_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    fs::write(log_path(directory.path(), 1), b"opsdklg1 and more").unwrap();
    compact(&mut journal, ["state"]).unwrap();
    journal.append([b"next"]).unwrap();
    drop(journal);
    assert_eq!(texts(&open(directory.path()).1.log), ["next"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Checks that if the last write is truncated at any position, the earlier records are complete, and new ones
    /// follow.
    #[test]
    fn a_torn_tail_costs_only_the_unfinished_record(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..8),
        cut in 1_usize..48,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(directory.path());
        for record in &records {
            journal.append([record]).unwrap();
        }
        drop(journal);
        let path = log_path(directory.path(), 0);
        let last = HEADER_LENGTH + records.last().unwrap().len();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - cut.min(last)]).unwrap();

        let (mut journal, recovered) = open(directory.path());
        prop_assert_eq!(&recovered.log[..], &records[..records.len() - 1]);
        journal.append([b"next"]).unwrap();
        drop(journal);
        let (_, recovered) = open(directory.path());
        prop_assert_eq!(recovered.log.last().unwrap().as_slice(), b"next");
        prop_assert_eq!(recovered.log.len(), records.len());
    }
}
