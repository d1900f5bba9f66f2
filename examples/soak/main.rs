//! A soak test of health: origins in this process are killed, hung and made to fail at random for a
//! long time, while a server that probes them is asked steadily. No answer may ever have an origin
//! that has been down for longer than `fall` x interval + timeout + 100 ms, and no query may be
//! lost. Started by benches/soak.sh. Listens on loopback addresses only.

#![allow(clippy::print_stdout, reason = "a command that prints its result")]

mod asker;
mod origin;
#[path = "../random/mod.rs"]
mod random;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use tempfile::TempDir;

use crate::asker::{Outcome, Site};
use crate::origin::{Fault, Origin};
use crate::random::Random;

/// "A change of health is visible in answers within 100 ms of the deciding probe's end".
const VISIBLE: Duration = Duration::from_millis(100);
/// How many pools the origins are in.
const POOLS: usize = 3;

/// Kills and hangs origins at random under query load, and checks every answer.
#[derive(Debug, Parser)]
struct Arguments {
    /// The server's program; by default the one beside this example
    #[arg(long)]
    program: Option<PathBuf>,
    /// For how many seconds
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Origins in each of three pools
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u8).range(2..=200))]
    origins: u8,
    /// Queries per second
    #[arg(long, default_value_t = 2000)]
    rate: u32,
    /// Seconds between two probes of an origin
    #[arg(long, default_value_t = 1)]
    interval: u64,
    /// Milliseconds that a probe may take
    #[arg(long, default_value_t = 500)]
    timeout: u64,
    /// Failures in a row
    #[arg(long, default_value_t = 2)]
    fall: u32,
    /// Successes in a row
    #[arg(long, default_value_t = 2)]
    rise: u32,
    /// What the bound may be exceeded by, in milliseconds, on a machine that does other things too
    #[arg(long, default_value_t = 0)]
    allowance: u64,
    /// Reload the server every so many seconds; 0 for never
    #[arg(long, default_value_t = 7)]
    reload: u64,
    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Arguments {
    /// `results` x interval + timeout + 100 ms.
    fn bound(&self, results: u32) -> Duration {
        Duration::from_secs(self.interval) * results + Duration::from_millis(self.timeout) + VISIBLE
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            println!("soak: {error}");
            ExitCode::from(1)
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<bool> {
    let port = free_port()?;
    let mut origins = Vec::new();
    for pool in 0..POOLS {
        for number in 1..=arguments.origins {
            let pool = u8::try_from(pool).map_err(io::Error::other)?;
            let address = SocketAddr::from((Ipv4Addr::new(127, 31, pool, number), port));
            origins.push(Origin::start(address, usize::from(pool))?);
        }
    }
    let folder = TempDir::new()?;
    configure(folder.path(), arguments, &origins)?;
    let server = Server::start(arguments, folder.path())?;
    let start = Instant::now();
    let limit = arguments.bound(arguments.fall) + Duration::from_millis(arguments.allowance);
    let site = Site {
        server: server.address,
        rate: arguments.rate,
        pools: POOLS,
        limit,
        start,
        origins: origins.iter().map(Origin::record).collect(),
        stop: AtomicBool::new(false),
    };
    let (outcome, chaos) = thread::scope(|scope| {
        let asker = scope.spawn(|| site.ask());
        let chaos = disturb(arguments, &mut origins, &server, start);
        site.stop.store(true, Ordering::SeqCst);
        (asker.join(), chaos)
    });
    let outcome = outcome.map_err(|_| io::Error::other("the asker failed"))??;
    let chaos = chaos?;
    print(arguments, &chaos, &outcome, limit, start.elapsed());
    let good = outcome.violations.is_empty() && outcome.lost == 0 && outcome.wrong == 0;
    if !good {
        let log = std::env::temp_dir().join("meridian-soak.log");
        fs::copy(folder.path().join("log"), &log)?;
        println!("the server's log: {}", log.display());
    }
    Ok(good)
}

fn free_port() -> io::Result<u16> {
    // Below the ports that the system gives to clients.
    let is_free = |&port: &u16| std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    (18_000..20_000).find(is_free).ok_or_else(|| io::Error::other("no free port"))
}

/// Writes the server's files: each of three load balancers prefers another pool, and is there twice,
/// with one address in an answer and with all.
fn configure(folder: &Path, arguments: &Arguments, origins: &[Origin]) -> io::Result<()> {
    let Arguments { interval, timeout, fall, rise, .. } = arguments;
    let mut text = String::from(
        "zone = \"soak.test\"\n[[records]]\nname = \"@\"\ntype = \"NS\"\ndata = [\"ns1\"]\n\
         [[records]]\nname = \"ns1\"\ntype = \"A\"\ndata = [\"192.0.2.53\"]\n",
    );
    let port = origins.first().map_or(0, |origin| origin.address.port());
    let mut add = |part: String| text.push_str(&part);
    add(format!(
        "[monitors.web]\ntype = \"http\"\nport = {port}\ninterval = \"{interval}s\"\n\
         timeout = \"{timeout}ms\"\nfall = {fall}\nrise = {rise}\n"
    ));
    for pool in 0..POOLS {
        let mut list = String::new();
        for (number, origin) in origins.iter().filter(|origin| origin.pool == pool).enumerate() {
            let address = origin.address.ip();
            write!(list, "{{ name = \"o{number}\", address = \"{address}\" }}, ")
                .map_err(io::Error::other)?;
        }
        add(format!("[pools.p{pool}]\nmonitor = \"web\"\norigins = [{list}]\n"));
        let order: Vec<_> = (0..POOLS).map(|step| format!("p{}", (pool + step) % POOLS)).collect();
        add(format!("[load_balancers.one{pool}]\npools = {order:?}\n"));
        add(format!("[load_balancers.all{pool}]\npools = {order:?}\nanswers = \"all\"\n"));
    }
    fs::create_dir(folder.join("zones"))?;
    fs::write(folder.join("zones/soak.test.toml"), text)?;
    fs::write(folder.join("meridian.toml"), "[server]\nstartup_wait = \"10s\"\n")
}

/// The server under test; it is killed when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts it, and waits until it answers.
    fn start(arguments: &Arguments, folder: &Path) -> io::Result<Self> {
        let beside = std::env::current_exe()?
            .parent()
            .and_then(Path::parent)
            .map(|folder| folder.join("meridian"));
        let program = arguments.program.clone().or(beside).unwrap_or_else(|| "meridian".into());
        let address = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new(fs::canonicalize(program)?)
            .args(["serve", "--listen", &address.to_string()])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join("log"))?)
            .spawn()?;
        let server = Self { child, address };
        asker::wait_for_an_answer(address)?;
        Ok(server)
    }

    fn reload(&self) -> io::Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-s", "HUP", &pid]).status().map(|_| ())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

