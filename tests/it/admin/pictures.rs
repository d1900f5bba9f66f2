//! Pictures of the dashboard for the documents. They are made only if a folder is named for them:
//!
//! ```sh
//! MERIDIAN_SCREENSHOTS=docs cargo test --test it admin::pictures
//! ```
//!
//! That takes five minutes, as the page shows the traffic of so long, and needs `pngquant`.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use maxminddb::{Reader, WithinOptions};
use serde_json::json;

use super::browser::{Browser, Theme};
use super::{Served, TOKEN, with_admin, write_token};
use crate::harness::{Random, Site, receive};
use crate::wire::{Query, rtype};

/// The folder that the pictures are kept in.
const FOLDER: &str = "MERIDIAN_SCREENSHOTS";
/// The largest that a picture may be.
const LARGEST: u64 = 200 * 1024;
/// How long clients ask before the first picture.
const TRAFFIC: Duration = Duration::from_secs(305);
const PAUSE: Duration = Duration::from_millis(9);

/// The countries that clients are in, and how many of a hundred.
const COUNTRIES: [(&str, usize); 18] = [
    ("US", 22),
    ("DE", 10),
    ("GB", 8),
    ("IN", 8),
    ("FR", 7),
    ("JP", 7),
    ("BR", 6),
    ("NL", 4),
    ("CA", 4),
    ("ID", 4),
    ("IT", 3),
    ("PL", 3),
    ("ES", 3),
    ("AU", 3),
    ("KR", 3),
    ("MX", 2),
    ("ZA", 2),
    ("SE", 1),
];

/// The names that they ask for, and how many of ten.
const NAMES: [(&str, usize); 4] = [
    ("www.example.com", 6),
    ("api.example.com", 2),
    ("media.example.com", 1),
    ("near.example.com", 1),
];

#[test]
fn pictures_for_the_documents() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let site = sample();
    let served = Served::start(&site);
    let Some(browser) = Browser::start() else { return };
    let keep = |name: &str, size, theme, shown: &str| {
        browser.show_as(size, theme);
        browser.open(&served.url());
        browser.until_shown(shown);
        browser.until("document.querySelectorAll('.places g').length > 10");
        browser.until("document.querySelectorAll('.ways path').length > 10");
        let file = folder.join(name);
        browser.keep_picture(&file);
        shrink(&file);
        let octets = fs::metadata(&file).expect("the picture").len();
        assert!(octets < LARGEST, "{name} has {octets} octets");
    };
    let health = "zones/example.com.health";
    site.write(
        health,
        "* up\n192.0.2.11 down connection refused\n2001:db8:1::11 down connection refused\n",
    );
    let mut traffic = Traffic::new(&served);
    traffic.run(TRAFFIC / 2);
    site.write(health, "* up\n");
    traffic.run(TRAFFIC / 2);
    let drain = json!({
        "pool": "us", "origin": "pdx-1", "word": "drained", "for": "2h", "why": "new kernel",
        "by": "ada",
    });
    served.say(&drain);
    keep("dashboard-light.png", (1680, 1000), Theme::Light, "[data-origin=pdx-1][data-state=out]");
    site.write(
        health,
        "* up\n203.0.113.10 down connection refused\n2001:db8:3::10 down connection refused\n",
    );
    traffic.run(Duration::from_secs(15));
    let down = "[data-origin=sin-1][data-state=down]";
    keep("dashboard-dark.png", (1680, 1000), Theme::Dark, down);
    keep("dashboard-phone.png", (360, 1000), Theme::Light, down);
}

/// Leaves a picture no more colours than it needs.
fn shrink(file: &Path) {
    let mut command = Command::new("pngquant");
    command.args(["--force", "--skip-if-larger", "--ext", ".png"]).arg(file);
    assert!(command.status().expect("pngquant").success(), "{}", file.display());
}

/// A folder with the sample zone, and the locations that come with the program.
fn sample() -> Site {
    let site = Site::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["zones", "geo"] {
        for entry in fs::read_dir(root.join(folder)).expect("a folder") {
            let path = entry.expect("a file").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            site.write(&format!("{folder}/{name}"), fs::read(&path).expect("a file"));
        }
    }
    with_admin(&site, "listen = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"");
    write_token(&site, TOKEN);
    site
}

/// Clients all over the world.
struct Traffic<'s> {
    served: &'s Served,
    subnets: BTreeMap<String, Vec<IpAddr>>,
    random: Random,
    begun: Instant,
}

impl<'s> Traffic<'s> {
    fn new(served: &'s Served) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("geo/iptoasn-country.mmdb");
        let database = Reader::open_readfile(file).expect("the database");
        let mut subnets: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        let all = "0.0.0.0/0".parse().expect("a network");
        for found in database.within(all, WithinOptions::default()).expect("networks").flatten() {
            let code: Option<String> =
                found.decode_path(&[maxminddb::PathElement::Key("country_code")]).ok().flatten();
            let network = found.network().expect("a network");
            if let Some(code) = code.filter(|_| network.prefix() <= 20) {
                let of_country = subnets.entry(code).or_default();
                if of_country.len() < 20 {
                    of_country.push(network.ip());
                }
            }
        }
        Self { served, subnets, random: Random(42), begun: Instant::now() }
    }

    /// Asks for so long, now more, now less often.
    fn run(&mut self, lasts: Duration) {
        let socket = self.served.server.socket();
        let end = Instant::now() + lasts;
        while Instant::now() < end {
            let country = self.one_of(&COUNTRIES);
            let subnet = *self.random.pick(&self.subnets[country]);
            let name = self.one_of(&NAMES);
            let query = Query::new(name, rtype::A).ecs(&subnet.to_string(), 24);
            socket.send(&query.octets()).expect("a query sent");
            receive(&socket);
            let wave = (self.begun.elapsed().as_secs_f64() / 40.0).sin();
            thread::sleep(PAUSE.mul_f64(1.0 + 0.35 * wave));
        }
    }

    /// One of these, each as often as it should come.
    fn one_of(&mut self, from: &[(&'static str, usize)]) -> &'static str {
        let all = from.iter().map(|(_, part)| part).sum();
        let mut drawn = self.random.below(all);
        for &(what, part) in from {
            if drawn < part {
                return what;
            }
            drawn -= part;
        }
        from[0].0
    }
}
