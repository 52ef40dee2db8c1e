#!/usr/bin/env python3
"""Crowds and tricks against a server whose model is tiny, so that thousands take seconds: 10,000
connections, 1,000 cancels, requests within requests, a client that reads nothing."""
import concurrent.futures
import http.client
import json
import pathlib
import random
import re
import resource
import socket
import struct
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from gguf_file import tiny_llama  # noqa: E402
from server_case import (CHAT, PLAIN, Server, ServerCase, main, request_bytes,  # noqa: E402
                         user, wait_until)

CROWD = 10_000
LIMIT = 1024  # of connections, in docs/serve.md


class TinyServerCase(ServerCase):
    QUESTION = {"prompt": "The capital", "temperature": 0, "max_tokens": 8, "ignore_eos": True}

    @classmethod
    def make_server(cls):
        model = cls.folder / "tiny.gguf"
        model.write_bytes(tiny_llama(context=512).bytes())
        return Server(cls.folder, "--max-running", "8", "--threads", "1", model=str(model))

    def setUp(self):
        self.answer = self.server.post(PLAIN, self.QUESTION)["choices"]
        wait_until(lambda: self.server.blocks()[1] == 0, "nothing is owned", 20)
        self.pool = self.server.blocks()[0]
        # A connection that was closed may be known to the server a moment longer.
        time.sleep(0.2)
        self.before = (self.server.num_threads(), self.server.num_descriptors())

    def tearDown(self):
        wait_until(lambda: self.server.blocks() == (self.pool, 0), "all blocks are back", 30)
        wait_until(lambda: self.server.num_threads() == self.before[0] and
                   self.server.num_descriptors() <= self.before[1],
                   "no thread or descriptor is left", 30)
        self.assertEqual(self.server.post(PLAIN, self.QUESTION)["choices"], self.answer)


