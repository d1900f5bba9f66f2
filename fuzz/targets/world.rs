//! The configuration that messages are answered from.

use std::sync::LazyLock;

use meridian::config::build::{Files, build};
use meridian::config::report::{Report, Source};
use meridian::config::server::Server;
use meridian::serve::live::Moment;

const ZONE: &str = "zone = \"example.test\"\nzonefile = \"example.test.zone\"\n\
    [pools.p]\nregion = \"weu\"\norigins = [\
    { name = \"a\", address = [\"192.0.2.100\", \"2001:db8::100\"] }, \
    { name = \"b\", address = \"192.0.2.101\" }]\n\
    [pools.off]\nenabled = false\norigins = [{ name = \"c\", address = \"192.0.2.102\" }]\n\
    [load_balancers.lb]\npools = [\"p\"]\nsteering = \"geo\"\n\
    region_pools = { weu = [\"p\"], enam = [\"off\", \"p\"] }\n\
    [load_balancers.all]\npools = [\"p\"]\nanswers = \"all\"\n\
    [load_balancers.down]\npools = [\"off\"]\n";
const MASTER: &str = include_str!("../../tests/data/example.test.zone");

/// Its first moment.
pub(crate) static MOMENT: LazyLock<Moment> = LazyLock::new(|| {
    let files = Files { zones: vec![Source::new("zone.toml", ZONE)], ..Files::default() };
    let report = Report::default();
    let state = build(&files, &Server::default(), &|_| Ok(MASTER.to_owned()), &report);
    Moment::healthy(state.unwrap_or_else(|| panic!("{:?}", report.into_sorted())))
});
