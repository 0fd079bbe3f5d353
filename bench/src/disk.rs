//! What the disk itself can do: the limit for anyone who syncs each write alone.

use std::io::Write as _;

use portico_engine::clock::Stopwatch;

const WRITES: u32 = 300;

pub(crate) fn synced_writes_per_second() -> f64 {
    let mut file = tempfile::tempfile().unwrap();
    let watch = Stopwatch::start();
    for _ in 0..WRITES {
        file.write_all(&[0; 4096]).unwrap();
        file.sync_data().unwrap();
    }
    f64::from(WRITES) / watch.elapsed().as_secs_f64()
}
