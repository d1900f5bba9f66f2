//! Configuration: files in, one validated state out.

pub mod build;
pub mod decimal;
pub mod files;
pub mod load_balancers;
pub mod monitors;
pub mod pools;
pub mod reader;
pub mod report;
pub mod rtt;
pub mod server;
pub mod zone_file;
