//! Reading databases: the good ones, the corrupt ones, and good ones that are damaged at random.

use std::time::{Duration, Instant};

use super::*;
use crate::locate::tests::{ASN, CITY, COUNTRY, file};

/// Longer than anything of the size of these files should take, on a slow machine without
/// optimisation.
const LIMIT: Duration = Duration::from_secs(5);

fn read(content: &[u8]) -> Result<Database, DatabaseError> {
    let start = Instant::now();
    let database = Database::read(Path::new("geo/test.mmdb"), content);
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    database
}

#[test]
fn records_are_read_once_for_all_networks() {
    let database = read(&file(CITY).1).unwrap();
    assert_eq!(database.info.database_type, "GeoIP2-City");
    assert_eq!(database.records.len(), database.info.records + 1);
    assert!(database.info.records < database.info.networks);
    assert_eq!(database.records[0], Record::default());
}

#[test]
fn the_whole_database_agrees_with_the_reader() {
    for name in [CITY, COUNTRY] {
        let content = file(name).1;
        let database = read(&content).unwrap();
        let reader = Reader::from_source(content.as_slice()).unwrap();
        let mut checked = 0;
        for network in reader.networks(maxminddb::WithinOptions::default()).unwrap() {
            let network = network.unwrap();
            let city: maxminddb::geoip2::City<'_> = network.decode().unwrap().unwrap();
            let addresses = network.network().unwrap();
            for address in [addresses.network(), addresses.broadcast()] {
                let record = match address {
                    IpAddr::V4(v4) => value_at(&database.v4, v4.to_bits()),
                    IpAddr::V6(v6) => value_at(&database.v6, v6.to_bits()),
                };
                let record = &database.records[record as usize];
                let country = record.country.map(|country| country.to_string());
                assert_eq!(country.as_deref(), city.country.iso_code, "{address}");
                let continent = record.continent.map(|continent| continent.to_string());
                assert_eq!(continent.as_deref(), city.continent.code, "{address}");
                let [latitude, _] = record.coordinates.map_or([0.0; 2], |c| c.to_degrees());
                assert_eq!(latitude, city.location.latitude.unwrap_or(0.0), "{address}");
                checked += 1;
            }
        }
        assert!(checked > 400, "{checked}");
    }
}

fn value_at<A: Bits>(runs: &Runs<A>, address: A) -> u32 {
    let around = runs.iter().find(|&(_, last, _)| address <= last);
    around.unwrap().2
}

#[test]
fn aliases_of_v4_are_not_v6_data() {
    let database = read(&file(CITY).1).unwrap();
    for alias in ["2002:5102:458e::", "2001:0:5102:458e::", "::ffff:81.2.69.142", "::81.2.69.142"] {
        let address: Ipv6Addr = alias.parse().unwrap();
        assert_eq!(value_at(&database.v6, address.to_bits()), NO_RECORD, "{alias}");
    }
}

#[test]
fn a_database_without_locations_says_what_is_missing() {
    let report = Report::default();
    let (path, content) = file(ASN);
    assert!(Database::load(&path, &content, &report).is_none());
    let errors = report.into_sorted();
    let text = errors[0].to_string();
    assert!(text.contains("GeoLite2-ASN-Test.mmdb: error: the database cannot be used: it is no location database (its type is \"GeoLite2-ASN\")"), "{text}");
    assert!(text.contains("country.iso_code"), "{text}");
}

#[test]
fn damaged_files_are_errors_or_harmless() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/geo/bad");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let report = Report::default();
        let start = Instant::now();
        let database = Database::load(&path, &std::fs::read(&path).unwrap(), &report);
        assert!(start.elapsed() < LIMIT, "{}", path.display());
        assert!(database.is_none(), "{}", path.display());
        count += 1;
    }
    assert_eq!(count, 13);
}

#[test]
fn damage_anywhere_neither_panics_nor_hangs() {
    let sound = [file(CITY).1, file(COUNTRY).1];
    let mut random = Random(42);
    let (mut read_anyway, mut refused) = (0, 0);
    for round in 0..500 {
        let mut content = sound[round % 2].clone();
        if random.below(5) == 0 {
            content.truncate(random.below(content.len()));
        } else {
            // Half of the damage is in the last 2 KiB, where the metadata is.
            for _ in 0..=random.below(8) {
                let end = content.len();
                let start = if random.below(2) == 0 { end - 2048 } else { 0 };
                let at = start + random.below(end - start);
                content[at] ^= 1 << random.below(8);
            }
        }
        match read(&content) {
            Ok(_) => read_anyway += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(read_anyway > 0 && refused > 0);
}

#[test]
fn a_tree_that_leads_in_circles_ends() {
    let content = file(COUNTRY).1;
    let reader = Reader::from_source(content.as_slice()).unwrap();
    let node_octets = usize::from(reader.metadata().record_size) / 4;
    let node_count = reader.metadata().node_count as usize;
    // Every node leads to the root: without a bound there are 2 to the power of 128 paths.
    let mut circles = content.clone();
    circles[..node_count * node_octets].fill(0);
    assert!(matches!(read(&circles), Err(DatabaseError::Tree)));
    // Every node leads twice to the next: as many paths, and none longer than an address.
    let mut doubled = content;
    for node in 0..node_count {
        let next = u32::try_from(node + 1).unwrap().to_be_bytes();
        let halves = &mut doubled[node * node_octets..][..node_octets];
        match node_octets {
            6 => {
                halves[..3].copy_from_slice(&next[1..]);
                halves[3..].copy_from_slice(&next[1..]);
            }
            7 => {
                halves[..3].copy_from_slice(&next[1..]);
                halves[3] = 0;
                halves[4..].copy_from_slice(&next[1..]);
            }
            _ => {
                halves[..4].copy_from_slice(&next);
                halves[4..].copy_from_slice(&next);
            }
        }
    }
    assert!(matches!(read(&doubled), Err(DatabaseError::Tree)));
}

#[test]
fn of_several_databases_none_is_taken() {
    let report = Report::default();
    let files = [PathBuf::from("geo/b.mmdb"), PathBuf::from("geo/a.mmdb")];
    assert_eq!(only_database(&[], &report), None);
    assert_eq!(only_database(&files[..1], &report), Some(&*files[0]));
    assert!(!report.has_errors());
    assert_eq!(only_database(&files, &report), None);
    let errors = report.into_sorted();
    assert_eq!(
        errors[0].to_string(),
        "geo: error: there are 2 databases: geo/a.mmdb, geo/b.mmdb\n    help: keep one of them here"
    );
}

/// xorshift64*, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        usize::try_from(number).unwrap() % limit.max(1)
    }
}
