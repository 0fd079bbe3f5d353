//! Letters that must arrive.
