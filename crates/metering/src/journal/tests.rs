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
        ..NameTable::default()
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
        let read = journal.read(from as u64, 100).unwrap();
        assert_eq!(read.len(), 100.min(count - from));
        assert!(read.iter().zip(from..).all(|(record, at)| record.as_ref().unwrap().units as usize == at));
    }
    assert_eq!(journal.read(segment::RECORDS as u64 - 5, 10).unwrap().len(), 10, "over the border");
    journal.release(segment::RECORDS as u64);
    assert_eq!(journal.read(segment::RECORDS as u64, 1).unwrap().len(), 1);
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
    assert_eq!((found.id(), &found.names.operations), ("dead", &names().operations));
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
    let records = journal.read(0, usize::MAX).unwrap();
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

/// Somebody cuts the file that is written. What was in it is gone; nothing else is, and the process least of all.
#[test]
fn a_file_that_is_cut_costs_what_it_held() {
    let (folder, record) = (tempfile::tempdir().unwrap(), record());
    let journal = journal(&folder, "j", 8);
    let append = |count: usize| {
        for _ in 0..count {
            journal.append(&record).unwrap();
        }
    };
    append(10);
    let file = File::options().write(true).open(folder.path().join("j.000000000000")).unwrap();
    file.set_len(3 * 256 + 100).unwrap();
    let there = |wanted: &[(usize, bool)]| {
        let wanted: Vec<_> = wanted.iter().flat_map(|(count, there)| vec![*there; *count]).collect();
        let read = journal.read(0, usize::MAX).unwrap();
        assert_eq!(read.iter().map(Option::is_some).collect::<Vec<_>>(), wanted);
    };
    there(&[(3, true), (7, false)]);
    append(5);
    there(&[(3, true), (7, false), (5, true)]);
    append(segment::RECORDS);
    file.set_len(0).unwrap();
    there(&[(segment::RECORDS, false), (15, true)]);
    die(journal);
    let found = OrphanedJournal::find_all(folder.path()).unwrap().pop().unwrap();
    assert_eq!(found.read(0).unwrap().unwrap().iter().flatten().count(), 0);
    assert_eq!(found.read(segment::RECORDS as u64).unwrap().unwrap().iter().flatten().count(), 15);
}

/// Reports read what is being written.
#[test]
fn a_reader_beside_writers_sees_whole_records() {
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(&folder, "j", 8);
    let count = segment::RECORDS + 100;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..count / 2 {
                    journal.append(&record()).unwrap();
                }
            });
        }
        let mut seen = 0;
        while seen < count {
            let read = journal.read(seen as u64, 200).unwrap();
            assert!(read.iter().all(Option::is_some));
            seen += read.len();
        }
    });
}

#[test]
fn nobody_else_reads_the_journal_whatever_was_there_before() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("journal");
    let set_mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let left_by = |id: &str| Journal::create(&folder, id.to_owned(), names(), 8).unwrap();
    die(left_by("dead"));
    set_mode(&folder, 0o777);
    for entry in fs::read_dir(&folder).unwrap() {
        set_mode(&entry.unwrap().path(), 0o666);
    }
    let orphans = OrphanedJournal::find_all(&folder).unwrap();
    let living = left_by("living");
    for _ in 0..=segment::RECORDS {
        living.append(&record()).unwrap();
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() == 5 && files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    drop(orphans);
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
