#!/usr/bin/env python3
"""baton eval perplexity against an independent implementation in binary64.

At --precision exact two windows of the reference, and all 8 in tests/nightly: that takes minutes.
"""
import hashlib
import json
import math
import os

from baton_case import GEMMA, SMOL, TESTS, BatonCase, cached, main

GOLDEN = TESTS / "data/golden"
TEXT = GOLDEN / "text/kjv-slice.txt"
EXACT_BOUND = 0.002
WINDOWS = 8 if os.environ.get("BATON_NIGHTLY") else 2
# What --precision fast may cost: the distance of llama.cpp, with its own 8-bit inputs, from the
# same reference over all windows.
FAST_BOUND = {SMOL: 0.029, GEMMA: 0.038}


class Perplexity(BatonCase):
    def golden(self, model):
        folder = GOLDEN / model.removesuffix(".gguf")
        return json.loads((folder / "perplexity.json").read_text())

    def measure(self, model, *arguments):
        return json.loads(self.ok("eval", "perplexity", cached(model), "--text", TEXT, "--window",
                                  "2048", "--json", *arguments, timeout=900))

    def check_exact(self, model):
        golden = self.golden(model)
        result = self.measure(model, "--precision", "exact", "--windows", str(WINDOWS))
        self.assertEqual((result["windows"], result["count"]), (WINDOWS, WINDOWS * 2047))
        reference = golden["reference"]
        wanted = reference["window_nll"][:WINDOWS]
        self.assertAlmostEqual(result["perplexity"],
                               math.exp(math.fsum(wanted) / (WINDOWS * 2047)), delta=EXACT_BOUND)
        half = result["second_half"]
        self.assertEqual(half["count"], WINDOWS * 1024)
        if WINDOWS == 8:  # of the second halves the reference has their sum only
            self.assertAlmostEqual(result["perplexity"], reference["ppl"], delta=EXACT_BOUND)
            self.assertAlmostEqual(half["perplexity"], golden["reference_second_half"]["ppl"],
                                   delta=EXACT_BOUND)
        self.assertEqual(len(result["window_nll"]), WINDOWS)
        # A window that began elsewhere would be nats away.
        for nll, of_window in zip(result["window_nll"], wanted):
            self.assertAlmostEqual(nll, of_window,
                                   delta=EXACT_BOUND * 2047 / reference["ppl"] * 3)
        self.assertAlmostEqual(math.fsum(result["window_nll"]), result["nll_sum"], delta=1e-6)
        self.assertAlmostEqual(math.exp(result["nll_sum"] / result["count"]),
                               result["perplexity"], delta=1e-9)

    def check_fast(self, model):
        # One window, to save minutes; the bound is in perplexity, whatever the text.
        result = self.measure(model, "--precision", "fast", "--windows", "1")
        self.assertEqual(result["count"], 2047)
        wanted = math.exp(self.golden(model)["reference"]["window_nll"][0] / 2047)
        self.assertAlmostEqual(result["perplexity"], wanted, delta=FAST_BOUND[model])

    def test_smol_exact(self):
        self.check_exact(SMOL)

    def test_gemma_exact(self):
        self.check_exact(GEMMA)

    def test_smol_fast(self):
        self.check_fast(SMOL)

    def test_gemma_fast(self):
        self.check_fast(GEMMA)

    def test_the_tokens_are_those_of_the_reference(self):
        for model in (SMOL, GEMMA):
            golden = self.golden(model)
            rule = golden["definition"]
            ids = self.ok("tokenize", cached(model), "--no-bos", "--no-special",
                          stdin=TEXT.read_bytes()).split()
            self.assertEqual(len(ids), golden["text"]["tokens_in_file"])
            step = rule["file_tokens_per_window"]
            bos = [] if rule["bos"] is None else [str(rule["bos"])]
            windows = [bos + ids[step * i:step * (i + 1)] for i in range(rule["windows"])]
            joined = ",".join(",".join(window) for window in windows)
            self.assertEqual(hashlib.sha256(joined.encode()).hexdigest(), golden["tokens_sha256"])

    def test_a_text_that_is_too_short_is_named(self):
        for text, count in (("", "0 tokens"), ("a", "1 token")):
            path = self.file("short.txt", text)
            line = self.fails("eval", "perplexity", cached(SMOL), "--text", path)
            self.assertIn(f"{path}: has {count}, too few for one window of 2,048; give a longer text",
                          line)
            self.assertNotIn("--window", line)
        path = self.file("short.txt", "a b c")
        self.assertIn(f"{path}: has 3 tokens, too few for one window of 2,048; give a longer text, or "
                      "a smaller --window",
                      self.fails("eval", "perplexity", cached(SMOL), "--text", path))
        self.assertIn("standard input: has 3 tokens, too few",
                      self.fails("eval", "perplexity", cached(SMOL), "--text", "-", stdin="a b c"))


if __name__ == "__main__":
    main()
