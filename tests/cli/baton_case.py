"""Runs the program under test and finds the models it needs."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BATON = os.environ.get("BATON_BINARY")
TESTS = pathlib.Path(__file__).resolve().parent.parent
SMOL = "smollm2-135m-instruct-q4_1.gguf"
GEMMA = "gemma-3-270m-q4_k_m.gguf"


def cached(name):
    """The path of a fetched file; skips the test without it, or fails if files are required."""
    folder = os.environ.get("BATON_CACHE") or os.path.join(os.path.expanduser("~"), ".cache/baton")
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return path
    message = f"{path} is missing: run tools/fetch"
    if os.environ.get("BATON_REQUIRE_MODELS"):
        raise AssertionError(message)
    raise unittest.SkipTest(message)


class BatonCase(unittest.TestCase):
    """A folder that goes away, and the program."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="baton_cli_"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def baton(self, *arguments, stdin=b"", timeout=120, preexec_fn=None):
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        return subprocess.run([BATON, *map(str, arguments)], input=data, capture_output=True,
                              timeout=timeout, check=False, preexec_fn=preexec_fn)

    def ok(self, *arguments, stdin=b"", timeout=120):
        """Standard output of a call that succeeds."""
        done = self.baton(*arguments, stdin=stdin, timeout=timeout)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout.decode()

    def fails(self, *arguments, code=1, stdin=b"", timeout=60, preexec_fn=None):
        """The one line on standard error of a call that fails in order: no answer, no trace."""
        done = self.baton(*arguments, stdin=stdin, timeout=timeout, preexec_fn=preexec_fn)
        error = done.stderr.decode()
        self.assertEqual(done.returncode, code, error)
        lines = error.splitlines()
        self.assertEqual(len(lines), 1 if code == 1 else 2, error)
        self.assertTrue(lines[0].startswith("baton"), error)
        self.assertEqual(done.stdout, b"")
        for trace in ("terminate called", "CHECK", "Aborted", "Sanitizer", "what():"):
            self.assertNotIn(trace, error)
        return lines[0]


def main():
    if not BATON:
        sys.exit("BATON_BINARY must name the program under test")
    unittest.main(verbosity=1)
