//! Just enough HTTP/1.1: one request, one reply.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// How long a reply may take.
const REPLY: Duration = Duration::from_secs(30);

pub(super) struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Request {
    pub(super) fn new(method: &str, path: &str) -> Self {
        let (method, path) = (method.to_owned(), path.to_owned());
        Self { method, path, headers: Vec::new(), body: Vec::new() }
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(super) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(super) fn json(self, body: &Value) -> Self {
        self.body(body.to_string())
    }

    pub(super) fn send(self, address: &str) -> Reply {
        let mut stream = connect(address);
        let has_host = self.headers.iter().any(|(name, _)| name == "host");
        let mut head = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", self.method, self.path);
        if !has_host {
            head.push_str(&format!("host: {address}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", self.body.len()));
        stream.write_all(head.as_bytes()).expect("a request sent");
        // The server may have refused it before it is sent whole.
        let _refused = stream.write_all(&self.body);
        Reply::read(&mut stream)
    }
}

impl Reply {
    /// Reads until the server closes.
    pub(super) fn read(stream: &mut TcpStream) -> Self {
        let mut octets = Vec::new();
        if let Err(error) = stream.read_to_end(&mut octets) {
            assert!(!octets.is_empty(), "no reply: {error}");
        }
        let text = String::from_utf8_lossy(&octets);
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
        let header = |line: &str| {
            let (name, value) = line.split_once(':').expect("a header");
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Self {
            status: status.parse().expect("a number"),
            headers: lines.map(header).collect(),
            body: body.to_owned(),
        }
    }

    pub(super) fn document(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Asserts an error of this status, whose text or help has all of these words.
    pub(super) fn assert_refused(&self, status: u16, words: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        let document = self.document();
        assert!(document["error"].is_string(), "{self:?}");
        let said = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
        let text = format!("{} {}", said("error"), said("help"));
        for word in words {
            assert!(text.contains(word), "{word:?} is not in {text}");
        }
    }
}

pub(super) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(REPLY)).expect("a timeout");
    stream
}
