//! The workload in each server's words. Every server is to run one thread for UDP, on loopback, with
//! the settings that it ships with otherwise.
//!
//! What the others cannot say: Knot DNS has geography and weights in different modes of its module,
//! so that it answers each pool's first origin; NSD has no steering at all, and answers each name's
//! first address.

use std::io::{self, Write};
use std::path::Path;

use crate::random::Random;
use crate::{Affinity, GROUPS, Group, TTL, Workload, ZONES, country, create, index};

/// The database, which all servers read where Meridian has it.
const DATABASE: &str = "meridian/geo/country.mmdb";
/// How many octets of queries may wait for each server: the most that gdnsd allows.
const BUFFER: u32 = 1 << 20;

/// The servers, in the order of their ports.
#[derive(Clone, Copy)]
enum Server {
    Meridian,
    Gdnsd,
    Knot,
    PowerDns,
    Nsd,
}

impl Workload {
    fn port(&self, server: Server) -> u16 {
        self.arguments.port.saturating_add(server as u16)
    }
}

/// Meridian: each pool lies in the region of its group's countries.
pub(crate) fn meridian(workload: &Workload, folder: &Path, random: &mut Random) -> io::Result<()> {
    let port = workload.port(Server::Meridian);
    let mut settings = create(folder, "meridian/meridian.toml")?;
    write!(
        settings,
        "[server]\nlisten = \"127.0.0.1:{port}\"\nworkers = 1\nlog = \"warn\"\n\n\
         [udp]\nreceive_buffer = {BUFFER}\nsend_buffer = {BUFFER}\n"
    )?;
    settings.flush()?;

    create(folder, DATABASE)?.write_all(&country::database(&workload.subnets))?;
    let mut regions = create(folder, "meridian/geo/regions.toml")?;
    for group in &GROUPS {
        let countries: Vec<&str> = group.countries.iter().map(|(_, country)| *country).collect();
        writeln!(regions, "[regions.{}]\ncountries = {countries:?}", group.name)?;
    }
    regions.flush()?;
    if workload.arguments.zonal.is_some() {
        let mut subnets = create(folder, "meridian/geo/subnets.toml")?;
        for subnet in &workload.subnets {
            let (region, zone) = (GROUPS[subnet.group].name, index(random, ZONES));
            writeln!(subnets, "[subnets.\"{}\"]\nregion = \"{region}\"", subnet.network)?;
            writeln!(subnets, "zone = \"{region}-{zone}\"")?;
        }
        subnets.flush()?;
    }

    let mut zone = create(folder, "meridian/zones/bench.test.toml")?;
    write!(
        zone,
        "zone = \"bench.test\"\n\n[soa]\nminimum = 60\n\n\
         [[records]]\nname = \"@\"\ntype = \"NS\"\ndata = [\"ns\"]\n\n\
         [[records]]\nname = \"ns\"\ntype = \"A\"\ndata = [\"192.0.2.53\"]\n"
    )?;
    let names = workload.arguments.names;
    for name in 0..names {
        for (group, Group { name: region, .. }) in GROUPS.iter().enumerate() {
            writeln!(zone, "\n[pools.n{name}-{region}]\nregion = \"{region}\"")?;
            if workload.arguments.zonal == Some(Affinity::On) {
                writeln!(zone, "zonal_affinity = {{ mode = \"stay_within_zone\" }}")?;
            }
            for (origin, (address, weight)) in workload.pool(name, group).enumerate() {
                writeln!(zone, "[[pools.n{name}-{region}.origins]]\nname = \"o{origin}\"")?;
                writeln!(zone, "address = \"{address}\"\nweight = 0.{weight}")?;
                if workload.arguments.zonal.is_some() {
                    writeln!(zone, "zone = \"{region}-{}\"", origin % ZONES)?;
                }
            }
        }
    }
    for name in 0..names {
        let pools = GROUPS.map(|group| format!("n{name}-{}", group.name));
        writeln!(zone, "\n[load_balancers.n{name}]\nsteering = \"geo\"\nttl = {TTL}")?;
        writeln!(zone, "pools = {pools:?}")?;
        if workload.arguments.sessions {
            writeln!(zone, "session_affinity = {{ ttl = \"1h\" }}")?;
        }
    }
    zone.flush()
}