/// What was done to the origins.
#[derive(Default)]
struct Chaos {
    faults: [usize; 3],
    revivals: usize,
    reloads: usize,
}

/// Makes origins fail and come back at random, until the time is over. Of each pool at least half is
/// always known to be healthy, so that no answer is a last resort.
fn disturb(
    arguments: &Arguments,
    origins: &mut [Origin],
    server: &Server,
    start: Instant,
) -> io::Result<Chaos> {
    let mut random = Random(arguments.seed | 1);
    let mut chaos = Chaos::default();
    let mut reloaded = start;
    // The server may hold an origin for down as long as this after it came back.
    let settling = arguments.bound(arguments.rise) + Duration::from_secs(1);
    let length = arguments.bound(arguments.fall);
    while start.elapsed() < Duration::from_secs(arguments.seconds) {
        thread::sleep(Duration::from_millis(20 + random.below(300)));
        let now = Instant::now();
        for origin in origins.iter_mut().filter(|origin| origin.is_due(now)) {
            origin.revive()?;
            chaos.revivals += 1;
        }
        let pool = usize::try_from(random.below(POOLS as u64)).unwrap_or(0);
        let of_pool = || origins.iter().filter(|origin| origin.pool == pool);
        let unfit = of_pool().filter(|origin| !origin.is_settled(now, settling)).count();
        if unfit < of_pool().count() / 2 {
            let chosen = usize::try_from(random.next() >> 33).unwrap_or(0) % origins.len();
            let origin = &mut origins[chosen];
            if origin.pool == pool && origin.is_settled(now, settling) {
                let fault = [Fault::Killed, Fault::Hung, Fault::Failing];
                let kind = usize::try_from(random.below(3)).unwrap_or(0);
                // Often too short to be noticed, often much longer than that.
                let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
                let length = Duration::from_millis(random.below(3 * millis));
                origin.fail(fault[kind], now + length, start)?;
                chaos.faults[kind] += 1;
            }
        }
        let every = Duration::from_secs(arguments.reload);
        if !every.is_zero() && now - reloaded > every {
            reloaded = now;
            server.reload()?;
            chaos.reloads += 1;
        }
    }
    Ok(chaos)
}

fn print(arguments: &Arguments, chaos: &Chaos, outcome: &Outcome, limit: Duration, ran: Duration) {
    let [killed, hung, failing] = chaos.faults;
    let Outcome { sent, answered, lost, wrong, slowest, violations, detections } = outcome;
    println!("{:.0} s, seed {}", ran.as_secs_f64(), arguments.seed);
    println!(
        "faults: {killed} killed, {hung} hung, {failing} failing; {} back; {} reloads",
        chaos.revivals, chaos.reloads
    );
    let mut sorted = detections.clone();
    sorted.sort();
    let at = |hundredths: usize| {
        sorted.get(sorted.len().saturating_sub(1) * hundredths / 100).copied().unwrap_or_default()
    };
    println!(
        "last answer with a failed origin: median {} ms, worst {} ms; the limit is {} ms",
        at(50).as_millis(),
        at(100).as_millis(),
        limit.as_millis()
    );
    println!("queries: {sent} sent, {answered} answered, {lost} lost, {wrong} wrong");
    println!("slowest reply: {} ms", slowest.as_millis());
    println!("violations: {}", violations.len());
    for violation in violations.iter().take(10) {
        println!("  {violation}");
    }
}
