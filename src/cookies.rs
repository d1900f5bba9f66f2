//! DNS cookies (RFC 7873), with server cookies that servers of other makes read too (RFC 9018). A client
//! that sends back what it was given has the address that it claims.
//!
//! Secrets and time are the caller's: `serve::secrets` keeps the one, and a batch of queries is answered
//! at one time. What a valid cookie is good for is decided in `serve::reply` and `limit`.

use std::fmt;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;
use subtle::ConstantTimeEq;

/// The octets of a client cookie.
pub const CLIENT: usize = 8;
/// The octets of a server cookie of this version.
pub const SERVER: usize = 16;
/// The octets of a secret.
pub const SECRET: usize = 16;
/// The version of server cookies (RFC 9018 section 4.1).
const VERSION: u8 = 1;
/// How old a server cookie may be, in seconds (RFC 9018 section 4.3).
const MAX_AGE: i32 = 3600;
/// How far in the future it may be: clocks of servers differ.
const MAX_AHEAD: i32 = 300;
/// From which age on a client gets a new one.
const RENEW_AGE: i32 = 1800;

/// The COOKIE option of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// What the client tells replies to it from others by.
    pub client: [u8; CLIENT],
    /// What the client had from a server.
    pub server: ServerCookie,
}

/// The server's part of a query's cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerCookie {
    /// None: the client has none yet.
    Absent,
    /// One of the length that ours have.
    Given([u8; SERVER]),
    /// One of another length, so of another make.
    Foreign,
}

impl Cookie {
    /// Reads the option's data. None if it is malformed: 8 octets, or 16 to 40, are well-formed
    /// (RFC 7873 section 4).
    pub fn parse(data: &[u8]) -> Option<Self> {
        let (client, server) = data.split_first_chunk::<CLIENT>()?;
        let server = match (server.len(), server.first_chunk::<SERVER>()) {
            (0, _) => ServerCookie::Absent,
            (SERVER, Some(server)) => ServerCookie::Given(*server),
            (8..=32, _) => ServerCookie::Foreign,
            _ => return None,
        };
        Some(Self { client: *client, server })
    }
}

/// What server cookies are made with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; SECRET]);

/// A secret is not shown.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The secrets of a server. Cookies of the previous one are valid until they are too old, so that a
/// secret can be replaced while clients hold cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secrets {
    /// What new cookies are made with.
    pub current: Secret,
    /// What they were made with before.
    pub previous: Option<Secret>,
}

/// The secrets at a time.
#[derive(Clone, Copy, Debug)]
pub struct Cookies {
    /// None: cookies are ignored.
    secrets: Option<Secrets>,
    /// Seconds since 1970, modulo 2³².
    now: u32,
}

/// What a query's cookie is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// True if the client had it from us: it has the address that it claims.
    pub is_valid: bool,
    /// The data of the reply's option: the client's part, and a server cookie that is valid now.
    pub reply: [u8; CLIENT + SERVER],
}

impl Cookies {
    /// No secrets: cookies are ignored.
    pub const OFF: Self = Self { secrets: None, now: 0 };

    /// The time, in seconds since 1970, modulo 2³².
    pub fn now(&self) -> u32 {
        self.now
    }

    /// These secrets, at a time in seconds since 1970, modulo 2³².
    pub fn new(secrets: Option<Secrets>, now: u32) -> Self {
        Self { secrets, now }
    }

    /// Judges the cookie of a query from an address. A server cookie that is valid and fresh is given
    /// back; else there is a new one (RFC 9018 section 4.3). None if cookies are ignored.
    #[inline]
    pub fn judge(&self, cookie: &Cookie, client: IpAddr) -> Option<Judged> {
        let secrets = self.secrets.as_ref()?;
        let client = client.to_canonical();
        let given = match cookie.server {
            ServerCookie::Given(given) => self.genuine(secrets, &cookie.client, given, client),
            ServerCookie::Absent | ServerCookie::Foreign => None,
        };
        let server = match given {
            Some(Genuine { server, is_fresh: true }) => server,
            _ => made(secrets.current, &cookie.client, head(self.now), client),
        };
        let mut reply = [0; CLIENT + SERVER];
        let (to_client, to_server) = reply.split_at_mut(CLIENT);
        to_client.copy_from_slice(&cookie.client);
        to_server.copy_from_slice(&server);
        Some(Judged { is_valid: given.is_some(), reply })
    }

    /// The server cookie, if it is one of ours for this client, and not too old.
    fn genuine(
        &self,
        secrets: &Secrets,
        client_cookie: &[u8; CLIENT],
        server: [u8; SERVER],
        client: IpAddr,
    ) -> Option<Genuine> {
        let [version, r0, r1, r2, t0, t1, t2, t3, ..] = server;
        // Serial numbers: the clock may go round (RFC 1982).
        let age = self.now.wrapping_sub(u32::from_be_bytes([t0, t1, t2, t3])).cast_signed();
        if version != VERSION || !(-MAX_AHEAD..=MAX_AGE).contains(&age) {
            return None;
        }
        let head = [version, r0, r1, r2, t0, t1, t2, t3];
        let is_of = |secret| bool::from(made(secret, client_cookie, head, client).ct_eq(&server));
        if is_of(secrets.current) {
            return Some(Genuine { server, is_fresh: age < RENEW_AGE });
        }
        let is_of_previous = secrets.previous.is_some_and(is_of);
        is_of_previous.then_some(Genuine { server, is_fresh: false })
    }
}

/// A server cookie that is ours.
#[derive(Clone, Copy)]
struct Genuine {
    server: [u8; SERVER],
    /// True if it need not be replaced.
    is_fresh: bool,
}

