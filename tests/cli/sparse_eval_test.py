#!/usr/bin/env python3
"""baton eval kl, density, needle, and perplexity under a sparse policy: figures against those that
follow from eval logits, forms of reports, and refusals."""
import json
import math
import re
import xml.etree.ElementTree as ElementTree

from baton_case import SMOL, TESTS, BatonCase, cached, main
from gguf_file import tiny_llama

TEXT = TESTS / "data/golden/text/kjv-slice.txt"
SPARSE = "rule=share:0.1 sink=64 window=64 last=1"
TOKENS = 700
VOCABULARY = 259


class SparseEval(BatonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = str(cls.folder / "tiny.gguf")
        with open(cls.model, "wb") as file:
            file.write(tiny_llama(context=2048).bytes())
        cls.text = str(cls.folder / "text.txt")
        with open(cls.text, "wb") as file:
            file.write(TEXT.read_bytes()[:TOKENS])

    def log_probabilities(self, *arguments):
        """ln p of every token at every position, by eval logits."""
        ids = self.ok("tokenize", self.model, "--no-bos", "--no-special",
                      stdin=TEXT.read_bytes()[:TOKENS])
        result = json.loads(self.ok("eval", "logits", self.model, "--ids", "-", "--json", "--top",
                                    VOCABULARY, *arguments, stdin=ids))
        rows = []
        for position in result["positions"]:
            logits = {token: logit for token, logit, _ in position["top"]}
            self.assertEqual(len(logits), VOCABULARY)
            top = max(logits.values())
            total = top + math.log(math.fsum(math.exp(l - top) for l in logits.values()))
            rows.append({token: logit - total for token, logit in logits.items()})
        return [int(token) for token in ids.split()], rows

    def svg(self, name):
        root = ElementTree.parse(self.folder / name).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        return "\n".join(element.text or "" for element in root.iter())


class Kl(SparseEval):
    def kl(self, *arguments):
        return json.loads(self.ok("eval", "kl", self.model, "--text", self.text, "--json",
                                  *arguments))

    def test_the_figures_follow_from_the_logits(self):
        _, dense = self.log_probabilities()
        ids, sparse = self.log_probabilities("--prefill", "sparse", "--sparse", SPARSE)
        result = self.kl("--positions", 100, "--repeat", 0, "--sparse", SPARSE)
        self.assertEqual(result["tokens"], TOKENS)
        self.assertEqual(result["dense"]["seconds"], [])
        policy = result["policies"][0]
        self.assertIsNone(policy["time_ratio"])
        positions = {"last": range(600, 700), "spread": [(2 * i + 1) * 700 // 200 for i in range(100)]}
        for name, chosen in positions.items():
            kl = sorted(math.fsum(math.exp(p) * (p - sparse[at][token])
                                  for token, p in dense[at].items()) for at in chosen)
            figures = policy["kl"][name]
            self.assertEqual(figures["count"], 100)
            self.assertGreater(figures["mean"], 0)
            self.assertAlmostEqual(figures["mean"], math.fsum(kl) / 100, delta=1e-6 * kl[-1])
            self.assertAlmostEqual(figures["p95"], kl[94], delta=1e-5 * kl[-1])
            self.assertAlmostEqual(figures["p99"], kl[98], delta=1e-5 * kl[-1])
            self.assertAlmostEqual(figures["max"], kl[99], delta=1e-5 * kl[-1])
            same = sum(max(dense[at], key=dense[at].get) == max(sparse[at], key=sparse[at].get)
                       for at in chosen)
            self.assertAlmostEqual(figures["top1"], same / 100)
            change = [dense[at][ids[at + 1]] - sparse[at][ids[at + 1]]
                      for at in chosen if at + 1 < TOKENS]
            self.assertAlmostEqual(figures["nll_change"], math.fsum(change) / len(change),
                                   delta=1e-6)

    def test_times_plot_and_baselines(self):
        result = self.kl("--sparse", SPARSE, "--sparse", "rule=all", "--baselines", "--repeat", 2,
                         "--positions", 20, "--plot", self.folder / "kl.svg")
        self.assertEqual(len(result["dense"]["seconds"]), 2)
        policies = result["policies"]
        self.assertEqual(len(policies), 9)
        for policy in policies:
            self.assertEqual(len(policy["seconds"]), 2)
            self.assertGreater(policy["time_ratio"], 0)
            self.assertEqual(len(policy["density_by_layer"]), 2)
        self.assertEqual(policies[1]["kl"]["last"]["max"], 0)
        self.assertEqual(policies[1]["density"], 1)
        labels = [policy["label"] for policy in policies]
        self.assertEqual(labels[2], "published")
        # As many blocks, whatever chooses them.
        by_label = dict(zip(labels, policies))
        own = policies[0]["density"]
        chance = [l for l in labels if "energy=random:1" in l][0]
        best = [l for l in labels if "energy=true" in l][0]
        self.assertEqual(by_label[chance]["density"], own)
        self.assertEqual(by_label[best]["density"], own)
        text = self.svg("kl.svg")
        for label in labels:
            self.assertIn(label, text)

    def test_over_a_cache_of_8_bits(self):
        arguments = ["--sparse", SPARSE, "--sparse", "rule=all", "--baselines", "--repeat", 0,
                     "--positions", 20, "--kv-type", "q8"]
        result = self.kl(*arguments)
        self.assertEqual(result["kv_type"], "q8")
        policies = {policy["label"]: policy for policy in result["policies"]}
        self.assertEqual(result["policies"][1]["kl"]["last"]["max"], 0)
        self.assertGreater(result["policies"][0]["kl"]["last"]["max"], 0)
        best = next(label for label in policies if "energy=true" in label)
        self.assertEqual(policies[best]["density"], result["policies"][0]["density"])
        kl = [policy["kl"] for policy in result["policies"]]
        again = self.kl(*arguments, "--threads", 1, "--chunk", 64, "--isa", "portable")
        self.assertEqual([policy["kl"] for policy in again["policies"]], kl)
        wide = self.kl(*arguments[:-2])
        self.assertNotEqual([policy["kl"] for policy in wide["policies"]], kl)

    def test_the_table(self):
        text = self.ok("eval", "kl", self.model, "--text", self.text, "--repeat", 0)
        self.assertIn("last KL", text)
        self.assertRegex(text, r"\ndefault +1\.000 +0\.0000 ")

    def test_refusals(self):
        call = ["eval", "kl", self.model, "--text", self.text]
        cases = [
            (["--sparse", "rule=share:0"], "share must be above 0 and at most 1, got 0", 2),
            (["--sparse", "rule=threshold:nan"], "alpha", 2),
            (["--sparse", "rule=threshold:-1"], "alpha", 2),
            (["--sparse", "rule=threshold:2 last=0"], "alpha must be above 0 and at most 1, got 2", 2),
            (["--sparse", "window=0"], "window tokens must be in 1..", 2),
            (["--sparse", "tile=48"], "power of two", 2),
            (["--sparse", "block=96"], "64 or 128", 2),
            (["--sparse", "estimate=far:9"], "estimates per block must be in 2..8", 2),
            (["--sparse", "energy=best"], "'estimates', 'random:SEED' or 'true'", 2),
            (["--sparse", "rule=none", "--baselines"], "rule must be a share", 2),
            (["--repeat", "0", "--plot", self.folder / "x.svg"], "--repeat 0 takes none", 2),
            (["--positions", "0"], "--positions takes", 2),
            (["--tokens", "701"], "fewer than the 701 wanted", 1),
            (["--sparse", "dense-layers=2"], "dense layer must be in 0..1, got 2", 1),
            (["--sparse", "dense-heads=0:2"], "dense KV head must be in 0..1, got 2", 1),
        ]
        for arguments, words, code in cases:
            self.assertIn(words, self.fails(*call, *arguments, code=code))
        self.assertIn("--text FILE", self.fails("eval", "kl", self.model, code=2))
        empty = self.file("empty.txt", "")
        self.assertIn("empty.txt: is empty", self.fails("eval", "kl", self.model, "--text", empty))
        self.assertIn("UTF-8", self.fails("eval", "kl", self.model, "--text",
                                          self.file("bytes.txt", b"\xff\xfe")))

    def test_short_prompts(self):
        for count in (1, 63, 64, 65):
            result = self.kl("--tokens", count, "--repeat", 0)
            self.assertEqual(result["policies"][0]["kl"]["last"]["max"], 0)
            self.assertEqual(result["policies"][0]["kl"]["last"]["count"], count)
        same = self.file("same.txt", "a" * 500)
        result = json.loads(self.ok("eval", "kl", self.model, "--text", same, "--json",
                                    "--repeat", 0, "--sparse", SPARSE))
        self.assertLess(result["policies"][0]["kl"]["last"]["mean"], 1)


class Density(SparseEval):
    def density(self, *arguments):
        return json.loads(self.ok("eval", "density", self.model, "--text", self.text, "--json",
                                  "--sparse", SPARSE + " dense-heads=1:0", *arguments))

    def test_densities_and_map(self):
        result = self.density("--map", "1:1", "--plot", self.folder / "density.svg")
        self.assertEqual([len(heads) for heads in result["layers"]], [2, 2])
        # 11 tiles of 64 positions: the nth sees n blocks of 64.
        for heads in result["layers"]:
            for head in heads:
                self.assertEqual(head["candidates"], 66)
        self.assertEqual(result["layers"][1][0]["kept"], 66)
        tiles = result["map"]["tiles"]
        self.assertEqual(len(tiles), 11)
        self.assertEqual(sum(len(tile["kept"]) for tile in tiles), result["layers"][1][1]["kept"])
        for n, tile in enumerate(tiles):
            self.assertEqual(tile["first_position"], 64 * n)
            self.assertEqual(tile["blocks"], [0, n])
            # Sink, window, and a tenth of the others, at least one.
            optional = max(0, n - 1)
            share = min(optional, max(1, math.floor(0.1 * optional + 0.5)))
            expected = n + 1 if n == 10 else n + 1 - optional + share
            self.assertEqual(len(tile["kept"]), expected)
            self.assertEqual(tile["kept"], sorted(set(tile["kept"])))
            self.assertTrue({0, n} <= set(tile["kept"]))
            self.assertEqual(tile["dense"], n == 10)
        text = self.svg("density.svg")
        self.assertIn("Layer 1, KV head 1", text)
        # The same whatever the threads and the chunk.
        self.assertEqual(self.density("--map", "1:1", "--threads", 1, "--chunk", 64,
                                      "--isa", "portable"), result)

    def test_the_table(self):
        text = self.ok("eval", "density", self.model, "--text", self.text)
        self.assertRegex(text, r"\n +1 +[01]\.\d{3} ")

    def test_refusals(self):
        call = ["eval", "density", self.model, "--text", self.text]
        for given in ("1", "1:", ":1", "a:b", "-1:0"):
            self.assertIn("--map takes LAYER:HEAD", self.fails(*call, "--map", given, code=2))
        for given in ("65536:0", "0:65536", "99999999999999999999:0"):
            self.assertIn(f"--map takes LAYER:HEAD, two whole numbers from 0 to 65535, not "
                          f"'{given}'", self.fails(*call, "--map", given, code=2))
        self.assertIn("layer must be in 0..1 and its KV head in 0..1, got 2:0",
                      self.fails(*call, "--map", "2:0"))
        self.assertIn("give it once", self.fails(*call, "--sparse", "rule=all", "--sparse",
                                                 "rule=none", code=2))
        for kind in ("density", "kl", "needle"):
            self.assertIn("--sparse", self.fails("eval", kind, self.model, "--text", self.text,
                                                 "--sparse", " ", code=2))


class TooShort(SparseEval):
    """Prompts that lie in sink, window and tail: everything is read, which looks like no loss."""

    def note(self, *arguments):
        done = self.baton("eval", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stderr.decode()

    def test_nothing_left_out_is_told_with_the_length_that_changes_it(self):
        long = self.file("long.txt", TEXT.read_bytes()[:2000])
        call = [self.model, "--text", long]
        note = self.note("density", *call, "--tokens", 600)
        self.assertRegex(note, r"^baton: note: nothing was left out of 600 tokens by 'default' "
                               r"\(something from [\d,]+ tokens on\)\n$")
        first = int(re.search(r"from ([\d,]+)", note)[1].replace(",", ""))
        self.assertEqual(self.note("density", *call, "--tokens", first - 1),
                         note.replace("600", f"{first - 1:,}"))
        self.assertEqual(self.note("density", *call, "--tokens", first), "")
        self.assertEqual(self.note("kl", *call, "--tokens", first - 1, "--repeat", 0),
                         note.replace("600", f"{first - 1:,}"))
        self.assertEqual(self.note("kl", *call, "--tokens", first, "--repeat", 0), "")
        # One line for all policies.
        lines = self.note("kl", *call, "--tokens", 600, "--repeat", 0, "--baselines").splitlines()
        self.assertEqual(len(lines), 1)
        for label in ("default", "published", "rule=none"):
            self.assertIn(f"'{label}' (something from ", lines[0])
        lines = self.note("needle", self.model, "--lengths", f"300,{first},600", "--depths", 50,
                          "--trials", 1, "--sparse", "rule=share:0.25", "--sparse", SPARSE,
                          "--sparse", "rule=all").splitlines()
        self.assertEqual(len(lines), 1)
        self.assertIn("nothing was left out of 300 and 600 tokens by 'default'", lines[0])
        self.assertIn(f"of 300 and 600 and {first:,} tokens by 'rule=all' (never anything)", lines[0])
        self.assertNotIn("share:0.1", lines[0])
        note = self.note("perplexity", *call, "--window", 600, "--prefill", "sparse")
        self.assertIn("nothing was left out of 600 tokens by 'default'", note)
        self.assertEqual(self.note("perplexity", *call, "--window", 600), "")


class OneOfEach(SparseEval):
    def test_one_is_not_written_as_many(self):
        one = ["--text", self.text, "--tokens", 1, "--threads", 1]
        texts = [
            self.ok("eval", "kl", self.model, *one, "--repeat", 0),
            self.ok("eval", "density", self.model, *one),
            self.ok("eval", "perplexity", self.model, "--text", self.text, "--window", 2,
                    "--windows", 1),
            self.ok("simulate", "--rate", 1, "--duration", 1, "--seed", 3),
            self.baton("eval", "kl", self.model, *one, "--repeat", 0).stderr.decode(),
            self.fails("eval", "kl", self.model, "--text", self.file("one.txt", "x"), "--tokens", 2),
            self.fails("run", self.model, "--raw", "-p", "x", "--ctx", 1),
        ]
        for text in texts:
            self.assertNotRegex(text, r"(?<![\d.,:])1 (?!tokens/s)[a-z]+s\b", text)
        self.assertRegex(texts[0], r"^1 token of text\.txt, 1 thread, .*\n.*; last: 1 position, spread: 1 "
                                   r"position\n")
        self.assertIn("has 1 token, fewer than the 2 wanted", texts[5])


class Tokens(SparseEval):
    """--tokens N has one meaning: so many must be there; without it, what is there is taken."""

    def test_more_than_the_text_has(self):
        for command in (["eval", "kl"], ["eval", "density"]):
            self.assertRegex(
                self.fails(*command, self.model, "--text", self.text, "--tokens", 701),
                r"text\.txt: has 700 tokens, fewer than the 701 wanted; .*a smaller --tokens")
        long = self.file("tune.txt", TEXT.read_bytes()[:1500])
        self.assertRegex(self.fails("tune", self.model, "--text", long, "--tokens", 1501),
                         r"tune\.txt: has 1,500 tokens, fewer than the 1,501 wanted")

    def test_more_than_the_context_has(self):
        long = self.file("long.txt", TEXT.read_bytes()[:3000])
        for command in (["eval", "kl"], ["eval", "density"], ["tune"]):
            call = [*command, self.model, "--text", long]
            for context, given in ((2048, []), (1100, ["--ctx", 1100])):
                line = self.fails(*call, "--tokens", context + 1, *given)
                self.assertIn(f"--tokens asks for {context + 1:,} tokens, and the context has "
                              f"{context:,}; ask for fewer, or give a larger --ctx", line)
        self.ok("eval", "density", self.model, "--text", long, "--tokens", 2500, "--ctx", 2500)
        self.assertIn("--lengths asks for 2,049 tokens, and the context has 2,048",
                      self.fails("eval", "needle", self.model, "--text", long, "--lengths",
                                 "300,2049"))

    def test_more_than_text_and_context_have_is_told_at_once(self):
        for command in (["eval", "kl"], ["eval", "density"]):
            call = [*command, self.model, "--text", self.text, "--ctx", 600]
            line = self.fails(*call, "--tokens", 5000)
            self.assertIn("--tokens asks for 5,000 tokens, and the context has 600, text.txt 700; "
                          "ask for at most 600, or give a longer text and a larger --ctx", line)
        long = self.file("long.txt", TEXT.read_bytes()[:3000])
        short = self.file("short.txt", TEXT.read_bytes()[:1500])
        self.assertIn("and the context has 2,048, %s 1,500; ask for at most 1500, or" % short,
                      self.fails("tune", self.model, "--text", long, "--text", short,
                                 "--tokens", 4000))
        self.assertIn("--lengths asks for 9,000 tokens, and the context has 2,048, text.txt 700; "
                      "ask for at most 700", self.fails("eval", "needle", self.model, "--text",
                                                        self.text, "--lengths", "300,9000"))

    def test_the_default_takes_what_is_there_and_says_so(self):
        long = self.file("long.txt", TEXT.read_bytes()[:3000])
        done = self.baton("eval", "kl", self.model, "--text", long, "--json", "--repeat", 0,
                          "--positions", 5)
        self.assertEqual(json.loads(done.stdout)["tokens"], 2048)
        self.assertEqual(done.stderr.decode(), "baton: note: long.txt: the first 2,048 of 3,000 "
                         "tokens are read, as many as the context has\n")
        done = self.baton("eval", "needle", self.model, "--text", long, "--json", "--depths", 50,
                          "--trials", 1)
        self.assertEqual({cell["length"] for cell in json.loads(done.stdout)["dense"]["cells"]},
                         {1000, 2000})
        self.assertIn("baton: note: the context has 2,048 tokens: prompts have up to 2,000 instead "
                      "of the usual 8,000\n", done.stderr.decode())
        self.assertIn("the text has 700 tokens, fewer than the usual 1,000 of a prompt; give "
                      "smaller --lengths",
                      self.fails("eval", "needle", self.model, "--text", self.text))
        # No length helps.
        tiny = self.file("six.txt", "sixsix")
        self.assertRegex(self.fails("eval", "needle", self.model, "--text", tiny),
                         r"the text has 6 tokens, fewer than the 100 that a prompt needs; give a "
                         r"longer text$")
        self.assertRegex(self.fails("eval", "needle", self.model, "--ctx", 50),
                         r"the context has 50 tokens, .*; give a larger --ctx$")
        call = ["eval", "kl", self.model, "--text", self.text]
        self.assertIn("--sparse takes at most 64 policies",
                      self.fails(*call, *["--sparse", "rule=all"] * 65, code=2))


class Perplexity(SparseEval):
    def perplexity(self, *arguments):
        return json.loads(self.ok("eval", "perplexity", self.model, "--text", self.text, "--window",
                                  TOKENS, "--json", *arguments))

    def test_a_policy_counts(self):
        ids, sparse = self.log_probabilities("--prefill", "sparse", "--sparse", SPARSE)
        wanted = -math.fsum(row[token] for row, token in zip(sparse, ids[1:]))
        result = self.perplexity("--prefill", "sparse", "--sparse", SPARSE)
        self.assertAlmostEqual(result["nll_sum"], wanted, delta=1e-3)
        dense = self.perplexity()
        self.assertNotEqual(result["nll_sum"], dense["nll_sum"])
        # The same numbers under another name.
        everything = self.perplexity("--prefill", "sparse", "--sparse", "rule=all")
        self.assertIn("rule=all", everything.pop("policy"))
        self.assertEqual(dense.pop("policy"), "dense")
        self.assertEqual(everything, dense)


class Needle(SparseEval):
    def test_a_small_model_finds_it(self):
        result = json.loads(self.ok(
            "eval", "needle", cached(SMOL), "--text", TEXT, "--lengths", "600,1000", "--depths",
            "0,50,100", "--trials", 1, "--sparse", "rule=all", "--sparse", SPARSE, "--json",
            "--plot", self.folder / "needle.svg", timeout=600))
        dense = result["dense"]["cells"]
        self.assertEqual([(cell["length"], cell["depth"]) for cell in dense],
                         [(length, depth) for length in (600, 1000) for depth in (0, 50, 100)])
        self.assertGreaterEqual(sum(cell["found"] for cell in dense), 5)
        self.assertEqual(result["policies"][0]["cells"], dense)
        self.assertNotEqual(result["policies"][1]["cells"], dense)
        self.assertIn("1,000", self.svg("needle.svg"))

    def test_without_a_text(self):
        call = ["eval", "needle", self.model, "--lengths", "300", "--depths", "50", "--trials", "3"]
        text = self.ok(*call)
        self.assertIn("plain sentences", text)
        self.assertRegex(text, r"\n +300 +50 % +\d/3 ")
        self.assertEqual(self.ok(*call, "--threads", "1", "--chunk", "64"), text)
        self.assertNotEqual(self.ok(*call, "--seed", "2"), text)

    def test_refusals(self):
        call = ["eval", "needle", self.model, "--text", self.text]
        for arguments, words, code in [
                (["--lengths", "99"], "--lengths takes", 2),
                (["--lengths", ""], "--lengths takes", 2),
                (["--depths", "101"], "--depths takes", 2),
                (["--depths", "50,50"], "--depths takes", 2),
                (["--trials", "0"], "--trials takes", 2),
                (["--lengths", "900"], "too few for prompts of 900", 1),
                (["--lengths", "600", "--sparse", "dense-layers=9"], "dense layer", 1)]:
            self.assertIn(words, self.fails(*call, *arguments, code=code))


if __name__ == "__main__":
    main()
