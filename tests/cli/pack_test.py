#!/usr/bin/env python3
"""Packed models, and where the time goes: pack, --no-packed, --profile, --trace."""
import json
import os
import pathlib
import shutil
import tempfile

from baton_case import SMOL, BatonCase, cached, main


class Packed(BatonCase):
    def model(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        path = folder / "model.gguf"
        shutil.copyfile(cached(SMOL), path)
        return path

    def answer(self, path, *options):
        given = list(options) if "-n" in options else ["-n", "8", *options]
        return json.loads(self.ok("run", path, "-p", "Hello", "--temp", "0", "--json",
                                  "--logprobs", "3", *given))["tokens"]

    def test_the_same_bits_from_a_packed_model(self):
        path = self.model()
        packed = str(path) + ".packed"
        unpacked_tokens = self.answer(path)
        self.assertIn("packed file", self.ok("inspect", path))
        self.assertRegex(self.fails("pack", path, "--check"), r"no packed file; make it with: baton pack ")
        self.assertIn("model.gguf.packed", self.ok("pack", path))
        self.assertRegex(self.ok("inspect", path), r"packed file +[0-9.]+ MiB, up to date")
        self.assertIn("whole", self.ok("pack", path, "--check"))
        self.assertEqual(self.answer(path), unpacked_tokens)
        for isa in ("portable", "auto"):
            self.assertEqual(self.answer(path, "--isa", isa, "-n", "2"), unpacked_tokens[:2])

        # A changed byte of a weight, a cut, and another model: refused, and named with the way out.
        with open(packed, "r+b") as file:
            file.seek(os.path.getsize(packed) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        line = self.fails("run", path, "-p", "Hello", "-n", "1")
        self.assertRegex(line, r"model\.gguf\.packed.*checksum.*baton pack")
        self.assertIn("--no-packed", self.fails("pack", path, "--check"))
        self.assertIn("name the model file itself", self.fails("run", packed, "-p", "Hello"))
        os.truncate(packed, os.path.getsize(packed) - 1)
        self.assertRegex(self.fails("run", path, "-p", "Hello", "-n", "1"), r"baton pack")
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            byte = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        self.ok("pack", path)
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(byte)
        self.assertRegex(self.fails("run", path, "-p", "Hello", "-n", "1"), r"stale.*baton pack")
        self.assertEqual(self.answer(path, "--no-packed"), unpacked_tokens)
        self.assertRegex(self.ok("inspect", path), r"does not run(.|\n)*stale")

        # Making it anew replaces it and leaves nothing else behind.
        self.ok("pack", path)
        self.assertEqual(self.answer(path), unpacked_tokens)
        self.assertEqual(sorted(os.listdir(path.parent)), ["model.gguf", "model.gguf.packed"])

    def test_a_folder_that_cannot_be_written(self):
        path = self.model()
        os.mkdir(str(path) + ".packed")
        self.assertIn("model.gguf.packed", self.fails("pack", path))
        self.assertIn("folder", self.fails("run", path, "-p", "Hello", "-n", "1"))

    def test_profile_and_trace(self):
        trace = self.folder / "trace.json"
        done = self.baton("run", cached(SMOL), "-p", "Hello", "-n", "3", "--temp", "0",
                          "--profile", "--trace", trace)
        self.assertEqual(done.returncode, 0)
        for word in ("prefill attention", "decode attention", "gate", "everything else", "layers"):
            self.assertIn(word, done.stderr.decode())
        events = json.loads(trace.read_text())
        steps = [event for event in events if event["name"].endswith("step")]
        self.assertEqual([event["name"] for event in steps],
                         ["prefill step", "decode step", "decode step"])
        queries = [event for event in events if event["name"] == "query, key, value"]
        self.assertEqual(len(queries), 3 * 30)
        self.assertEqual({event["args"]["layer"] for event in queries}, set(range(30)))
        for event in events:
            self.assertGreaterEqual(event["ts"], 0)
        # Told before anything is computed.
        self.assertRegex(self.fails("run", cached(SMOL), "-p", "Hello", "-n", "1", "--trace",
                                    self.folder / "no" / "t.json"),
                         "cannot write '.*t.json': No such file")


if __name__ == "__main__":
    main()
