//! Where randomness comes from: the only file that asks the operating system for it.

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

/// Bytes drawn from the system at once, because each draw is a call of the kernel and every request needs a few.
struct Drawn {
    bytes: [u8; Self::LENGTH],
    used: usize,
}

impl Drawn {
    const LENGTH: usize = 512;

    fn fill(&mut self, bytes: &mut [u8]) {
        if bytes.len() > Self::LENGTH - self.used {
            draw(&mut self.bytes);
            self.used = 0;
        }
        let from = &mut self.bytes[self.used..self.used + bytes.len()];
        bytes.copy_from_slice(from);
        // What was given out is known to whoever has it, and to nobody else.
        from.fill(0);
        self.used += bytes.len();
    }
}

thread_local! {
    static DRAWN: RefCell<Drawn> = const { RefCell::new(Drawn { bytes: [0; Drawn::LENGTH], used: Drawn::LENGTH }) };
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that draws from the system")]
#[expect(clippy::expect_used, reason = "a machine without randomness must not make keys")]
fn draw(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives random bytes");
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let small = bytes.len() <= Drawn::LENGTH / 8;
        // A thread that is ending has no store any more.
        if !small || DRAWN.try_with(|drawn| drawn.borrow_mut().fill(bytes)).is_err() {
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
