//! `meridian schema` and `meridian reference`: what can stand in the files of the configuration, for
//! editors and for people.

use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::cli::print_text;
use crate::config::keys::FILES;
use crate::config::{reference, schema};

/// The arguments of `meridian schema`.
#[derive(Args, Debug)]
pub(super) struct Schema {
    /// The kind of file: meridian.toml, a zone, or a file of zones/ and geo/ [default: any]
    #[arg(value_name = "KIND", value_parser = PossibleValuesParser::new(FILES.map(|kind| kind.word)))]
    kind: Option<String>,
}

impl Schema {
    pub(super) fn run(self) -> ExitCode {
        let kind = FILES.iter().find(|kind| self.kind.as_deref() == Some(kind.word));
        let schema = kind.map_or_else(schema::of_all_files, schema::of_file);
        print_text(&format!("{schema:#}\n"));
        ExitCode::SUCCESS
    }
}

/// Prints docs/reference.md.
pub(super) fn print_reference() -> ExitCode {
    print_text(&reference::page());
    ExitCode::SUCCESS
}
