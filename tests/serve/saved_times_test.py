#!/usr/bin/env python3
"""What steps take, from one start of the server to the next: kept, read, or said why not."""
import fcntl
import os
import signal
import struct
import subprocess

from server_case import (BATON, PLAIN, READY, SMOL, BatonCase, Server, cached, main, wait_until)

FILE_BYTES = 336
NUM_OBSERVED_AT = 8 + 16 + 36 * 8  # behind the magic, the key and 36 of the 37 numbers


class SavedTimes(BatonCase):
    def setUp(self):
        self.cache = self.folder / self.id()
        self.cache.mkdir()

    def run_server(self, *options, ask=False):
        """What a server that starts and ends says of step times."""
        server = Server(self.cache, *options)
        self.addCleanup(server.process.kill)
        if ask:
            server.post(PLAIN, {"prompt": "Once upon a time", "max_tokens": 20, "ignore_eos": True})
        self.assertEqual(server.stop(), 0)
        self.assertTrue(all(line.startswith("{") for line in server.err.read_text().splitlines()))
        return [line["message"] for line in server.log() if line["event"] == "step_times"]

    def files(self):
        return sorted(self.cache.glob("step-times/*"))

    def saved(self):
        """The one file; its content and how many steps it tells of."""
        path, = self.files()
        content = path.read_bytes()
        self.assertEqual(len(content), FILE_BYTES)
        return path, content, int(struct.unpack_from("<d", content, NUM_OBSERVED_AT)[0])

    def test_a_second_start_goes_on_from_what_the_first_one_kept(self):
        self.assertEqual(self.run_server(ask=True), ["measured"])
        path, first, num_steps = self.saved()
        # What it measured at the start, and what the answer told.
        self.assertGreater(num_steps, 20)
        self.assertEqual(self.run_server(ask=True), [f"{path}: read, a fit of {num_steps} steps"])
        _, second, more_steps = self.saved()
        # Nothing was measured in between: all that is new is the answer of 20 tokens.
        self.assertNotEqual(first, second)
        self.assertTrue(20 <= more_steps - num_steps <= 21, (num_steps, more_steps))

    def test_the_times_are_of_the_number_of_threads(self):
        self.assertEqual(self.run_server("--threads", "1"), ["measured"])
        self.assertEqual(self.run_server("--threads", "2"), ["measured"])
        self.assertEqual(len(self.files()), 2)

    def test_without_saved_times_nothing_is_read_or_written(self):
        self.assertEqual(self.run_server("--no-saved-times", ask=True), ["measured"])
        self.assertEqual(self.files(), [])
        self.run_server()
        path, content, _ = self.saved()
        time = path.stat().st_mtime_ns
        self.assertEqual(self.run_server("--no-saved-times", ask=True), ["measured"])
        self.assertEqual(self.saved()[:2], (path, content))
        self.assertEqual(path.stat().st_mtime_ns, time)
        path.write_bytes(b"BATONST1, or what is left of it")
        self.assertEqual(self.run_server("--no-saved-times"), ["measured"])

    def test_a_damaged_file_is_said_and_made_anew(self):
        self.run_server()
        path, whole, _ = self.saved()
        changed = bytearray(whole)
        changed[NUM_OBSERVED_AT + 6] ^= 1
        for content, why in ((bytes(changed), "it is damaged"),
                             (whole[:-1], "it is not 336 bytes long"),
                             (whole[:8], "it is not 336 bytes long"),
                             (b"", "it is not 336 bytes long")):
            path.write_bytes(content)
            self.assertEqual(self.run_server(),
                             [f"{path}: {why}; what steps take is measured anew", "measured"])
            told, = self.run_server()
            self.assertIn(f"{path}: read", told)

    def test_what_is_not_ours_stays_and_keeps_no_server_from_starting(self):
        self.run_server()
        path, _, _ = self.saved()
        path.write_bytes(b"x" * FILE_BYTES)
        told = self.run_server()
        self.assertEqual(told[:2], [f"{path}: it holds no step times; what steps take is measured "
                                    "anew", "measured"])
        # Neither after measuring nor at the end.
        self.assertEqual(len(told), 4, told)
        for message in told[2:]:
            self.assertIn(f"'{path}' is there", message)
            self.assertIn("saved step times", message)
        self.assertEqual(path.read_bytes(), b"x" * FILE_BYTES)

    def test_a_log_that_nobody_reads_keeps_no_server_from_starting(self):
        self.run_server()
        path, whole, _ = self.saved()
        path.write_bytes(whole[:-1])
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writer, b"x" * 4096)
        out = self.cache / "unread.out"
        with open(out, "wb") as file:
            process = subprocess.Popen([BATON, "serve", cached(SMOL), "--port", "0"], stdout=file,
                                       stderr=writer,
                                       env={**os.environ, "BATON_CACHE": str(self.cache)})
        self.addCleanup(process.kill)
        os.close(writer)
        wait_until(lambda: READY.search(out.read_text()), "it is ready", 60)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)
        self.assertEqual(len(path.read_bytes()), FILE_BYTES)


if __name__ == "__main__":
    main()