/// gdnsd: a map of countries to ordered datacenters, and a geoip resource with weights in each
/// datacenter for each name. Nothing is monitored.
pub(crate) fn gdnsd(workload: &Workload, folder: &Path) -> io::Result<()> {
    let port = workload.port(Server::Gdnsd);
    let here = folder.join("gdnsd");
    let mut config = create(folder, "gdnsd/config")?;
    write!(
        config,
        "options => {{\n  listen => 127.0.0.1:{port}\n  udp_threads => 1\n  tcp_threads => 1\n  \
         udp_rcvbuf => {BUFFER}\n  udp_sndbuf => {BUFFER}\n  run_dir => \"{here}/run\"\n  \
         state_dir => \"{here}/state\"\n}}\n\
         plugins => {{ geoip => {{\n  plugin => weighted\n  service_types => up\n  maps => {{ \
         countries => {{\n    geoip2_db => \"{database}\"\n    datacenters => [{all}]\n    map => \
         {{\n",
        here = here.display(),
        database = folder.join(DATABASE).display(),
        all = GROUPS.map(|group| group.name).join(", "),
    )?;
    let continents = ["NA", "SA", "EU", "AS", "OC"];
    for continent in continents {
        write!(config, "      {continent} => {{")?;
        for (index, group) in GROUPS.iter().enumerate() {
            let mut order = GROUPS.map(|group| group.name);
            order[..=index].rotate_right(1);
            for (_, country) in group.countries.iter().filter(|place| place.0 == continent) {
                write!(config, " {country} => [{}]", order.join(", "))?;
            }
        }
        writeln!(config, " }}")?;
    }
    writeln!(config, "    }}\n  }} }}\n  resources => {{")?;
    for name in 0..workload.arguments.names {
        writeln!(config, "    n{name} => {{ map => countries, dcmap => {{")?;
        for (group, Group { name: datacenter, .. }) in GROUPS.iter().enumerate() {
            write!(config, "      {datacenter} => {{")?;
            for (origin, (address, weight)) in workload.pool(name, group).enumerate() {
                write!(config, " o{origin} => [{address}, {weight}]")?;
            }
            writeln!(config, " }}")?;
        }
        writeln!(config, "    }} }}")?;
    }
    writeln!(config, "  }}\n}} }}")?;
    config.flush()?;

    let mut zone = create(folder, "gdnsd/zones/bench.test")?;
    write!(zone, "{}", apex())?;
    for name in 0..workload.arguments.names {
        writeln!(zone, "n{name} {TTL} DYNA geoip!n{name}")?;
    }
    zone.flush()
}

/// Knot DNS: mod-geoip in mode geodb, with a view of each name for each country.
pub(crate) fn knot(workload: &Workload, folder: &Path) -> io::Result<()> {
    let port = workload.port(Server::Knot);
    let here = folder.join("knot");
    let mut config = create(folder, "knot/knot.conf")?;
    write!(
        config,
        "server:\n  rundir: \"{here}/run\"\n  listen: 127.0.0.1@{port}\n  udp-workers: 1\n  \
         tcp-workers: 1\n  background-workers: 1\n  edns-client-subnet: on\n\
         log:\n  - target: stderr\n    any: warning\n\
         database:\n  storage: \"{here}\"\n\
         mod-geoip:\n  - id: countries\n    config-file: \"{here}/geo.conf\"\n    ttl: {TTL}\n    \
         mode: geodb\n    geodb-file: \"{database}\"\n    geodb-key: country/iso_code\n\
         zone:\n  - domain: bench.test\n    storage: \"{here}\"\n    file: zone\n    \
         zonefile-sync: -1\n    journal-content: none\n    module: mod-geoip/countries\n",
        here = here.display(),
        database = folder.join(DATABASE).display(),
    )?;
    config.flush()?;
    std::fs::create_dir_all(here.join("run"))?;

    let mut views = create(folder, "knot/geo.conf")?;
    for name in 0..workload.arguments.names {
        writeln!(views, "n{name}.bench.test:")?;
        for (index, group) in GROUPS.iter().enumerate() {
            let address = workload.address(name, index, 0);
            for (_, country) in group.countries {
                writeln!(views, "  - geo: {country}\n    A: {address}")?;
            }
        }
    }
    views.flush()?;
    let mut zone = create(folder, "knot/zone")?;
    write!(zone, "{}", apex())?;
    zone.flush()
}

