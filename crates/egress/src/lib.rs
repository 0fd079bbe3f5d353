//! Every call that leaves the process.
