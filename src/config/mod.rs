//! Configuration: files in, one validated state out.

pub mod decimal;
pub mod monitors;
pub mod reader;
pub mod report;
pub mod server;
