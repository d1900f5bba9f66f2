//! The `meridian` program.

fn main() {}
