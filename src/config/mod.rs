//! Configuration: files in, one validated state out.

pub mod decimal;
pub mod reader;
pub mod report;
