"""CPU of this process for a first answer over a new connection, and over one that is open.

A server in another process answers at once, with TLS and a certificate of its own, and without.
``settings`` is the making of the TLS settings, once for a process: it reads the authorities of the
system. Run: python benchmarks/first_connection.py [--repeats 50]
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import gc
import ipaddress
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from appl_backends.http.client import HttpClient
from appl_backends.http.route import tls_context

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def certify(file: Path) -> None:
    """Write a key and a certificate of this machine into *file*."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "benchmark")])
    now = datetime.datetime.now(datetime.UTC)
    host = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([host]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))


async def serve(certificate: str) -> None:
    """Answer every request; the first lines printed are the ports without and with TLS."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    for context in (None, tls):
        server = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=context)
        print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def asked(url: str, repeats: int) -> tuple[list[float], list[float]]:
    """Milliseconds of CPU of the first and of the second answer of so many clients."""
    first, second = list[float](), list[float]()
    for _ in range(repeats):
        client = HttpClient(url, connect=5.0)
        head = client.head("GET", "/", {})
        gc.collect()
        for found in (first, second):
            before = time.process_time()
            await client.exchange(head, b"", "the server", bytes)
            found.append((time.process_time() - before) * 1e3)
        await client.aclose()  # nobody else uses the connection, so it is closed
    return first, second


def shown(what: str, found: list[float]) -> None:
    spread = f"({min(found):.2f} to {max(found):.2f})"
    print(f"{what:34} {statistics.median(found):6.2f} ms {spread}", flush=True)


def measure(certificate: Path, repeats: int) -> None:
    command = [sys.executable, __file__, "--serve", str(certificate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        plain, secure = (process.stdout.readline().strip() for _ in range(2))
        before = time.process_time()
        tls_context()
        shown("settings, authorities of the system", [(time.process_time() - before) * 1e3])
        os.environ["SSL_CERT_FILE"] = str(certificate)
        for url in (f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{secure}"):
            first, second = asyncio.run(asked(url, repeats))
            shown(f"{url.partition(':')[0]}, new connection", first[1:])
            shown(f"{url.partition(':')[0]}, open connection", second[1:])
        process.terminate()


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve))
        return
    with tempfile.TemporaryDirectory() as folder:
        certificate = Path(folder) / "certificate.pem"
        certify(certificate)
        measure(certificate, arguments.repeats + 1)


if __name__ == "__main__":
    main()
