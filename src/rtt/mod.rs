//! Round-trip times that are measured (steering.md, "RTT profiles"): averages of samples, and the
//! figures that are published to the decision.
//!
//! ```text
//! sample (a probe's, or pushed) ─► book (an average for each place and pool)
//!     ─► figures (published when they differ by more than the tolerance) ─► steer::rtt: the orders
//! ```
//!
//! Pure: samples and the asking for figures come with their time.

pub mod average;
pub mod book;
pub mod figures;

use crate::locate::place::RegionId;

/// Where a round-trip time is measured from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vantage {
    /// This node.
    Pop,
    /// The clients of a region.
    Region(RegionId),
}
