//! Between answers and octets.

pub mod message;
