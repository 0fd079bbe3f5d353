use std::sync::Arc;
use std::thread;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use super::*;

fn names() -> NameTable {
    NameTable {
        operations: vec!["a.b.c".to_owned()],
        codes: vec!["bad_request".to_owned()],
        database: "d".to_owned(),
    }
}

fn journal(folder: &TempDir, id: &str, segments_max: usize) -> Journal {
    Journal::create(folder.path(), id.to_owned(), names(), segments_max).unwrap()
}

fn record() -> Record<'static> {
    any_record().new_tree(&mut TestRunner::deterministic()).unwrap().current()
}

/// What a dead process would have left: the same files, and nobody who holds them.
fn die(journal: Journal) {
    drop(journal);
}

#[test]
fn what_was_appended_is_read_in_order_across_segments() {
    let (folder, record) = (tempfile::tempdir().unwrap(), record());
    let journal = journal(&folder, "j", 8);
    let count = segment::RECORDS * 2 + 10;
    for number in 0..count {
        let record = Record { units: u32::try_from(number).unwrap(), ..record.clone() };
        assert_eq!(journal.append(&record).unwrap(), number as u64);
    }
    for from in [0, 1, segment::RECORDS - 1, segment::RECORDS, count - 1, count] {
        let read = journal.read(from as u64, 100);
        assert_eq!(read.len(), 100.min(count - from));
        assert!(read.iter().zip(from..).all(|(record, at)| record.as_ref().unwrap().units as usize == at));
    }
    assert_eq!(journal.read(segment::RECORDS as u64 - 5, 10).len(), 10, "over the border");
    journal.release(segment::RECORDS as u64);
    assert_eq!(journal.read(segment::RECORDS as u64, 1).len(), 1);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "the head and two segments");
    journal.remove().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_dead_processes_journal_is_found_and_a_living_ones_is_not() {
    let (folder, record) = (tempfile::tempdir().unwrap(), record());
    let (dead, living) = (journal(&folder, "dead", 8), journal(&folder, "living", 8));
    for _ in 0..segment::RECORDS + 7 {
        dead.append(&record).unwrap();
    }
    assert!(OrphanedJournal::find_all(folder.path()).unwrap().is_empty());
    die(dead);
    let mut orphans = OrphanedJournal::find_all(folder.path()).unwrap();
    let found = orphans.pop().unwrap();
    assert!(orphans.is_empty());
    assert_eq!((found.id(), &found.names), ("dead", &names()));
    assert!(OrphanedJournal::find_all(folder.path()).unwrap().is_empty(), "it is taken");
    let second = segment::RECORDS as u64;
    assert_eq!(found.read(0).unwrap().unwrap(), vec![Some(record.clone()); segment::RECORDS]);
    let rest = found.read(second + 2).unwrap().unwrap();
    assert_eq!(rest[..6], [vec![Some(record); 5], vec![None]].concat());
    assert_eq!(found.read(second * 2).unwrap(), None);
    found.remove().unwrap();
    drop(living);
    assert_eq!(OrphanedJournal::find_all(folder.path()).unwrap().len(), 1);
}

#[test]
fn many_threads_append_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(journal(&folder, "j", 8));
    let (threads, each) = (4u32, 10_000u32);
    let writers: Vec<_> = (0..threads)
        .map(|thread| {
            let (journal, record) = (journal.clone(), record());
            thread::spawn(move || {
                for number in 0..each {
                    journal.append(&Record { units: thread, tokens: number, ..record.clone() }).unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let records = journal.read(0, usize::MAX);
    assert_eq!(records.len(), (threads * each) as usize);
    for thread in 0..threads {
        let own = records.iter().flatten().filter(|record| record.units == thread);
        assert!(own.map(|record| record.tokens).eq(0..each), "each thread's own, in its order");
    }
}

#[test]
fn a_journal_that_nobody_counts_refuses_before_it_is_full() {
    let (folder, record) = (tempfile::tempdir().unwrap(), record());
    let journal = journal(&folder, "j", 2);
    for _ in 0..=segment::RECORDS {
        journal.make_room(10).unwrap();
        journal.append(&record).unwrap();
    }
    journal.make_room(10).unwrap();
    assert!(journal.make_room(segment::RECORDS).is_err());
    journal.release(segment::RECORDS as u64);
    assert!(journal.make_room(segment::RECORDS).is_err(), "not tried again at once");
    journal.prepare();
    assert!(journal.make_room(segment::RECORDS).is_ok(), "there is room again");
}

/// A thread that was killed between taking its slot and filling it leaves a hole; what others wrote behind it counts.
#[test]
fn a_hole_hides_nothing_behind_it() {
    let (folder, record) = (tempfile::tempdir().unwrap(), record());
    let dead = journal(&folder, "dead", 8);
    for _ in 0..10 {
        dead.append(&record).unwrap();
    }
    die(dead);
    let file = folder.path().join("dead.000000000000");
    let mut bytes = fs::read(&file).unwrap();
    bytes[3 * 256..3 * 256 + 8].fill(0);
    fs::write(&file, bytes).unwrap();
    let found = OrphanedJournal::find_all(folder.path()).unwrap().pop().unwrap();
    let slots = found.read(2).unwrap().unwrap();
    assert_eq!(slots.iter().flatten().count(), 7);
    assert_eq!((&slots[0], &slots[1], &slots[7]), (&Some(record.clone()), &None, &Some(record)));
}

#[test]
fn a_head_that_does_not_read_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    die(journal(&folder, "dead", 8));
    fs::write(folder.path().join("dead.journal"), "").unwrap();
    assert!(OrphanedJournal::find_all(folder.path()).unwrap().is_empty());
    assert!(folder.path().join("dead.damaged").exists());
    fs::write(folder.path().join("unborn.new"), "{").unwrap();
    assert!(OrphanedJournal::find_all(folder.path()).unwrap().is_empty());
    assert!(!folder.path().join("unborn.new").exists(), "what died at its start is swept away");
}
