"""A client of the Secret Service on the session's D-Bus, for Debian's python3: what `run` starts.

    client.py measure COUNT    stores COUNT items, and looks 200 of them up: prints JSON
    client.py write            stores items until it is killed, and prints the number of each that was acknowledged
    client.py check COUNT      ends with status 1 unless the items 0 to COUNT - 1 have their values
    client.py alternate OTHER  stores here, and looks up at once at the address OTHER, and the reverse
"""
import json
import os
import random
import statistics
import sys
import time

from jeepney import DBusAddress, MessageType, new_method_call
from jeepney.io.blocking import open_dbus_connection

ROOT = "/org/freedesktop/secrets"
LOGIN, SECRET = f"{ROOT}/collection/login", "org.freedesktop.Secret"


class Keyring:
    def __init__(self, address=None):
        if address:
            os.environ["DBUS_SESSION_BUS_ADDRESS"] = address
        self.bus = open_dbus_connection("SESSION")
        self.session = self.call(ROOT, f"{SECRET}.Service", "OpenSession", "sv", ("plain", ("s", "")))[1]

    def call(self, path, interface, member, signature="", arguments=(), name="org.freedesktop.secrets"):
        address = DBusAddress(path, bus_name=name, interface=interface)
        reply = self.bus.send_and_get_reply(new_method_call(address, member, signature, arguments), timeout=120)
        if reply.header.message_type != MessageType.method_return:
            sys.exit(f"{member}: {reply.body}")
        return reply.body

    def store(self, number, value):
        properties = {f"{SECRET}.Item.Label": ("s", f"item {number}"),
                      f"{SECRET}.Item.Attributes": ("a{ss}", {"service": "proof", "username": f"user{number}"})}
        secret = (self.session, b"", value.encode(), "text/plain")
        self.call(LOGIN, f"{SECRET}.Collection", "CreateItem", "a{sv}(oayays)b", (properties, secret, True))

    def lookup(self, number):
        found = self.call(ROOT, f"{SECRET}.Service", "SearchItems", "a{ss}", ({"service": "proof", "username": f"user{number}"},))[0]
        if not found:
            return None
        return self.call(found[0], f"{SECRET}.Item", "GetSecret", "o", (self.session,))[0][2].decode()

    def memory(self):
        """KiB of the keyring's process."""
        process = self.call("/org/freedesktop/DBus", "org.freedesktop.DBus", "GetConnectionUnixProcessID", "s", ("org.freedesktop.secrets",),
                            name="org.freedesktop.DBus")[0]
        return next(int(line.split()[1]) for line in open(f"/proc/{process}/status") if line.startswith("VmRSS"))


def value(number):
    return f"{number}-" + "hunter2" * (number % 50)


def timed(call, numbers):
    times = []
    for number in numbers:
        begin = time.perf_counter()
        call(number)
        times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


def measure(count):
    keyring = Keyring()
    begin = time.monotonic()
    for number in range(count):
        keyring.store(number, value(number))
        if time.monotonic() - begin > 240:
            print(json.dumps({"count": number}))
            return
    some = [random.randrange(count) for _ in range(100)]

    def lookup(number):
        if keyring.lookup(number) != value(number):
            sys.exit(f"the item {number} has another value")
    result = {"lookup": timed(lookup, some), "store": timed(lambda number: keyring.store(number, value(number)), some[:50])}
    # The first search after a write.
    result["after"] = statistics.median(
        timed(lookup, [number]) for number in some[:50] if keyring.store(number, value(number)) is None)
    print(json.dumps(result | {"count": count, "memory": keyring.memory()}))


def write():
    keyring, number = Keyring(), 0
    while True:
        keyring.store(number, value(number))
        print(number, flush=True)
        number += 1


def check(count):
    keyring = Keyring()
    lost = [number for number in range(count) if keyring.lookup(number) != value(number)]
    if lost:
        sys.exit(f"lost: {lost}")


def alternate(other):
    keyrings = [Keyring(), Keyring(other)]
    for turn in range(200):
        here, there = keyrings[turn % 2], keyrings[1 - turn % 2]
        here.store(turn % 7, f"turn {turn}")
        if (found := there.lookup(turn % 7)) != f"turn {turn}":
            sys.exit(f"after the write {turn} through one service, the other has {found}")


if sys.argv[1] in ("measure", "check"):
    {"measure": measure, "check": check}[sys.argv[1]](int(sys.argv[2]))
elif sys.argv[1] == "alternate":
    alternate(sys.argv[2])
else:
    write()
