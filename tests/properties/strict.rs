//! A small, strict parser of replies, apart from the program and from hickory-proto: it takes what
//! the RFCs allow and panics at anything else.

/// A reply.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: u16,
    pub(crate) flags: u16,
    /// The octets of the question section.
    pub(crate) question: Vec<u8>,
    /// Answer, authority and additional section.
    pub(crate) sections: [Vec<Record>; 3],
}

/// A record, with the names in it uncompressed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) owner: Vec<u8>,
    pub(crate) record_type: u16,
    pub(crate) class: u16,
    pub(crate) ttl: u32,
    pub(crate) rdata: Vec<u8>,
}

/// Reads a message to its last octet.
pub(crate) fn parse(octets: &[u8]) -> Message {
    let mut reader = Reader { octets, at: 0 };
    let (id, flags) = (reader.u16(), reader.u16());
    let questions = reader.u16();
    let counts = [reader.u16(), reader.u16(), reader.u16()];
    assert!(questions <= 1, "{questions} questions");
    let start = reader.at;
    for _ in 0..questions {
        reader.name();
        reader.take(4);
    }
    let question = octets[start..reader.at].to_vec();
    let sections = counts.map(|count| (0..count).map(|_| reader.record()).collect());
    assert_eq!(reader.at, octets.len(), "octets after the last record");
    Message { id, flags, question, sections }
}

struct Reader<'m> {
    octets: &'m [u8],
    at: usize,
}

impl<'m> Reader<'m> {
    fn take(&mut self, length: usize) -> &'m [u8] {
        let taken = &self.octets[self.at..self.at + length];
        self.at += length;
        taken
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    /// A name, its pointers followed: each points before the place that it is reached from.
    fn name(&mut self) -> Vec<u8> {
        let mut name = Vec::new();
        let mut at = self.at;
        let mut limit = self.at;
        let mut end = None;
        loop {
            let length = self.octets[at];
            match length {
                0 => {
                    name.push(0);
                    self.at = end.unwrap_or(at + 1);
                    assert!(name.len() <= 255, "a name of {} octets", name.len());
                    return name;
                }
                1..=63 => {
                    name.extend(&self.octets[at..=at + usize::from(length)]);
                    at += usize::from(length) + 1;
                }
                0xc0.. => {
                    let low = usize::from(self.octets[at + 1]);
                    let target = usize::from(length & 0x3f) << 8 | low;
                    assert!((12..limit).contains(&target), "a pointer to {target} at {at}");
                    end.get_or_insert(at + 2);
                    (at, limit) = (target, target);
                }
                _ => panic!("a label of type {length:#x}"),
            }
        }
    }

    fn record(&mut self) -> Record {
        let owner = self.name();
        let (record_type, class, ttl) = (self.u16(), self.u16(), self.u32());
        let length = usize::from(self.u16());
        let end = self.at + length;
        // Names are compressed in the types of RFC 1035 only (RFC 3597 section 4).
        let rdata = match record_type {
            2 | 5 | 12 => self.name(),
            15 => [self.take(2).to_vec(), self.name()].concat(),
            6 => {
                let (mname, rname) = (self.name(), self.name());
                [mname, rname, self.take(20).to_vec()].concat()
            }
            _ => self.take(length).to_vec(),
        };
        assert_eq!(self.at, end, "RDATA of type {record_type} has another length");
        Record { owner, record_type, class, ttl, rdata }
    }
}
