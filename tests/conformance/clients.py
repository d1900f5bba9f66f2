"""What dnspython makes of the server's replies. Each function is a row of `rows/clients.txt`; it is run as
`python3 clients.py FUNCTION PORT TLS-PORT`, and fails by an exception.
"""

import random
import socket
import ssl
import struct
import sys

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype
import dns.resolver
import dns.tsig
import dns.tsigkeyring
import dns.zone

ADDRESS = "127.0.0.1"
TIME = 10


class Server:
    def __init__(self, port, tls_port):
        self.port, self.tls_port = port, tls_port

    def tls_context(self):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["dot"])
        return context

    def udp(self, query):
        return dns.query.udp(query, ADDRESS, TIME, self.port)

    def tcp(self, query):
        return dns.query.tcp(query, ADDRESS, TIME, self.port)

    def tls(self, query):
        return dns.query.tls(query, ADDRESS, TIME, self.tls_port, ssl_context=self.tls_context())

    def each(self, query):
        """The reply over each transport; dnspython checks id, question and form."""
        return [ask(query) for ask in (self.udp, self.tcp, self.tls)]


def query(name, rdtype="A", **options):
    return dns.message.make_query(name, rdtype, **options)


def options_of(reply, kind):
    return [option for option in reply.options if option.otype == kind]


def authoritative_answer(server):
    for reply in server.each(query("static.example.test", "TXT")):
        assert reply.flags & dns.flags.AA, reply
        assert reply.answer[0].to_text() == 'static.example.test. 300 IN TXT "hello"', reply
        assert reply.edns == -1, reply


def chained_answer(server):
    for reply in server.each(query("alias.example.test")):
        result = reply.resolve_chaining()
        assert result.canonical_name == dns.name.from_text("www.example.test."), reply
        assert [str(address) for address in result.answer] == ["192.0.2.10"], reply
        assert result.minimum_ttl == 30, reply


def negative_ttl(server):
    for name, code in (("nope", dns.rcode.NXDOMAIN), ("v4only", dns.rcode.NOERROR)):
        for reply in server.each(query(name + ".example.test", "AAAA")):
            assert reply.rcode() == code, reply
            assert reply.resolve_chaining().minimum_ttl == 60, reply


def extended_errors(server):
    for reply in server.each(query("www.example.invalid", use_edns=0)):
        assert reply.rcode() == dns.rcode.REFUSED, reply
        errors = options_of(reply, dns.edns.OptionType.EDE)
        assert [error.code for error in errors] == [dns.edns.EDECode.NOT_AUTHORITATIVE], reply


def client_subnet(server):
    subnet = dns.edns.ECSOption("203.0.113.0", 24)
    for reply in server.each(query("geo.example.test", options=[subnet])):
        (echoed,) = options_of(reply, dns.edns.OptionType.ECS)
        assert (echoed.address, echoed.srclen, echoed.scopelen) == ("203.0.113.0", 24, 25), reply
        assert str(reply.answer[0][0]) == "192.0.2.110", reply


def cookie(server):
    client = bytes(range(8))
    asked = query("example.test", "SOA", options=[dns.edns.GenericOption(10, client)])
    for reply in server.each(asked):
        (given,) = options_of(reply, 10)
        assert given.data[:8] == client and 16 <= len(given.data) <= 40, reply
        again = query("example.test", "SOA", options=[dns.edns.GenericOption(10, given.data)])
        assert server.udp(again).rcode() == dns.rcode.NOERROR


def keepalive(server):
    asked = query("example.test", "SOA", options=[dns.edns.GenericOption(11, b"")])
    udp, tcp, tls = server.each(asked)
    assert not options_of(udp, 11), udp
    for reply in (tcp, tls):
        assert all(len(option.data) == 2 for option in options_of(reply, 11)), reply


def padding(server):
    asked = query("example.test", "SOA", use_edns=0, pad=128)
    udp, tcp, tls = (reply.to_wire() for reply in server.each(asked))
    assert len(tls) % 468 == 0, len(tls)
    assert len(udp) < 468 and len(tcp) < 468, (len(udp), len(tcp))


