//! Random bytes: the only file that gets them from the operating system.

use std::cell::RefCell;

use crate::{Id, Kind, Timestamp};

/// A source of random bytes. Passed in everywhere, so that tests can seed it.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes` with randomness fit for secrets.
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Entropy {
    /// `N` random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A new id made at `now`.
    pub fn id<K: Kind>(&self, now: Timestamp) -> Id<K> {
        Id::from_parts(now, self.bytes())
    }
}

/// The operating system's generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

/// Random bytes of the operating system that are still to be given out: each draw is a system call, and every request
/// needs a few bytes.
struct RandomBuffer {
    bytes: [u8; Self::LENGTH],
    used: usize,
}

impl RandomBuffer {
    const LENGTH: usize = 512;

    fn fill(&mut self, bytes: &mut [u8]) {
        if bytes.len() > Self::LENGTH - self.used {
            draw(&mut self.bytes);
            self.used = 0;
        }
        let from = &mut self.bytes[self.used..self.used + bytes.len()];
        bytes.copy_from_slice(from);
        // Nothing that was given out stays in memory here.
        from.fill(0);
        self.used += bytes.len();
    }
}

thread_local! {
    static BUFFER: RefCell<RandomBuffer> = const { RefCell::new(RandomBuffer { bytes: [0; RandomBuffer::LENGTH], used: RandomBuffer::LENGTH }) };
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that draws from the system")]
#[expect(clippy::expect_used, reason = "a machine without randomness must not make keys")]
fn draw(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives random bytes");
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let small = bytes.len() <= RandomBuffer::LENGTH / 8;
        // A thread that is ending has no buffer any more.
        if !small || BUFFER.try_with(|buffer| buffer.borrow_mut().fill(bytes)).is_err() {
            draw(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_bytes_are_given_out_twice() {
        let entropy: &dyn Entropy = &SystemEntropy;
        let drawn: HashSet<[u8; 10]> = (0..10_000).map(|_| entropy.bytes()).collect();
        assert_eq!(drawn.len(), 10_000);
        let large: [u8; 300] = entropy.bytes();
        assert!(large.chunks(10).all(|bytes| bytes != [0; 10]));
    }
}
