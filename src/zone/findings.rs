//! The mistakes of one master file on their way to the report, which a hostile file must not fill.
//!
//! Positions and keys are worked out for those that are reported only, so that a file of nothing
//! but mistakes stays cheap.

use crate::config::report::{Report, Severity, Source};
use crate::zone::rdata::RdataError;

/// How many errors, and how many warnings, of one file are reported one by one.
pub(super) const MOST_FINDINGS: usize = 100;

/// Passes mistakes on to the report, up to a number of them.
pub(super) struct Findings<'a> {
    /// The file.
    pub(super) source: &'a Source,
    report: &'a Report,
    errors: usize,
    warnings: usize,
    /// Where the first one was that was not passed on, by severity.
    left_out: [Option<usize>; 2],
}

impl<'a> Findings<'a> {
    /// Starts with none.
    pub(super) fn new(source: &'a Source, report: &'a Report) -> Self {
        Self { source, report, errors: 0, warnings: 0, left_out: [None; 2] }
    }

    /// True if further errors are counted only.
    pub(super) fn is_full(&self) -> bool {
        self.errors >= MOST_FINDINGS
    }

    /// Reports an error at an offset.
    pub(super) fn error(
        &mut self,
        offset: usize,
        key: impl FnOnce() -> String,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Severity::Error, offset, key, message.into(), help.into());
    }

    /// Reports a warning at an offset.
    pub(super) fn warning(
        &mut self,
        offset: usize,
        key: impl FnOnce() -> String,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Severity::Warning, offset, key, message.into(), help.into());
    }

    /// An error of an entry that begins at `start`.
    pub(super) fn rdata_error(
        &mut self,
        start: usize,
        key: impl FnOnce() -> String,
        error: RdataError,
    ) {
        self.error(error.offset.unwrap_or(start), key, error.message, error.help);
    }

    fn add(
        &mut self,
        severity: Severity,
        offset: usize,
        key: impl FnOnce() -> String,
        message: String,
        help: String,
    ) {
        let (count, left_out) = match severity {
            Severity::Error => (&mut self.errors, &mut self.left_out[0]),
            Severity::Warning => (&mut self.warnings, &mut self.left_out[1]),
        };
        *count += 1;
        if *count > MOST_FINDINGS {
            left_out.get_or_insert(offset);
            return;
        }
        let position = Some(self.source.position(offset));
        let file = self.source.path();
        match severity {
            Severity::Error => self.report.error(file, position, key(), message, help),
            Severity::Warning => self.report.warning(file, position, key(), message, help),
        }
    }

    /// Says how many there were beyond those reported, where the first of them was.
    pub(super) fn finish(self) {
        let file = self.source.path();
        let help = "mend those above, then run the check again";
        let [errors, warnings] =
            self.left_out.map(|offset| offset.map(|at| self.source.position(at)));
        if errors.is_some() {
            let message = format!("and {} more errors", self.errors - MOST_FINDINGS);
            self.report.error(file, errors, "", message, help);
        }
        if warnings.is_some() {
            let message = format!("and {} more warnings", self.warnings - MOST_FINDINGS);
            self.report.warning(file, warnings, "", message, help);
        }
    }
}