/// PowerDNS: the GeoIP backend, with services that lead to weighted records by the country's group.
pub(crate) fn powerdns(workload: &Workload, folder: &Path) -> io::Result<()> {
    let port = workload.port(Server::PowerDns);
    let here = folder.join("powerdns");
    let mut config = create(folder, "powerdns/pdns.conf")?;
    write!(
        config,
        "launch=geoip\ngeoip-zones-file={here}/zones.yaml\ngeoip-database-files=mmdb:{database}\n\
         edns-subnet-processing=yes\nlocal-address=127.0.0.1\nlocal-port={port}\n\
         receiver-threads=1\ndistributor-threads=1\nsocket-dir={here}\nwrite-pid=no\n\
         disable-syslog=yes\nloglevel=3\n",
        here = here.display(),
        database = folder.join(DATABASE).display(),
    )?;
    config.flush()?;

    let mut zones = create(folder, "powerdns/zones.yaml")?;
    writeln!(zones, "mapping_lookup_formats: ['%cc']\ncustom_mapping:")?;
    for group in &GROUPS {
        for (_, country) in group.countries {
            // The backend looks for codes in lower case.
            writeln!(zones, "  '{}': {}", country.to_lowercase(), group.name)?;
        }
    }
    write!(
        zones,
        "domains:\n- domain: bench.test\n  ttl: {TTL}\n  records:\n    bench.test:\n    - soa: \
         ns.bench.test hostmaster.bench.test 1 7200 1800 1209600 60\n    - ns: ns.bench.test\n    \
         ns.bench.test:\n    - a: 192.0.2.53\n"
    )?;
    for name in 0..workload.arguments.names {
        for (index, group) in GROUPS.iter().enumerate() {
            writeln!(zones, "    {}.n{name}.bench.test:", group.name)?;
            for (address, weight) in workload.pool(name, index) {
                writeln!(zones, "    - a: {{content: {address}, weight: {weight}}}")?;
            }
        }
    }
    writeln!(zones, "  services:")?;
    for name in 0..workload.arguments.names {
        writeln!(zones, "    n{name}.bench.test: '%mp.n{name}.bench.test'")?;
    }
    zones.flush()
}

/// NSD: a static zone with the same names.
pub(crate) fn nsd(workload: &Workload, folder: &Path) -> io::Result<()> {
    let port = workload.port(Server::Nsd);
    let here = folder.join("nsd");
    let mut config = create(folder, "nsd/nsd.conf")?;
    write!(
        config,
        "server:\n  ip-address: 127.0.0.1@{port}\n  server-count: 1\n  username: \"\"\n  \
         zonesdir: \"{here}\"\n  database: \"\"\n  zonelistfile: \"{here}/zone.list\"\n  \
         xfrdfile: \"{here}/xfrd.state\"\n  xfrdir: \"{here}\"\n  pidfile: \"\"\n  \
         minimal-responses: yes\n  rrl-ratelimit: 0\n  receive-buffer-size: {BUFFER}\n  \
         send-buffer-size: {BUFFER}\n\
         remote-control:\n  control-enable: no\n\
         zone:\n  name: bench.test\n  zonefile: zone\n",
        here = here.display(),
    )?;
    config.flush()?;
    let mut zone = create(folder, "nsd/zone")?;
    write!(zone, "{}", apex())?;
    for name in 0..workload.arguments.names {
        writeln!(zone, "n{name} {TTL} A {}", workload.address(name, 0, 0))?;
    }
    zone.flush()
}

/// The records of the apex, as a master file has them.
fn apex() -> String {
    let mut text = String::from("$ORIGIN bench.test.\n$TTL 300\n");
    text += "@ SOA ns hostmaster 1 7200 1800 1209600 60\n@ NS ns\nns A 192.0.2.53\n";
    text
}
