//! Lists of queries: lines of `NAME TYPE [SUBNET]`, and the datagrams that they make.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use meridian::name::Name;
use meridian::rr::RecordType;

/// A query as it is sent, its id still 0, and the length of header and question.
pub(crate) struct Query {
    pub(crate) octets: Vec<u8>,
    pub(crate) question_end: usize,
}

impl Query {
    /// True if a reply has the question of the query, and the response code.
    pub(crate) fn is_answered_by(&self, reply: &[u8], rcode: u8) -> bool {
        let question = self.octets.get(12..self.question_end);
        matches!(reply, &[_, _, flags, code, ..] if flags & 0x80 != 0 && code & 0x0f == rcode)
            && reply.get(12..self.question_end) == question
    }
}

/// Reads a list; `with_subnets` or without them.
pub(crate) fn read(list: &Path, with_subnets: bool) -> io::Result<Vec<Query>> {
    let text = std::fs::read_to_string(list)?;
    let bad =
        |line: &str| io::Error::new(io::ErrorKind::InvalidData, format!("not a query: {line}"));
    let mut queries = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let name = words.next().and_then(|word| Name::parse_absolute(word).ok());
        let record_type = words.next().and_then(RecordType::parse);
        let subnet = words.next().map(|word| word.parse::<IpNet>().map_err(|_| bad(line)));
        let subnet = subnet.transpose()?.filter(|_| with_subnets);
        let (Some(name), Some(record_type)) = (name, record_type) else { return Err(bad(line)) };
        queries.push(query(&name, record_type, subnet));
    }
    if queries.is_empty() { Err(bad("the list is empty")) } else { Ok(queries) }
}

fn query(name: &Name, record_type: RecordType, subnet: Option<IpNet>) -> Query {
    let mut octets = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    octets.extend(name.as_wire());
    octets.extend(record_type.0.to_be_bytes());
    octets.extend([0, 1]);
    let question_end = octets.len();
    let mut option = Vec::new();
    if let Some(subnet) = subnet.map(|subnet| subnet.trunc()) {
        let (family, address) = match subnet.addr() {
            IpAddr::V4(ip) => (1, ip.octets().to_vec()),
            IpAddr::V6(ip) => (2, ip.octets().to_vec()),
        };
        let length = usize::from(subnet.prefix_len()).div_ceil(8);
        option.extend([0, 8, 0, u8::try_from(4 + length).unwrap_or(0)]);
        option.extend([0, family, subnet.prefix_len(), 0]);
        option.extend(&address[..length]);
    }
    octets.extend([0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, u8::try_from(option.len()).unwrap_or(0)]);
    octets.extend(option);
    Query { octets, question_end }
}
