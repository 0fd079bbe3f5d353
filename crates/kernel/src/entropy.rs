//! Where randomness comes from: the only file that asks the operating system for it.

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

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that draws from the system")]
    #[expect(clippy::expect_used, reason = "a machine without randomness must not make keys")]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system gives random bytes");
    }
}
