#!/usr/bin/env python3
"""baton run: the prompt, the answer, its end, and the figures."""
import json
import os
import re
import subprocess

from baton_case import BATON, GEMMA, SMOL, TESTS, BatonCase, cached, main
from gguf_file import tiny_llama
from process_state import drop_root_rights

FIGURES = re.compile(r"\nprompt   ([\d,]+) tokens, of which ([\d,]+) cached\n"
                     r"prefill  ([\d,.]+) tokens/s, first token after ([\d.]+) s\n"
                     r"decode   ([\d,]+) tokens?(?:, ([\d,.]+) tokens/s)?\n"
                     r"memory   ([\d.]+ \w+) of KV cache\n"
                     r"stop     (.+)\n$")


class TinyModel(BatonCase):
    """What can be shown with random weights: limits, stops, sameness."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = str(cls.folder / "tiny.gguf")
        with open(cls.model, "wb") as file:
            file.write(tiny_llama(context=256).bytes())

    def answer(self, *arguments, model=None, stdin=b""):
        return json.loads(self.ok("run", model or self.model, "--json", *arguments, stdin=stdin))

    def raw(self, prompt, *arguments, **more):
        return self.answer("--raw", "-p", prompt, "--ignore-eos", *arguments, **more)

    def ids(self, answer):
        return [token["id"] for token in answer["tokens"]]

    def test_lists_of_numbers_are_one_line_of_json(self):
        lines = self.ok("run", self.model, "--raw", "-p", "abcdef", "-n", "2", "--ignore-eos",
                        "--json", "--stop", "no", "--stop", "such").splitlines()
        ids = [line for line in lines if '"prompt_ids"' in line]
        self.assertEqual(len(ids), 1)
        self.assertEqual(len(json.loads("{" + ids[0].rstrip(",") + "}")["prompt_ids"]), 6)
        tokens = [line for line in lines if re.fullmatch(r' +"bytes": \[.*\],?', line)]
        self.assertEqual(len(tokens), 2)
        # Texts keep a line each.
        start = lines.index('      "stop": [')
        self.assertEqual(lines[start + 1:start + 4], ['        "no",', '        "such"', "      ],"])

    # Case P-06.
    def test_prompt_length_against_the_context(self):
        for length, room in [(62, 2), (63, 1)]:
            answer = self.raw("a" * length, "--ctx", "64", "-n", "1000")
            self.assertEqual(len(answer["tokens"]), room)
            self.assertEqual(answer["stop_reason"], "context-full")
            self.assertEqual(answer["figures"]["prompt_tokens"], length)
        for length in (64, 65, 500):
            line = self.fails("run", self.model, "--raw", "-p", "a" * length, "--ctx", "64")
            self.assertRegex(line, rf"\b{length}\b.*\b64\b")
            self.assertIn("--ctx", line)
        answer = self.raw("a" * 60, "--ctx", "64")
        self.assertEqual((len(answer["tokens"]), answer["stop_reason"]), (4, "context-full"))

    def test_a_context_beyond_the_memory_is_refused_before_loading(self):
        line = self.fails("run", cached(SMOL), "-p", "x", "--ctx", "16777216", timeout=10)
        self.assertIn("memory", line)
        self.assertRegex(line, r"\d+.*\d+")

    # Case S-06.
    def test_small_limits(self):
        for limit in (0, 1, 2, 3):
            answer = self.raw("x", "-n", limit)
            self.assertEqual(len(answer["tokens"]), limit)
            self.assertEqual(answer["stop_reason"], "length")
            self.assertEqual(answer["figures"]["generated_tokens"], limit)

    # Cases S-06 and T-02.
    def test_a_character_cut_by_the_limit_gives_valid_text(self):
        # Byte F0 starts a character of four bytes that never comes.
        byte_f0 = 3 + 0xF0
        for arguments in (["-n", "1"], ["-n", "2"]):
            done = self.baton("run", self.model, "--raw", "-p", "x", "--ignore-eos",
                              "--logit-bias", f"{byte_f0}=100", *arguments)
            self.assertEqual(done.returncode, 0)
            answer = self.raw("x", "--logit-bias", f"{byte_f0}=100", *arguments)
            self.assertEqual(answer["tokens"][0]["bytes"], [0xF0])
            self.assertIsNone(answer["tokens"][0]["text"])
            self.assertEqual(done.stdout.decode("utf-8").rstrip("\n"), answer["text"])

    def test_same_command_same_answer_and_seeds_differ(self):
        first = self.raw("abc", "-n", "40", "--temp", "1")
        self.assertEqual(self.ids(first), self.ids(self.raw("abc", "-n", "40", "--temp", "1")))
        other = self.raw("abc", "-n", "40", "--temp", "1", "--seed", "1")
        self.assertNotEqual(self.ids(first), self.ids(other))

    # Case P-01.
    def test_more_threads_than_cpus_are_told_of(self):
        cpus = len(os.sched_getaffinity(0))
        run = ["run", cached(SMOL), "-p", "Hello", "-n", "1", "-q", "-t"]
        self.assertRegex(self.baton(*run, cpus + 1).stderr.decode(),
                         rf"^baton: note: {cpus + 1} threads on \d+ CPUs?: more threads than CPUs")
        self.assertNotIn(b"note", self.baton(*run, 1).stderr)

    def test_threads_chunk_isa_and_context_change_nothing(self):
        expected = self.raw("The quick brown fox", "-n", "30", "--temp", "1", "--logprobs", "3")
        variants = [["--threads", "1"], ["--threads", "3"], ["--chunk", "1"], ["--chunk", "7"],
                    ["--isa", "portable"], ["--ctx", "200"]]
        for variant in variants:
            answer = self.raw("The quick brown fox", "-n", "30", "--temp", "1", "--logprobs", "3",
                              *variant)
            self.assertEqual(answer["tokens"], expected["tokens"], variant)

    # Case S-05.
    def test_a_sparse_prefill_says_so_and_stays_the_same(self):
        text = "abcdefghij klmno pqrst" * 40
        policy = "rule=share:0.1 sink=64 window=64 last=1"
        options = ["--prefill", "sparse", "--sparse", policy]
        common = ["--ctx", "1024", "-n", "4", "--logprobs", "2"]
        dense = self.raw(text, *common)
        sparse = self.raw(text, *common, *options)
        self.assertEqual(dense["policy"]["prefill"], "dense")
        self.assertIn("rule=share:0.1,1 estimate=far:4 block=64", sparse["policy"]["prefill"])
        self.assertIsNone(dense["figures"]["sparse_prefill"])
        report = sparse["figures"]["sparse_prefill"]
        self.assertLess(report["density"], 0.9)
        self.assertGreater(report["density"], 0.1)
        self.assertGreater(report["thread_seconds"]["attend"], 0)
        self.assertNotEqual(dense["tokens"], sparse["tokens"])
        for more in (["--chunk", "128"], ["--threads", "3"], ["--isa", "portable"]):
            self.assertEqual(self.raw(text, *common, *options, *more)["tokens"], sparse["tokens"])
        # All blocks kept is dense; a short prompt, too.
        for all_of_it in ("rule=all", "min=2000", "last=100"):
            other = self.raw(text, *common, "--prefill", "sparse", "--sparse", all_of_it)
            self.assertEqual(other["tokens"], dense["tokens"], all_of_it)
        args = ["run", self.model, "-p", "x"]
        self.assertIn("--prefill sparse", self.fails(*args, "--sparse", "rule=all", code=2))
        self.assertIn("at least 64", self.fails(*args, "--prefill", "sparse", "--chunk", "63"))
        self.assertIn("dense layer", self.fails(*args, "--prefill", "sparse", "--sparse",
                                                "dense-layers=99"))

    def test_stop_strings_are_never_printed(self):
        smol = cached(SMOL)
        base = ["--raw", "-p", "Once upon a time", "--temp", "0", "-n", "24", "--ignore-eos"]
        whole = self.answer(*base, model=smol)["text"]
        for start, length in [(20, 4), (31, 9), (len(whole) - 2, 2)]:
            stop = whole[start:start + length]
            before = whole[:whole.index(stop)]
            for more in ([], ["--stop", "never ever"]):
                answer = self.answer(*base, "--stop", stop, *more, model=smol)
                self.assertEqual(answer["text"], before)
                self.assertEqual((answer["stop_reason"], answer["stopped_by"]),
                                 ("stop-string", stop))
                streamed = self.ok("run", smol, *base, "--stop", stop, *more)
                self.assertEqual(streamed, before + "\n")
        unfinished = self.answer(*base, "--stop", whole[-3:] + "\x01", model=smol)
        self.assertEqual(unfinished["text"], whole)

    # Case S-04.
    def test_logit_bias_bans_and_forces(self):
        best = self.ids(self.raw("x", "-n", "1", "--temp", "0"))[0]
        banned = self.raw("x", "-n", "1", "--temp", "0", "--logit-bias", f"{best}=-100")
        self.assertNotEqual(self.ids(banned), [best])
        forced = self.raw("x", "-n", "3", "--temp", "0", "--logit-bias", "70=100")
        self.assertEqual(self.ids(forced), [70, 70, 70])
        line = self.fails("run", self.model, "-p", "x", "--logit-bias", "259=1")
        self.assertIn("--logit-bias names the token 259; the model's vocabulary ends at 258", line)

    # Case S-07.
    def test_logprobs(self):
        for temperature in ("0", "0.7", "2"):
            answer = self.raw("abc", "-n", "4", "--temp", temperature, "--logprobs", "5")
            for token in answer["tokens"]:
                self.assertLessEqual(token["logprob"], 0)
                self.assertEqual(len(token["top"]), 5)
                logprobs = [entry["logprob"] for entry in token["top"]]
                self.assertEqual(logprobs, sorted(logprobs, reverse=True))
                self.assertGreaterEqual(logprobs[0], token["logprob"])
        self.assertNotIn("logprob", self.raw("abc", "-n", "1")["tokens"][0])
        self.assertEqual(self.raw("abc", "-n", "1", "--logprobs", "0")["tokens"][0]["top"], [])

    # Case S-01.
    def test_extreme_temperatures(self):
        greedy = self.ids(self.raw("abc", "-n", "10", "--temp", "0"))
        for temperature in ("1e-4", "1e-12", "1e-38"):
            self.assertEqual(self.ids(self.raw("abc", "-n", "10", "--temp", temperature)), greedy)
        self.assertEqual(len(self.raw("abc", "-n", "10", "--temp", "1e9")["tokens"]), 10)

    def test_prompt_from_files_input_and_text(self):
        first = self.file("first.txt", "one\n")
        second = self.file("second.txt", "two\n")
        prompt = self.answer("--raw", "-f", first, "-", "-f", second, "-p", "four", "-n", "1",
                             stdin="three\n")["prompt_ids"]
        self.assertEqual(bytes(i - 3 for i in prompt),
                         b"one\n\ntwo\n\nthree\n\nfour")
        alone = self.answer("--raw", "-", "-n", "1", stdin=" a\n")["prompt_ids"]
        self.assertEqual(bytes(i - 3 for i in alone), b" a\n")

    def test_chat_template_and_system_message(self):
        def text(*arguments):
            ids = self.answer(*arguments, "-n", "1")["prompt_ids"]
            return self.ok("detokenize", self.model, stdin=json.dumps(ids))
        self.assertEqual(text("-p", "hi"),
                         "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
        self.assertEqual(text("-p", "hi", "--system", "Be kind."),
                         "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
                         "<|im_start|>assistant\n")
        template = self.file("shout.jinja", "{{ messages[0].content | upper }}!")
        self.assertEqual(text("-p", "hi", "--chat-template", template), "HI!")
        self.assertEqual(text("-p", "hi", "--chat-template", "chatml"),
                         "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")

    # Case C-01.
    def test_templates_that_refuse_speak(self):
        template = self.file("no.jinja", "{{ raise_exception('System role not supported') }}")
        line = self.fails("run", self.model, "-p", "x", "--chat-template", template)
        self.assertIn("System role not supported", line)
        bad = self.file("bad.jinja", "{% for x in %}")
        self.fails("run", self.model, "-p", "x", "--chat-template", bad)

    def test_a_model_without_template(self):
        path = self.file("bare.gguf", tiny_llama(template=None).bytes())
        line = self.fails("run", path, "-p", "x")
        self.assertIn("--chat-template", line)
        self.assertIn("chatml", line)
        self.ok("run", path, "-p", "x", "-n", "1", "--chat-template", "chatml", "--ctx", "200")
        self.ok("run", path, "-p", "x", "-n", "1", "--raw")

    # Case S-06: the empty prompt.
    def test_bad_prompts(self):
        latin = self.file("latin1.txt", b"caf\xe9 au lait")
        self.assertIn("is not UTF-8: byte 0xE9 at offset 3",
                      self.fails("run", self.model, "-f", latin, "-p", "x"))
        for command, stdin in [(["run", self.model, "-p", "x"], ""), (["chat", self.model], "x")]:
            self.assertIn("--system is not UTF-8: byte 0xFF at offset 1",
                          self.fails(*command, "--system", "a\udcff", stdin=stdin, code=2))
        for arguments in (["-"], ["-p", "-"], ["-f", "/dev/null"], ["-f", "/dev/null", "-p", ""]):
            self.assertIn("the prompt is empty", self.fails("run", self.model, *arguments))
        # What the command line alone shows is wrong usage.
        for arguments in (["-p", ""], ["--raw", "-p", ""]):
            self.assertIn("--prompt is empty, and there is no other text",
                          self.fails("run", self.model, *arguments, code=2))
        for blank in (" ", " \n", "\t"):
            ids = self.answer("--raw", "-p", blank, "-n", "1")["prompt_ids"]
            self.assertEqual(bytes(i - 3 for i in ids), blank.encode())
        self.assertIn("No such file", self.fails("run", self.model, "-f", "/no/such/file"))
        self.assertIn("Is a directory", self.fails("run", self.model, "-f", "/"))

    RAW = ["--raw", "-n", "2", "--ignore-eos", "--json"]

    def test_text_on_standard_input_is_the_prompt_where_there_is_no_other(self):
        piped = json.loads(self.ok("run", self.model, *self.RAW, stdin="abc\n"))
        self.assertEqual(piped["prompt_ids"], self.answer(*self.RAW, "-", stdin="abc\n")["prompt_ids"])
        path = self.file("question.txt", "abc\n")
        with open(path, "rb") as question:
            done = subprocess.run([BATON, "run", self.model, *self.RAW], stdin=question,
                                  capture_output=True, timeout=60, check=False)
        self.assertEqual(json.loads(done.stdout)["prompt_ids"], piped["prompt_ids"])
        # A writer that takes its time.
        done = subprocess.run(["sh", "-c", f"(sleep 0.3; echo abc) | '{BATON}' run '{self.model}' "
                               + " ".join(self.RAW)], capture_output=True, timeout=60, check=False)
        self.assertEqual(json.loads(done.stdout)["prompt_ids"], piped["prompt_ids"])

    def test_nothing_waits_for_a_standard_input_that_nobody_writes_to(self):
        reader, writer = os.pipe()
        for arguments, code, words in (([], 2, b"nothing to answer"), (["-p", "x"], 0, b"")):
            done = subprocess.run([BATON, "run", self.model, *arguments, *self.RAW], stdin=reader,
                                  capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, code)
            self.assertIn(words, done.stderr)
        os.close(writer)
        os.close(reader)
        with open(os.devnull, "rb") as nothing:
            done = subprocess.run([BATON, "run", self.model], stdin=nothing, capture_output=True,
                                  timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"nothing to answer", done.stderr)
        # Whoever writes late is told what waits for him.
        self.assertIn(b"- for standard input (which is waited for 2 s only", done.stderr)

    def test_text_on_standard_input_that_is_not_read_is_told(self):
        path = self.file("notes.txt", "notes")
        for arguments, code in ((["-p", "x"], 0), (["-f", path], 0), (["-p", ""], 2)):
            done = self.baton("run", self.model, *self.RAW, *arguments, stdin="abc")
            self.assertEqual(done.returncode, code)
            if code == 0:
                self.assertIn(b"baton: note: standard input has text that is not read; a - among the "
                              b"arguments adds it to the prompt\n", done.stderr)
        for arguments, stdin in ((["-p", "x", "-"], "abc"), (["-p", "x"], ""), (["-p", "-"], "abc"),
                                 (["-f", "-"], "abc"), (["-p", "x", "--quiet"], "abc")):
            done = self.baton("run", self.model, *self.RAW, *arguments, stdin=stdin)
            self.assertEqual((done.returncode, done.stderr), (0, b""), arguments)

    # Case L-06.
    def test_a_missing_output_head_is_the_embedding(self):
        file = tiny_llama(context=256, output=False)
        tied = self.file("tied.gguf", file.bytes())
        file.tensors["output.weight"] = file.tensors["token_embd.weight"]
        untied = self.file("untied.gguf", file.bytes())
        answers = [self.raw("abc", "-n", "8", "--temp", "0", "--logprobs", "3", model=path)
                   for path in (tied, untied)]
        self.assertEqual(answers[0]["tokens"], answers[1]["tokens"])

    def test_files_closed_to_reading(self):
        secret = self.file("secret.txt", "text")
        os.chmod(secret, 0)
        for arguments in (["-f", secret], ["-p", "x", "--chat-template", secret]):
            line = self.fails("run", self.model, *arguments, preexec_fn=drop_root_rights)
            self.assertIn(f"cannot open '{secret}': Permission denied", line)

    def test_all_warnings_are_noted(self):
        file = tiny_llama(context=256)
        file.tensor("blk.0.mystery.weight", [32], bytes(128))
        path = self.file("noted.gguf", file.bytes())
        for arguments in (["run", path, "--raw", "-p", "x", "-n", "1", "--quiet"],
                          ["chat", path], ["eval", "logits", path, "--ids", "-"]):
            done = self.baton(*arguments, "--ctx", "257",
                              stdin="1" if arguments[0] == "eval" else "")
            self.assertEqual(done.returncode, 0, done.stderr)
            notes = done.stderr.decode().splitlines()
            self.assertEqual(len(notes), 2, notes)
            self.assertRegex(notes[0], r"^baton: note: .*\b257\b.*\b256\b")
            self.assertRegex(notes[1], r"^baton: note: .*blk\.0\.mystery\.weight")
            done = self.baton(*arguments, "--ctx", "256",
                              stdin="1" if arguments[0] == "eval" else "")
            self.assertEqual(done.stderr.count(b"baton: note: "), 1)

    # Case L-06.
    def test_unused_tensors_are_reported(self):
        file = tiny_llama(context=256)
        file.tensor("blk.0.mystery.weight", [32], bytes(128))
        path = self.file("extra.gguf", file.bytes())
        self.assertIn("blk.0.mystery.weight", self.ok("inspect", path))
        done = self.baton("run", path, "--raw", "-p", "x", "-n", "1")
        self.assertIn("blk.0.mystery.weight", done.stderr.decode())

    def test_figures(self):
        done = self.baton("run", self.model, "--raw", "-p", "a" * 100, "-n", "5", "--ignore-eos")
        found = FIGURES.search(done.stderr.decode())
        self.assertIsNotNone(found, done.stderr)
        self.assertEqual(found.group(1, 2, 5, 8), ("100", "0", "5", "length"))
        one = self.baton("run", self.model, "--raw", "-p", "a", "-n", "1", "--ignore-eos")
        self.assertIn("\ndecode   1 token\n", one.stderr.decode())
        none = self.baton("run", self.model, "--raw", "-p", "a", "-n", "0")
        self.assertIn("\nprefill  nothing was read\ndecode   0 tokens\n", none.stderr.decode())
        figures = self.raw("a", "-n", "0")["figures"]
        self.assertEqual((figures["prefill_tokens"], figures["first_token_seconds"]), (0, None))
        quiet = self.baton("run", self.model, "--raw", "-p", "x", "-n", "5", "--quiet")
        self.assertEqual(quiet.stderr, b"")

    def test_a_cache_of_8_bits_says_so_and_stays_the_same(self):
        common = ["-n", "4", "--logprobs", "2", "--ignore-eos"]
        prompt = "abc " * 50  # four blocks
        wide = self.raw(prompt, *common)
        self.assertEqual(wide["policy"]["kv_type"], "f16")
        narrow = self.raw(prompt, *common, "--kv-type", "q8")
        self.assertEqual(narrow["policy"]["kv_type"], "q8")
        self.assertNotEqual(narrow["tokens"], wide["tokens"])
        # Per token of head size 16: 67 bytes, of them 3 of means and far keys, and 43.
        self.assertEqual(narrow["figures"]["kv_bytes"] * 67, wide["figures"]["kv_bytes"] * 43)
        for change in (["--threads", "1"], ["--chunk", "7"], ["--isa", "portable"]):
            changed = self.raw(prompt, *common, "--kv-type", "q8", *change)
            self.assertEqual(changed["tokens"], narrow["tokens"], change)

    def test_json_holds_everything(self):
        answer = self.raw("abc", "-n", "3", "--precision", "exact", "--seed", "7")
        data = bytes(byte for token in answer["tokens"] for byte in token["bytes"])
        self.assertEqual(answer["text"], data.decode(errors="replace"))
        self.assertEqual(answer["policy"]["precision"], "exact")
        self.assertEqual(answer["policy"]["sampling"]["seed"], 7)
        self.assertEqual(answer["model"]["architecture"], "llama")
        self.assertEqual(answer["figures"]["cached_tokens"], 0)
        self.assertGreater(answer["figures"]["kv_bytes"], 0)
        self.assertRegex(answer["versions"]["baton"], r"^\d+\.\d+\.\d+$")


class RealModels(BatonCase):
    """Greedy answers against the golden continuations of an independent implementation."""

    def check_greedy(self, model, folder, name, threshold=0.02):
        golden = json.loads((TESTS / "data/golden" / folder / f"logits-{name}.json").read_text())
        flags = [] if golden["parse_special"] else ["--no-special"]
        greedy = golden["greedy"]
        answer = json.loads(self.ok(
            "run", cached(model), "--json", "--raw", "-p", golden["prompt"], *flags, "--temp", "0",
            "--precision", "exact", "--ignore-eos", "-n", len(greedy["tokens"]), timeout=300))
        self.assertEqual(answer["prompt_ids"], golden["tokens"])
        ids = [token["id"] for token in answer["tokens"]]
        sure = next((i for i, margin in enumerate(greedy["margins"]) if margin < threshold),
                    len(ids))
        self.assertGreater(sure, 3)
        self.assertEqual(ids[:sure], greedy["tokens"][:sure])

    def test_smol(self):
        for name in ("short", "prose", "chat", "multilingual"):
            self.check_greedy(SMOL, "smollm2-135m-instruct-q4_1", name)

    def test_gemma(self):
        for name in ("short", "prose"):
            self.check_greedy(GEMMA, "gemma-3-270m-q4_k_m", name)

    def test_an_end_token_ends_the_answer(self):
        done = self.baton("run", cached(SMOL), "-p", "Say only: yes", "--temp", "0", "-n", "200")
        self.assertEqual(done.returncode, 0)
        self.assertIn("stop     end-token '<|im_end|>'", done.stderr.decode())
        self.assertNotIn(b"<|im_end|>", done.stdout)

    def test_a_base_model_without_template_says_what_to_do(self):
        self.assertIn("--chat-template", self.fails("run", cached(GEMMA), "-p", "x"))


if __name__ == "__main__":
    main()
