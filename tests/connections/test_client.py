"""The client against real sockets: TLS, proxies, connections that broke, loops and processes."""

from __future__ import annotations

import asyncio
import datetime
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from appl.errors import BackendError, BackendRefused, BackendUnavailable, ConfigError
from appl_backends.http.client import HttpClient
from appl_backends.openai import OpenAI
from tests.providers.asking import KEY, request, using
from tests.wire.servers import FaultServer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
Serve = Callable[[Reader, Writer], Awaitable[None]]


class Server:
    """Keeps the heads that it gets; after each of *replies* but ``OK`` it closes the connection."""

    def __init__(self, *replies: bytes) -> None:
        self.replies, self.heads, self.connections = list(replies), list[str](), 0

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            reply = OK
            while reply == OK:
                reply = await self.reply(reader)
                writer.write(reply)
        writer.close()

    async def reply(self, reader: Reader) -> bytes:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        return self.replies.pop(0) if self.replies else OK


@asynccontextmanager
async def listening(
    serve: Serve, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def ask(client: HttpClient, method: str = "POST", **headers: str) -> bytes:
    """What the server answers to one request."""
    head = client.head(method, client.path + "/ask", headers)
    body = b"?" if method == "POST" else b""
    return await client.exchange(head, body, "server", bytes) or b""


async def asked(url: str, method: str = "POST", **headers: str) -> bytes:
    """What the server at *url* answers to one request of a client of its own."""
    client = HttpClient(url, connect=5.0)
    try:
        return await ask(client, method, **headers)
    finally:
        await client.aclose()


# -- addresses


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_servers_are_found_by_name_and_by_both_kinds_of_number(host: str) -> None:
    server = Server()
    async with listening(server, host) as port:
        url = f"http://[{host}]:{port}/v1/" if ":" in host else f"http://{host}:{port}/v1/"
        assert await asked(url) == b"ok"
    first, second, *_ = server.heads[0].split("\r\n")
    assert first == "POST /v1/ask HTTP/1.1" and second == f"Host: {url[7:-4]}"


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "é", "a\0"])
async def test_a_header_that_would_become_two_is_refused(value: str) -> None:
    client = HttpClient("http://127.0.0.1:9", connect=5.0)
    with pytest.raises(ConfigError, match="Authorization") as caught:
        client.head("POST", "/", {"Authorization": value})
    assert "Evil" not in str(caught.value)


# -- connections


async def test_clients_share_connections_and_the_last_one_closes_them() -> None:
    server = Server()
    async with listening(server) as port:
        first, second = (HttpClient(f"http://127.0.0.1:{port}", connect=5.0) for _ in range(2))
        assert [await ask(first), await ask(second), await ask(first)] == [b"ok"] * 3
        await first.aclose()
        assert await ask(second) == b"ok" and server.connections == 1
        await second.aclose()
        assert await asked(f"http://127.0.0.1:{port}") == b"ok" and server.connections == 2


def test_connections_outlive_a_run() -> None:
    with FaultServer() as server:
        for _ in range(3):
            with using(OpenAI(base_url=server.openai_url, model="m")) as backend:
                assert backend.profile.default_model == "m"
                run_one()
        assert server.connections < 3 and len(server.asks) == 3


def run_one() -> None:
    """Ask a question in the run that is open."""
    import appl

    assert str(appl.gen(messages="hello"))


async def test_a_connection_that_the_server_has_closed_is_tried_anew_once_for_what_is_only_read() -> (
    None
):
    server = Server(OK, b"", OK)
    async with listening(server) as port:
        client = HttpClient(f"http://127.0.0.1:{port}", connect=5.0)
        assert await ask(client, "GET") == await ask(client, "GET") == b"ok"
        assert (server.connections, len(server.heads)) == (2, 3)
        await client.aclose()


@pytest.mark.parametrize("replies", [[OK, b""], [b""], [OK, OK[:20]]])
async def test_a_question_that_a_server_may_work_on_is_not_asked_twice(
    replies: list[bytes],
) -> None:
    server = Server(*replies)
    async with listening(server) as port:
        client = HttpClient(f"http://127.0.0.1:{port}", connect=5.0)
        for _ in replies[:-1]:
            await ask(client)
        with pytest.raises(BackendUnavailable, match="broke the connection off"):
            await ask(client)
        assert len(server.heads) == len(replies)
        await client.aclose()


async def test_a_question_that_is_cancelled_closes_its_connection() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def serve(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"?")
        begun.set()
        assert await reader.read() == b""
        ended.set()
        writer.close()

    async with listening(serve) as port:
        client = HttpClient(f"http://127.0.0.1:{port}", connect=5.0)
        asking = asyncio.ensure_future(ask(client))
        await begun.wait()
        asking.cancel()
        await ended.wait()
        await client.aclose()


def test_a_client_goes_on_in_another_loop() -> None:
    with FaultServer() as server:
        client = HttpClient(server.url, connect=5.0)
        for _ in range(2):
            assert asyncio.run(ask(client, "GET")) == b"{}"
        assert server.connections == 2


FORKED = """
import asyncio, os, sys
from appl_backends.http.client import HttpClient
client = HttpClient(sys.argv[1], connect=5.0)
ask = lambda: client.exchange(client.head("GET", "/", {}), b"", "server", bytes)
loop = asyncio.new_event_loop()
loop.run_until_complete(ask())
child = os.fork()
if not child:
    asyncio.run(ask())
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
loop.run_until_complete(ask())
loop.run_until_complete(client.aclose())
"""


