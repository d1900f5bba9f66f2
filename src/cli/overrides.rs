//! `meridian drain`, `enable`, `disable`, `force-up`, `force-down`: an operator's word for a pool or an
//! origin, said to a running server.

use std::process::ExitCode;

use axum::http::Method;
use clap::Args;
use serde_json::json;

use crate::admin::overrides::{Changed, Shown};
use crate::cli::client::{Problem, ServerArguments};
use crate::cli::print_text;
use crate::cli::terminal::harmless;
use crate::health::overrides::Word;

const PATH: &str = "/api/v1/overrides";

/// What is meant.
#[derive(Args, Debug)]
struct SubjectArguments {
    /// An origin or a pool
    #[arg(value_name = "ORIGIN|POOL/ORIGIN|POOL")]
    subject: String,
    /// The zone of the pool, where several zones have one of that name
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The arguments of the commands that say something.
#[derive(Args, Debug)]
pub(super) struct Say {
    #[command(flatten)]
    subject: SubjectArguments,
    /// For how long, as 2h [default: until `meridian enable` lifts it]
    #[arg(long = "for", value_name = "DURATION")]
    lasts: Option<String>,
    /// Why; is kept and shown
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// Who says so; is kept and shown [default: the user]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

/// The arguments of `meridian enable`.
#[derive(Args, Debug)]
pub(super) struct Lift {
    #[command(flatten)]
    subject: SubjectArguments,
}

impl Say {
    pub(super) fn run(self, word: Word) -> ExitCode {
        let Self { subject, lasts, why, by } = self;
        let by = by.or_else(user);
        let mut request = json!({ "subject": subject.subject, "word": word });
        let given = [("zone", &subject.zone), ("for", &lasts), ("why", &why), ("by", &by)];
        for (key, value) in given {
            if let Some(value) = value {
                request[key] = json!(value);
            }
        }
        subject.change(Method::PUT, &request)
    }
}

impl Lift {
    pub(super) fn run(self) -> ExitCode {
        let mut request = json!({ "subject": self.subject.subject });
        if let Some(zone) = &self.subject.zone {
            request["zone"] = json!(zone);
        }
        self.subject.change(Method::DELETE, &request)
    }
}

impl SubjectArguments {
    fn change(&self, method: Method, request: &serde_json::Value) -> ExitCode {
        match self.try_change(method, request) {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => problem.tell(),
        }
    }

    fn try_change(&self, method: Method, request: &serde_json::Value) -> Result<(), Problem> {
        let answer = self.server.client()?.call::<Changed>(method, PATH, request)?;
        if self.json {
            answer.print_json();
            return Ok(());
        }
        let Changed { said, lifted, warning, .. } = &answer.document;
        if let Some(said) = said {
            print_text(&harmless(&format!("{}\n", sentence(said))));
        }
        for lifted in lifted.iter().flatten() {
            print_text(&harmless(&format!("lifted: {}\n", sentence(lifted))));
        }
        if lifted.as_ref().is_some_and(Vec::is_empty) {
            print_text(&format!("nothing was said of {}\n", self.subject));
        }
        if let Some(warning) = warning {
            eprintln!("meridian: {}", harmless(warning));
        }
        Ok(())
    }
}

/// "eu/ams-1 (example.com.) drained by ada until …: why".
fn sentence(shown: &Shown) -> String {
    let Shown { zone, pool, origin, said } = shown;
    let origin = origin.as_ref().map(|origin| format!("/{origin}")).unwrap_or_default();
    let zone = zone.as_deref().unwrap_or("shared");
    let by = said.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let until = said.until.as_ref().map(|until| format!(" until {until}")).unwrap_or_default();
    let why = said.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{pool}{origin} ({zone}) {}{by}{until}{why}", said.word.in_words())
}

/// Who runs the command.
fn user() -> Option<String> {
    let name = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    name.filter(|name| !name.is_empty())
}
