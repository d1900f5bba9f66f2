//! A location database to the table of places, which has one for every address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use meridian::config::report::Report;
use meridian::locate::place::AvailabilityZones;
use meridian::locate::{Locator, LocatorInput};

/// One input.
pub(crate) fn run(content: &[u8]) {
    let report = Report::default();
    let database = Some((Path::new("geo/fuzz.mmdb"), content));
    let input = LocatorInput { database, ..LocatorInput::default() };
    let locator = Locator::load(input, &mut AvailabilityZones::default(), &report);
    let addresses = [
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V4(Ipv4Addr::BROADCAST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::from([0xff; 16])),
    ];
    for address in addresses {
        let located = locator.locate(address);
        assert!(located.scope <= if address.is_ipv4() { 32 } else { 128 });
        locator.describe(address);
    }
}
