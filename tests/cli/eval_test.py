#!/usr/bin/env python3
"""baton eval: the form of what it prints, and golden numbers of real models."""
import fcntl
import json
import math
import struct
import subprocess

from baton_case import BATON, GEMMA, SMOL, TESTS, BatonCase, cached, main
from gguf_file import tiny_llama
from process_state import send_sigint, wait_until_stuck

F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ since Python 3.10

FOLDERS = {SMOL: "smollm2-135m-instruct-q4_1", GEMMA: "gemma-3-270m-q4_k_m"}


class Logits(BatonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = str(cls.folder / "tiny.gguf")
        with open(cls.model, "wb") as file:
            file.write(tiny_llama(context=512).bytes())
        cls.ids = [3 + byte for byte in b"The quick brown fox jumps over the lazy dog. " * 6]

    def logits(self, *arguments, ids=None, model=None):
        return json.loads(self.ok("eval", "logits", model or self.model, "--ids", "-", "--json",
                                  *arguments, stdin=json.dumps(ids or self.ids)))

    def test_form(self):
        result = self.logits("--positions", "0,5,10-12", "--top", "4", "--tokens", "7,3")
        self.assertEqual(list(result), ["tokens", "positions"])
        self.assertEqual(result["tokens"], [7, 3])
        self.assertEqual([p["pos"] for p in result["positions"]], [0, 5, 10, 11, 12])
        for position in result["positions"]:
            self.assertEqual(list(position), ["pos", "logsumexp", "top", "token_logits"])
            self.assertEqual(len(position["top"]), 4)
            self.assertEqual(len(position["token_logits"]), 2)
            logits = [entry[1] for entry in position["top"]]
            self.assertEqual(logits, sorted(logits, reverse=True))
            for _, logit, logprob in position["top"]:
                self.assertAlmostEqual(logprob, logit - position["logsumexp"], delta=1e-5)

    def test_all_positions_and_the_whole_distribution(self):
        ids = self.ids[:9]
        result = self.logits("--top", "259", ids=ids)
        self.assertEqual([p["pos"] for p in result["positions"]], list(range(9)))
        for position in result["positions"]:
            logits = [entry[1] for entry in position["top"]]
            self.assertEqual(len(logits), 259)
            best = max(logits)
            expected = best + math.log(sum(math.exp(l - best) for l in logits))
            self.assertAlmostEqual(position["logsumexp"], expected, delta=1e-5)
            self.assertEqual(sorted(entry[0] for entry in position["top"]), list(range(259)))

    def test_numbers_read_back_to_the_same_binary32(self):
        text = self.ok("eval", "logits", self.model, "--ids", "-", "--json", "--top", "50",
                       stdin=json.dumps(self.ids[:20]))
        # Every number, read as binary32 and written with 9 digits, is the same binary32; a decimal
        # with fewer digits than that binary32 needs would collide with its neighbours.
        seen = {}
        for position in json.loads(text)["positions"]:
            for ident, logit, _ in position["top"]:
                single = struct.pack("<f", logit)
                key = (position["pos"], ident)
                seen[key] = single
                self.assertAlmostEqual(struct.unpack("<f", single)[0], logit, delta=1e-7 * 40)
        again = self.logits("--tokens", ",".join(map(str, range(259))), "--top", "0",
                            ids=self.ids[:20])
        for position in again["positions"]:
            for ident, logit in enumerate(position["token_logits"]):
                if (position["pos"], ident) in seen:
                    self.assertEqual(struct.pack("<f", logit), seen[position["pos"], ident])

    # Case P-01.
    def test_same_bits_whatever_computes_them(self):
        arguments = ["eval", "logits", self.model, "--ids", "-", "--json", "--top", "20"]
        expected = self.ok(*arguments, stdin=json.dumps(self.ids))
        for variant in [["--threads", "1"], ["--threads", "2"], ["--threads", "3"],
                        ["--chunk", "1"], ["--chunk", "7"], ["--chunk", "64"], ["--chunk", "100"],
                        ["--isa", "portable"], ["--ctx", "300"]]:
            self.assertEqual(self.ok(*arguments, *variant, stdin=json.dumps(self.ids)), expected,
                             variant)

    def test_bad_requests(self):
        def fails(*arguments, ids="1 2 3"):
            return self.fails("eval", "logits", self.model, "--ids", "-", *arguments, stdin=ids)
        self.assertIn("from 0 to 2", fails("--positions", "3"))
        self.assertIn("--tokens: 259 (number 1 of the list)", fails("--tokens", "259"))
        self.assertIn("standard input: 259 (number 2 of the list) is no token of this model; its "
                      "ids go from 0 to 258", fails(ids="1 259"))
        self.assertIn("'x'", fails(ids="1 x"))
        self.assertIn("'-1'", fails(ids="[-1]"))
        self.assertIn("'2147483648'", fails(ids="[2147483648]"))
        self.assertIn("empty", fails(ids=""))
        self.assertRegex(fails("--ctx", "2"), r"\b3\b.*\b2\b")

    def test_stopped_in_the_middle_leaves_whole_json_or_none(self):
        # The pipe is too small for the first of it, so the program waits when the signal comes.
        process = subprocess.Popen(
            [BATON, "eval", "logits", self.model, "--ids", "-", "--json", "--top", "259",
             "--chunk", "8", "--threads", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        fcntl.fcntl(process.stdout, F_SETPIPE_SZ, 4096)
        process.stdin.write(json.dumps(self.ids).encode())
        process.stdin.close()
        wait_until_stuck(process.pid)
        send_sigint(process.pid)
        output, error = process.stdout.read(), process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual((process.wait(timeout=60), error), (130, b""))
        result = json.loads(output)
        self.assertEqual(result["error"], "stopped by Ctrl-C")
        self.assertGreater(len(result["positions"]), 0)
        self.assertLess(len(result["positions"]), len(self.ids))

    def test_golden_logits(self):
        for model, folder in FOLDERS.items():
            golden = json.loads((TESTS / f"data/golden/{folder}/logits-short.json").read_text())
            result = self.logits("--precision", "exact", "--top", "20", "--tokens",
                                 ",".join(map(str, golden["fixed_ids"])), ids=golden["tokens"],
                                 model=cached(model))
            self.assertEqual(len(result["positions"]), len(golden["tokens"]))
            wanted = {p["pos"]: p for p in golden["positions"]}
            for position in result["positions"]:
                reference = wanted[position["pos"]]
                self.assertAlmostEqual(position["logsumexp"], reference["logsumexp"], delta=0.1)
                for got, want in zip(position["token_logits"], reference["fixed_logits"]):
                    self.assertAlmostEqual(got, want, delta=0.15)


class Perplexity(BatonCase):
    def test_windows_and_counts(self):
        path = self.file("tiny.gguf", tiny_llama(context=512).bytes())
        text = self.file("text.txt", "abcdefgh" * 20)
        result = json.loads(self.ok("eval", "perplexity", path, "--text", text, "--window", "50",
                                    "--json"))
        self.assertEqual((result["windows"], result["count"]), (3, 147))
        self.assertEqual(result["second_half"]["count"], 75)
        self.assertEqual(result["policy"], "dense")
        self.assertAlmostEqual(sum(result["window_nll"]), result["nll_sum"], delta=1e-9)
        self.assertIn("perplexity   ", self.ok("eval", "perplexity", path, "--text", text,
                                               "--window", "50"))
        sparse = ["eval", "perplexity", path, "--text", text, "--window", "50", "--prefill",
                  "sparse", "--sparse", "rule=share:0.5"]
        self.assertIn("policy       rule=share:0.5", self.ok(*sparse))
        self.assertIn("rule=share:0.5", json.loads(self.ok(*sparse, "--json"))["policy"])
        self.assertIn("too few", self.fails("eval", "perplexity", path, "--text", text,
                                            "--window", "161"))
        latin = self.file("latin.txt", b"\xff")
        self.assertIn("not UTF-8", self.fails("eval", "perplexity", path, "--text", latin))


if __name__ == "__main__":
    main()
