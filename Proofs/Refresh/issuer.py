"""An issuer of tokens that may be used once.

A connection is one request and its answer:

    signin SESSION CALL                       ok FAMILY GENERATION LIFETIME
    refresh SESSION FAMILY GENERATION CALL    the same, or refused

A token that is used again revokes its family, which is what one sign-in has given.
"""
import collections
import random
import socketserver
import threading
import time

Use = collections.namedtuple("Use", "time session token call accepted")


class Issuer(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 256

    def __init__(self, delay=(0, 0.006), lifetime=(0, 40)):
        super().__init__(("127.0.0.1", 0), Answer)
        self.port = self.server_address[1]
        self.delay, self.lifetime = delay, lifetime
        self.lock = threading.Lock()
        self.families = collections.Counter()  # of each session
        self.current = {}  # family -> generation
        self.revoked = set()
        self.uses, self.asking = [], {}  # call -> when it asked
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def rotations(self):
        return sum(use.accepted for use in self.uses)

    def wait(self):
        time.sleep(random.uniform(*self.delay) / 2)

    def sign_in(self, session):
        with self.lock:
            self.families[session] += 1
            family = session, self.families[session]
            self.current[family] = 0
        return f"ok {family[1]} 0 {random.randint(*self.lifetime)}"

    def refresh(self, session, family, generation, call):
        self.asking[call] = time.monotonic_ns()
        self.wait()
        family, generation = (session, int(family)), int(generation)
        with self.lock:
            is_current = self.current[family] == generation
            accepted = is_current and family not in self.revoked
            self.uses.append(Use(time.monotonic_ns(), session, (family[1], generation), call, accepted))
            if accepted:
                self.current[family] += 1
            elif not is_current:
                self.revoked.add(family)
        self.wait()
        return f"ok {family[1]} {generation + 1} {random.randint(*self.lifetime)}" if accepted else "refused"

    def valid(self, session):
        """The tokens that would be accepted."""
        return {(family, generation) for (name, family), generation in self.current.items()
                if name == session and (name, family) not in self.revoked}

    def handle_error(self, request, client_address):
        """The worker was killed."""


class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        words = self.rfile.readline().decode().split()
        if not words:
            return
        if words[0] == "signin":
            answer = self.server.sign_in(words[1])
        else:
            answer = self.server.refresh(*words[1:])
        self.wfile.write(f"{answer}\n".encode())
        self.server.asking.pop(words[-1], None)
