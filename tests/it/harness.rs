//! What every subject needs: a private folder with configuration, the program run to its end, the
//! program as a server with its log read line by line, and packets to and fro. Nothing here sleeps
//! for luck: everything waits for an event, with a deadline.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::wire::{Query, Reply, rcode, rtype};

/// How long the program may take to start, to log an event or to end.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long one reply may take on a busy machine.
const REPLY: Duration = Duration::from_secs(10);
/// The variable that names another program to be tested.
pub(crate) const PROGRAM: &str = "MERIDIAN_BINARY";
/// The variable under which nothing may be skipped for want of a tool.
const REQUIRE_ALL: &str = "MERIDIAN_REQUIRE_ALL";
/// The Python that Debian's packages are for.
pub(crate) const PYTHON: &str = "/usr/bin/python3";
/// How often a state that sends no event is looked at.
const POLL: Duration = Duration::from_millis(5);

// ---------------------------------------------------------------------------------- Site

/// A private folder with `meridian.toml`, `zones/` and `geo/`, removed at the end of the test.
pub(crate) struct Site(TempDir);

/// The zone that nearly every test serves, without pools and load balancers.
pub(crate) const ZONE_HEAD: &str = r#"
zone = "example.test"
ttl = 300

[soa]
serial = 1
minimum = 60

[[records]]
name = "@"
type = "NS"
data = ["ns1"]

[[records]]
name = "ns1"
type = "A"
data = ["192.0.2.53"]
"#;

/// One worker, so that one sequence is seen over the wire.
pub(crate) const SERVER: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\nworkers = 1\n";

impl Site {
    /// A folder without zones.
    pub(crate) fn new() -> Self {
        let site = Self(TempDir::new().expect("a temporary folder"));
        for folder in ["zones", "geo"] {
            fs::create_dir(site.path().join(folder)).expect("a new folder");
        }
        site.write("meridian.toml", SERVER);
        site
    }

    /// A folder with the zone `example.test`: `body` has its pools and load balancers.
    pub(crate) fn with_zone(body: &str) -> Self {
        let site = Self::new();
        site.write("zones/example.test.toml", format!("{ZONE_HEAD}{body}"));
        site
    }

    /// Writes a file, given by its path inside the folder.
    pub(crate) fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path().join(file), text).expect("a file that can be written");
    }

    /// Where the folder is.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs `meridian explain ARGUMENTS --json` here.
    pub(crate) fn explain(&self, arguments: &[&str]) -> Value {
        let run = self.run(&[&["explain"], arguments, &["--json"]].concat());
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| {
            panic!("explain {arguments:?} prints no JSON ({error}): {run:?}");
        })
    }

    /// Runs `meridian check` over this folder.
    pub(crate) fn check(&self) -> Run {
        self.run(&["check", "."])
    }

    /// Runs the program in this folder, to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments))
    }

    /// The program in this folder, not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).current_dir(self.path()).env_remove("RUST_LOG");
        command.env_remove("MERIDIAN_AT").env_remove("MERIDIAN_TOKEN_FILE");
        command.env_remove("MERIDIAN_LOG").env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

/// The program that is tested: the one that Cargo built for the tests, unless another is named.
pub(crate) fn program() -> PathBuf {
    std::env::var_os(PROGRAM).map_or_else(|| env!("CARGO_BIN_EXE_meridian").into(), PathBuf::from)
}

/// True if a tool is missing, so that what needs it is skipped. Where nothing may be skipped it fails.
pub(crate) fn is_missing(tool: &str, argument: &str, package: &str) -> bool {
    if Command::new(tool).arg(argument).stdin(Stdio::null()).output().is_ok() {
        return false;
    }
    assert!(!is_required(), "{tool} is missing ({package})");
    eprintln!("skipped: {tool} is needed (Debian: {package})");
    true
}

/// True if Debian's Python lacks a module, as [`is_missing`].
pub(crate) fn is_module_missing(module: &str, package: &str) -> bool {
    let import = Command::new(PYTHON).args(["-c", &format!("import {module}")]).output();
    if import.is_ok_and(|import| import.status.success()) {
        return false;
    }
    assert!(!is_required(), "the module {module} of {PYTHON} is missing ({package})");
    eprintln!("skipped: the module {module} of {PYTHON} is needed (Debian: {package})");
    true
}

/// True where nothing may be skipped.
pub(crate) fn is_required() -> bool {
    std::env::var_os(REQUIRE_ALL).is_some()
}

