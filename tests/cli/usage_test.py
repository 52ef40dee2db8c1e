#!/usr/bin/env python3
"""The command line itself: help, versions, and what is refused with exit code 2."""
import re

from baton_case import BatonCase, main

COMMANDS = ["run", "chat", "inspect", "tokenize", "detokenize", "template", "eval logits",
            "eval perplexity"]
MODEL = "nowhere.gguf"


class Usage(BatonCase):
    def test_list_of_commands(self):
        texts = [self.ok(), self.ok("help"), self.ok("--help")]
        self.assertEqual(len(set(texts)), 1)
        for command in COMMANDS:
            self.assertRegex(texts[0], rf"(?m)^  {command} +\S")

    def test_version(self):
        self.assertRegex(self.ok("--version"), r"^baton \d+\.\d+\.\d+\n$")

    def test_help_of_each_command(self):
        for command in COMMANDS:
            words = command.split()
            text = self.ok(*words, "--help")
            self.assertEqual(text, self.ok("help", *words))
            self.assertEqual(text, self.ok(*words, MODEL, "-h"))
            self.assertTrue(text.startswith(f"Usage: baton {command} "), text)
            self.assertIn("\nExit status:\n", text)
            self.assertRegex(text, rf"\nExamples?:\n  .*baton {command} ")
            for line in text.splitlines():
                # Example lines are to be copied, so they are not wrapped.
                if not line.startswith("  ") or line.startswith("      "):
                    self.assertLessEqual(len(line), 80, line)

    def test_computing_commands_take_the_same_options(self):
        for command in ["run", "chat", "eval logits", "eval perplexity"]:
            text = self.ok(*command.split(), "--help")
            for option in ["--threads N", "--chunk N", "--isa NAME", "--ctx N",
                           "--precision NAME", "-m, --model MODEL"]:
                self.assertIn(option, text)

    def test_unknown_commands(self):
        for word, match in [("rnu", "run"), ("inspec", "inspect"), ("tokenise", "tokenize")]:
            self.assertEqual(self.fails(word, code=2),
                             f"baton: unknown command '{word}'; did you mean '{match}'?")
        self.assertEqual(self.fails("frobnicate", code=2),
                         "baton: unknown command 'frobnicate'")
        self.assertIn("'eval' needs one of: logits, perplexity", self.fails("eval", code=2))
        self.assertIn("did you mean 'logits'?", self.fails("eval", "logit", code=2))
        self.assertIn("unknown option '--json'", self.fails("--json", code=2))

    def test_unknown_flags(self):
        cases = [
            (["run", MODEL, "-p", "x", "--tmep", "1"], "'--tmep'; did you mean '--temp'?"),
            (["run", MODEL, "-p", "x", "--thread=2"], "'--thread'; did you mean '--threads'?"),
            (["inspect", MODEL, "--jsno"], "'--jsno'; did you mean '--json'?"),
            (["tokenize", MODEL, "--xyzzy"], "unknown option '--xyzzy'"),
            (["chat", MODEL, "-z"], "unknown option '-z'"),
        ]
        for arguments, words in cases:
            self.assertIn(words, self.fails(*arguments, code=2))

    def test_bad_values_name_option_value_and_range(self):
        ranges = {
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
        for option, (accepted, values) in ranges.items():
            for given in values:
                line = self.fails("run", MODEL, "-p", "x", option, given, code=2)
                self.assertTrue(line.startswith(f"baton run: {option} takes "), line)
                self.assertIn(accepted, line.replace("+09", "000000000"))
                self.assertTrue(line.endswith(f", not '{given}'"), line)

    def test_choices(self):
        self.assertEqual(
            self.fails("run", MODEL, "-p", "x", "--precision", "exat", code=2),
            "baton run: --precision takes fast, exact, not 'exat'; did you mean 'exact'?")
        self.assertIn("--isa", self.fails("run", MODEL, "-p", "x", "--isa", "mmx", code=2))

    def test_logit_bias(self):
        for given in ["12", "x=1", "-1=5", "12=", "12=false", "12=1e30", "=1", "2147483648=1"]:
            line = self.fails("run", MODEL, "-p", "x", "--logit-bias", given, code=2)
            self.assertIn(f"not '{given}'", line)

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
            (["run", MODEL, "-p", "x", "--stop", ""], "--stop takes a text"),
            (["run", MODEL, "-p", "x", "--raw", "--system", "y"], "--raw leaves out"),
            (["run", MODEL, "-p", "x", "--no-bos"], "go with --raw only"),
            (["run", MODEL, "-p", "x", "--logprobs", "2"], "goes with --json only"),
            (["chat", MODEL, "-f", "-"], "standard input holds the messages"),
            (["inspect"], "name a model file"),
            (["inspect", MODEL, "b.gguf"], "unexpected argument 'b.gguf'"),
            (["tokenize", MODEL, "text"], "unexpected argument 'text'"),
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


if __name__ == "__main__":
    main()
