//! From an address to a place.

pub mod place;
