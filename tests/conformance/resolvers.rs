//! Recursive resolvers as Debian ships them, each with an address of its own, the root of the network as
//! its root, and nothing said of `example.test`: they find the way as they do on the Internet.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::is_missing;
use crate::own_file;

/// How long a resolver may take to answer its first query.
const START: Duration = Duration::from_secs(60);

/// The root hints.
const HINTS: &str = ". 3600 IN NS a.root.\na.root. 3600 IN A 192.0.2.90\n";

/// A resolver that runs.
pub(crate) struct Resolver {
    pub(crate) name: &'static str,
    pub(crate) address: Ipv4Addr,
    child: Child,
    folder: TempDir,
}

/// A resolver that can be run.
struct Kind {
    name: &'static str,
    address: Ipv4Addr,
    program: &'static str,
    package: &'static str,
    /// The file of it here, in which ADDRESS and FOLDER stand for what they say.
    configuration: &'static str,
    file: &'static str,
    arguments: &'static [&'static str],
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "unbound",
        address: Ipv4Addr::new(192, 0, 2, 101),
        program: "/usr/sbin/unbound",
        package: "unbound",
        configuration: "resolvers/unbound.conf",
        file: "unbound.conf",
        arguments: &["-d", "-c", "FOLDER/unbound.conf"],
    },
    Kind {
        name: "unbound-plain",
        address: Ipv4Addr::new(192, 0, 2, 102),
        program: "/usr/sbin/unbound",
        package: "unbound",
        configuration: "resolvers/unbound-plain.conf",
        file: "unbound.conf",
        arguments: &["-d", "-c", "FOLDER/unbound.conf"],
    },
    Kind {
        name: "named",
        address: Ipv4Addr::new(192, 0, 2, 103),
        program: "/usr/sbin/named",
        package: "bind9",
        configuration: "resolvers/named.conf",
        file: "named.conf",
        arguments: &["-4", "-g", "-n", "1", "-c", "FOLDER/named.conf"],
    },
    Kind {
        name: "recursor",
        address: Ipv4Addr::new(192, 0, 2, 104),
        program: "/usr/sbin/pdns_recursor",
        package: "pdns-recursor",
        configuration: "resolvers/recursor.conf",
        file: "recursor.conf",
        arguments: &["--config-dir=FOLDER", "--socket-dir=FOLDER"],
    },
];

/// Starts all that are installed, and waits until they answer.
pub(crate) fn start() -> Vec<Resolver> {
    let mut resolvers: Vec<_> = KINDS.iter().filter_map(Kind::start).collect();
    resolvers.iter_mut().for_each(Resolver::wait);
    resolvers
}

impl Kind {
    fn start(&self) -> Option<Resolver> {
        if is_missing(self.program, "-h", self.package) {
            return None;
        }
        let folder = TempDir::new().expect("a temporary folder");
        let path = folder.path().to_str().expect("a path that is text").to_owned();
        let address = self.address.to_string();
        let fill = |text: &str| text.replace("FOLDER", &path).replace("ADDRESS", &address);
        write(folder.path(), self.file, &fill(&own_file(self.configuration)));
        write(folder.path(), "root.hints", HINTS);
        let log = fs::File::create(folder.path().join("log")).expect("a file");
        let child = Command::new(self.program)
            .args(self.arguments.iter().map(|argument| fill(argument)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("a process");
        let (name, address) = (self.name, self.address);
        Some(Resolver { name, address, child, folder })
    }
}

fn write(folder: &Path, file: &str, text: &str) {
    fs::write(folder.join(file), text).expect("a file that can be written");
}

impl Resolver {
    fn wait(&mut self) {
        let start = Instant::now();
        while !self.dig(&["example.test", "SOA"]).contains("status: NOERROR") {
            let ended = self.child.try_wait().expect("a child of this process");
            assert!(ended.is_none() && start.elapsed() < START, "{}: {}", self.name, self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// What `dig` prints when it asks this resolver.
    pub(crate) fn dig(&self, arguments: &[&str]) -> String {
        let output = Command::new("dig")
            .args([&format!("@{}", self.address), "+tries=1", "+time=10"])
            .args(arguments)
            .output()
            .expect("the program dig");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        // It may have ended by itself: that is not this function's business.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