def name_server_id(server):
    for reply in server.each(query("example.test", "SOA", options=[dns.edns.GenericOption(3, b"")])):
        (found,) = options_of(reply, 3)
        assert found.data == b"conformance", reply


def fallback_to_tcp(server):
    asked = query("big.example.test", "TXT", use_edns=0, payload=1232)
    reply, is_tcp = dns.query.udp_with_fallback(asked, ADDRESS, TIME, server.port)
    assert is_tcp and len(reply.answer[0][0].strings) == 10, reply


def spelling(server):
    name = "".join(random.choice((c.upper(), c)) for c in "static.example.test")
    for reply in server.each(query(name, "TXT")):
        assert reply.question[0].name.to_text() == name + ".", reply
        assert reply.answer, reply


def unknown_record(server):
    for reply in server.each(query("unk.example.test", "TYPE65400")):
        assert reply.answer[0].to_text().endswith(r"\# 4 0a000001"), reply


def service_binding(server):
    for reply in server.each(query("svc.example.test", "HTTPS")):
        assert reply.answer[0][0].to_text() == '1 target.example.test. alpn="h2"', reply


def bad_version(server):
    asked = query("example.test", "SOA")
    asked.use_edns(edns=1)
    for reply in server.each(asked):
        assert reply.rcode() == dns.rcode.BADVERS and reply.edns == 0 and not reply.answer, reply


def transfer(server):
    try:
        dns.zone.from_xfr(dns.query.xfr(ADDRESS, "example.test", port=server.port, lifetime=TIME))
    except dns.query.TransferError as error:
        assert error.rcode in (dns.rcode.REFUSED, dns.rcode.NOTAUTH), error
    else:
        raise AssertionError("a stranger got the zone")


def signed_transfer(server):
    keyring = dns.tsigkeyring.from_text({"key": "c2VjcmV0IG9mIDE2IG9jdGV0cw=="})
    messages = list(
        dns.query.xfr(
            ADDRESS,
            "example.test",
            port=server.port,
            lifetime=TIME,
            keyring=keyring,
            keyalgorithm=dns.tsig.HMAC_SHA256,
            relativize=False,
        )
    )
    assert all(message.had_tsig for message in messages), "a message without a signature"
    sets = [rrset for message in messages for rrset in message.answer]
    assert sets[0].rdtype == sets[-1].rdtype == dns.rdatatype.SOA, sets
    zone = dns.zone.from_xfr(iter(messages), relativize=False)
    assert zone.get_rdataset("static.example.test.", "TXT") is not None, "a record is missing"


def stub_resolver(server):
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers, resolver.port = [ADDRESS], server.port
    answer = resolver.resolve("alias.example.test", "A")
    assert answer.canonical_name.to_text() == "www.example.test."
    for name, error in (("nope", dns.resolver.NXDOMAIN), ("ent", dns.resolver.NoAnswer)):
        try:
            resolver.resolve(name + ".example.test", "A")
        except error:
            continue
        raise AssertionError(name)


def pipelining(server):
    with socket.create_connection((ADDRESS, server.port), TIME) as stream:
        asked = {}
        for number in range(100):
            one = query(f"x{number}.wild.example.test", "TXT")
            one.id = number
            wire = one.to_wire()
            asked[number] = one
            stream.sendall(struct.pack("!H", len(wire)) + wire)
        while asked:
            reply, _ = dns.query.receive_tcp(stream, None)
            assert asked.pop(reply.id).is_response(reply), reply


def short_writes(server):
    wire = query("example.test", "SOA").to_wire()
    with socket.create_connection((ADDRESS, server.port), TIME) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for octet in struct.pack("!H", len(wire)) + wire:
            stream.sendall(bytes([octet]))
        reply, _ = dns.query.receive_tcp(stream, None)
        assert reply.answer, reply


if __name__ == "__main__":
    globals()[sys.argv[1]](Server(int(sys.argv[2]), int(sys.argv[3])))