/// A finished run of the program.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Runs a command that has a pipe for its errors, to its end.
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdout(Stdio::piped());
        Self::finish(command)
    }

    /// The same, with standard output left as the command has it.
    pub(crate) fn finish(mut command: Command) -> Self {
        let mut child = command.spawn().expect("a process");
        let stdout = child.stdout.take().map(read_all);
        let stderr = child.stderr.take().map(read_all);
        let code = wait(&mut child);
        let text = |reader: Option<thread::JoinHandle<String>>| {
            reader.map_or_else(String::new, |reader| reader.join().expect("the reader's text"))
        };
        Self { code, stdout: text(stdout), stderr: text(stderr) }
    }

    /// The lines that tell what went wrong: all that are no log lines below the level of an error.
    pub(crate) fn complaints(&self) -> Vec<&str> {
        let is_log = |line: &str| {
            serde_json::from_str::<Value>(line).is_ok_and(|line| line["level"] != "ERROR")
        };
        let is_more = |line: &str| is_log(line) || line.trim().starts_with("help:");
        self.stderr.lines().filter(|line| !is_more(line)).collect()
    }

    /// The one line of a start that failed, as it must be.
    pub(crate) fn refusal(&self) -> &str {
        assert_eq!(self.code, Some(1), "{}", self.stderr);
        let complaints = self.complaints();
        assert_eq!(complaints.len(), 1, "{}", self.stderr);
        complaints[0]
    }
}

fn read_all(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut octets = Vec::new();
        pipe.read_to_end(&mut octets).expect("a readable pipe");
        String::from_utf8_lossy(&octets).into_owned()
    })
}

/// Waits for the end of a process: its exit code, or `None` if a signal ended it.
fn wait(child: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + DEADLINE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("a child of this process") {
            return status.code();
        }
        thread::sleep(POLL);
    }
    child.kill().expect("a child of this process");
    panic!("the program did not end within {DEADLINE:?}");
}

// ---------------------------------------------------------------------------------- Server

/// A running `meridian serve`; it is killed when dropped.
pub(crate) struct Server {
    child: Child,
    log: Receiver<Value>,
    seen: Vec<Value>,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts the server on a free port and waits until it is ready.
    pub(crate) fn start(site: &Site) -> Self {
        Self::start_with(site, &[])
    }

    /// The same with variables in its environment.
    pub(crate) fn start_with(site: &Site, variables: &[(&str, &str)]) -> Self {
        let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.envs(variables.iter().copied());
        let mut server = Self::of(command);
        server.address = server.next_address();
        server.wait_for("ready");
        server
    }

    /// Starts the server and waits for nothing.
    pub(crate) fn spawn(site: &Site, arguments: &[&str]) -> Self {
        Self::of(site.command(arguments))
    }

