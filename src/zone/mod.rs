//! Zones: what their sources say, and what is found in them.

mod field;
mod findings;
mod header;
pub mod lexer;
pub mod master;
pub mod rdata;
mod svcb;
mod word;
