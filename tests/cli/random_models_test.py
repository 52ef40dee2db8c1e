#!/usr/bin/env python3
"""Files of tools/make_gguf, run: every type computes, and the logits are of the expected size."""
import json
import statistics
import subprocess
import sys

from baton_case import TESTS, BatonCase, main

TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split()
MIXES = "Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M".split()
WIDTH, VOCABULARY, DEVIATION = 256, 259, 0.02


class RandomModels(BatonCase):
    def make(self, kind, *options):
        path = str(self.folder / f"{kind}.gguf")
        subprocess.run([sys.executable, "-B", str(TESTS.parent / "tools/make_gguf"), "tiny", kind,
                        path, "--quiet", *options], check=True)
        return path

    def test_logits_have_the_size_that_the_weights_promise(self):
        # The last norm leaves rows of mean square 1, and the output matrix has weights of deviation
        # 0.02: logits have deviation 0.02 sqrt(256); so few of them are a few per cent off.
        ids = json.dumps([3 + byte for byte in b"The quick brown fox jumps over"])
        for kind in TYPES:
            path = self.make(kind, "--pure")
            inspected = self.ok("inspect", path)
            self.assertRegex(inspected, r"(?m)^runs +yes$")
            result = json.loads(self.ok("eval", "logits", path, "--ids", "-", "--json", "--top",
                                        VOCABULARY, stdin=ids))
            logits = [entry[1] for position in result["positions"] for entry in position["top"]]
            self.assertEqual(len(logits), 30 * VOCABULARY)
            expected = DEVIATION * WIDTH ** 0.5
            self.assertAlmostEqual(statistics.pstdev(logits), expected, delta=0.15 * expected,
                                   msg=kind)
            self.assertAlmostEqual(statistics.fmean(logits), 0, delta=0.2 * expected, msg=kind)

    def test_mixes_answer_real_text(self):
        for kind in MIXES:
            answer = json.loads(self.ok("run", self.make(kind), "-p", "grüß dich", "--max-tokens",
                                        "5", "--ignore-eos", "--json"))
            self.assertEqual(len(answer["tokens"]), 5, kind)
            self.assertGreater(len(answer["prompt_ids"]), len("grüß dich".encode()))


if __name__ == "__main__":
    main()
