#!/usr/bin/env python3
"""Clients that leave, flood, say nonsense or never read: the server gives everything back."""
import concurrent.futures
import json
import random
import socket
import struct
import time

from server_case import CHAT, PLAIN, SLOW, ServerCase, main, request_bytes, user, wait_until


class Faults(ServerCase):
    OPTIONS = [*SLOW, "--max-running", "4", "--chunk", "64", "--kv-tokens", "16384"]
    PLAIN_QUESTION = {"prompt": "The capital of France is", "temperature": 0, "max_tokens": 4}

    def setUp(self):
        self.answer = self.server.post(PLAIN, self.PLAIN_QUESTION)["choices"]
        # The books are told after the step that ends a request.
        wait_until(lambda: self.server.blocks()[1] == 0, "nothing is owned", 20)
        self.pool = self.server.blocks()[0]

    def tearDown(self):
        """Everything is back, and the server as well as before."""
        wait_until(lambda: self.server.blocks() == (self.pool, 0), "all blocks are back", 20)
        self.assertEqual(self.server.post(PLAIN, self.PLAIN_QUESTION)["choices"], self.answer)
        wait_until(lambda: self.running() == 0, "nothing runs", 10)
        self.assertEqual(self.server.metrics()["baton_requests_waiting"], 0)

    def send(self, path, body, reset=False):
        client = self.server.connect()
        self.addCleanup(client.close)
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(request_bytes(path, body))
        return client

    def running(self):
        return self.server.metrics()["baton_requests_running"]

    def test_streams_left_after_a_few_events(self):
        clients = [self.send(CHAT, {"messages": user(f"Count to {i}"), "max_tokens": 4000,
                                    "ignore_eos": True, "stream": True}) for i in range(4)]
        for client in clients:
            got = b""
            while got.count(b"data:") < 3:
                got += client.recv(4096)
        for client in clients:
            client.close()
        wait_until(lambda: self.running() == 0, "the streams are given up", 10)

    def test_left_in_prefill_and_in_the_queue(self):
        generated = self.server.metrics()["baton_generated_tokens_total"]
        # Prompts that take seconds each here; four run, two wait.
        clients = [self.send(PLAIN, {"prompt": f"{i} " * 800, "max_tokens": 1, "stream": i % 2 == 0},
                             reset=i % 3 == 0) for i in range(10, 16)]
        wait_until(lambda: self.server.metrics()["baton_requests_waiting"] == 2, "two wait")
        begin = time.monotonic()
        for client in reversed(clients):
            client.close()
        wait_until(lambda: self.running() == 0, "prefill is given up", 10)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(self.server.metrics()["baton_generated_tokens_total"], generated)

    def test_a_client_that_only_stops_sending_is_served(self):
        client = self.send(PLAIN, self.PLAIN_QUESTION)
        client.shutdown(socket.SHUT_WR)
        text = b""
        while piece := client.recv(4096):
            text += piece
        client.close()
        self.assertEqual(json.loads(text[text.rindex(b"\r\n\r\n"):])["choices"], self.answer)

    def test_a_hundred_cancels_at_random_moments(self):
        before = (self.server.num_threads(), self.server.num_descriptors())
        chance = random.Random(5)

        def one(number):
            body = {"prompt": f"{number} " * chance.choice([1, 60, 150]), "max_tokens": 50,
                    "n": chance.choice([1, 1, 3]), "stream": chance.random() < 0.5, "seed": number}
            client = self.send(PLAIN, body, reset=chance.random() < 0.5)
            time.sleep(chance.random() * 0.3)
            client.settimeout(0.2)
            try:
                if chance.random() < 0.3:
                    client.recv(chance.choice([1, 200, 4096]))
            except TimeoutError:
                pass
            client.close()

        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            list(pool.map(one, range(100)))
        wait_until(lambda: self.server.blocks() == (self.pool, 0), "all blocks are back", 20)
        # What setUp had just closed may have been counted before.
        wait_until(lambda: self.server.num_threads() == before[0] and
                   self.server.num_descriptors() <= before[1],
                   "no thread or descriptor is left", 20)
        ended = [line for line in self.server.log() if line.get("cause") == "client_gone"]
        self.assertGreater(len(ended), 50)

    def test_probes_answer_during_a_long_prefill(self):
        client = self.send(PLAIN, {"prompt": "slow " * 1200, "max_tokens": 1})
        wait_until(lambda: self.running() == 1, "the prefill runs")
        times = []
        for _ in range(40):
            for path in ("/livez", "/readyz", "/health"):
                begin = time.monotonic()
                self.assertEqual(self.server.ask("GET", path)[0], 200)
                times.append(time.monotonic() - begin)
            time.sleep(0.02)
        self.assertEqual(self.running(), 1)
        client.close()
        self.assertLess(sorted(times)[len(times) * 99 // 100], 0.2)

    def test_a_request_of_100_mb_is_refused_and_forgotten(self):
        client = self.server.connect()
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                       b"Content-Length: 104857600\r\n\r\n")
        try:
            for _ in range(1600):
                client.sendall(b"x" * 65536)
        except OSError:
            pass
        self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 413 "))
        client.close()

    def test_connections_that_say_nothing_or_nonsense(self):
        before = self.server.num_descriptors()
        chance = random.Random(7)
        idle = [self.server.connect() for _ in range(500)]
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)
        for client in idle[:250]:
            client.sendall(chance.randbytes(chance.randrange(1, 400)))
        for client in idle[250:400]:
            client.sendall(request_bytes(CHAT, {"messages": user("hi")})[:chance.randrange(90)])
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)
        for client in idle:
            client.close()
        wait_until(lambda: self.server.num_descriptors() <= before, "no descriptor is left", 20)

    def test_hostile_bodies(self):
        cases = [b"", b"{", b"[" * 100000, b'{"prompt":"\xff"}', b'{"prompt":"x","prompt":"y"}',
                 b'{"prompt":"x","temperature":1e999}', b'{"prompt":"x","n":-1}',
                 b'{"prompt":"x","max_tokens":1e308}', b'{"prompt":null}', b'{"prompt":{}}',
                 b'{"prompt":' + b'[' * 5000 + b']' * 5000 + b'}',
                 b'{"prompt":[' + b'0,' * 1000000 + b'0]}',
                 json.dumps({"prompt": "a" * 10_000_000}).encode()]
        for body in cases:
            begin = time.monotonic()
            status, _, text = self.server.ask("POST", PLAIN, body)
            self.assertEqual(status, 400, body[:60])
            self.assertIn("message", json.loads(text)["error"])
            self.assertLess(time.monotonic() - begin, 2)


class FullQueue(ServerCase):
    OPTIONS = [*SLOW, "--max-running", "1", "--max-queue", "2"]

    def test_what_is_beyond_the_queue_is_refused_at_once(self):
        body = {"prompt": "Count: one two", "max_tokens": 30, "ignore_eos": True}
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: self.server.ask("POST", PLAIN, body), range(20)))
        statuses = [status for status, _, _ in answers]
        self.assertEqual(set(statuses), {200, 429})
        # One runs, two wait; who comes when one of them has ended finds a place.
        self.assertLessEqual(statuses.count(200), 6)
        self.assertGreaterEqual(statuses.count(200), 2)
        for status, headers, text in answers:
            if status == 429:
                self.assertEqual(headers["Retry-After"], "1")
                self.assertEqual(json.loads(text)["error"]["code"], "queue_full")
        self.assertEqual(self.server.ask("POST", PLAIN, body)[0], 200)


if __name__ == "__main__":
    main()
