"""Three members of etcd, which are killed, paused, cut off and replaced."""
import base64
import contextlib
import ctypes
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

COUNT = 3
PATIENCE = 30  # seconds that anything may take
DISK = 768 << 20  # bytes of a member's own disk, in memory, of which it uses what it needs
LIBC = ctypes.CDLL(None)
WITHOUT_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Failure(Exception):
    """The experiment itself did not work."""


def run(*command):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if result.returncode:
        raise Failure(f"{' '.join(map(str, command))}: status {result.returncode}: {result.stderr.strip()[:200]}")


def wait_until(condition, what, seconds=PATIENCE):
    """The first true value of the condition."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise Failure(f"after {seconds} s: {what}")


def post(endpoint, path, request, timeout):
    """The answer of etcd's gateway, or None."""
    body = urllib.request.Request(endpoint + path, json.dumps(request).encode())
    try:
        with WITHOUT_PROXY.open(body, timeout=timeout) as answer:
            return json.load(answer)
    except (OSError, ValueError, http.client.HTTPException):
        return None


def end_with_parent():
    """So that no member stays behind, however this process ends."""
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, of the thread that started it: so the main one has to


class Member:
    """A process of etcd. With namespaces, it has a network and a disk of its own."""

    def __init__(self, number, folder, logs, is_apart, ports):
        self.number, self.is_apart = number, is_apart
        self.name = f"m{number}"
        self.address = f"10.77.0.{number}" if is_apart else "127.0.0.1"
        client, peer = (2379, 2380) if is_apart else ports
        self.port = client
        self.endpoint = f"http://{self.address}:{client}"
        self.peer = f"http://{self.address}:{peer}"
        self.disk = folder / self.name
        self.data = self.disk / "data"
        self.log = logs / f"{self.name}.log"
        self.process = None
        self.disk.mkdir()
        if is_apart:
            run("mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", self.disk)
            self.make_network()

    def make_network(self):
        link = f"v{self.number}"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "link", "set", link, "master", "bridge", "up")
        run("ip", "-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", self.name, "link", "set", device, "up")

    def start(self, members, state="new"):
        command = [
            "etcd", "--name", self.name, "--data-dir", self.data, "--logger", "zap",
            "--initial-cluster", ",".join(f"{member.name}={member.peer}" for member in members),
            "--initial-cluster-state", state, "--initial-cluster-token", "lockbox",
            "--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint,
            "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
        ]
        if self.is_apart:
            command = ["nsenter", f"--net=/run/netns/{self.name}", *command]
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent
            )

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGKILL):
        """Returns when its ports are free."""
        if self.process is None:
            return
        self.send(number)
        self.process.wait(PATIENCE)
        self.process = None

    def call(self, path, request, timeout=1.0):
        return post(self.endpoint, path, request, timeout)

    def status(self):
        return self.call("/v3/maintenance/status", {}, 0.5)

    def is_leader(self):
        status = self.status()
        return bool(status) and int(status.get("leader", 0)) == int(status["header"]["member_id"])

    def serves(self):
        """Whether a read that needs a quorum succeeds."""
        return self.call("/v3/kv/range", {"key": base64.b64encode(b"none").decode()}) is not None


class Cluster:
    def __init__(self, folder, logs, is_apart):
        self.folder, self.is_apart = folder, is_apart
        if is_apart:
            run("ip", "link", "set", "lo", "up")
            run("ip", "link", "add", "bridge", "type", "bridge")
            run("ip", "addr", "add", "10.77.0.254/24", "dev", "bridge")
            run("ip", "link", "set", "bridge", "up")
        ports = free_ports(2 * COUNT)
        self.members = []
        for number in range(1, COUNT + 1):
            self.members.append(Member(number, folder, logs, is_apart, (ports.pop(), ports.pop())))
        for member in self.members:
            member.start(self.members)
        self.cuts = set()
        self.wait()

    @property
    def endpoints(self):
        return [member.endpoint for member in self.members]

    def end(self):
        for member in self.members:
            member.end()
        if self.is_apart:
            for member in self.members:
                run("ip", "netns", "del", member.name)
                run("umount", member.disk)
            run("ip", "link", "del", "bridge")
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait(self):
        """Until every member serves."""
        wait_until(lambda: all(member.serves() for member in self.members), "not every member serves")

    def leader(self, among=None):
        members = among or self.members
        return wait_until(lambda: next((one for one in members if one.is_leader()), None), "there is no leader")

    def followers(self, leader):
        return [member for member in self.members if member is not leader]

    def restart(self, member, state="new"):
        member.start(self.members, state)

    # Connections between members. Clients reach every member.

    def cut(self, one, others):
        for other in others:
            self.cuts.add((one, other))
            self.route("add", one, other)

    def heal(self):
        for one, other in self.cuts:
            self.route("del", one, other)
        self.cuts.clear()

    @staticmethod
    def route(verb, one, other):
        for here, there in ((one, other), (other, one)):
            run("ip", "-n", here.name, "route", verb, "blackhole", there.address)

    # Disks

    @contextlib.contextmanager
    def full_disk(self, member):
        filler = member.disk / "filler"
        with open(filler, "wb") as file:
            with contextlib.suppress(OSError):
                while True:  # until nothing is left
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, 1 << 20)
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, 4096)
        try:
            yield
        finally:
            filler.unlink()

    # Members

    def replace(self, member):
        """Removes it, and adds it anew with an empty disk."""
        other = self.followers(member)[0]
        identity = wait_until(member.status, "a member does not answer")["header"]["member_id"]
        # etcd refuses while it takes a member for unhealthy that was restarted a moment ago.
        wait_until(lambda: other.call("/v3/cluster/member/remove", {"ID": identity}, 5), "it is not removed")
        member.end()
        shutil.rmtree(member.data)
        wait_until(lambda: other.call("/v3/cluster/member/add", {"peerURLs": [member.peer]}, 5), "it is not added")
        self.restart(member, "existing")
        new = wait_until(lambda: member.serves() and member.status(), "the new member does not serve")
        if new["header"]["member_id"] == identity:
            raise Failure("the member is the old one")


def free_ports(count):
    """Below those that the system gives to connections: a member must get its own again after a restart."""
    ports = []
    while len(ports) < count:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            if port not in ports:
                ports.append(port)
    return ports
