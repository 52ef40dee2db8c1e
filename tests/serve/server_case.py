"""Starts the server under test on a port of its own, talks to it, and ends it by its process id."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from baton_case import BATON, SMOL, BatonCase, cached, main  # noqa: E402,F401
from process_state import wait_until  # noqa: E402,F401

CHAT = "/v1/chat/completions"
PLAIN = "/v1/completions"
READY = re.compile(r"Serving (\S+) at http://127\.0\.0\.1:(\d+)\n")
# Slow enough that a test can do something meanwhile.
SLOW = ["--threads", "1"]


class Server:
    """A running `baton serve`."""
    patience = 60  # seconds until an answer is said not to come

    def __init__(self, folder, *options, name="serve", model=None):
        self.out = pathlib.Path(folder) / f"{name}.out"
        self.err = pathlib.Path(folder) / f"{name}.err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                [BATON, "serve", model or cached(SMOL), "--port", "0", *options], stdout=out,
                stderr=err, stdin=subprocess.DEVNULL,
                env={**os.environ, "BATON_CACHE": str(folder)})
        self.pid = self.process.pid
        wait_until(lambda: READY.search(self.out.read_text()) or self.process.poll() is not None,
                   "the server is ready", 120)
        found = READY.search(self.out.read_text())
        if not found:
            raise AssertionError(self.err.read_text())
        self.model, self.port = found.group(1), int(found.group(2))
        self.url = f"http://127.0.0.1:{self.port}"

    def stop(self, number=signal.SIGTERM, timeout=60):
        """The exit code."""
        if self.process.poll() is None:
            os.kill(self.pid, number)
        return self.process.wait(timeout)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=self.patience)

    def ask(self, method, path, body=None, headers=None, timeout=None):
        """(status, headers, body as text)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                timeout=timeout or self.patience)
        try:
            text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
            connection.request(method, path, text, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def post(self, path, body, timeout=None):
        """The answer's JSON; anything but 200 is a failure."""
        status, _, text = self.ask("POST", path, body, timeout=timeout)
        if status != 200:
            raise AssertionError(f"{status}: {text}")
        return json.loads(text)

    def stream(self, path, body):
        """The events' data, in order; a comment is left out."""
        status, headers, text = self.ask("POST", path, {**body, "stream": True})
        if status != 200 or headers["Content-Type"] != "text/event-stream":
            raise AssertionError(f"{status}: {text}")
        events = []
        for event in text.split("\n\n")[:-1]:
            if not event.startswith(":"):
                assert event.startswith("data: ") and "\n" not in event, event
                events.append(event[len("data: "):])
        return events

    def metrics(self):
        """{name with labels: value}."""
        text = self.ask("GET", "/metrics")[2]
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in text.splitlines() if not line.startswith("#")}

    def blocks(self):
        """(free and cached, owned)."""
        now = self.metrics()
        state = {name: now[f'baton_kv_blocks{{state="{name}"}}'] for name in
                 ("free", "cached", "owned")}
        return state["free"] + state["cached"], state["owned"]

    def log(self):
        return [json.loads(line) for line in self.err.read_text().splitlines()
                if line.startswith("{")]

    def num_descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def num_threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))


def request_bytes(path, body):
    text = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n"
            .encode() + text)


def user(text):
    return [{"role": "user", "content": text}]


class ServerCase(BatonCase):
    """One server for all tests of a class."""
    OPTIONS = []

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.make_server()

    @classmethod
    def make_server(cls):
        return Server(cls.folder, *cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        errors = [line for line in cls.server.err.read_text().splitlines()
                  if not line.startswith("{")]
        super().tearDownClass()
        assert code == 0, f"exit code {code}"
        assert not errors, errors

    def post(self, path, **body):
        return self.server.post(path, body)
