#!/usr/bin/env python3
"""The command line itself: help, versions, and what is refused with exit code 2."""
import itertools
import os
import re
import subprocess

from baton_case import BATON, TESTS, BatonCase, main
from gguf_file import tiny_llama

COMMANDS = ["run", "chat", "serve", "inspect", "pack", "tune", "tokenize", "detokenize", "template",
            "eval logits", "eval perplexity", "eval kl",
            "eval density", "eval needle", "bench limits", "bench kernels", "bench model",
            "bench serve", "simulate"]
MODEL = "nowhere.gguf"


class Usage(BatonCase):
    def test_list_of_commands(self):
        texts = [self.ok(), self.ok("help"), self.ok("--help")]
        self.assertEqual(len(set(texts)), 1)
        for command in COMMANDS:
            self.assertRegex(texts[0], rf"(?m)^  {command} +\S")

    def test_the_readme_lists_every_command(self):
        readme = (TESTS.parent / "README.md").read_text()
        block = next(part for part in readme.split("```") if "\nbaton chat MODEL" in part)
        listed = []
        for line in block.strip().splitlines():
            words = re.match(r"baton ([a-z|]+)(?: ([a-z|]+))?(?= [A-Z ]|$)", line)
            groups = [[word for word in part.split("|")] for part in words.groups() if part]
            listed += [" ".join(names) for names in itertools.product(*groups)]
        self.assertEqual(sorted(listed), sorted(COMMANDS))
        for line in block.strip().splitlines():
            self.assertLessEqual(len(line), 100)

    def test_version(self):
        for words in (["--version"], ["-V"], ["version"]):
            self.assertRegex(self.ok(*words), r"^baton \d+\.\d+\.\d+\n$")

    def test_help_of_a_group(self):
        text = self.ok("eval", "--help")
        self.assertEqual(text, self.ok("eval", "-h"))
        self.assertEqual(text, self.ok("help", "eval"))
        self.assertTrue(text.startswith("Usage: baton eval COMMAND "), text)
        for command in ("eval logits", "eval perplexity", "eval kl", "eval density",
                        "eval needle"):
            self.assertRegex(text, rf"(?m)^  {command} +\S")
        self.assertNotIn("inspect", text)

    def test_every_line_of_help_fits_a_terminal(self):
        for command in ["", "eval", "bench", *COMMANDS]:
            for line in self.ok(*command.split(), "--help").splitlines():
                if not re.match(r"  \S.* baton |  baton ", line):  # an example, to be copied
                    self.assertLessEqual(len(line), 80, line)

    def test_help_of_each_command(self):
        for command in COMMANDS:
            words = command.split()
            text = self.ok(*words, "--help")
            self.assertEqual(text, self.ok("help", *words))
            self.assertEqual(text, self.ok(*words, MODEL, "-h"))
            self.assertTrue(text.startswith(f"Usage: baton {command} "), text)
            self.assertIn("\nExit status:\n", text)
            self.assertRegex(text, rf"\nExamples?:\n  .*baton {command}\b")
            for line in text.splitlines():
                # Example lines are to be copied, so they are not wrapped.
                if not line.startswith("  ") or line.startswith("      "):
                    self.assertLessEqual(len(line), 80, line)

    def test_computing_commands_take_the_same_options(self):
        for command in ["run", "chat", "eval logits", "eval perplexity"]:
            text = self.ok(*command.split(), "--help")
            for option in ["--threads N", "--chunk N", "--isa NAME", "--ctx N",
                           "--precision NAME", "--kv-type NAME", "-m, --model MODEL"]:
                self.assertIn(option, text)

    def test_unknown_commands(self):
        for word, match in [("rnu", "run"), ("inspec", "inspect"), ("tokenise", "tokenize"),
                            ("bench-model", "bench model"), ("perplexity", "eval perplexity"),
                            ("benchmark", "bench"), ("evaluate", "eval"), ("generate", "run"),
                            ("completion", "run"), ("info", "inspect"), ("server", "serve"),
                            ("encode", "tokenize"), ("decode", "detokenize")]:
            self.assertEqual(self.fails(word, code=2),
                             f"baton: unknown command '{word}'; did you mean '{match}'?")
        self.assertEqual(self.fails("frobnicate", code=2),
                         "baton: unknown command 'frobnicate'")
        self.assertIn("'eval' needs one of: logits, perplexity, kl, density, "
                      "needle", self.fails("eval", code=2))
        self.assertIn("did you mean 'logits'?", self.fails("eval", "logit", code=2))
        self.assertIn("unknown option '--json'", self.fails("--json", code=2))

    def test_unknown_flags(self):
        cases = [
            (["run", MODEL, "-p", "x", "--tmep", "1"], "'--tmep'; did you mean '--temp'?"),
            (["run", MODEL, "-p", "x", "--thread=2"], "'--thread'; did you mean '--threads'?"),
            (["run", MODEL, "--tokens", "5"], "'--tokens'; did you mean '--max-tokens'?"),
            (["run", MODEL, "--threads-batch", "2"], "'--threads-batch'; did you mean '--threads'?"),
            (["run", MODEL, "--penalty", "1"], "did you mean '--repeat-penalty'?"),
            (["inspect", MODEL, "--jsno"], "'--jsno'; did you mean '--json'?"),
            (["chat", MODEL, "-z"], "unknown option '-z'"),
        ]
        for arguments, words in cases:
            self.assertIn(words, self.fails(*arguments, code=2))
        for arguments in (["tokenize", MODEL, "--xyzzy"], ["run", MODEL, "--verbose"],
                          ["run", MODEL, "--log-file", "x"], ["run", MODEL, "--f", "x"]):
            self.assertRegex(self.fails(*arguments, code=2), r"unknown option '--[a-z-]+'$")

    def test_options_of_other_commands_are_told_what_takes_their_place(self):
        cases = [
            (["tune", MODEL, "--text", "x", "--prefill", "sparse"],
             "there is no --prefill here: tune reads prompts both ways and finds the policy itself; "
             "--kl says what it may lose"),
            (["tune", MODEL, "--text", "x", "--sparse=published"], "there is no --sparse here: tune"),
            (["eval", "kl", MODEL, "--text", "x", "--prefill=sparse"],
             "there is no --prefill here: prompts are read densely and by each policy that --sparse "
             "POLICY names"),
            (["eval", "needle", MODEL, "--prefill", "auto"], "that --sparse POLICY names"),
            (["eval", "density", MODEL, "--text", "x", "--prefill", "auto"],
             "by the policy of --sparse POLICY"),
        ]
        for arguments, words in cases:
            line = self.fails(*arguments, code=2)
            self.assertIn(words, line)
            self.assertNotIn("did you mean", line)

    def test_a_server_ends_well_by_ctrl_c(self):
        self.assertIn("0 done, by Ctrl-C or SIGTERM, too;", self.ok("serve", "--help"))
        self.assertNotIn("130", self.ok("serve", "--help"))
        self.assertIn("130 stopped by Ctrl-C", self.ok("run", "--help"))

    def test_options_of_other_programs(self):
        cases = [(["-ngl", "99"], "there is no -ngl here: Baton computes on the CPU; leave it out"),
                 (["-fa", "1"], "there is no -fa here: attention is computed in one way"),
                 (["-no-cnv"], "there is no -no-cnv here: baton chat talks"),
                 (["--ctx-size", "512"], "there is no --ctx-size here: the context is --ctx"),
                 (["--n-predict=5"], "there is no --n-predict here: the longest answer is "
                                     "--max-tokens"),
                 (["--num-predict", "5"], "the longest answer is --max-tokens"),
                 (["--num-ctx", "512"], "the context is --ctx"),
                 (["--prompt-cache", "x"], "a cache is kept with --save-kv and taken up with "
                                           "--load-kv"),
                 *(([other, "q8_0"], f"there is no {other} here: what the KV cache holds is "
                                     "--kv-type, f16 or q8")
                   for other in ("-ctk", "-ctv", "--cache-type-k", "--cache-type-v",
                                 "--kv-cache-dtype")),
                 (["--prompt-file", "x"], "a text is given with -f"),
                 (["--temperature", "0"], "there is no --temperature here: it is called --temp"),
                 (["-sys", "x"], "there is no -sys here: it is called --system")]
        for arguments, words in cases:
            self.assertIn(words, self.fails(*self.RUN, *arguments, code=2))
        # What stands behind an option that takes a value is its value.
        self.assertIn("--max-tokens", self.fails(*self.RUN, "-n", "-ngl", code=2))

    def test_a_tune_file_that_nothing_reads(self):
        words = "--tune-file is read by --prefill auto, and by --prefill sparse without --sparse"
        for prefill in ([], ["--prefill", "dense"],
                        ["--prefill", "sparse", "--sparse", "rule=share:0.2"]):
            for command in (self.RUN, ["chat", MODEL], ["eval", "perplexity", MODEL, "--text", "x"],
                            ["eval", "logits", MODEL, "--ids", "x"], ["bench", "serve", MODEL]):
                self.assertIn(words, self.fails(*command, *prefill, "--tune-file", "t.json", code=2))

    RANGES = {
        "--threads": ("1 to 1024", ["0", "-1", "1025", "two", "1.5", "", "1e3",
                                    "18446744073709551616"]),
        "--ctx": ("1 to 16777216", ["0", "-5", "x", "16777217"]),
        "--chunk": ("1 to 1048576", ["0", "x"]),
        "--temp": ("0 to 1000000000", ["-1", "nan", "inf", "1e10", "0x1", "0,5", "cold"]),
        "--top-p": ("0 to 1", ["1.5", "-0.1", "nan"]),
        "--min-p": ("0 to 1", ["2", "-1"]),
        "--top-k": ("0 to 1000000000", ["-1", "1.5", "9999999999"]),
        "--repeat-penalty": ("0.01 to 100", ["0", "-1", "101"]),
        "--frequency-penalty": ("-2 to 2", ["2.5", "-2.5"]),
        "--presence-penalty": ("-2 to 2", ["2.5", "-2.5"]),
        "--repeat-last-n": ("1 to 16777216", ["0", "-1"]),
        "--seed": ("0 to 9223372036854775807", ["-1", "18446744073709551616"]),
        "--max-tokens": ("0 to 16777216", ["-1", "9223372036854775808"]),
    }

    def test_bad_values_name_option_value_and_range(self):
        for option, (accepted, values) in self.RANGES.items():
            for given in values:
                line = self.fails("run", MODEL, "-p", "x", option, given, code=2)
                self.assertTrue(line.startswith(f"baton run: {option} takes "), line)
                self.assertIn(accepted, line.replace("+09", "000000000"))
                self.assertTrue(line.endswith(f", not '{given}'"), line)

    def test_choices(self):
        self.assertEqual(
            self.fails("run", MODEL, "-p", "x", "--precision", "exat", code=2),
            "baton run: --precision takes fast, exact, not 'exat'; did you mean 'exact'?")
        self.assertEqual(
            self.fails("run", MODEL, "-p", "x", "--kv-type", "q4", code=2),
            "baton run: --kv-type takes f16, q8, not 'q4'; did you mean 'q8'?")
        self.assertIn("--isa", self.fails("run", MODEL, "-p", "x", "--isa", "mmx", code=2))

    # An option whose value can be wrong, the rest of its command line, and wrong values.
    RUN = ["run", MODEL, "-p", "x"]
    LOGITS = ["eval", "logits", MODEL, "--ids", "x"]
    TEMPLATE = ["template", MODEL, "--messages", "x"]
    KERNELS = ["bench", "kernels"]
    BENCH = ["bench", "model", MODEL]
    BENCH_SERVE = ["bench", "serve", MODEL]
    SERVE = ["serve", MODEL]
    TUNE = ["tune", MODEL, "--text", "x"]
    SIMULATE = ["simulate"]
    WRONG = [
        (RUN, "--logit-bias", ["12", "x=1", "-1=5", "12=", "12=false", "12=1e30", "=1",
                               "2147483648=1", ""]),
        (RUN, "--stop", ["", "a\udcff"]),
        (RUN, "--system", ["\udcff"]),
        (RUN, "--file", [""]),
        (["run", MODEL], "--prompt", ["\udcff"]),
        (RUN, "--isa", ["mmx", ""]),
        (RUN, "--chat-template", ["chatlm", ""]),
        (RUN, "--logprobs", ["-1", "101", "x"]),
        (RUN, "--trace", [""]),
        *((command, "--kv-type", ["q4", "F16", ""])
          for command in (RUN, ["inspect", MODEL], BENCH, SERVE, TUNE)),
        (RUN, "--save-kv", [""]),
        (RUN, "--load-kv", [""]),
        (["chat", MODEL], "--stop", ["", "\udcff"]),
        (["chat", MODEL], "--chat-template", ["llama"]),
        (["inspect", MODEL], "--ctx", ["0", "x"]),
        (LOGITS, "--positions", ["", "x", "2-1", "1,,2", "-1", "16777216", "ALL"]),
        (LOGITS, "--tokens", ["", "1,a", "1,", "01", "1 2"]),
        (LOGITS, "--top", ["-1", "x"]),
        (["eval", "logits", MODEL], "--ids", [""]),
        (["eval", "perplexity", MODEL], "--text", [""]),
        (["eval", "perplexity", MODEL, "--text", "x"], "--window", ["1", "x"]),
        (["eval", "perplexity", MODEL, "--text", "x"], "--windows", ["0"]),
        (["eval", "kl", MODEL], "--text", [""]),
        (["eval", "kl", MODEL, "--text", "x"], "--tokens", ["0", "x"]),
        (["eval", "kl", MODEL, "--text", "x"], "--positions", ["0", "x"]),
        (["eval", "kl", MODEL, "--text", "x"], "--repeat", ["-1", "1001", "x"]),
        (["eval", "kl", MODEL, "--text", "x"], "--plot", [""]),
        (["eval", "kl", MODEL, "--text", "x"], "--sparse", ["share", "rule=best", "energy=random"]),
        (["eval", "density", MODEL, "--text", "x"], "--map", ["", "1", "1:", "a:b", "-1:0"]),
        (["eval", "needle", MODEL], "--lengths", ["99", "", "1000,,2000"]),
        (["eval", "needle", MODEL], "--depths", ["101", "-1", ""]),
        (["eval", "needle", MODEL], "--trials", ["0", "101", "x"]),
        (["eval", "needle", MODEL], "--seed", ["-1", "x"]),
        (["template", MODEL], "--messages", [""]),
        (TEMPLATE, "--tools", [""]),
        (["template", "--messages", "x"], "--template", [""]),
        (TEMPLATE, "--now", ["", "yesterday", "2023-02-29", "2024-13-01", "2024-07-26T25:00:00"]),
        (TEMPLATE, "--var", ["", "n", "=1", "n=", "n=text", "messages=1", "tools=1",
                             "bos_token=1", "add_generation_prompt=true"]),
        (["bench", "limits"], "--threads", ["0"]),
        (KERNELS, "--only", ["all", ""]),
        (KERNELS, "--type", ["Q4_O", ""]),
        (KERNELS, "--shape", ["512x1536", "1x2x33", "0x16x32", "axbxc", "1x1048576x1048576", ""]),
        (KERNELS, "--keys", ["0", "5000", "4096,,8192", "x", ""]),
        (KERNELS, "--isa", ["mmx", ""]),
        (KERNELS, "--seconds", ["-1", "nan", "x"]),
        (BENCH, "--prompt", ["0", "128,,512", "x", ""]),
        (BENCH, "--depth", ["-1", "16777216", ""]),
        (BENCH, "--batch", ["0", "1025"]),
        (BENCH, "--threads", ["1,two", "0"]),
        (BENCH, "--isa", ["mmx"]),
        (BENCH, "--repeat", ["0", "1001"]),
        (BENCH, "--plot", [""]),
        (BENCH_SERVE, "--clients", ["0", "1025", "1,,2", "x", ""]),
        (BENCH_SERVE, "--rate", ["0", "nan", "inf", "-1", "1,two", ""]),
        (BENCH_SERVE, "--requests", ["0", "1000001", "x"]),
        (BENCH_SERVE, "--prompt", ["0", "1,2", "x"]),
        (BENCH_SERVE, "--shared", ["-1", "x"]),
        (BENCH_SERVE, "--output", ["0", "x"]),
        (BENCH_SERVE, "--long-prompt", ["0", "x"]),
        (BENCH_SERVE, "--max-running", ["0", "1026", "x"]),
        (BENCH_SERVE, "--max-gap-steps", ["0.9", "nan", "x"]),
        (BENCH_SERVE, "--kv-tokens", ["0", "x"]),
        (BENCH_SERVE, "--ttft-limit", ["-1", "nan", "x"]),
        (BENCH_SERVE, "--gap-limit", ["-1", "nan", "x"]),
        (BENCH_SERVE, "--plot", [""]),
        (SERVE, "--host", ["", "example.org", "1.2.3", "*"]),
        (SERVE, "--port", ["-1", "65536", "http"]),
        (SERVE, "--name", ["", "two words"]),
        (SERVE, "--api-key-file", [""]),
        (SERVE, "--cors-origin", ["*", "", "chat.example", "https://chat.example/"]),
        (SERVE, "--allowed-host", ["", "a b"]),
        (SERVE, "--drain-seconds", ["-1", "x"]),
        (SERVE, "--max-running", ["0", "1025"]),
        (SERVE, "--max-gap-steps", ["0", "inf", "x"]),
        (SERVE, "--kv-tokens", ["0", "x"]),
        (SIMULATE, "--workload", [""]),
        (SIMULATE, "--rate", ["0", "-1", "nan", "1e7"]),
        (SIMULATE, "--duration", ["0", "inf"]),
        (SIMULATE, "--burst", ["0", "x"]),
        (SIMULATE, "--prompt-tokens", ["0", "x", "5..4", "lognormal:1", "1=0", ""]),
        (SIMULATE, "--output-tokens", ["0", "16777217"]),
        (SIMULATE, "--shared-prefix", ["0", "16777217"]),
        (SIMULATE, "--prefix-share", ["-0.1", "1.1"]),
        (SIMULATE, "--prefixes", ["0"]),
        (SIMULATE, "--turns", ["0", "1001"]),
        (SIMULATE, "--think", ["-1"]),
        (SIMULATE, "--priority-share", ["2"]),
        (SIMULATE, "--max-running", ["0", "4097"]),
        (SIMULATE, "--kv-tokens", ["0", "33554433"]),
        (SIMULATE, "--max-gap-steps", ["0.5", "nan"]),
        (SIMULATE, "--max-prefill-wait", ["0"]),
        (SIMULATE, "--long-prompt", ["0"]),
        (SIMULATE, "--max-long-prefills", ["0"]),
        (SIMULATE, "--max-passes", ["-1"]),
        (SIMULATE, "--queue", ["0"]),
        (SIMULATE, "--step-times", ["", "1,1,1,1", "1,1,1,1,1,1", "1,1,x,1,1", "1,1,-1,1,1"]),
        (SIMULATE, "--time-model", [""]),
        (SIMULATE, "--noise", ["-0.1", "1.1"]),
        (SERVE, "--max-queue", ["-1", "0"]),
        (SERVE, "--allowed-host", ["", "llm.example:8443", "https://llm.example", "*"]),
        (SERVE, "--max-queue-tokens", ["0"]),
        (RUN, "--prefill", ["none", ""]),
        (TUNE, "--kl", ["0", "-1", "nan", "x"]),
        (TUNE, "--tokens", ["1023", "x"]),
        (TUNE, "--tune-file", [""]),
        (RUN, "--sparse", ["", " ", "share", "rule=best", "rule=threshold:1.5", "block=96", "tile=48", "tile=0", "window=0",
                           "rule=threshold:-1", "rule=threshold:nan", "rule=share:0",
                           "estimate=far:9", "dense-layers=x", "block=64 block=64"]),
        (SERVE, "--kv-disk", [""]),
        (SERVE, "--kv-disk-gb", ["0", "x"]),
        (TEMPLATE, "--bos", ["\udcff"]),
        (TEMPLATE, "--eos", ["\udcff"]),
    ]

    def test_a_wrong_value_is_wrong_usage_whatever_the_option(self):
        for command, option, values in self.WRONG:
            for given in values:
                with self.subTest(option=option, given=given):
                    line = self.fails(*command, option, given, code=2)
                    self.assertRegex(line, rf"^baton [a-z ]+: {option}\b")
                    # A list is blamed by its part that is wrong.
                    if given.isascii() and option not in ("--positions", "--tokens", "--sparse"):
                        self.assertIn(given.partition("=")[0], line)

    def test_the_table_of_wrong_values_has_every_option(self):
        named = {option for _, option, _ in self.WRONG} | set(self.RANGES)
        named |= {"--precision", "--model"}  # tests of their own
        for command in COMMANDS:
            text = self.ok(*command.split(), "--help")
            for option in re.findall(r"(?m)^ +(?:-\w, )?(--[a-z-]+) [A-Z]", text):
                self.assertIn(option, named, command)

    def test_values_given_twice(self):
        for command in COMMANDS:
            text = self.ok(*command.split(), "--help")
            for option, help_text in re.findall(
                    r"(?m)^ +(?:-\w, )?(--[a-z-]+) [A-Z]\S*((?:.|\n {28})*)", text):
                if "repeated" in " ".join(help_text.split()) or option == "--model":
                    continue
                line = self.fails(*command.split(), MODEL, option, "1", option, "1", code=2)
                self.assertIn(f"{option} is given 2 times ('1', then '1')", line)

    def test_flags_take_no_value(self):
        for command in COMMANDS:
            text = self.ok(*command.split(), "--help")
            flags = re.findall(r"(?m)^ +(?:-\w, )?(--[a-z-]+)(?:  |$)", text)
            self.assertIn("--help", flags)
            for flag in flags:
                for given in ("0", "false", "true", ""):
                    if flag == "--help":
                        continue
                    line = self.fails(*command.split(), MODEL, f"{flag}={given}", code=2)
                    self.assertTrue(line.endswith(f"{flag} takes no value, not even '{given}'"),
                                    line)

    def test_standard_input_is_named_once(self):
        cases = [
            ["run", MODEL, "-", "-f", "-"],
            ["run", MODEL, "-", "-p", "-"],
            ["run", MODEL, "-f", "-", "-f", "-"],
            ["template", MODEL, "--messages", "-", "--tools", "-"],
            ["template", "--template", "-", "--messages", "-"],
        ]
        for arguments in cases:
            self.assertIn("standard input can be read once", self.fails(*arguments, code=2))

    def test_a_template_that_is_a_file_gets_a_hint(self):
        path = self.file("mytmpl", "x")
        done = subprocess.run([BATON, *self.RUN, "--chat-template", "mytmpl"],
                              cwd=os.path.dirname(path), capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"the file of this name is './mytmpl'", done.stderr)
        self.assertIn("did you mean 'chatml'?",
                      self.fails(*self.RUN, "--chat-template", "chatlm", code=2))

    def test_combinations(self):
        cases = [
            (["run", MODEL], "nothing to answer"),
            (["run"], "name a model file"),
            (["run", "-p", "x"], "name a model file"),
            (["run", MODEL, "-m", "b.gguf", "-p", "x"], "2 model files are named"),
            (["run", MODEL, "other.gguf", "-p", "x"],
             "2 model files are named, one is wanted; a question goes with -p"),
            (["run", MODEL, "-", "third", "-p", "x"], "unexpected argument 'third'"),
            (["run", MODEL, "-p"], "--prompt needs a value"),
            (["run", ""], "MODEL takes the name of a file, not ''"),
            (["run", MODEL, "-p", "x", "-p", "y"], "--prompt is given 2 times"),
            (["run", MODEL, "-p", "x", "--logit-bias", "7=1", "--logit-bias", "7=2"],
             "--logit-bias names the token 7 twice"),
            (["template", MODEL, "--messages", "x", "--continue", "--no-generation-prompt"],
             "--continue opens no new turn"),
            (["template", MODEL, "--messages", "x", "--var", "n=1", "--var", "n=2"],
             "--var sets 'n' twice"),
            (["run", MODEL, "-p", "x", "--raw", "--system", "y"], "--raw leaves out"),
            (["run", MODEL, "-p", "x", "--no-bos"], "go with --raw only"),
            (["run", MODEL, "-p", "x", "--logprobs", "2"], "goes with --json only"),
            (["chat", MODEL, "-f", "-"], "standard input holds the messages"),
            (["inspect"], "name a model file"),
            (["inspect", MODEL, "b.gguf"], "unexpected argument 'b.gguf'"),
            (["tokenize", MODEL, "text"],
             "2 model files are named, one is wanted; the text comes from standard input"),
            (["tokenize", MODEL, "-", "text"], "unexpected argument 'text'"),
            (["eval", "logits", MODEL], "--ids FILE"),
            (["eval", "logits", MODEL, "--ids", "x", "--tokens", "1,a"], "--tokens: 'a'"),
            (["eval", "perplexity", MODEL], "--text FILE"),
            (["eval", "perplexity", MODEL, "--text", "x", "--window", "1"], "--window takes"),
        ]
        for arguments, words in cases:
            line = self.fails(*arguments, code=2)
            self.assertIn(words, line)
            self.assertRegex(line, rf"^baton {arguments[0]}")

    def test_second_line_says_where_help_is(self):
        done = self.baton("eval", "logits", MODEL, "--bogus")
        self.assertRegex(done.stderr.decode(), r"\nTry 'baton eval logits --help'\.\n$")

    def test_help_wins_over_other_mistakes(self):
        self.assertTrue(re.match("Usage: baton run", self.ok("run", "--bogus", "--help")))


