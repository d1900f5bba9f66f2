//! A master file to records, and these back to text.

use meridian::config::report::{Report, Source};
use meridian::name::Name;
use meridian::zone::master::parse_master;
use meridian::zone::rdata::{describe, parse_record_data};

/// One input.
pub(crate) fn run(octets: &[u8]) {
    let Ok(text) = str::from_utf8(octets) else { return };
    let zone = Name::parse_absolute("example.test").expect("a name");
    let report = Report::default();
    let source = Source::new("example.test.zone", text);
    for sourced in parse_master(&source, &zone, None, &report) {
        // What is shown of a record is read as the same record.
        let record = sourced.record;
        let shown = describe(record.record_type, &record.rdata);
        let again = parse_record_data(record.record_type, &shown, &Name::root());
        match again {
            Ok(rdata) => assert_eq!(rdata, record.rdata, "{} {shown}", record.record_type),
            Err(error) => panic!("{} {shown}: {}", record.record_type, error.message),
        }
    }
    report.into_sorted();
}
