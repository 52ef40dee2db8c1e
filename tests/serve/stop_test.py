#!/usr/bin/env python3
"""How the server stops: SIGTERM drains, a second signal does not wait."""
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

from server_case import (BATON, CHAT, PLAIN, READY, SLOW, SMOL, BatonCase, Server, cached, main,
                         request_bytes, user, wait_until)

from process_state import drop_root_rights, is_mapped  # server_case knows where it is


class Stop(BatonCase):
    def start(self, *options):
        server = Server(self.folder, *SLOW, *options)
        self.addCleanup(server.process.kill)
        return server

    def read_all(self, client):
        text = b""
        try:
            while piece := client.recv(65536):
                text += piece
        finally:
            client.close()
        return text.decode()

    def begin(self, server, **body):
        """A stream that runs."""
        client = server.connect()
        client.sendall(request_bytes(CHAT, {"messages": user("Tell me a story."), "stream": True,
                                            "ignore_eos": True, **body}))
        self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 200"))
        return client

    def test_idle(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.start()
            idle = server.connect()
            begin = time.monotonic()
            self.assertEqual(server.stop(number), 0)
            self.assertLess(time.monotonic() - begin, 5)
            self.assertEqual(idle.recv(1), b"")
            idle.close()
            with self.assertRaises(OSError):
                socket.create_connection(("127.0.0.1", server.port), timeout=5)

    def test_a_log_that_nobody_reads_keeps_nobody(self):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writer, b"x" * 4096)
        with open(self.folder / "log.out", "wb") as out:
            process = subprocess.Popen([BATON, "serve", cached(SMOL), "--port", "0"], stdout=out,
                                       stderr=writer)
        self.addCleanup(process.kill)
        os.close(writer)
        self.addCleanup(os.close, reader)
        wait_until(lambda: READY.search((self.folder / "log.out").read_text()), "it is ready", 120)
        port = int(READY.search((self.folder / "log.out").read_text()).group(2))
        # Each refusal is a line of the log.
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(request_bytes(PLAIN, {"prompt": 5}))
                self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 400"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)

    def test_running_streams_are_finished_and_new_work_is_refused(self):
        server = self.start("--drain-seconds", "60")
        client = self.begin(server, max_tokens=40)
        os.kill(server.pid, signal.SIGTERM)
        wait_until(lambda: server.ask("GET", "/readyz")[0] == 503, "it drains")
        self.assertEqual(server.ask("GET", "/livez")[0], 200)
        status, headers, text = server.ask("POST", PLAIN, {"prompt": "x"})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "draining"))
        self.assertTrue(headers["Retry-After"])
        text = self.read_all(client)
        self.assertIn('"finish_reason":"length"', text)
        self.assertTrue(text.endswith("data: [DONE]\n\n\r\n0\r\n\r\n"), text[-100:])
        self.assertEqual(server.process.wait(30), 0)

    def test_what_takes_longer_than_the_time_is_told_so(self):
        server = self.start("--drain-seconds", "1", "--max-running", "1")
        client = self.begin(server, max_tokens=8000)
        waiting = server.connect()
        waiting.sendall(request_bytes(PLAIN, {"prompt": "x"}))
        time.sleep(0.2)
        begin = time.monotonic()
        os.kill(server.pid, signal.SIGTERM)
        text = self.read_all(client)
        self.assertIn('data: {"error":{', text)
        self.assertNotIn("[DONE]", text)
        self.assertNotIn('"finish_reason":"', text)
        self.assertTrue(self.read_all(waiting).startswith("HTTP/1.1 503 "))
        self.assertEqual(server.process.wait(30), 0)
        self.assertLess(time.monotonic() - begin, 10)

    def test_a_second_signal_stops_at_once(self):
        server = self.start("--drain-seconds", "600")
        client = self.begin(server, max_tokens=8000)
        os.kill(server.pid, signal.SIGTERM)
        wait_until(lambda: server.ask("GET", "/readyz")[0] == 503, "it drains")
        begin = time.monotonic()
        self.assertEqual(server.stop(signal.SIGTERM), -signal.SIGTERM)
        self.assertLess(time.monotonic() - begin, 2)
        client.close()

    def test_while_the_model_is_loaded(self):
        for _ in range(3):
            process = subprocess.Popen([BATON, "serve", cached(SMOL), "--port", "0"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            # Loading begins when the file is mapped.
            wait_until(lambda: is_mapped(process.pid, SMOL), "the file is open")
            killer = threading.Timer(0.05, process.send_signal, [signal.SIGTERM])
            killer.start()
            _, err = process.communicate(timeout=30)
            killer.join()
            self.assertEqual(process.returncode, 0, err)

    def test_a_port_in_use_is_said(self):
        server = self.start()
        line = self.fails("serve", cached(SMOL), "--port", str(server.port))
        self.assertIn(f"cannot listen on 127.0.0.1:{server.port}: Address already in use; choose "
                      "another port", line)
        server.stop()

    def test_the_configuration(self):
        text = self.ok("serve", cached(SMOL), "--print-config", "--max-running", "3",
                       "--kv-tokens", "9000", "--max-queue", "7")
        for line in ("max_running = 3", "kv_tokens = 9000", "max_queue_requests = 7",
                     "max_body_bytes = 33554432", "prefix_cache = true", "drain_seconds = 30",
                     "keep_alive_ms = 5000", "max_choices = 128", "max_json_depth = 64"):
            self.assertIn(line + "\n", text)
        names = [line.split(" = ")[0] for line in text.splitlines()]
        self.assertEqual(len(names), len(set(names)))

    def test_the_memory_is_told_at_the_start(self):
        server = self.start("--kv-tokens", "16384")
        server.stop()
        message, = [line["message"] for line in server.log() if line["event"] == "memory"]
        # 256 blocks of 64 tokens: keys, values and their means in 30 layers of 3 heads.
        self.assertRegex(message, r"^92\.1 MiB of weights, 372\.\d MiB of f16 KV cache for 16,384 "
                                  r"tokens \(--kv-tokens\)$")
        # On this machine alone nobody needs keys.
        self.assertFalse([line for line in server.log() if line["event"] == "no_keys"])

    def test_which_tune_file_counts_is_told_at_the_start(self):
        server = self.start()
        server.stop()
        message, = [line["message"] for line in server.log() if line["event"] == "tune_file"]
        self.assertRegex(message, r"\.gguf\.tune\.json: the model is not tuned; tune it with: baton "
                                  r"tune .*; what is written there meanwhile counts from the next "
                                  r"start on$")

    def test_a_configuration_that_cannot_start_is_not_printed(self):
        arguments = ["serve", cached(SMOL), "--port", "0", "--kv-tokens", "1000"]
        line = self.fails(*arguments)
        self.assertEqual(self.fails(*arguments, "--print-config"), line)
        self.assertIn("the KV cache has room for 1,000 tokens (--kv-tokens), and one sequence of "
                      "the context (--ctx) needs 8,192; give --kv-tokens 8192 or more, or --ctx "
                      "1000 or less", line)
        arguments[-1] = str(1 << 40)
        line = self.fails(*arguments)
        self.assertRegex(line, r"not enough memory: .* for 1,099,511,627,776 tokens, .*; "
                         r"--kv-tokens \d+ would fit")
        # What is available may differ.
        self.assertEqual(*(re.sub(r"available.*", "", text) for text in
                           (line, self.fails(*arguments, "--print-config"))))
        self.assertIn("takes a whole number from 1",
                      self.fails(*arguments, "--print-config", "--max-queue", "0", code=2))
        sparse = ["serve", cached(SMOL), "--port", "0", "--prefill", "sparse", "--sparse"]
        for options in (["tile=128", "--chunk", "100"], ["dense-layers=30"]):
            line = self.fails(*sparse, *options)
            self.assertIn("at least 128" if "--chunk" in options else "0..29", line)
            self.assertEqual(self.fails(*sparse, *options, "--print-config"), line)

    def test_files_and_folders_are_checked_as_the_start_does(self):
        call = ["serve", cached(SMOL), "--port", "0"]
        place = self.folder / "checked"
        place.mkdir()
        closed = place / "closed"
        closed.mkdir(mode=0o555)
        hidden = self.file("checked/hidden", "key\n")
        os.chmod(hidden, 0o200)
        disk, keys = "--kv-disk", "--api-key-file"
        cases = [(disk, self.file("checked/plain", "x"), "plain: cannot be opened: Not a directory"),
                 (disk, place / "no" / "x", "x: cannot be made: No such file or directory"),
                 (disk, closed / "x", "x: cannot be made: Permission denied"),
                 (disk, closed, "closed: cannot be written: Permission denied"),
                 (disk, "/proc/x", "x: cannot be made: No such file or directory"),
                 (keys, place / "no", "cannot open '.*no': No such file or directory"),
                 (keys, self.file("checked/empty", ""), "empty: the key file has no key"),
                 (keys, self.file("checked/odd", "k\x01y\n"), "odd: line 1 of the key file"),
                 (keys, place, "cannot read '.*checked': Is a directory"),
                 (keys, hidden, "cannot open '.*hidden': Permission denied")]
        before = sorted(os.listdir(place))
        for option, path, words in cases:
            with self.subTest(option=option, path=path):
                line = self.fails(*call, option, path, "--print-config",
                                  preexec_fn=drop_root_rights)
                self.assertRegex(line, words)
                self.assertEqual(self.fails(*call, option, path, preexec_fn=drop_root_rights), line)
        self.ok(*call, disk, place / "new", "--print-config")
        self.assertEqual(sorted(os.listdir(place)), before)


if __name__ == "__main__":
    main()
