#!/usr/bin/env python3
"""Full disks, closed pipes and closed descriptors: reported or quiet, as Unix tools do."""
import fcntl
import os
import subprocess

from baton_case import BATON, SMOL, BatonCase, cached, main
from gguf_file import tiny_llama
from process_state import SLOW, long_prefill, wait_until_stuck

F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ since Python 3.10
NO_SPACE = "cannot write to standard output: No space left on device"


class Streams(BatonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = str(cls.folder / "tiny.gguf")
        with open(cls.model, "wb") as file:
            file.write(tiny_llama(context=4096).bytes())

    COMMANDS = [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["inspect", "{model}"],
        ["inspect", "{model}", "--json"],
        ["tokenize", "{model}"],
        ["run", "{model}", "--raw", "-p", "x", "-n", "2", "--ignore-eos"],
        ["run", "{model}", "--raw", "-p", "x", "-n", "2", "--ignore-eos", "--json"],
        ["eval", "logits", "{model}", "--ids", "-", "--json"],
        ["chat", "{model}", "-n", "4", "--ignore-eos"],
    ]

    def commands(self):
        """The commands, and what each reads."""
        for words in self.COMMANDS:
            stdin = b"" if "-p" in words else b"1 2 3\n"
            yield [BATON] + [word.format(model=self.model) for word in words], stdin

    def test_full_disk_is_reported(self):
        for command, stdin in self.commands():
            with self.subTest(command=command[1:]), open("/dev/full", "wb") as full:
                done = subprocess.run(command, input=stdin, stdout=full,
                                      stderr=subprocess.PIPE, timeout=60, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(NO_SPACE, done.stderr.decode())
                self.assertEqual(done.stderr.count(NO_SPACE.encode()), 1)

    def test_closed_pipe_is_quiet(self):
        for command, stdin in self.commands():
            with self.subTest(command=command[1:]):
                # The reader is gone before anything is written.
                reader, writer = os.pipe()
                os.close(reader)
                done = subprocess.run(command, input=stdin, stdout=writer,
                                      stderr=subprocess.PIPE, timeout=60, check=False)
                os.close(writer)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr, b"")

    def test_a_reader_that_leaves_stops_the_generation(self):
        # The context has room for some 4,000 more bytes than the pipe: when the reader leaves, the
        # answer waits in the middle.
        process = subprocess.Popen([BATON, "run", self.model, "--raw", "-p", "x", "--ignore-eos",
                                    "--ctx", "8192", "--threads", "1", "--logit-bias", "70=100"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        fcntl.fcntl(process.stdout, F_SETPIPE_SZ, 4096)
        self.assertEqual(len(process.stdout.read(1)), 1)
        wait_until_stuck(process.pid)
        process.stdout.close()
        error = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(timeout=30), 1)
        self.assertRegex(error, rb"^(baton: note: the context of 8,192 tokens is longer[^\n]*\n)$")

    def test_closed_descriptors(self):
        run = f"'{BATON}' run '{self.model}' --raw --ignore-eos -n 2 -p x"
        for redirection, code in [(">&-", 1), ("2>&-", 0), ("<&-", 0), ("2>/dev/full", 0)]:
            done = subprocess.run(["sh", "-c", f"{run} {redirection}"], capture_output=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, code, (redirection, done.stderr))
        done = subprocess.run(["sh", "-c", f"'{BATON}' tokenize '{self.model}' <&-"],
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot read standard input: Bad file descriptor", done.stderr)

    def test_no_progress_and_no_control_bytes_in_a_pipe(self):
        def run(arguments):
            done = self.baton(*arguments, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout + done.stderr
        seen = long_prefill(run, ["run", cached(SMOL), "--raw", "-n", "1", *SLOW])
        self.assertNotIn(b"\x1b", seen)
        self.assertNotIn(b"\r", seen)


if __name__ == "__main__":
    main()