class WhatTakesTheirPlace(BatonCase):
    def test_options_that_people_try(self):
        for command, options, words in (
                ("tokenize", ["-f", "-fx", "--file", "-p", "--prompt", "--text"],
                 "tokenize reads the text from standard input: baton tokenize MODEL < FILE"),
                ("detokenize", ["-f", "--file", "--ids"],
                 "detokenize reads the ids from standard input: baton detokenize MODEL < FILE"),
                ("pack", ["-o", "-ox", "--output"],
                 "pack writes MODEL.packed beside the model, where other commands look for it")):
            for option in options:
                name = option if option.startswith("--") else option[:2]
                self.assertIn(f"baton {command}: there is no {name} here: {words}",
                              self.fails(command, MODEL, option, "x", code=2))


class LongValues(BatonCase):
    def test_a_long_value_does_not_push_the_reason_out(self):
        value = "7" * 50000
        for arguments, code, words in (
                (["run", MODEL, "-p", "x", "--isa", value], 2, "; this machine can run: auto,"),
                (["run", value, "-p", "x"], 1, ": the name is too long"),
                (["run", MODEL, "-p", "x", "-f", "./" + value], 1, "': File name too long"),
                ([value], 2, "baton: unknown command '777"),
                (["bench", "serve", MODEL, "--rate", value], 2, "--rate takes numbers from 0.001 to 1000000 ")):
            line = self.fails(*arguments, code=code)
            self.assertIn(words, line)
            self.assertLess(len(line), 1100)

    def test_a_long_path_does_not_push_the_end_of_a_note_out(self):
        model = self.file("tiny.gguf", tiny_llama(context=2048).bytes())
        text = self.file("short.txt", b"Two of a kind, and one more. " * 40)
        path = os.path.join(os.path.dirname(text), "./" * 600 + "short.txt")
        note = self.baton("tune", model, "--text", path, "--kl", "1").stderr.decode().splitlines()[0]
        self.assertRegex(note, r"^baton: note: /.*\.\.\..*short\.txt: has 1,160 tokens, fewer than the "
                               r"usual [\d,]+; all are read$")
        self.assertLess(len(note), 1100)


if __name__ == "__main__":
    main()
