#!/usr/bin/env python3
"""baton tokenize, detokenize, inspect: golden ids, bytes and facts."""
import json
import re

from baton_case import GEMMA, SMOL, TESTS, BatonCase, cached, main
from gguf_file import ARRAY, STRING, tiny_llama

DATA = TESTS / "data"


class TextCommands(BatonCase):
    def test_the_readme_shows_what_inspect_prints(self):
        readme = (TESTS.parent / "README.md").read_text()
        for model in (SMOL, GEMMA):
            path = cached(model)
            printed = self.ok("inspect", path).replace(path, model)
            # Memory depends on the threads of the machine, and what follows on its memory.
            self.assertIn(f"$ baton inspect {model}\n" + printed.partition("memory")[0], readme)

    def test_the_figures_in_the_docs_have_the_memory_of_their_tokens(self):
        one = json.loads(self.ok("inspect", cached(SMOL), "--json"))["kv_bytes_per_token"]
        for name in ("README.md", "docs/cli.md"):
            text = (TESTS.parent / name).read_text()
            prompt, answer, shown = re.search(
                r"prompt   ([\d,]+) tokens.*?\n.*\n *decode   (\d+) tokens.*\n *memory   (\S+) MiB",
                text).groups()
            # The last token of the answer is not read; blocks have 64 tokens.
            read = int(prompt.replace(",", "")) + int(answer) - 1
            self.assertEqual(shown, f"{-(-read // 64) * 64 * one / 2**20:.1f}", name)

    def test_golden_ids_of_both_models(self):
        for model in (SMOL, GEMMA):
            path = cached(model)
            folder = DATA / "golden" / model.removesuffix(".gguf")
            for file in sorted(folder.glob("logits-*.json")):
                golden = json.loads(file.read_text())
                flags = [] if golden["parse_special"] else ["--no-special"]
                text = self.ok("tokenize", path, *flags, stdin=golden["prompt"])
                self.assertEqual([int(word) for word in text.split()], golden["tokens"], file)

    # Cases T-02 and T-05.
    def test_there_and_back(self):
        text = "A🦉 é 漢字 👩‍👩‍👧 end\n\n  <|im_end|> two  spaces\t"
        for model in (SMOL, GEMMA):
            path = cached(model)
            ids = self.ok("tokenize", path, "--no-bos", stdin=text)
            self.assertEqual(self.ok("detokenize", path, stdin=ids), text)
            as_json = json.loads(self.ok("tokenize", path, "--no-bos", "--json", stdin=text))
            self.assertEqual(as_json["ids"], [int(word) for word in ids.split()])
            self.assertEqual(as_json["count"], len(as_json["ids"]))
            self.assertEqual(self.ok("detokenize", path, stdin=json.dumps(as_json["ids"])), text)

    # Case T-01.
    def test_special_tokens_and_bos(self):
        smol, gemma = cached(SMOL), cached(GEMMA)
        self.assertEqual(self.ok("tokenize", smol, stdin="<|im_end|>"), "2\n")
        self.assertNotEqual(self.ok("tokenize", smol, "--no-special", stdin="<|im_end|>"), "2\n")
        self.assertTrue(self.ok("tokenize", gemma, stdin="Hello").startswith("2 "))
        # One BOS, not two, where the text brings its own.
        ids = self.ok("tokenize", gemma, stdin="<bos>Hello").split()
        self.assertEqual(ids.count("2"), 1)
        self.assertNotIn("2", self.ok("tokenize", gemma, "--no-bos", stdin="Hello").split())
        self.assertEqual(self.ok("detokenize", smol, "--no-special", stdin="1 2"), "")

    def test_edges(self):
        smol = cached(SMOL)
        self.assertEqual(self.ok("tokenize", smol, stdin=""), "\n")
        self.assertEqual(self.ok("detokenize", smol, stdin=""), "")
        done = self.baton("tokenize", smol, stdin=b"\xff\xfe")
        self.assertEqual(done.returncode, 0)
        self.assertIn("standard input: 49152 (number 2 of the list) is no token of this model; its "
                      "ids go from 0 to 49151", self.fails("detokenize", smol, stdin="1 49152"))
        for ids in ("[1,]", "[1 2]", "1,2", "007", "[01]", "[1", "1]", "+1", "1.0"):
            self.assertIn("standard input: ", self.fails("detokenize", smol, stdin=ids))
        self.assertIn("'-1'", self.fails("detokenize", smol, stdin="-1"))
        self.assertIn("'2147483648'", self.fails("detokenize", smol, stdin="2147483648"))

    def test_a_dash_is_standard_input_here_too(self):
        smol = cached(SMOL)
        ids = self.ok("tokenize", smol, stdin="Hello, world")
        for arguments in (["-", smol], [smol, "-"], [smol, "--json", "-"], ["-m", smol, "-"]):
            printed = self.ok("tokenize", *arguments, stdin="Hello, world")
            if "--json" in arguments:
                printed = " ".join(map(str, json.loads(printed)["ids"])) + "\n"
            self.assertEqual(printed, ids)
        self.assertEqual(self.ok("detokenize", smol, "-", stdin=ids), "Hello, world")
        self.assertIn("name a model file", self.fails("tokenize", "-", code=2))
        self.assertIn("2 model files are named, one is wanted; the ids come from standard input",
                      self.fails("detokenize", smol, "1", code=2))

    def test_vocabulary_files_will_do(self):
        path = cached("llama-cpp-models/ggml-vocab-qwen2.gguf")
        ids = self.ok("tokenize", path, stdin="Hello, world")
        self.assertEqual(self.ok("detokenize", path, stdin=ids), "Hello, world")

    def test_what_a_vocabulary_cannot_spell_is_told(self):
        file = tiny_llama()
        tokens = list(file.keys["tokenizer.ggml.tokens"][1])
        # No piece for "a": it comes out as U+FFFD.
        tokens[tokens.index("a")] = "aa"
        file.set("tokenizer.ggml.tokens", ARRAY, tokens, STRING)
        path = self.file("lossy.gguf", file.bytes())
        for text, lost in [("bcd", 0), ("b\ufffdcd", 0), ("bad", 1), ("banana", 3)]:
            done = self.baton("tokenize", path, stdin=text)
            self.assertEqual(done.returncode, 0, done.stderr)
            notes = done.stderr.decode()
            if lost:
                self.assertRegex(notes, rf"^baton: note: .* no token for {lost} of the text's")
            else:
                self.assertEqual(notes, "")
        gemma = cached(GEMMA)
        done = self.baton("tokenize", gemma, stdin="🦉 \u0378 \x00".encode() + b"\xff")
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    # Case T-06.
    def test_a_megabyte_is_quick(self):
        smol = cached(SMOL)
        for text in ("a" * 1_000_000, "The quick brown fox. " * 47_000):
            self.ok("tokenize", smol, stdin=text, timeout=10)


