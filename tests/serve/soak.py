#!/usr/bin/env python3
"""Mixed load with faults on a running server, for as long as asked, and what must hold at its end.

Usage: BATON_BINARY=... tests/serve/soak.py [--minutes M] [--seed S] [--real]

Clients stream, ask whole answers and log-probabilities of prompts, share prefixes, leave at random
moments, read nothing, send half requests, nonsense and bodies that are refused. Questions with known
answers are asked all the time: each answer must be the first one's, to the last bit. At the end all
blocks, threads and descriptors must be back, memory must not have grown, and the server must end in
order; a sanitizer's report in its log is a failure. The model is tiny, unless --real takes SmolLM2.
./check runs a minute of it with AddressSanitizer, tests/nightly an hour.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import socket
import struct
import sys
import tempfile
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS.parent / "cli"))
from gguf_file import tiny_llama  # noqa: E402
from server_case import CHAT, PLAIN, SMOL, Server, cached, request_bytes, user, wait_until  # noqa: E402

NUM_CLIENTS = 12
# Growth that is told as a leak, beside what the first part of the run takes. Units: bytes.
MEMORY_SLACK = 48 << 20


def resident_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


class Soak:
    def __init__(self, server, seed, end):
        self.server, self.seed, self.end = server, seed, end
        # A machine that has other work, or stands still for a while, is not the server's fault.
        server.patience = 600
        self.counts = {}
        self.wrong = []
        self.lock = threading.Lock()
        self.known = [
            (PLAIN, {"prompt": "The capital of France is", "temperature": 0, "max_tokens": 12}),
            (PLAIN, {"prompt": "Count: one two three " * 6, "seed": 5, "max_tokens": 20,
                     "ignore_eos": True, "logprobs": 3}),
            (PLAIN, {"prompt": "Count: one two three " * 6 + "four", "echo": True, "logprobs": 1,
                     "max_tokens": 0}),
            (CHAT, {"messages": user("Name three colours."), "seed": 9, "max_tokens": 16,
                    "logprobs": True, "top_logprobs": 2}),
        ]
        self.answers = [server.post(path, body)["choices"] for path, body in self.known]

    def note(self, kind):
        with self.lock:
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def fail(self, text):
        with self.lock:
            self.wrong.append(text)

    def send(self, data, chance, read):
        """Sends bytes, reads a little of the answer, and leaves."""
        client = self.server.connect()
        try:
            if chance.random() < 0.3:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.settimeout(read)
            client.sendall(data)
            time.sleep(chance.random() * read)
            client.recv(chance.choice([1, 100, 5000]))
        except OSError:
            pass
        finally:
            client.close()

    def known_answer(self, chance):
        number = chance.randrange(len(self.known))
        path, body = self.known[number]
        status, _, text = self.server.ask("POST", path, body)
        if status != 200:
            self.fail(f"{body}: {status} {text[:300]}")
        elif json.loads(text)["choices"] != self.answers[number]:
            self.fail(f"{body}: another answer: {text[:600]}")

    def stream(self, chance):
        events = self.server.stream(CHAT, {
            "messages": user(f"Say {chance.randrange(50)}"), "max_tokens": chance.randrange(1, 80),
            "stream_options": {"include_usage": True}, "return_progress": True,
            "seed": chance.randrange(100)})
        if events[-1] != "[DONE]":
            self.fail(f"a stream ends with {events[-1][:300]}")

    def cancel(self, chance):
        body = {"prompt": f"{chance.randrange(9)} " * chance.choice([1, 30, 90]), "n": 2,
                "max_tokens": 300, "ignore_eos": True, "stream": chance.random() < 0.5}
        if chance.random() < 0.3:
            body.update(echo=True, logprobs=5)
        self.send(request_bytes(PLAIN, body), chance, 0.2)

    def read_nothing(self, chance):
        client = self.server.connect()
        try:
            client.sendall(request_bytes(PLAIN, {"prompt": "a", "n": 4, "logprobs": 50,
                                                 "max_tokens": 300, "stream": True}))
            time.sleep(1 + chance.random() * 3)
        finally:
            client.close()

    def half(self, chance):
        data = request_bytes(CHAT, {"messages": user("half")})
        self.send(data[:chance.randrange(1, len(data))], chance, 0.1)

    def nonsense(self, chance):
        self.send(chance.randbytes(chance.randrange(1, 5000)), chance, 0.1)

    def refused(self, chance):
        body = chance.choice([
            b"", b"{", b"[" * 20000, b'{"prompt":"\xff"}', b'{"prompt":"x","n":0}', b'{"prompt":[]}',
            b'{"prompt":"x","max_tokens":1e9}', json.dumps({"prompt": "a" * 2_000_000}).encode()])
        status, _, _ = self.server.ask("POST", PLAIN, body)
        if status != 400:
            self.fail(f"{body[:60]}: {status}")

    def look(self, chance):
        path = chance.choice(["/metrics", "/livez", "/readyz", "/v1/models", "/openapi.json"])
        status, _, _ = self.server.ask("GET", path)
        if status != 200:
            self.fail(f"GET {path}: {status}")

    KINDS = [(known_answer, 8), (stream, 3), (cancel, 5), (read_nothing, 1), (half, 2), (nonsense, 2),
             (refused, 2), (look, 2)]

    def client(self, number):
        chance = random.Random(self.seed * 1000 + number)
        kinds = [kind for kind, weight in self.KINDS for _ in range(weight)]
        while time.monotonic() < self.end and not self.wrong:
            kind = chance.choice(kinds)
            try:
                kind(self, chance)
            except (AssertionError, OSError, ValueError, http.client.HTTPException) as error:
                self.fail(f"{kind.__name__}: {type(error).__name__} {str(error)[:500]}")
            self.note(kind.__name__)

    def run(self):
        clients = [threading.Thread(target=self.client, args=(i,)) for i in range(NUM_CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()


def soak(server, minutes, seed):
    """What was wrong, in words, and what was done."""
    warm = Soak(server, seed, time.monotonic() + min(minutes * 15, 120))
    pool, threads = server.blocks()[0], server.num_threads()
    descriptors = server.num_descriptors()
    warm.run()
    memory = resident_bytes(server.pid)
    main_part = Soak(server, seed + 1, time.monotonic() + minutes * 45)
    main_part.run()
    wrong = warm.wrong + main_part.wrong
    for what, condition in [
            ("all blocks are back", lambda: server.blocks() == (pool, 0)),
            ("no thread is left", lambda: server.num_threads() == threads),
            ("no descriptor is left", lambda: server.num_descriptors() <= descriptors)]:
        try:
            wait_until(condition, what, 60)
        except AssertionError as error:
            wrong.append(f"{error}: blocks {server.blocks()} of {pool}, {server.num_threads()} "
                         f"threads of {threads}, {server.num_descriptors()} of {descriptors}")
    grown = resident_bytes(server.pid) - memory
    if grown > MEMORY_SLACK:
        wrong.append(f"the server's memory grew by {grown >> 20} MiB")
    counts = dict(main_part.counts)
    for kind, count in warm.counts.items():
        counts[kind] = counts.get(kind, 0) + count
    return wrong, counts, grown


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="SmolLM2 instead of a tiny model")
    given = parser.parse_args()
    if not os.environ.get("BATON_BINARY"):
        sys.exit("BATON_BINARY must name the program under test")
    with tempfile.TemporaryDirectory(prefix="baton_soak_") as name:
        model = pathlib.Path(name) / "tiny.gguf"
        model.write_bytes(tiny_llama(context=512).bytes())
        # A pool so small that requests give way to each other, and a cache on disk.
        server = Server(name, "--max-running", "6", "--kv-tokens", "1536" if not given.real else
                        "16384", "--kv-disk", f"{name}/disk", "--ctx", "512",
                        model=cached(SMOL) if given.real else str(model))
        wrong, counts, grown = soak(server, given.minutes, given.seed)
        preemptions = server.metrics()["baton_preemptions_total"]
        code = server.stop()
        if code != 0:
            wrong.append(f"the server ended with exit code {code}")
        for line in server.err.read_text(errors="replace").splitlines():
            if not line.startswith("{"):
                wrong.append(line)
    print(f"soak: {given.minutes} minutes, seed {given.seed}: {counts}, {preemptions:.0f} "
          f"preemptions, memory {grown / 2**20:+.1f} MiB")
    for line in wrong[:40]:
        print(f"soak: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
