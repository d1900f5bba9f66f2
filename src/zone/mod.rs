//! Zones: what their sources say, and what is found in them.

mod field;
pub mod lexer;
pub mod master;
pub mod rdata;
