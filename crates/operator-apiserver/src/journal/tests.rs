use proptest::prelude::*;

use super::*;

fn open(directory: &Path) -> (Journal, Recovered) {
    Journal::open(directory, Options::default()).unwrap()
}

fn texts(records: &[Vec<u8>]) -> Vec<&str> {
    records
        .iter()
        .map(|record| std::str::from_utf8(record).unwrap())
        .collect()
}

#[test]
fn what_was_appended_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, recovered) = open(directory.path());
    assert_eq!(recovered, Recovered::default());
    journal.append(b"one").unwrap();
    journal.append(b"two").unwrap();
    drop(journal);
    let (mut journal, recovered) = open(directory.path());
    assert_eq!(texts(&recovered.log), ["one", "two"]);
    journal.append(b"three").unwrap();
    drop(journal);
    assert_eq!(texts(&open(directory.path()).1.log), ["one", "two", "three"]);
}

#[test]
fn a_compaction_starts_a_generation_and_removes_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(b"one").unwrap();
    journal.append(b"two").unwrap();
    journal.compact(["both"]).unwrap();
    journal.append(b"three").unwrap();
    drop(journal);
    let (_, recovered) = open(directory.path());
    assert_eq!(
        (texts(&recovered.snapshot), texts(&recovered.log)),
        (vec!["both"], vec!["three"])
    );
    let mut names: Vec<String> = files(directory.path()).unwrap().collect();
    names.sort();
    assert_eq!(names, ["lock", "log-1", "snapshot-1"]);
}

#[test]
fn a_server_that_died_while_it_compacted_has_lost_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(b"one").unwrap();
    drop(journal);
    fs::write(
        directory.path().join("snapshot.partial"),
        b"opsdksn1 and half a rec",
    )
    .unwrap();
    fs::write(directory.path().join("log-1"), b"ops").unwrap();
    let (mut journal, recovered) = open(directory.path());
    assert_eq!(texts(&recovered.log), ["one"]);
    journal.compact(["one"]).unwrap();
    drop(journal);
    assert_eq!(texts(&open(directory.path()).1.snapshot), ["one"]);
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
    journal.append(b"one").unwrap();
    journal.append(b"two").unwrap();
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Wherever the last write was cut, the records before it are whole, and new ones follow them.
    #[test]
    fn a_torn_tail_costs_only_the_unfinished_record(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..8),
        cut in 1_usize..48,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(directory.path());
        for record in &records {
            journal.append(record).unwrap();
        }
        drop(journal);
        let path = log_path(directory.path(), 0);
        let last = frame(records.last().unwrap()).len();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - cut.min(last)]).unwrap();

        let (mut journal, recovered) = open(directory.path());
        prop_assert_eq!(&recovered.log[..], &records[..records.len() - 1]);
        journal.append(b"next").unwrap();
        drop(journal);
        let (_, recovered) = open(directory.path());
        prop_assert_eq!(recovered.log.last().unwrap().as_slice(), b"next");
        prop_assert_eq!(recovered.log.len(), records.len());
    }
}
