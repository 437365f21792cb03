"""Searches what goes over the wire, and what lies in the members' files, for names, values and the device key."""
import base64
import hashlib
import os
import pathlib
import secrets
import socket
import subprocess
import tempfile
import threading

from cluster import Failure, post
from workload import PATIENT

# The workers of Proofs/History write prefixes, and values, which are a call's number over and over.
OF_WORKERS = r"history[01]|[0-9]{9,12}\.[0-9]{9,12}\."


class Recorder:
    """A relay to a member, which keeps what passes, in both directions."""

    def __init__(self, address, port):
        self.target = address, port
        self.parts = []  # of bytes; one connection's parts of one direction are in order
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(self.target)
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=(one, other), daemon=True).start()

    def pass_on(self, one, other):
        found = bytearray()
        self.parts.append(found)
        try:
            while data := one.recv(1 << 16):
                found += data
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side is gone

    def close(self):
        self.listener.close()

    def write(self, folder):
        """Writes all that has passed, a file for each direction of a connection."""
        for number, part in enumerate(self.parts):
            (folder / f"{self.endpoint.rpartition(':')[2]}.{number}").write_bytes(bytes(part))


def items(count=8):
    """Lines for `history secrets`, and every text in them."""
    lines = [[secrets.token_hex(12) for _ in range(7)] for _ in range(count)]
    return "".join(" ".join(line) + "\n" for line in lines), [text.encode() for line in lines for text in line]


def forms(secret):
    """How a secret could stand there: as it is, in hexadecimal, and in base64 from any byte of what is encoded."""
    found = {secret, secret.hex().encode(), secret.hex().upper().encode()}
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + secret)
        # Only the characters that depend on nothing before or after it.
        first, last = -(-8 * shift // 6), 8 * (shift + len(secret)) // 6
        found.add(encoded[first:last])
    return found


def device_key():
    """The text in its file, from which the key is made."""
    while True:
        text = secrets.token_hex(32).encode()
        if not {0, 10} & set(hashed(text)):  # grep takes these in no pattern
            return text


def hashed(text):
    return hashlib.blake2b(text, digest_size=32).digest()


def search(folder, patterns, kind="-F"):
    """The files in which one of the patterns is, a line each."""
    found = subprocess.run(
        ["grep", "-rlaz", kind, "-f", "-", folder],  # lines end at NULs, of which the files are full
        input=b"\n".join(patterns),
        capture_output=True, env=os.environ | {"LC_ALL": "C"},
    )
    if found.returncode > 1:
        raise Failure(f"grep: {found.stderr.decode(errors='replace').strip()[:200]}")
    return found.stdout.decode().splitlines()


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Search:
    """Stores items through recorders, and searches for them."""

    def __init__(self, executable, engine, key, cluster):
        self.cluster = cluster
        self.recorders = [Recorder(member.address, member.port) for member in cluster.members]
        self.text, texts = items()
        self.patterns = [form for secret in [*texts, key, hashed(key)] for form in sorted(forms(secret))]
        endpoints = ",".join(recorder.endpoint for recorder in self.recorders)
        self.command = [executable, "history", "secrets", f"engine={engine}:{PATIENT}:{endpoints}", "mix=cluster"]

    def run(self):
        """The problems, and what was searched."""
        with tempfile.TemporaryDirectory(prefix="lockbox-cluster-wire.") as folder:
            try:
                return self.search(pathlib.Path(folder))
            finally:
                for recorder in self.recorders:
                    recorder.close()

    def search(self, wire):
        result = subprocess.run(self.command, input=self.text, capture_output=True, text=True, timeout=60)
        if result.returncode or result.stdout != "stored\n":
            raise Failure(f"secrets: status {result.returncode}: {result.stderr.strip()[:400]}")
        self.record(wire)
        data = [member.data for member in self.cluster.members]
        problems = [f"a name, a value or the device key is in {path}"
                    for folder in (wire, *data) for path in search(folder, self.patterns)]
        problems += [f"a name or a value of a worker is in {path}"
                     for folder in data for path in search(folder, [OF_WORKERS.encode()], "-E")]
        sizes = size_of(wire), sum(map(size_of, data))
        problems += self.control(wire)
        return problems, f"{sizes[0]:,} bytes of the wire and {sizes[1]:,} bytes of files"

    def record(self, folder):
        for recorder in self.recorders:
            recorder.write(folder)

    def control(self, wire):
        """A secret put in without Lockbox is found everywhere."""
        secret, value = secrets.token_hex(12).encode(), b"history0 123456789.123456789."
        request = {"key": base64.b64encode(b"/control/" + secret).decode(), "value": base64.b64encode(value).decode()}
        if post(self.recorders[0].endpoint, "/v3/kv/put", request, 5) is None:
            raise Failure("the control cannot be put in")
        self.cluster.wait()
        self.record(wire)
        missed = [] if search(wire, sorted(forms(secret))) else ["on the wire"]
        for member in self.cluster.members:
            for patterns, kind in ((sorted(forms(secret)), "-F"), ([OF_WORKERS.encode()], "-E")):
                if not search(member.data, patterns, kind):
                    missed.append(f"in the files of {member.name}")
        return [f"a name that was put in without Lockbox was not found {where}" for where in missed]