class Inspect(BatonCase):
    def facts(self, path, *arguments):
        return json.loads(self.ok("inspect", path, "--json", *arguments))

    def test_smol(self):
        facts = self.facts(cached(SMOL))
        self.assertEqual(facts["architecture"], "llama")
        self.assertEqual(facts["file_bytes"], 98_362_432)
        self.assertEqual(facts["sizes"], {
            "layers": 30, "hidden_size": 576, "feed_forward_size": 1536, "num_heads": 9,
            "num_kv_heads": 3, "head_dim": 64, "trained_context": 8192})
        types = {entry["type"]: entry["tensors"] for entry in facts["tensor_types"]}
        self.assertEqual(types, {"Q4_1": 210, "Q8_0": 1, "F32": 61})
        self.assertEqual(facts["tokenizer"]["model"], "gpt2")
        self.assertEqual(facts["tokenizer"]["pre"], "smollm")
        self.assertEqual(facts["tokenizer"]["tokens"], 49152)
        self.assertEqual(facts["tokenizer"]["merges"], 48900)
        self.assertEqual(facts["tokenizer"]["special"]["eos"], {"id": 2, "piece": "<|im_end|>"})
        self.assertIn("<|im_start|>", facts["chat_template"])
        self.assertTrue(facts["tied_output"])
        self.assertEqual(facts["ropes"][0]["base"], 100_000)
        self.assertTrue(facts["runs"])
        self.assertEqual(facts["lacks"], [])
        # K and V of 30 layers and 3 heads of 64 halves, and a 64th of their binary32 means.
        self.assertEqual(facts["kv_bytes_per_token"], 30 * 3 * (2 * 64 * 2 + (2 * 64 * 4 + 64) // 64))

    def test_gemma(self):
        facts = self.facts(cached(GEMMA))
        self.assertEqual(facts["architecture"], "gemma3")
        self.assertEqual(facts["sizes"]["head_dim"], 256)
        self.assertEqual(facts["sliding_window"], {"tokens": 512, "layers": 15})
        self.assertEqual(sorted((r["base"], r["layers"]) for r in facts["ropes"]),
                         [(10_000, 15), (1_000_000, 3)])
        self.assertIsNone(facts["chat_template"])
        self.assertTrue(facts["tokenizer"]["add_bos"])
        self.assertTrue(facts["runs"])

    def test_memory_grows_with_the_context(self):
        path = self.file("tiny.gguf", tiny_llama().bytes())
        small = self.facts(path, "--ctx", "64")["memory"]
        large = self.facts(path, "--ctx", "6400")["memory"]
        self.assertEqual(large["kv_bytes"], 100 * small["kv_bytes"])
        self.assertEqual(large["weight_bytes"], small["weight_bytes"])
        self.assertEqual(small["total_bytes"],
                         small["weight_bytes"] + small["kv_bytes"] + small["workspace_bytes"])
        self.assertEqual(self.facts(path)["memory"]["context_tokens"], 64)

    def test_memory_is_that_of_the_type_of_the_cache(self):
        usual = self.facts(cached(SMOL))
        narrow = self.facts(cached(SMOL), "--kv-type", "q8")
        self.assertEqual((usual["kv_type"], narrow["kv_type"]), ("f16", "q8"))
        # Codes of K and V, two scales of K and one of V, and a 64th of the binary32 means.
        token = 30 * 3 * (2 * 64 + 3 * 4 + (2 * 64 * 4 + 64) / 64)
        self.assertEqual(narrow["kv_bytes_per_token"], token)
        self.assertEqual(narrow["memory"]["kv_bytes"], 8192 * token)
        for name in ("weight_bytes", "workspace_bytes"):
            self.assertEqual(narrow["memory"][name], usual["memory"][name])
        self.assertIn(f"kv per token     {token / 1024:.1f} KiB, q8\n",
                      self.ok("inspect", cached(SMOL), "--kv-type", "q8"))

    def test_text_says_the_same(self):
        text = self.ok("inspect", cached(SMOL))
        for words in ["architecture     llama", "layers           30", "8,192 tokens", "Q4_1",
                      "49,152 tokens", "runs             yes"]:
            self.assertIn(words, text)


if __name__ == "__main__":
    main()
