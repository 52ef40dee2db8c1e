#!/usr/bin/env python3
"""The proxies of docs/serve.md in front of the server: streams come unbuffered, aborts go through."""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import time
import unittest

from server_case import CHAT, ServerCase, main, request_bytes, user, wait_until

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxies(ServerCase):
    def configuration(self, language):
        """The document's, for this server, on a port of its own and without TLS."""
        text = (ROOT / "docs/serve.md").read_text(encoding="utf-8")
        text = re.search(rf"```{language}\n(.*?)```", text, re.S).group(1)
        port = free_port()
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.server.port}")
        text = re.sub(r"listen 443 ssl;|bind :443 ssl.*",
                      lambda found: f"{found.group().split()[0]} 127.0.0.1:{port}"
                                    + (";" if ";" in found.group() else ""), text)
        return re.sub(r" *ssl_\w+ .*\n", "", text), port

    def start(self, command, port):
        with open(self.folder / "proxy.log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self.addCleanup(process.wait, 10)
        self.addCleanup(process.terminate)

        def listens():
            self.assertIsNone(process.poll(), (self.folder / "proxy.log").read_text())
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0
        wait_until(listens, "the proxy listens", 20)

    def through(self, port):
        # Pieces come one by one, long before the end.
        client = socket.create_connection(("127.0.0.1", port), timeout=60)
        body = {"messages": user("Count."), "stream": True, "max_tokens": 8000, "ignore_eos": True}
        client.sendall(request_bytes(CHAT, body))
        text = b""
        while text.count(b"data:") < 5:
            piece = client.recv(65536)
            self.assertTrue(piece, text)
            text += piece
        self.assertIn(b"text/event-stream", text)
        self.assertEqual(self.server.metrics()["baton_requests_running"], 1)
        client.close()
        begin = time.monotonic()
        wait_until(lambda: self.server.metrics()["baton_requests_running"] == 0,
                   "the request is given up", 10)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(json.loads(self.ask_through(port, {"messages": user("Hi"),
                                                            "max_tokens": 2}))["object"],
                         "chat.completion")

    def leave_before_the_answer(self, port):
        client = socket.create_connection(("127.0.0.1", port), timeout=60)
        client.sendall(request_bytes(CHAT, {"messages": user("Count."), "max_tokens": 8000,
                                            "ignore_eos": True}))
        wait_until(lambda: self.server.metrics()["baton_requests_running"] == 1, "it runs", 10)
        client.close()
        wait_until(lambda: self.server.metrics()["baton_requests_running"] == 0,
                   "the request is given up", 10)

    def ask_through(self, port, body):
        done = subprocess.run(["curl", "-sS", "--max-time", "60", f"http://127.0.0.1:{port}{CHAT}",
                               "-d", json.dumps(body)], capture_output=True, check=True)
        return done.stdout

    def test_nginx(self):
        nginx = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
        if not nginx:
            raise unittest.SkipTest("nginx is not installed")
        text, port = self.configuration("nginx")
        path = self.file("nginx.conf", f"daemon off; pid {self.folder}/nginx.pid; error_log stderr;"
                         f"events {{}} http {{ access_log off;\n"
                         f"client_body_temp_path {self.folder}/body;"
                         f"proxy_temp_path {self.folder}/proxy;"
                         f"fastcgi_temp_path {self.folder}/a; uwsgi_temp_path {self.folder}/b;"
                         f"scgi_temp_path {self.folder}/c;\n{text}}}\n")
        self.start([nginx, "-c", path, "-e", "stderr"], port)
        self.through(port)
        self.leave_before_the_answer(port)

    def test_haproxy(self):
        haproxy = shutil.which("haproxy") or shutil.which("/usr/sbin/haproxy")
        if not haproxy:
            raise unittest.SkipTest("haproxy is not installed")
        text, port = self.configuration("haproxy")
        self.start([haproxy, "-db", "-f", self.file("haproxy.cfg", text)], port)
        self.through(port)


if __name__ == "__main__":
    main()