/// The first half of a server cookie: version, three reserved octets, the time.
fn head(now: u32) -> [u8; 8] {
    let [t0, t1, t2, t3] = now.to_be_bytes();
    [VERSION, 0, 0, 0, t0, t1, t2, t3]
}

/// A server cookie: its first half, and the hash of client cookie, first half and client address
/// (RFC 9018 section 4.4).
fn made(
    secret: Secret,
    client_cookie: &[u8; CLIENT],
    head: [u8; 8],
    client: IpAddr,
) -> [u8; SERVER] {
    let hasher = SipHasher24::new_with_key(&secret.0);
    let hash = match client {
        IpAddr::V4(address) => {
            let mut input = [0; 20];
            fill(&mut input, [client_cookie, &head, &address.octets()]);
            hasher.hash(&input)
        }
        IpAddr::V6(address) => {
            let mut input = [0; 32];
            fill(&mut input, [client_cookie, &head, &address.octets()]);
            hasher.hash(&input)
        }
    };
    let mut cookie = [0; SERVER];
    fill(&mut cookie, [&head, &hash.to_le_bytes(), &[]]);
    cookie
}

/// Puts the parts one after the other.
fn fill(to: &mut [u8], parts: [&[u8]; 3]) {
    let octets = parts.into_iter().flatten();
    to.iter_mut().zip(octets).for_each(|(to, octet)| *to = *octet);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of RFC 9018, appendix A.1 to A.3.
    const SECRET_A: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";

    fn octets<const N: usize>(hex: &str) -> [u8; N] {
        let octets = data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap();
        octets.try_into().unwrap()
    }

    fn secrets(current: &str, previous: Option<&str>) -> Secrets {
        let secret = |hex: &str| Secret(octets(hex));
        Secrets { current: secret(current), previous: previous.map(secret) }
    }

    /// What a client gets for its cookie: whether it is valid, and the server cookie.
    fn judged(secrets: Secrets, now: u32, cookie: &str, client: &str) -> (bool, String) {
        let data = data_encoding::HEXLOWER.decode(cookie.as_bytes()).unwrap();
        let cookie = Cookie::parse(&data).unwrap();
        let cookies = Cookies::new(Some(secrets), now);
        let Judged { is_valid, reply } = cookies.judge(&cookie, client.parse().unwrap()).unwrap();
        assert_eq!(reply[..CLIENT], cookie.client);
        (is_valid, data_encoding::HEXLOWER.encode(&reply[CLIENT..]))
    }

    #[test]
    fn the_examples_of_the_rfc_hold() {
        let a = secrets(SECRET_A, None);
        // A.1: a client without a server cookie.
        let client = "198.51.100.100";
        let learned = judged(a, 1_559_731_985, "2464c4abcf10c957", client);
        assert_eq!(learned, (false, "010000005cf79f111f8130c3eee29480".to_owned()));
        // A.2: the same client 40 minutes later.
        let held = "2464c4abcf10c957010000005cf79f111f8130c3eee29480";
        let renewed = judged(a, 1_559_734_385, held, client);
        assert_eq!(renewed, (true, "010000005cf7a871d4a564a1442aca77".to_owned()));
        // A.3: reserved octets that are not 0 count, and are 0 in the new cookie.
        let held = "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5";
        let client = "203.0.113.203";
        assert!(judged(a, 1_559_727_985 + 1800, held, client).0);
        // There it is renewed after almost two hours; here it is too old then, and the client gets the same.
        let renewed = judged(a, 1_559_734_700, held, client);
        assert_eq!(renewed, (false, "010000005cf7a9acf73a7810aca2381e".to_owned()));
        // A.4: IPv6, and a secret that was replaced.
        let secrets =
            secrets("445536bcd2513298075a5d379663c962", Some("dd3bdf9344b678b185a6f5cb60fca715"));
        let held = "22681ab97d52c298010000005cf7c57926556bd0934c72f8";
        let client = "2001:db8:220:1:59de:d0f4:8769:82b8";
        let renewed = judged(secrets, 1_559_741_961, held, client);
        assert_eq!(renewed, (true, "010000005cf7c609a6bb79d16625507a".to_owned()));
    }

    #[test]
    fn a_cookie_is_valid_for_its_client_and_its_time() {
        let secrets = secrets(SECRET_A, None);
        let (made, client) = (1_559_731_985u32, "198.51.100.100");
        let held = "2464c4abcf10c957010000005cf79f111f8130c3eee29480";
        let server = &held[2 * CLIENT..];
        for (age, is_valid, is_kept) in [
            (0i32, true, true),
            (1799, true, true),
            (1800, true, false),
            (3600, true, false),
            (3601, false, false),
            (-300, true, true),
            (-301, false, false),
        ] {
            let now = made.wrapping_add_signed(age);
            for client in [client, "::ffff:198.51.100.100"] {
                let (valid, given) = judged(secrets, now, held, client);
                assert_eq!((valid, given == server), (is_valid, is_kept), "{age} s, {client}");
            }
            assert!(!judged(secrets, now, held, "198.51.100.101").0, "another client");
        }
        let of_another_client = held.replacen("2464", "2465", 1);
        assert!(!judged(secrets, made, &of_another_client, client).0);
        let of_another_version = held.replacen("01000000", "02000000", 1);
        assert!(!judged(secrets, made, &of_another_version, client).0);
        assert!(!judged(secrets, made, &held[..2 * 16], client).0, "a server cookie of 8 octets");
    }

    #[test]
    fn lengths_are_checked() {
        for length in 0..50 {
            let is_well_formed = length == 8 || (16..=40).contains(&length);
            assert_eq!(Cookie::parse(&vec![7; length]).is_some(), is_well_formed, "{length}");
        }
    }
}
