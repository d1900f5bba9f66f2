//! A program's exit status: 0 is up.
//!
//! The program runs in a process group of its own, which ends with the probe. It finds the address in
//! `MERIDIAN_ADDRESS` and the monitor's name in `MERIDIAN_MONITOR`. The first line of its output is
//! the reason of a failure, and all else that it prints is dropped.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};

use crate::config::monitors::Monitor;
use crate::probe::failure::{Failure, Stage, plain_octets};
use crate::probe::{Deadline, Success};

/// How much of the output is kept for its first line.
const KEPT: usize = 1024;

/// Runs the command, and kills what is left of it at the deadline.
pub(super) async fn probe(
    monitor: &Monitor,
    command: &[String],
    address: IpAddr,
    deadline: Deadline,
) -> Result<Success, Failure> {
    let (mut child, mut output) = start(monitor, command, address).map_err(|error| {
        let program = command.first().map_or("", String::as_str);
        Failure::ThisMachine(format!("cannot run {program:?}: {error}"))
    })?;
    let group = Group::of(&child);
    let status = deadline.within(Stage::Program, output.read_until_end(&mut child)).await?;
    let status = status.map_err(|error| Failure::of_this_machine(&error))?;
    // What the program left behind would keep the pipe open.
    drop(group);
    if status.success() {
        return Ok(Success { rtt: None });
    }
    // The rest of the output; at the deadline, what there is of it.
    _ = deadline.within(Stage::Program, output.read_to_end()).await;
    Err(Failure::Exit { status: words(status), reason: output.first_line() })
}

fn start(monitor: &Monitor, command: &[String], address: IpAddr) -> io::Result<(Child, Output)> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::other("the command is empty"));
    };
    let (reader, writer) = io::pipe()?;
    let child = Command::new(program)
        .args(arguments)
        .env("MERIDIAN_ADDRESS", address.to_string())
        .env("MERIDIAN_MONITOR", &monitor.name)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let pipe = Receiver::from_owned_fd(OwnedFd::from(reader))?;
    Ok((child, Output { pipe, kept: Vec::new(), is_open: true }))
}

/// A program's process group; it is killed when this is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may be empty already.
            _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// What a program prints, on either stream.
struct Output {
    pipe: Receiver,
    kept: Vec<u8>,
    is_open: bool,
}

impl Output {
    /// Reads until the program ends, so that it never waits for its output to be taken.
    async fn read_until_end(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        loop {
            tokio::select! {
                status = child.wait() => return status,
                () = self.read(), if self.is_open => {}
            }
        }
    }

    async fn read_to_end(&mut self) {
        while self.is_open {
            self.read().await;
        }
    }

    async fn read(&mut self) {
        let mut buffer = [0; 4096];
        let size = self.pipe.read(&mut buffer).await.unwrap_or(0);
        self.is_open = size > 0;
        let room = KEPT.saturating_sub(self.kept.len()).min(size);
        self.kept.extend_from_slice(buffer.get(..room).unwrap_or_default());
    }

    fn first_line(&self) -> Option<String> {
        let mut lines = self.kept.split(|&octet| octet == b'\n').map(<[u8]>::trim_ascii);
        lines.find(|line| !line.is_empty()).map(plain_octets)
    }
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => status.to_string(),
    }
}
