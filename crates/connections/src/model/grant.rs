//! What a grant allows.

use portico_connectors::{ActionSpec, Class};

/// Does a grant of that class, for these actions, allow the action? No actions means all.
pub(crate) fn allows(max_class: Class, actions: &[String], action: &ActionSpec) -> bool {
    action.class <= max_class && (actions.is_empty() || actions.contains(&action.name))
}

/// What the actions of a consumer do, all together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    reads_private: bool,
    reads_untrusted: bool,
    sends_out: bool,
}

impl Labels {
    /// With those of this action too.
    pub(crate) fn and(self, action: &ActionSpec) -> Self {
        Self {
            reads_private: self.reads_private || action.reads_private,
            reads_untrusted: self.reads_untrusted || action.reads_untrusted,
            sends_out: self.sends_out || action.sends_out,
        }
    }
}

/// Can a consumer with these labels be talked into telling others what only the account may know? For that it must read
/// something private, read what strangers wrote, and be able to send something out.
pub(crate) const fn has_trifecta(labels: Labels) -> bool {
    labels.reads_private && labels.reads_untrusted && labels.sends_out
}
