//! The `meridian` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    meridian::cli::main()
}
