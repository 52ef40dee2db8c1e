#!/usr/bin/env python3
"""What a person sees: progress bars, Ctrl-C, the terminal left in order. Runs under a pty."""
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

from baton_case import BATON, SMOL, BatonCase, cached, main
from gguf_file import tiny_llama

CTRL_C = b"\x03"
CTRL_D = b"\x04"
CLEAR = b"\r\x1b[K"


class Terminal:
    """The program with all three streams on one pty."""

    def __init__(self, arguments, term="xterm"):
        self.master, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)

        def take_terminal():
            os.setsid()
            import fcntl
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [BATON, *arguments], stdin=self.slave, stdout=self.slave, stderr=self.slave,
            env={**os.environ, "TERM": term}, preexec_fn=take_terminal, close_fds=True)
        self.seen = b""

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:
                pass

    def wait_for(self, pattern, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.seen, re.S)
            if found:
                return found
            if self.process.poll() is not None:
                self.read(0.2)
                found = re.search(pattern, self.seen, re.S)
                if found:
                    return found
                break
            self.read(0.1)
        raise AssertionError(f"{pattern!r} did not come: {self.seen[-2000:]!r}")

    def send(self, data):
        os.write(self.master, data)

    def finish(self, seconds=60):
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > end:
                self.process.kill()
                raise AssertionError(f"still running: {self.seen[-2000:]!r}")
            self.read(0.1)
        self.read(0.1)
        self.after = termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)
        return self.process.returncode


class OnATerminal(BatonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = str(cls.folder / "tiny.gguf")
        with open(cls.model, "wb") as file:
            file.write(tiny_llama(context=100000).bytes())

    ENDLESS = ["--ignore-eos", "--temp", "1"]

    def test_progress_of_a_long_prefill_comes_and_goes(self):
        text = "The quick brown fox jumps over the lazy dog. " * 16
        terminal = Terminal(["run", cached(SMOL), "-p", text, "-n", "2", "--isa", "portable",
                             "--threads", "1", "--chunk", "8"])
        terminal.wait_for(rb"\r\x1b\[KReading the prompt +\d+ %  \[=*>? *\]  [\d,]+ of [\d,]+ "
                          rb"tokens", 120)
        self.assertEqual(terminal.finish(240), 0)
        self.assertEqual(terminal.before, terminal.after)
        # Nothing of the bar stands where the answer begins.
        last_bar = terminal.seen.rindex(b"Reading the prompt")
        self.assertIn(CLEAR, terminal.seen[last_bar:])
        self.assertIn(b"tokens/s", terminal.seen)

    def test_dumb_terminals_get_no_bar(self):
        text = "The quick brown fox jumps over the lazy dog. " * 12
        terminal = Terminal(["run", cached(SMOL), "-p", text, "-n", "1", "--isa", "portable",
                             "--threads", "1"], term="dumb")
        self.assertEqual(terminal.finish(240), 0)
        self.assertNotIn(b"\x1b", terminal.seen)
        self.assertNotIn(b"Reading the prompt", terminal.seen)

    def test_ctrl_c_stops_an_answer_at_once(self):
        terminal = Terminal(["run", self.model, "--raw", "-p", "x", *self.ENDLESS])
        terminal.wait_for(rb"x|[^\s]{20}", 30)
        pressed = time.monotonic()
        terminal.send(CTRL_C)
        terminal.wait_for(rb"stop +cancelled", 10)
        self.assertEqual(terminal.finish(10), 130)
        self.assertLess(time.monotonic() - pressed, 2)
        self.assertEqual(terminal.before, terminal.after)

    def test_ctrl_c_during_prefill(self):
        text = "The quick brown fox jumps over the lazy dog. " * 40
        terminal = Terminal(["run", cached(SMOL), "-p", text, "--isa", "portable", "--chunk", "8", "--threads",
                             "1"])
        terminal.wait_for(rb"Reading the prompt", 120)
        terminal.send(CTRL_C)
        self.assertEqual(terminal.finish(20), 130)
        self.assertEqual(terminal.before, terminal.after)

    def test_sigint_while_waiting_for_input(self):
        process = subprocess.Popen([BATON, "tokenize", self.model], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=10), 130)
        output, error = process.communicate()
        self.assertEqual((output, error), (b"", b""))

    def test_sigint_in_a_pipe_keeps_what_was_said(self):
        process = subprocess.Popen([BATON, "run", self.model, "--raw", "-p", "x", *self.ENDLESS],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        start = process.stdout.read(10)
        process.send_signal(signal.SIGINT)
        rest, error = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(len(start), 10)
        self.assertTrue((start + rest).endswith(b"\n"))
        self.assertIn(b"cancelled", error)

    def test_ctrl_c_in_a_chat_stops_the_answer_not_the_program(self):
        terminal = Terminal(["chat", self.model, *self.ENDLESS])
        terminal.wait_for(rb"> ")
        terminal.send(b"hello\n")
        terminal.wait_for(rb"hello\r\n.{30}", 30)
        terminal.send(CTRL_C)
        terminal.wait_for(rb"cancelled\].*> $", 10)
        terminal.send(b"half typed" + CTRL_C)
        terminal.wait_for(rb"Ctrl-D leaves.*> $", 10)
        terminal.send(b"/exit\n")
        self.assertEqual(terminal.finish(10), 0)
        self.assertEqual(terminal.before, terminal.after)
        self.assertEqual(terminal.seen.count(b"cancelled]"), 1)

    def test_ctrl_d_leaves_a_chat(self):
        terminal = Terminal(["chat", self.model, "-n", "3", "--ignore-eos"])
        terminal.wait_for(rb"> ")
        terminal.send(CTRL_D)
        self.assertEqual(terminal.finish(10), 0)


if __name__ == "__main__":
    main()