    /// Starts a server by a command that has a pipe for its errors, and waits for nothing.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.spawn().expect("a process");
        let log = follow(child.stderr.take().expect("a pipe"));
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { child, log, seen: Vec::new(), address }
    }

    /// The next address that the server says it listens on.
    pub(crate) fn next_address(&mut self) -> SocketAddr {
        let line = self.wait_for("listening");
        let address = line["fields"]["address"].as_str().expect("the field address");
        address.parse().expect("an address with a port")
    }

    /// The address of the admin service, which is logged before those of DNS.
    pub(crate) fn admin_address(&mut self) -> SocketAddr {
        let lines = self.log_so_far();
        let line = lines.iter().find(|line| line["fields"]["message"] == "admin listening");
        let address = line.and_then(|line| line["fields"]["address"].as_str());
        address.expect("an admin service").parse().expect("an address with a port")
    }

    /// Waits for a log line with this message.
    pub(crate) fn wait_for(&mut self, message: &str) -> Value {
        loop {
            let Some(line) = self.next_line() else {
                panic!("no log line {message:?}; seen so far: {:#?}", self.seen);
            };
            if line["fields"]["message"] == message {
                return line;
            }
        }
    }

    /// The next log line; `None` if none comes in time.
    fn next_line(&mut self) -> Option<Value> {
        let line = self.log.recv_timeout(DEADLINE).ok()?;
        self.seen.push(line.clone());
        Some(line)
    }

    /// The log line with this number, from 0; `None` if there is none in time.
    pub(crate) fn log_line(&mut self, number: usize) -> Option<&Value> {
        while self.seen.len() <= number {
            self.next_line()?;
        }
        self.seen.get(number)
    }

    /// All log lines that have come so far.
    pub(crate) fn log_so_far(&mut self) -> &[Value] {
        self.seen.extend(self.log.try_iter());
        &self.seen
    }

    /// How many log lines were read so far.
    pub(crate) fn lines_read(&self) -> usize {
        self.seen.len()
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name ("HUP", "TERM").
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(status.expect("the program kill").success(), "kill -s {name}");
    }

    /// Sends SIGHUP and waits for the line that says how it went.
    pub(crate) fn reload(&mut self, outcome: &str) -> Value {
        self.signal("HUP");
        self.wait_for(outcome)
    }

    /// Waits for the server's end.
    pub(crate) fn exit_code(mut self) -> Option<i32> {
        wait(&mut self.child)
    }

    /// Asks over UDP.
    pub(crate) fn ask(&self, query: &Query) -> Reply {
        let socket = self.socket();
        socket.send(&query.octets()).expect("a query sent");
        let reply = receive(&socket);
        assert_eq!(reply.id, query.id, "the id of the reply");
        reply
    }

    /// Asks over TCP.
    pub(crate) fn ask_tcp(&self, query: &Query) -> Reply {
        let mut stream = self.connect();
        stream.write_all(&framed(&query.octets())).expect("a query sent");
        let reply = read_framed(&mut stream);
        assert_eq!(reply.id, query.id, "the id of the reply");
        reply
    }

    /// Asks over UDP for the addresses of a name, as a client in this subnet.
    pub(crate) fn addresses(&self, name: &str, qtype: u16, subnet: (&str, u8)) -> Vec<String> {
        let reply = self.ask(&Query::new(name, qtype).ecs(subnet.0, subnet.1));
        reply.data(qtype).into_iter().map(str::to_owned).collect()
    }

    /// The reply to a packet that may be dropped: `None` if a good query sent after it, from the
    /// same socket, was answered and the packet was not.
    pub(crate) fn reply_or_silence(&self, packet: &[u8]) -> Option<Reply> {
        let socket = self.socket();
        socket.send(packet).expect("a packet sent");
        let mut found = None;
        for _ in 0..3 {
            let good = Query::new("example.test", rtype::SOA);
            socket.send(&good.octets()).expect("a query sent");
            loop {
                let reply = receive(&socket);
                if reply.id == good.id && !reply.question.is_empty() {
                    break;
                }
                found = Some(reply);
            }
        }
        found
    }

    /// Asserts that a packet is refused as malformed, or ignored, and that the server lives on.
    pub(crate) fn assert_formerr_or_silence(&self, why: &str, packet: &[u8]) {
        if let Some(reply) = self.reply_or_silence(packet) {
            assert_eq!(reply.rcode(), rcode::FORMERR, "{why}");
            assert!(reply.answer.is_empty(), "{why}");
        }
    }

    /// A UDP socket that talks to the server.
    pub(crate) fn socket(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.connect(self.address).expect("a local address");
        socket.set_read_timeout(Some(REPLY)).expect("a timeout");
        socket
    }

    /// A TCP connection to the server.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(REPLY)).expect("a timeout");
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself: that is not this function's business.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Reads log lines in the background; a line that is no JSON arrives as a string.
fn follow(stderr: impl Read + Send + 'static) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
            if sender.send(value).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The next reply on a UDP socket.
pub(crate) fn receive(socket: &UdpSocket) -> Reply {
    let mut buffer = [0; 65_535];
    let size = socket.recv(&mut buffer).expect("a reply in time");
    parse(&buffer[..size])
}

/// A message with the two octets of length that TCP wants.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let size = u16::try_from(message.len()).expect("a message of at most 65535 octets");
    [&size.to_be_bytes(), message].concat()
}

/// The next reply on a TCP connection.
pub(crate) fn read_framed(stream: &mut TcpStream) -> Reply {
    let mut size = [0; 2];
    stream.read_exact(&mut size).expect("the length of a reply in time");
    let mut message = vec![0; usize::from(u16::from_be_bytes(size))];
    stream.read_exact(&mut message).expect("a reply in time");
    parse(&message)
}

fn parse(octets: &[u8]) -> Reply {
    Reply::parse(octets).unwrap_or_else(|error| panic!("a bad reply ({error}): {octets:02x?}"))
}

// ---------------------------------------------------------------------------------- Namespaces

/// Runs an ignored test of this program again in namespaces of its own: `flags` are those of unshare(1),
/// and `setup` is run by the shell before. Skipped, or a failure where nothing may be, if that needs what is
/// not there.
pub(crate) fn run_inside(flags: &[&str], setup: &str, test: &str) {
    let probe = Command::new("unshare").args(flags).args(["sh", "-c", setup]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        assert!(!is_required(), "no namespace can be made (root, unshare, iproute2)");
        eprintln!("skipped: no namespace can be made (root, unshare, iproute2)");
        return;
    }
    let inner = format!("{setup} && exec \"$0\" \"$@\"");
    let output = Command::new("unshare")
        .args(flags)
        .args(["sh", "-c", &inner])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .expect("unshare");
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

// ---------------------------------------------------------------------------------- Values

/// The strings of a JSON array, in their order.
pub(crate) fn strings(value: &Value) -> Vec<&str> {
    let array = value.as_array().unwrap_or_else(|| panic!("an array, not {value}"));
    array.iter().map(|item| item.as_str().expect("a string")).collect()
}

/// Repeatable pseudo-random numbers (xorshift64*): a failure can be run again.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from((self.next() >> 16) % limit as u64).expect("a number below a usize")
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}
