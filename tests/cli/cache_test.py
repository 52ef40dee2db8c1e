#!/usr/bin/env python3
"""The KV cache in a file: --save-kv, --load-kv."""
import json
import os
import pathlib
import re

from baton_case import GEMMA, SMOL, TESTS, BatonCase, cached, main

QUESTION = "What were the names of Noah's three sons?"


class Cache(BatonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = (TESTS / "data/golden/text/kjv-slice.txt").read_text().splitlines()
        cls.document = cls.folder / "document.txt"
        cls.document.write_text("\n".join(text[80:100]))

    def ask(self, *options, question=QUESTION, max_tokens=12):
        return json.loads(self.ok("run", cached(SMOL), "-f", self.document, "-p", question, "-n",
                                  max_tokens, "--temp", "0", "--json", "--logprobs", "3",
                                  *options))

    def test_a_second_question_reads_only_what_is_new(self):
        saved = self.folder / "document.kv"
        first = self.ask("--save-kv", saved)
        other = "Who is named first?"
        cold = self.ask(question=other)
        warm = self.ask("--load-kv", saved, question=other)
        prompt = cold["figures"]["prompt_tokens"]
        self.assertGreater(warm["figures"]["cached_tokens"], prompt - 40)
        self.assertEqual(warm["figures"]["prefill_tokens"],
                         prompt - warm["figures"]["cached_tokens"])
        # Equal to the last bit of every log-probability, under any instruction set and chunk size.
        self.assertEqual(warm["tokens"], cold["tokens"])
        for options in (["--isa", "portable"], ["--chunk", "7"], ["-t", "1"]):
            again = self.ask("--load-kv", saved, *options, question=other, max_tokens=2)
            self.assertEqual(again["tokens"], cold["tokens"][:2])
        # The same question, too, and over the file itself.
        self.assertEqual(self.ask("--load-kv", saved, "--save-kv", saved)["tokens"],
                         first["tokens"])
        self.assertEqual(self.ask("--load-kv", saved)["tokens"], first["tokens"])
        self.assertEqual([p.name for p in pathlib.Path(self.folder).glob("document.kv*")],
                         ["document.kv"])

    def test_a_cache_that_hardly_serves_is_told_of(self):
        saved = self.folder / "hardly.kv"
        self.ask("--save-kv", saved, max_tokens=2)
        run = ["run", cached(SMOL), "--temp", "0", "-n", "2", "-q", "--load-kv", saved]
        # The question alone: its template begins as that of the document.
        without_text = self.baton(*run, "-p", QUESTION)
        self.assertRegex(without_text.stderr.decode(),
                         r"note: \d+ of the [\d,]+ tokens in \S+hardly\.kv were of use: .*give it "
                         r"again in front of the question")
        with_text = self.baton(*run, "-f", self.document, "-p", "Who is named first?")
        self.assertNotIn(b"note:", with_text.stderr)

    def test_an_answer_of_no_token_saves_nothing(self):
        line = self.fails("run", cached(SMOL), "-f", self.document, "-n", "0", "-q", "--save-kv",
                          self.folder / "none.kv")
        self.assertIn("(-n 1) reads the prompt", line)

    def test_what_differs_is_refused(self):
        saved = self.folder / "other.kv"
        self.ask("--save-kv", saved)
        run = ["run", cached(SMOL), "-p", "Hello", "-n", "1", "--load-kv"]
        self.assertIn("another --precision", self.fails(*run, saved, "--precision", "exact"))
        self.assertIn("another model", self.fails("run", cached(GEMMA), "--raw", "-p", "Hello", "-n",
                                                  "1", "--load-kv", saved))
        self.assertRegex(self.fails(*run, saved, "--ctx", "64"), r"more than the context of 64.*--ctx")
        self.assertIn("no such file", self.fails(*run, self.folder / "none.kv"))
        self.assertIn("not a saved cache", self.fails(*run, self.document))
        self.assertIn("not a saved cache", self.fails(*run, self.folder))
        with open(saved, "r+b") as file:
            file.seek(os.path.getsize(saved) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        self.assertRegex(self.fails(*run, saved), r"other\.kv: the checksum of block \d+ is wrong")
        os.truncate(saved, os.path.getsize(saved) - 1)
        self.assertIn("damaged", self.fails(*run, saved))

    def test_a_short_sparse_prompt_leaves_nothing_to_save(self):
        saved = self.folder / "short.kv"
        done = self.baton("run", cached(SMOL), "-p", "hi", "-n", "1", "--prefill", "sparse",
                          "--save-kv", saved)
        self.assertEqual(done.returncode, 1)
        said = done.stderr.decode().splitlines()[-1]
        self.assertIn("whole tiles", said)
        self.assertIn("--prefill dense", said)
        self.assertFalse(saved.exists())

    def test_a_sparse_cache_serves_its_policy_only(self):
        saved = self.folder / "sparse.kv"
        sparse = ["--prefill", "sparse"]
        first = self.ask(*sparse, "--save-kv", saved)
        again = self.ask(*sparse, "--load-kv", saved)
        self.assertGreater(again["figures"]["cached_tokens"], 64)
        self.assertEqual(again["tokens"], first["tokens"])
        run = ["run", cached(SMOL), "-p", "Hello", "-n", "1", "--load-kv", saved]
        for options in ([], [*sparse, "--sparse", "rule=all"]):
            self.assertIn("another prefill policy", self.fails(*run, *options))

    def test_a_cache_of_8_bits_serves_its_type_only(self):
        saved = self.folder / "8-bits.kv"
        narrow = ["--kv-type", "q8"]
        first = self.ask(*narrow, "--save-kv", saved)
        again = self.ask(*narrow, "--load-kv", saved)
        self.assertGreater(again["figures"]["cached_tokens"], 64)
        self.assertEqual(again["tokens"], first["tokens"])
        wide = self.folder / "16-bits.kv"
        self.assertGreater(self.ask("--save-kv", wide)["figures"]["kv_bytes"],
                           1.75 * first["figures"]["kv_bytes"])
        self.assertGreater(os.path.getsize(wide), 1.75 * os.path.getsize(saved))
        run = ["run", cached(SMOL), "-p", "Hello", "-n", "1", "--load-kv"]
        for options in ([saved], [wide, *narrow], [saved, "--kv-type", "f16"]):
            self.assertIn("another --kv-type", self.fails(*run, *options))
        done = self.baton("chat", cached(SMOL), "-f", self.document, "-n", "2", "--temp", "0",
                          "--load-kv", saved, *narrow, stdin=QUESTION + "\n")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertRegex(done.stderr.decode(), r"prompt [0-9,]+ tokens, [0-9,]{3,} cached")

    def test_a_cache_of_no_use_is_told(self):
        saved = self.folder / "useless.kv"
        self.ok("run", cached(SMOL), "--raw", "-p", "Alpha beta", "-n", "1", "--save-kv", saved)
        done = self.baton("run", cached(SMOL), "--raw", "-p", "Gamma delta", "-n", "1", "--load-kv",
                          saved)
        self.assertEqual(done.returncode, 0)
        self.assertIn("of no use", done.stderr.decode())
        # The same document, read by another policy.
        self.ok("run", cached(SMOL), "-f", self.document, "-p", "x", "-n", "1", "--save-kv", saved)
        done = self.baton("run", cached(SMOL), "-f", self.document, "-p", "x", "-n", "1",
                          "--load-kv", saved, "--prefill", "sparse", "--sparse", "rule=all")
        self.assertEqual(done.returncode, 0)
        self.assertIn("another policy (--prefill, --sparse)", done.stderr.decode())

    def test_a_chat_goes_on_with_a_saved_document(self):
        saved = self.folder / "chat.kv"
        self.ask("--save-kv", saved)
        done = self.baton("chat", cached(SMOL), "-f", self.document, "-n", "12", "--temp", "0",
                          "--load-kv", saved, "--save-kv", saved, stdin=QUESTION + "\n")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        counts = re.search(r"prompt ([0-9,]+) tokens, ([0-9,]+) cached", done.stderr.decode())
        prompt, reused = (int(count.replace(",", "")) for count in counts.groups())
        self.assertEqual(reused, prompt - 1)

    def test_a_file_that_cannot_be_made_is_told_first(self):
        for command in ("run", "chat"):
            line = self.fails(command, cached(SMOL), *(["-p", "Hello"] if command == "run" else []),
                              "--save-kv", self.folder / "no" / "x.kv")
            self.assertIn("x.kv': No such file or directory", line)
        model = self.file("model.gguf", b"GGUF")
        line = self.fails("run", cached(SMOL), "-p", "Hello", "--save-kv", model)
        self.assertIn("something else than a saved cache", line)
        self.assertEqual(pathlib.Path(model).read_bytes(), b"GGUF")


if __name__ == "__main__":
    main()
