#!/usr/bin/env python3
"""What a person sees: progress bars, Ctrl-C, the terminal left in order. Runs under a pty."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from baton_case import BATON, SMOL, BatonCase, cached, main
from gguf_file import tiny_llama
from process_state import (FOX, SLOW, has_signal, long_prefill, send_sigint, wait_until,
                           wait_until_stuck)

CTRL_C = b"\x03"
CTRL_D = b"\x04"
CTRL_S = b"\x13"
F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ since Python 3.10
CLEAR = b"\r\x1b[K"


def readable(descriptor):
    """Bytes that a terminal has ready for whoever reads lines from it."""
    return struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0]


class Terminal:
    """The program with all three streams on one pty."""

    def __init__(self, arguments, term="xterm", columns=None):
        self.master, self.slave = pty.openpty()
        if columns is not None:
            fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)

        def take_terminal():
            os.setsid()
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

    # Every token is the byte "C", so that no answer looks like something else.
    ENDLESS = ["--ignore-eos", "--logit-bias", "70=100"]

    def test_progress_of_a_long_prefill_comes_and_goes(self):
        def run(arguments):
            self.terminal = Terminal(arguments)
            self.assertEqual(self.terminal.finish(240), 0)
            return self.terminal.seen
        seen = long_prefill(run, ["run", cached(SMOL), "--raw", "-n", "2", *SLOW])
        self.assertRegex(seen, rb"\r\x1b\[KReading the prompt +\d+ %  \[=*>? *\]  [\d,]+ of [\d,]+ "
                         rb"tokens")
        self.assertEqual(self.terminal.before, self.terminal.after)
        # Nothing of the bar stands where the answer begins.
        last_bar = seen.rindex(b"Reading the prompt")
        self.assertRegex(seen[last_bar:], rb"^[^\r\n]*\r\x1b\[K[^\x1b]+$")

    def test_bench_serve_tells_how_far_a_slow_load_is(self):
        terminal = Terminal(["bench", "serve", self.model, "--quick", "--ctx", "256", "--rate",
                             "0.001"])
        terminal.wait_for(rb"0.001 requests/s +25 %  \[=+> +\]  1 of 4 requests  "
                          rb"(\d+ h \d\d|\d+) min")
        terminal.send(CTRL_C)
        self.assertEqual(terminal.finish(), 130)
        self.assertTrue(terminal.seen.endswith(CLEAR) or terminal.seen.endswith(b"\r\n"),
                        terminal.seen)

    def test_tables_fit_the_terminal(self):
        text = self.file("text.txt", FOX * 20)
        small = self.folder / "small.gguf"
        small.write_bytes(tiny_llama(context=2048).bytes())
        lists = " dense-layers=0 dense-heads=1:0 correction=off sink=128 window=128 last=1"
        for arguments in (
                ["eval", "kl", small, "--text", text, "--baselines", "--repeat", 1, "--sparse",
                 "rule=share:0.2" + lists],
                ["eval", "density", small, "--text", text],
                ["eval", "needle", small, "--lengths", 300, "--depths", 50, "--trials", 1,
                 *["--sparse", "rule=share:0.1", "--sparse", "rule=none"] * 2],
                ["bench", "serve", small, "--quick", "--long-prompt", 30, "--ctx", 256],
                ["bench", "model", small, "--quick"],
                ["bench", "limits", "--quick"],
                ["bench", "kernels", "--quick", "--only", "linear", "--type", "Q4_0"],
                ["simulate", "--rate", 1, "--duration", 20]):
            for columns in (50, 80):
                lines = self.on_screen(columns, *arguments)
                self.assertTrue(lines)
                for line in lines:
                    self.assertLessEqual(len(line), columns, lines)
        # Not for a pipe.
        self.assertIn("last KL", self.ok("eval", "kl", small, "--text", text, "--repeat", 0))

    def on_screen(self, columns, *arguments):
        """Lines that stay on a terminal of so many columns."""
        terminal = Terminal(list(map(str, arguments)), columns=columns)
        self.assertEqual(terminal.finish(120), 0, terminal.seen)
        # What was drawn on the status line is gone.
        seen = re.sub(rb"[^\n]*\x1b\[K", b"", terminal.seen).decode()
        return seen.replace("\r\n", "\n").splitlines()

    def test_long_policies_fit_the_terminal(self):
        text = self.file("policies.txt", FOX * 30)
        small = self.folder / "policies.gguf"
        small.write_bytes(tiny_llama(context=2048).bytes())
        shares = "shares=0:0:0.6125,0:1:0.5125,1:0:0.4125,1:1:0.3125"
        long = f"rule=share:0.2 {shares} correction=off sink=128 window=128 last=1"
        policies = ["--sparse", long, "--sparse", "rule=share:0.25"]
        kl = ["eval", "kl", small, "--text", text, "--repeat", 1, *policies]
        needle = ["eval", "needle", small, "--lengths", "300,600", "--depths", 50, "--trials", 1,
                  *policies]
        perplexity = ["eval", "perplexity", small, "--text", text, "--window", 600, "--prefill",
                      "sparse", "--sparse", long]
        for columns in (44, 60, 80, 132):
            for call in (kl, needle, perplexity, [*kl, "--baselines"],
                         ["eval", "density", small, "--text", text, "--sparse", long],
                         ["eval", "density", small, "--text", text, "--tokens", 300]):
                lines = self.on_screen(columns, *call)
                for line in lines:
                    self.assertLessEqual(len(line), columns, lines)
                # A list that goes on in the next line is whole.
                if long in call:
                    self.assertIn(shares, "".join(line.strip() for line in lines))
        lines = self.on_screen(80, *kl)
        self.assertTrue(any(line.startswith("A  rule=share:0.2,1 ") for line in lines), lines)
        self.assertIn("B  default", lines)
        self.assertTrue(any(re.match(r"A +0\.\d{3} ", line) for line in lines), lines)
        self.assertTrue(any(re.match(r" +tokens|tokens +depth +dense +ln p +A +ln p +B", line)
                            for line in self.on_screen(80, *needle)))
        # Notes, too, and those in a pipe are one line without long lists.
        done = self.baton("eval", "kl", small, "--text", text, "--repeat", 0, "--tokens", 200,
                          *policies)
        note, = done.stderr.decode().splitlines()
        self.assertRegex(note, r"by 'rule=share:0.2,1 .*shares=0:0:0\.6125,0:1\.\.\.' \(")
        head = done.stdout.decode().partition("\n\nA  ")[0]
        self.assertLessEqual(max(map(len, head.splitlines())), 80)

    def test_inspect_takes_the_width_of_the_terminal(self):
        lines = {columns: self.on_screen(columns, "inspect", self.model)
                 for columns in (50, 80, 200)}
        for columns, shown in lines.items():
            for line in shown:
                if not line.startswith("file "):
                    self.assertLessEqual(len(line), columns, line)
        self.assertGreater(len(lines[50]), len(lines[80]))
        self.assertGreater(len(lines[80]), len(lines[200]))
        self.assertEqual(lines[80], self.ok("inspect", self.model).splitlines())

    def test_inspect_on_a_narrow_terminal(self):
        for model in (self.model, cached(SMOL)):
            piped = self.ok("inspect", model)
            for columns in (24, 32, 40, 49):
                lines = self.on_screen(columns, "inspect", model)
                for line in lines:
                    if model not in line:
                        self.assertLessEqual(len(line), columns, lines)
                # Nothing is lost, and rows of types that fit are not torn.
                self.assertEqual("".join("".join(lines).split()), "".join(piped.split()))
                rows = [line.split() for line in lines if re.match(r" +(Q|F)\d", line)]
                self.assertTrue(rows, lines)
                for row in rows:
                    self.assertTrue(len(row) == 5 or columns < 28, lines)
                # Short values stay beside their names.
                self.assertTrue(any(re.match("layers {11}", line) for line in lines), lines)

    def test_help_fits_the_terminal(self):
        for command in ([], ["eval"], ["run"], ["serve"], ["eval", "perplexity"], ["bench", "kernels"],
                        ["tokenize"], ["simulate"]):
            piped = self.ok(*command, "--help")
            for columns in (32, 44, 60):
                lines = self.on_screen(columns, *command, "--help")
                for line in lines:
                    if not re.match(r"  \S.* baton |  baton ", line):  # an example, to be copied
                        self.assertLessEqual(len(line), columns, lines)
                # Nothing is lost; a long list may be broken behind a comma.
                self.assertEqual("".join("".join(lines).split()), "".join(piped.split()))
            for columns in (80, 200):
                self.assertEqual("\n".join(self.on_screen(columns, *command, "--help")) + "\n",
                                 piped)

    def test_dumb_terminals_get_no_bar(self):
        for term in ("dumb", ""):
            def run(arguments):
                terminal = Terminal(arguments, term=term)
                self.assertEqual(terminal.finish(240), 0)
                return terminal.seen
            seen = long_prefill(run, ["run", cached(SMOL), "--raw", "-n", "1", *SLOW])
            self.assertNotIn(b"\x1b", seen)
            self.assertNotIn(b"Reading the prompt", seen)

    def test_ctrl_c_stops_an_answer(self):
        terminal = Terminal(["run", self.model, "--raw", "-p", "x", *self.ENDLESS])
        terminal.wait_for(rb"C{20}", 30)
        terminal.send(CTRL_C)
        terminal.wait_for(rb"stop +cancelled", 10)
        self.assertEqual(terminal.finish(10), 130)
        self.assertEqual(terminal.before, terminal.after)

    def test_ctrl_c_stops_before_the_next_token(self):
        # The answer waits for room in the pipe when the signal comes. Of all the tokens that the
        # context has room for, only the one that waited is still written.
        process = subprocess.Popen([BATON, "run", self.model, "--raw", "-p", "x", "--threads", "1",
                                    *self.ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        room = fcntl.fcntl(process.stdout, F_SETPIPE_SZ, 4096)
        wait_until_stuck(process.pid)
        send_sigint(process.pid)
        output, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertRegex(output, rb"^C+\n$")
        self.assertGreaterEqual(len(output), room)
        self.assertLessEqual(len(output), room + len("C\n"))
        self.assertIn(b"cancelled", error)

    def test_ctrl_c_during_prefill(self):
        text = FOX * 100
        terminal = Terminal(["run", cached(SMOL), "--raw", "-p", text, *SLOW])
        terminal.wait_for(rb"Reading the prompt", 120)
        terminal.send(CTRL_C)
        self.assertEqual(terminal.finish(60), 130)
        self.assertEqual(terminal.before, terminal.after)
        # Minutes of work were left; the bar did not get far.
        shares = re.findall(rb"Reading the prompt +(\d+) %", terminal.seen)
        self.assertLess(int(shares[-1]), 90)
        self.assertIn(CLEAR, terminal.seen[terminal.seen.rindex(b"Reading the prompt"):])
        # No first token came, so nothing is said of it.
        self.assertNotIn(b"first token", terminal.seen)
        self.assertRegex(terminal.seen, rb"\nprefill  stopped after [\d,]+ of [\d,]+ tokens, [\d.]+ "
                         rb"tokens/s\r\ndecode   0 tokens\r\n")

    def test_a_stopped_terminal_does_not_keep_the_program(self):
        terminal = Terminal(["run", cached(SMOL), "--raw", "-p", FOX * 100, *SLOW])
        self.addCleanup(terminal.process.kill)
        terminal.wait_for(rb"Reading the prompt", 120)
        terminal.send(CTRL_S)
        wait_until_stuck(terminal.process.pid)
        send_sigint(terminal.process.pid)
        os.kill(terminal.process.pid, signal.SIGINT)
        self.assertEqual(terminal.process.wait(timeout=60), 130)
        self.assertEqual(terminal.finish(10), 130)

    def test_sigint_while_waiting_for_input(self):
        process = subprocess.Popen([BATON, "tokenize", self.model], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda: has_signal(process.pid, "SigBlk"), "SIGINT is watched")
        wait_until_stuck(process.pid)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), 130)
        output, error = process.communicate()
        self.assertEqual((output, error), (b"", b""))

    def test_sigint_that_was_ignored_at_the_start_stays_ignored(self):
        # As a shell without job control starts what runs in the background, and nohup.
        process = subprocess.Popen(
            [BATON, "run", self.model, "--raw", "-p", "x", "-n", "6000", "--threads", "1",
             *self.ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        fcntl.fcntl(process.stdout, F_SETPIPE_SZ, 4096)
        wait_until_stuck(process.pid)
        self.assertTrue(has_signal(process.pid, "SigIgn"))
        for _ in range(3):
            process.send_signal(signal.SIGINT)
        output, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(output, b"C" * 6000 + b"\n")
        self.assertIn(b"stop     length", error)

    def test_ctrl_c_in_a_chat_stops_the_answer_not_the_program(self):
        terminal = Terminal(["chat", self.model, *self.ENDLESS])
        terminal.wait_for(rb"/exit leaves\.\r\n> $")
        terminal.send(b"hello\n")
        terminal.wait_for(rb"hello\r\nC{30}", 30)
        terminal.send(CTRL_C)
        terminal.wait_for(rb"cancelled\]\r\n> $", 30)
        terminal.send(b"half typed" + CTRL_C)
        terminal.wait_for(rb"\(/exit or Ctrl-D leaves\)\r\n> $", 30)
        terminal.send(b"/exit\n")
        self.assertEqual(terminal.finish(30), 0)
        self.assertEqual(terminal.before, terminal.after)
        self.assertEqual(terminal.seen.count(b"cancelled]"), 1)

    def test_what_is_typed_while_a_chat_loads(self):
        # A named pipe keeps the program from loading until all is typed.
        fifo = self.folder / "notes"
        os.mkfifo(fifo)
        for typed, rest, lines in [(b"one\ntwo\n/exit\n", b"", [b"one", b"two", b"/exit"]),
                                   (b"one\nha", b"lf\n" + CTRL_D, [b"one", b"half"]),
                                   (b"one\n" + CTRL_D, b"", [b"one"]),
                                   (b"typo\x7f\x7fed\n/exit\n", b"", [b"tyed", b"/exit"])]:
            terminal = Terminal(["chat", self.model, "-n", "2", "-f", str(fifo), *self.ENDLESS])
            wait_until(lambda: not termios.tcgetattr(terminal.slave)[3] & termios.ECHO,
                       "the echo is held")
            terminal.send(typed)
            # The system edits lines as it passes them on, in its own time.
            whole = sum(len(line) + 1 for line in lines[:typed.count(b"\n")])
            wait_until(lambda: readable(terminal.slave) >= whole, "the lines are edited")
            # The first message is in the program's hands once the text is there.
            with open(fifo, "wb") as notes:
                notes.write(b"Notes.")
            terminal.wait_for(rb"/exit leaves\.\r\n> " + lines[0])
            if rest:
                terminal.wait_for(rb"\n> ha$")
                terminal.send(rest)
            self.assertEqual(terminal.finish(30), 0)
            self.assertEqual(terminal.before, terminal.after)
            shown = re.findall(rb"\n> ([^\r\n]*)\r", terminal.seen)
            self.assertEqual([line for line in shown if line], lines, terminal.seen)
            for line in lines:
                self.assertEqual(terminal.seen.count(line), 1 + (line == b"/exit"), terminal.seen)
            answers = terminal.seen.count(b"\r\nCC\r\n")
            self.assertEqual(answers, len([x for x in lines if x != b"/exit"]), terminal.seen)

    def test_ctrl_c_while_a_chat_loads_leaves_the_terminal_in_order(self):
        fifo = self.folder / "stuck"
        os.mkfifo(fifo)
        terminal = Terminal(["chat", self.model, "-f", str(fifo)])
        wait_until(lambda: not termios.tcgetattr(terminal.slave)[3] & termios.ECHO,
                   "the echo is held")
        terminal.send(CTRL_C)
        self.assertEqual(terminal.finish(30), 130)
        self.assertEqual(terminal.before, terminal.after)

    def test_ctrl_d_leaves_a_chat(self):
        terminal = Terminal(["chat", self.model, "-n", "3", "--ignore-eos"])
        terminal.wait_for(rb"/exit leaves\.\r\n> $")
        terminal.send(CTRL_D)
        self.assertEqual(terminal.finish(30), 0)
        self.assertEqual(terminal.before, terminal.after)


if __name__ == "__main__":
    main()
