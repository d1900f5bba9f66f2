//! What a reload changes beside the state: the settings of `meridian.toml` and the secrets that it names. They are
//! told by their keys; secrets are compared and never shown.

use crate::changes::Difference;
use crate::config::files::Secrets;
use crate::config::server::{Server, UdpSettings};
use crate::config::tls::Tls;

/// The settings that are not as before, of those that take effect with the reload.
pub(super) fn changes(old: (&Server, &Secrets), new: (&Server, &Secrets)) -> Difference {
    let (server, secrets) = ((old.0, new.0), (old.1, new.1));
    let mut found = Difference::default();
    // A setting that has a default is always there.
    found.note("identity.pop", of(server, |server| server.pop.as_ref()));
    found
        .note("identity.region", of(server, |server| server.region.as_ref().map(|(name, _)| name)));
    found.note("identity.nsid", of(server, |server| server.identity.nsid.as_ref()));
    found.note("chaos", of(server, |server| Some(&server.identity.chaos)));
    found.note("probe_source", of(server, |server| Some(&server.probe_source)));
    found.note("rtt_max_age", of(server, |server| Some(server.rtt_max_age)));
    found.note("resolver", of(server, |server| Some(&server.resolver)));
    found.note("rate_limit", of(server, |server| Some(server.rate_limit)));
    found.note("cookies.require", of(server, |server| Some(server.cookies.require)));
    found.note("cookies.secret_file", of(secrets, |secrets| secrets.cookies));
    found.note("admin.token_file", of(secrets, |secrets| secrets.token.as_ref()));
    let chain = |secrets: &Secrets| {
        secrets.certificate.as_ref().map(|certificate| certificate.certified().cert.clone())
    };
    found.note("tls.cert", of(secrets, chain));
    let mut names: Vec<_> = secrets.0.keys.names().chain(secrets.1.keys.names()).collect();
    names.sort_unstable_by_key(ToString::to_string);
    names.dedup();
    for name in names {
        let key = |secrets: &Secrets| secrets.keys.get(&name.to_key()).cloned();
        found.note(&format!("tsig_keys.{name}"), of(secrets, key));
    }
    found
}

/// Something of both sides.
fn of<'s, S, T>((old, new): (&'s S, &'s S), part: impl Fn(&'s S) -> T) -> (T, T) {
    (part(old), part(new))
}

/// The settings that changed and are read at start only.
pub(super) fn at_next_start(old: &Server, new: &Server) -> Vec<&'static str> {
    // `workers` is a setting of its own.
    let udp = |server: &Server| UdpSettings { workers: 0, ..server.udp };
    let tls = |server: &Server| {
        let tls = server.tls.as_ref()?;
        let Tls { dot, doh, doh_path, doh3, doq, .. } = tls;
        Some((dot.clone(), doh.clone(), doh_path.clone(), *doh3, doq.clone()))
    };
    let admin = |server: &Server| server.admin.as_ref().map(|admin| admin.listen.clone());
    // Where it stands in the file is no part of it.
    let log = |server: &Server| server.query_log.as_ref().map(|(settings, _)| settings.clone());
    let limit = |server: &Server| server.admin.as_ref().map(|admin| admin.metrics_limit);
    let settings = [
        ("listen", old.listen == new.listen),
        ("watch", old.watch == new.watch),
        ("workers", old.workers == new.workers),
        ("log", old.log == new.log),
        ("udp", udp(old) == udp(new)),
        ("max_sessions", old.max_sessions == new.max_sessions),
        ("tcp", old.tcp == new.tcp),
        ("tls", tls(old) == tls(new)),
        ("freebind", old.freebind == new.freebind),
        ("state", old.state == new.state),
        ("privileges", old.privileges == new.privileges),
        ("query_log", log(old) == log(new)),
        ("admin.listen", admin(old) == admin(new)),
        ("admin.metrics_limit", limit(old) == limit(new)),
    ];
    settings.into_iter().filter(|(_, same)| !same).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::admin::Token;
    use crate::cookies::{SECRET, Secret, Secrets as CookieSecrets};
    use crate::name::Name;
    use crate::tsig::{Algorithm, Key};

    fn key(name: &str, secret: &[u8]) -> Key {
        Key::new(Name::parse_absolute(name).unwrap(), Algorithm::HmacSha256, secret)
    }

    #[test]
    fn secrets_are_told_by_their_keys() {
        let server = Server::default();
        let old = Secrets {
            token: Some(Token::parse("0123456789abcdef").unwrap()),
            keys: [key("gone", b"1"), key("same", b"1"), key("other", b"1")].into_iter().collect(),
            ..Secrets::default()
        };
        let of = |new: &Secrets| changes((&server, &old), (&server, new));
        assert!(of(&old.clone()).is_empty());
        let cookies = CookieSecrets { current: Secret([1; SECRET]), previous: None };
        let found = of(&Secrets {
            token: Some(Token::parse("0123456789abcdeF").unwrap()),
            cookies: Some(cookies),
            keys: [key("same", b"1"), key("other", b"2"), key("new", b"1")].into_iter().collect(),
            ..Secrets::default()
        });
        assert_eq!(found.added, ["cookies.secret_file", "tsig_keys.new."]);
        assert_eq!(found.removed, ["tsig_keys.gone."]);
        assert_eq!(found.changed, ["admin.token_file", "tsig_keys.other."]);
    }

    #[test]
    fn settings_are_told_by_their_keys() {
        let (old, secrets) = (Server::default(), Secrets::default());
        let mut new = Server { pop: Some("ams".to_owned()), ..Server::default() };
        new.cookies.require = true;
        new.rate_limit.slip = 3;
        let found = changes((&old, &secrets), (&new, &secrets));
        assert_eq!(found.added, ["identity.pop"]);
        assert_eq!(found.changed, ["rate_limit", "cookies.require"]);
        assert!(found.removed.is_empty());
    }
}
