//! Configuration: files in, one validated [`State`](crate::state::State) out, or everything that is
//! wrong with them.
//!
//! ```text
//! files ──► build ──► reader (TOML, positions) ──► server, admin, cookies, identity, rate_limit,
//!   I/O      │                                     zone_file, monitors, pools, load_balancers, rtt:
//!            │                                     one table each
//!            ├──► locate (geo/), zone::master (master files), zone::build (trees)
//!            ▼
//!          State, or report: every mistake with place and remedy
//! ```
//!
//! [`files`] alone does I/O; the rest takes texts. `serve`, `check`, `explain` and every reload come
//! through [`files::load`], so what `check` accepts is what is served.

pub mod admin;
pub mod build;
pub mod cookies;
pub mod decimal;
pub mod duration;
#[allow(clippy::disallowed_methods, reason = "the edge: reads the files")]
pub mod files;
pub mod identity;
pub mod inputs;
pub mod keys;
pub mod load_balancers;
pub mod log_filter;
pub mod monitors;
pub mod origins;
mod pool_weights;
pub mod pools;
pub mod privileges;
pub mod proximity;
pub mod query_log;
pub mod rate_limit;
pub mod reader;
pub mod reference;
pub mod report;
pub mod rtt;
pub mod schema;
pub mod server;
pub mod sessions;
mod syntax;
pub mod tls;
mod transfer;
pub mod tsig_keys;
pub mod zone_file;
