//! What probes cost: the processor time of the thread that makes them, the kernel's part included, with
//! a server on the loopback address in another thread. One type of monitor a run.
//!
//! ```sh
//! cargo run --release --example probes -- http
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command that reports")]

use std::error::Error;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use meridian::config::monitors::{HttpProbe, Monitor, Probe, TlsCheck};
use meridian::probe::{Prober, ProberSettings};
use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// The name of the server's certificate.
const NAME: &str = "www.example";
const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";

/// What went wrong, whatever it is.
type Failed = Box<dyn Error + Send + Sync>;

/// Measures the processor time of probes.
#[derive(Debug, Parser)]
struct Arguments {
    /// The type of monitor
    kind: Kind,
    /// How many probes a second: 1000 are 10,000 addresses at an interval of 10 s
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// For how many seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Tcp,
    Http,
    Https,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probes: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failed> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new([NAME.to_owned()])?.self_signed(&key)?;
    let mut acceptor = None;
    if arguments.kind == Kind::Https {
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        let provider = Arc::new(ring::default_provider());
        let configuration = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        acceptor = Some(TlsAcceptor::from(Arc::new(configuration)));
    }
    let server = runtime()?;
    thread::spawn(move || server.block_on(serve(listener, acceptor)));

    let settings =
        ProberSettings { extra_roots: vec![certificate.der().to_vec()], ..Default::default() };
    let prober = Arc::new(Prober::new(&settings, &[])?);
    let monitor = Arc::new(monitor(arguments.kind, port));
    let (rate, count) = (arguments.rate, arguments.rate * arguments.seconds);
    // As a task: to wake what `block_on` itself waits for costs a system call more.
    let measured =
        runtime()?.block_on(async { tokio::spawn(measure(rate, count, prober, monitor)).await });
    let (failures, total) = measured??;
    let cost = total / count.max(1);
    let share = cost.as_secs_f64() * f64::from(rate) * 100.0;
    let kind = arguments.kind;
    println!("{kind:?}: {count} probes, {failures} failed, {cost:?} of processor time each");
    println!("{rate} a second take {share:.1} % of a core");
    Ok(())
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn monitor(kind: Kind, port: u16) -> Monitor {
    let tls = TlsCheck { verify: true, server_name: Some(NAME.to_owned()) };
    let http = HttpProbe {
        tls: (kind == Kind::Https).then_some(tls),
        port,
        path: "/".to_owned(),
        method: "GET".to_owned(),
        host: None,
        headers: Vec::new(),
        expected_codes: vec![(200, 299)],
        expected_body: None,
        follow_redirects: false,
    };
    let second = Duration::from_secs(1);
    Monitor {
        name: "measured".to_owned(),
        zone: None,
        probe: if kind == Kind::Tcp { Probe::Tcp { port } } else { Probe::Http(Box::new(http)) },
        interval: 10 * second,
        timeout: 3 * second,
        rise: 2,
        fall: 3,
        max_age: 50 * second,
        flap_threshold: None,
        flap_window: 600 * second,
    }
}

/// Makes so many probes; gives the number of failures, and the processor time.
async fn measure(
    rate: u32,
    count: u32,
    prober: Arc<Prober>,
    monitor: Arc<Monitor>,
) -> Result<(u32, Duration), Failed> {
    let mut next = tokio::time::interval(Duration::from_secs(1) / rate);
    let (mut probes, mut failures) = (JoinSet::new(), 0);
    let before = processor_time()?;
    for _ in 0..count {
        next.tick().await;
        let (prober, monitor) = (Arc::clone(&prober), Arc::clone(&monitor));
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        probes.spawn(async move { prober.probe(&monitor, address).await });
        while let Some(result) = probes.try_join_next() {
            failures += u32::from(result?.is_err());
        }
    }
    while let Some(result) = probes.join_next().await {
        failures += u32::from(result?.is_err());
    }
    Ok((failures, processor_time()? - before))
}

/// The processor time of this thread so far.
fn processor_time() -> Result<Duration, Failed> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(Duration::from_nanos(nanoseconds))
}

async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let acceptor = acceptor.clone();
        // The probe ends the connection as it likes, so that an error says nothing.
        tokio::spawn(async move {
            match acceptor {
                Some(acceptor) => answer(acceptor.accept(stream).await?).await,
                None => answer(stream).await,
            }
        });
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await? > 0 {
        stream.write_all(REPLY).await?;
    }
    Ok(())
}