class Crowd(TinyServerCase):
    def test_ten_thousand_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = CROWD + 200
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise unittest.SkipTest(f"this process may have {hard} descriptors, not {wanted}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        probe = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        late = []

        def alive():
            begin = time.monotonic()
            probe.request("GET", "/livez")
            answer = probe.getresponse()
            answer.read()
            late.append(time.monotonic() - begin)
            return answer.status

        self.assertEqual(alive(), 200)
        crowd = []
        try:
            for i in range(CROWD):
                client = socket.socket()
                crowd.append(client)
                client.settimeout(30)
                client.connect(("127.0.0.1", self.server.port))
                if i % 3 == 1:  # half requests among those that say nothing
                    try:
                        client.sendall(request_bytes(PLAIN, self.QUESTION)[:40])
                    except OSError:
                        pass  # it was refused already
                if i % 100 == 0:
                    self.assertEqual(alive(), 200)
            self.assertLessEqual(self.server.num_descriptors(), self.before[1] + LIMIT + 20)
            # Who comes on top is told so, and that at once.
            begin = time.monotonic()
            status, headers, _ = self.server.ask("GET", "/livez")
            self.assertEqual((status, "Retry-After" in headers), (503, True))
            self.assertLess(time.monotonic() - begin, 1)
            refused = crowd[-1]
            self.assertTrue(refused.recv(100).startswith(b"HTTP/1.1 503 "))
        finally:
            for client in crowd:
                client.close()
        wait_until(lambda: self.server.num_descriptors() <= self.before[1] + 1, "all have left", 60)
        self.assertEqual(alive(), 200)
        probe.close()
        self.assertLess(sorted(late)[len(late) * 95 // 100], 0.2)
        self.assertEqual(self.server.metrics()["baton_http_connections"], 1)

    def test_a_thousand_cancels_at_random_moments(self):
        def one(number):
            chance = random.Random(number)
            body = {"prompt": f"{number} " * chance.choice([1, 20, 90]), "n": chance.choice([1, 4]),
                    "max_tokens": chance.choice([1, 30, 200]), "ignore_eos": True, "seed": number,
                    "stream": chance.random() < 0.5}
            if chance.random() < 0.2:
                body.update(echo=True, logprobs=2)
            client = self.server.connect()
            try:
                if chance.random() < 0.5:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                text = request_bytes(PLAIN, body)
                client.sendall(text[:chance.choice([len(text)] * 5 + [len(text) // 2])])
                time.sleep(chance.random() * 0.05)
                client.settimeout(0.02)
                if chance.random() < 0.3:
                    client.recv(chance.choice([1, 200, 4096]))
            except OSError:
                pass
            finally:
                client.close()

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(one, range(1000)))
        wait_until(lambda: self.server.metrics()["baton_requests_running"] == 0, "none runs", 30)
        self.assertEqual(self.server.metrics()["baton_requests_waiting"], 0)
        gone = [line for line in self.server.log() if line.get("cause") == "client_gone"]
        self.assertGreater(len(gone), 100)

    def test_a_client_that_reads_nothing(self):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", self.server.port))
        client.sendall(request_bytes(PLAIN, {"prompt": "a", "max_tokens": 500, "n": 16,
                                             "ignore_eos": True, "logprobs": 100, "stream": True}))
        begin = time.monotonic()
        wait_until(lambda: self.server.metrics()["baton_requests_running"] > 0, "it runs", 20)
        self.assertEqual(self.server.post(PLAIN, self.QUESTION)["choices"], self.answer)
        wait_until(lambda: self.server.metrics()["baton_requests_running"] == 0, "given up", 60)
        self.assertLess(time.monotonic() - begin, 60)
        client.close()


class Tricks(TinyServerCase):
    HIDDEN = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def answers(self, text):
        """Statuses of all that the server answers until it closes."""
        client = self.server.connect()
        try:
            client.settimeout(20)
            client.sendall(text.encode("latin-1"))
            client.shutdown(socket.SHUT_WR)
            got = b""
            try:
                while piece := client.recv(65536):
                    got += piece
            except ConnectionResetError:
                pass
        finally:
            client.close()
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)]

    def test_no_request_hides_in_another(self):
        head = f"POST {PLAIN} HTTP/1.1\r\nHost: localhost\r\n"
        body = json.dumps(self.QUESTION)
        chunk = f"{len(body):x}\r\n{body}\r\n0\r\n\r\n"
        length = f"Content-Length: {len(body)}\r\n"
        chunked = "Transfer-Encoding: chunked\r\n"
        forms = [
            head + length + chunked + "\r\n" + chunk,
            head + chunked + length + "\r\n" + chunk,
            head + length + "Content-Length: 0\r\n\r\n" + body,
            head + length + length + "\r\n" + body,
            head + f"Content-Length: {len(body)}, {len(body)}\r\n\r\n" + body,
            head + f"Content-Length: +{len(body)}\r\n\r\n" + body,
            head + f"Content-Length : {len(body)}\r\n\r\n" + body,
            head + "Content-Length:\r\n " + f"{len(body)}\r\n\r\n" + body,
            head + "Transfer-Encoding: xchunked\r\n\r\n" + chunk,
            head + "Transfer-Encoding: chunked, identity\r\n\r\n" + chunk,
            head + "Transfer-Encoding:\x0bchunked\r\n\r\n" + chunk,
            head + "Transfer-Encoding\x00: chunked\r\n\r\n" + chunk,
            head + chunked + chunked + "\r\n" + chunk,
            head.replace("\r\n", "\n") + length.replace("\r\n", "\n") + "\n" + body,
            head + "X: a\rTransfer-Encoding: chunked\r\n\r\n" + chunk,
            head + "X: a\n" + chunked + "\r\n" + chunk,
            head + chunked + "\r\n" + chunk.replace("\r\n", "\n"),
            head + chunked + "\r\n" + "0x" + chunk,
            head + chunked + "\r\n" + f"-{len(body):x}\r\n{body}\r\n0\r\n\r\n",
            head + chunked + "\r\n" + f"{len(body):x};a=\nb\r\n{body}\r\n0\r\n\r\n",
            head + chunked + "\r\n" + f"{len(body):x}\r\n{body}XX0\r\n\r\n",
            head + "Host: other\r\n" + length + "\r\n" + body,
        ]
        for form in forms:
            statuses = self.answers(form + self.HIDDEN)
            self.assertEqual(len(statuses), 1, form)
            self.assertIn(statuses[0], (400, 501), form)
        # Plain ones, one after the other, are answered one after the other.
        for form in (head + length + "\r\n" + body,
                     head + chunked + "\r\n" + chunk,
                     head + chunked + "\r\n" + f"{len(body):x};a=b;c=\"d\"\r\n{body}\r\n0\r\nT: t"
                     "\r\n\r\n"):
            self.assertEqual(self.answers(form + self.HIDDEN), [200, 200], form)

    def test_an_empty_body_in_pieces(self):
        client = self.server.connect()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(f"POST {PLAIN} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked"
                       "\r\n\r\n".encode())
        for piece in (b"0", b"\r", b"\n", b"\r", b"\n"):
            time.sleep(0.05)
            client.sendall(piece)
        self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 400 "))
        client.close()

    def test_a_request_that_never_ends(self):
        """Cut anywhere, it is nothing, or refused; the server is as before."""
        whole = request_bytes(CHAT, {"messages": user("hi"), "max_tokens": 1})
        for end in range(0, len(whole), 7):
            self.assertIn(self.answers(whole[:end].decode()), ([], [400], [408]), whole[:end])

    def test_random_bytes(self):
        chance = random.Random(3)
        for _ in range(300):
            text = chance.randbytes(chance.randrange(1, 2000)).decode("latin-1")
            for status in self.answers(text):
                self.assertIn(status, (400, 431, 501, 505))


if __name__ == "__main__":
    main()