def test_a_forked_process_leaves_the_connections_of_its_parent_alone() -> None:
    with FaultServer() as server:
        subprocess.run([sys.executable, "-c", FORKED, server.url], check=True, timeout=60)
        assert server.connections > 1


# -- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for ``localhost`` and ``model.test`` that nobody has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName(each) for each in ("localhost", "model.test")]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(secret + made.public_bytes(pem))
    return path


def server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_a_certificate_is_checked_against_the_authorities_of_the_environment(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    async with listening(server, "localhost", server_side(certificate)) as port:
        with pytest.raises(BackendUnavailable, match=r"is not accepted.*SSL_CERT_FILE"):
            await asked(f"https://localhost:{port}")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert await asked(f"https://localhost:{port}") == b"ok"
        with pytest.raises(BackendUnavailable, match="certificate is not accepted"):
            await asked(f"https://127.0.0.1:{port}")
    assert len(server.heads) == 1


async def test_a_file_of_authorities_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    with pytest.raises(ConfigError, match="SSL_CERT_FILE names '/no/such/file'"):
        await asked("https://localhost:9")


# -- proxies


class Tunnel:
    """A proxy that connects whatever it is asked for to *port*."""

    def __init__(self, port: int) -> None:
        self.port, self.heads = port, list[str]()

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        inner = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_copy(reader, inner[1]), _copy(inner[0], writer))


async def _copy(reader: Reader, writer: Writer) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


async def test_a_proxy_tunnels_tls_and_sees_no_key(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with listening(server, tls=server_side(certificate)) as port:
        tunnel = Tunnel(port)
        async with listening(tunnel) as at:
            monkeypatch.setenv("HTTPS_PROXY", f"http://me:word@127.0.0.1:{at}")
            client = HttpClient("https://model.test/v1", connect=5.0)
            found = [await ask(client, Authorization=f"Bearer {KEY}") for _ in range(2)]
            await client.aclose()
    assert found == [b"ok"] * 2 and len(server.heads) == 2 and len(tunnel.heads) == 1
    assert tunnel.heads[0].startswith("CONNECT model.test:443 HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic bWU6d29yZA==" in tunnel.heads[0]
    assert KEY in server.heads[0] and "Proxy-Authorization" not in server.heads[0]


async def test_a_proxy_passes_on_whole_requests_without_tls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy = Server()
    async with listening(proxy) as at:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:word@127.0.0.1:{at}")
        assert await asked("http://model.test:8000/v1") == b"ok"
        monkeypatch.setenv("NO_PROXY", "model.test")
        with pytest.raises(BackendUnavailable, match="cannot be reached"):
            await asked("http://model.test:8000/v1")
    assert proxy.heads[0].startswith("POST http://model.test:8000/v1/ask HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic bWU6d29yZA==" in proxy.heads[0] and len(proxy.heads) == 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (b"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n", BackendRefused),
        (b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n", BackendUnavailable),
        (b"HTTP/1.1 302 No\r\nLocation: http://other\r\nContent-Length: 0\r\n\r\n", BackendRefused),
        (b"SSH-2.0-Proxy\r\n\r\n", BackendUnavailable),
        (b"", BackendUnavailable),
    ],
)
async def test_a_proxy_that_does_not_connect_is_an_error_that_names_it(
    reply: bytes, kind: type[BackendError], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Server(reply)
    async with listening(proxy) as at:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:word-secret@127.0.0.1:{at}")
        with pytest.raises(kind) as caught:
            await asked("https://model.test/v1", Authorization=f"Bearer {KEY}")
    assert "word-secret" not in str(caught.value) and KEY not in "".join(proxy.heads)


async def test_a_proxy_that_is_not_there_is_told_with_the_variable_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with listening(Server()) as closed:
        pass
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:word-secret@127.0.0.1:{closed}")
    with pytest.raises(BackendUnavailable) as caught:
        await asked("https://model.test/v1", Authorization=f"Bearer {KEY}")
    assert f"the proxy 127.0.0.1:{closed} that HTTPS_PROXY names" in str(caught.value)
    assert "word-secret" not in str(caught.value)


# -- the account


async def test_the_environment_names_an_account_only_for_its_own_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-mine")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Mine: yes")
    with FaultServer() as server:
        for known in (False, True):
            if known:
                monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
            backend = OpenAI(base_url=server.openai_url, project="p", headers={"X-Own": "1"})
            await backend.complete(request())
            await backend.aclose()
        other, own = (each.headers for each in server.asks)
    assert other["openai-project"] == own["openai-project"] == "p"
    assert other["x-own"] == own["x-own"] == "1"
    assert other["accept-encoding"] == own["accept-encoding"] == "identity"
    assert "openai-organization" not in other and "x-mine" not in other
    assert (own["openai-organization"], own["x-mine"]) == ("org-of-mine", "yes")


ALONE = """
import asyncio, sys
from appl_backends.openai import OpenAI
backend = OpenAI(base_url=sys.argv[1], api_key="k")
async def main():
    await backend.list_models()
    await backend.aclose()
asyncio.run(main())
print([name for name in ("openai", "httpx", "aiohttp") if name in sys.modules])
"""


def test_a_server_of_the_settings_is_asked_without_the_sdk() -> None:
    with FaultServer() as server:
        code = [sys.executable, "-c", ALONE, server.openai_url]
        done = subprocess.run(
            code, capture_output=True, text=True, check=True, timeout=60, env=dict(os.environ)
        )
    assert done.stdout == "[]\n"
