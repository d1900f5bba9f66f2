//! `meridian completions` and `meridian man`: the command line described for shells and for `man`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::{Arguments, EXIT_NO, print_text};

/// The arguments of `meridian completions`.
#[derive(Args, Debug)]
pub(super) struct Completions {
    /// The shell that reads it
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "meridian", &mut script);
        print_text(&String::from_utf8_lossy(&script));
        ExitCode::SUCCESS
    }
}

/// The arguments of `meridian man`.
#[derive(Args, Debug)]
pub(super) struct Man {
    /// The folder, which must be there; pages of the same names are replaced
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub(super) fn run(self) -> ExitCode {
        match clap_mangen::generate_to(Arguments::command(), &self.folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let folder = self.folder.display();
                eprintln!("meridian: cannot write man pages to {folder}: {error}");
                ExitCode::from(EXIT_NO)
            }
        }
    }
}
