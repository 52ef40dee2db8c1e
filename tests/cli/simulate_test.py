#!/usr/bin/env python3
"""baton simulate: figures that can be reckoned by hand, files of requests, and what is refused."""
import json
import pathlib
import re
import xml.etree.ElementTree

from baton_case import BatonCase, main

# A step of 10 ms, 1 ms a prompt token, 2 ms a decode row.
TIMES = ["--step-times", "0.01,0.001,0,0.002,0"]


class Simulate(BatonCase):
    def result(self, *arguments, stdin=b""):
        return json.loads(self.ok("simulate", "--json", *arguments, stdin=stdin))

    def test_one_request_takes_what_the_formula_says(self):
        load = self.file("one.jsonl",
                         '{"arrival": 2, "prompt_tokens": 100, "output_tokens": 11}\n')
        found = self.result("--workload", load, *TIMES)
        self.assertEqual(found["requests"]["completed"], 1)
        self.assertAlmostEqual(found["ttft_seconds"]["max"], 0.110)
        self.assertAlmostEqual(found["gap_seconds"]["max"], 0.012)
        self.assertAlmostEqual(found["busy_seconds"], 0.110 + 10 * 0.012)
        self.assertAlmostEqual(found["seconds"], 2.23)
        self.assertEqual(found["steps"], 11)
        self.assertEqual(found["output_tokens"], 11)
        self.assertEqual(found["step_times"]["per_prefill_token"], 0.001)

    def test_times_from_a_file(self):
        load = '{"arrival": 0, "prompt_tokens": 100, "output_tokens": 1}'
        times = self.file("times.json", json.dumps({
            "per_step": 0.5, "per_prefill_token": 0.01, "per_prefill_context": 0,
            "per_decode_row": 0, "per_decode_context": 0, "fitted_on": "paper"}))
        found = self.result("--workload", "-", "--time-model", times, stdin=load)
        self.assertAlmostEqual(found["ttft_seconds"]["max"], 1.5)

    def test_a_shared_prefix_is_computed_once(self):
        lines = [{"arrival": i, "prompt_tokens": 300, "output_tokens": 2, "prefix": 5,
                  "prefix_tokens": 256} for i in range(10)]
        load = self.file("prefix.jsonl", "\n".join(map(json.dumps, lines)))
        found = self.result("--workload", load, *TIMES)
        self.assertEqual(found["prefix_hit_tokens"], 9 * 256)
        self.assertEqual(found["prompt_tokens_computed"], 300 + 9 * 44)
        found = self.result("--workload", load, "--no-prefix-cache", *TIMES)
        self.assertEqual(found["prefix_hit_tokens"], 0)

    def test_clients_that_go_and_a_queue_that_is_full(self):
        lines = [{"arrival": 0, "prompt_tokens": 10, "output_tokens": 1000, "cancel_after": 1}]
        lines += [{"arrival": 0.5, "prompt_tokens": 10, "output_tokens": 5} for _ in range(8)]
        lines += [{"arrival": 3, "prompt_tokens": 500, "output_tokens": 5}]
        load = self.file("queue.jsonl", "\n".join(map(json.dumps, lines)))
        found = self.result("--workload", load, "--max-running", 1, "--queue", 3, "--ctx", 500,
                            *TIMES)
        self.assertEqual(found["requests"], {"arrived": 10, "completed": 3, "cancelled": 1,
                                             "refused_queue": 5, "refused_context": 1})

    def test_generated_load(self):
        arguments = ["--rate", 2, "--duration", 500, "--prompt-tokens", "50..70",
                     "--output-tokens", "10=1,20=1", "--shared-prefix", 128, "--prefix-share", 0.5,
                     "--prefixes", 2, "--turns", 2, "--think", 1, "--priority-share", 0.2,
                     "--burst", 2, "--noise", 0.05]
        found = self.result(*arguments)
        # 500 bursts of 2 chats of 2 turns; the number of bursts is Poisson.
        self.assertLess(abs(found["requests"]["arrived"] - 2000), 4 * 3 * 500 ** 0.5)
        self.assertEqual(found["requests"]["completed"], found["requests"]["arrived"])
        mean = found["output_tokens"] / found["requests"]["completed"]
        self.assertLess(abs(mean - 15), 0.6)
        self.assertGreater(found["prefix_hit_tokens"], 128 * 800)
        self.assertLessEqual(found["longest_gap_steps"], 5)
        self.assertEqual(found, self.result(*arguments))
        self.assertNotEqual(found, self.result(*arguments, "--seed", 1))

    def test_options_reach_the_scheduler(self):
        load = self.file("gap.jsonl", "\n".join(map(json.dumps, [
            {"arrival": 0, "prompt_tokens": 10, "output_tokens": 2000},
            {"arrival": 1, "prompt_tokens": 4000, "output_tokens": 1}])))
        wide = self.result("--workload", load, *TIMES, "--max-gap-steps", 20)
        narrow = self.result("--workload", load, *TIMES, "--max-gap-steps", 3)
        self.assertLessEqual(narrow["longest_gap_steps"], 3)
        self.assertGreater(wide["longest_gap_steps"], 10)
        self.assertLess(wide["ttft_seconds"]["max"], narrow["ttft_seconds"]["max"])
        small = self.result("--workload", load, *TIMES, "--ctx", 4096, "--kv-tokens", 4096)
        self.assertEqual(small["blocks"]["total"], 64)

    def test_table(self):
        text = self.ok("simulate", "--rate", 3, "--duration", 60)
        self.assertRegex(text, r"(?m)^time +count +p50 +p90 +p99 +max$")
        for name in ("in the queue", "to first token", "between tokens", "arrival to end"):
            self.assertRegex(text, rf"(?m)^{name} +[\d,]+( +[\d.]+ (ms|s)){{4}}$")
        self.assertRegex(text, r"(?m)^longest step +\d\.\d\d decode steps")
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80)

    def test_plot(self):
        path = self.folder / "load.svg"
        self.ok("simulate", "--rate", 3, "--duration", 60, "--plot", path)
        texts = [element.text for element in xml.etree.ElementTree.parse(path).iter()]
        for text in ("Time to first token", "Between two tokens of a stream", "median", "longest"):
            self.assertIn(text, texts)
        self.assertNotIn("limit of the machine", texts)
        self.assertIn("cannot write", self.fails("simulate", "--plot", self.folder / "no/x.svg"))

    def test_the_document_says_what_the_program_says(self):
        text = (pathlib.Path(__file__).parents[2] / "docs/scheduling.md").read_text()
        command = re.search(r"(?m)^    baton (simulate .*)$", text)[1].split()
        said = self.ok(*command)
        for name in ("in the queue", "to first token", "between tokens", "arrival to end"):
            rows = [re.search(rf"(?m)^ *{name} +(.*)$", source)[1] for source in (text, said)]
            documented, found = (re.findall(r"([\d.,]+)(?: (ms|s)\b)?", row) for row in rows)
            self.assertEqual([unit for _, unit in documented], [unit for _, unit in found])
            for (old, _), (new, _) in zip(documented, found):
                old, new = (float(number.replace(",", "")) for number in (old, new))
                self.assertLess(abs(old - new), 0.1 * new, rows)

    def test_files_that_do_not_serve(self):
        self.assertIn("nowhere", self.fails("simulate", "--workload", "nowhere"))
        bad = self.file("bad.jsonl", '{"arrival": 0, "prompt_tokens": 1, "output_tokens": 1}\n'
                                     '{"arrival": 0, "prompt_tokens": 0, "output_tokens": 1}\n')
        self.assertIn("bad.jsonl: line 2: 'prompt_tokens' must be a whole number from 1",
                      self.fails("simulate", "--workload", bad))
        for times, words in (("[]", "is not a JSON object"), ("{}", "'per_step' is missing"),
                             ('{"per_step": -1}', "'per_step' must be seconds from 0 to 100000, not -1"),
                             ('{"per_step": "1"}', "100000, not \"1\"$"),
                             ('{"per_step": [1]}', "100000, not a list$"),
                             ('{"per_step": null}', "100000, not null$")):
            self.assertRegex(self.fails("simulate", "--time-model", self.file("times.json", times)),
                             f"times.json: .*{words}")

    def test_the_windows_share_the_whole_time(self):
        load = ('{"arrival": 0, "prompt_tokens": 10, "output_tokens": 1}\n'
                '{"arrival": 600, "prompt_tokens": 10, "output_tokens": 1, "follows": 0}\n')
        found = self.result("--workload", "-", *TIMES, stdin=load)
        windows = found["windows"]
        self.assertIn(len(windows), range(12, 25))
        self.assertEqual(windows[0]["ttft_seconds"]["count"], 1)
        self.assertEqual(windows[-1]["ttft_seconds"]["count"], 1)
        self.assertGreater(windows[-1]["begin"], 0.9 * found["seconds"])

    def test_slow_steps_are_told_apart(self):
        found = self.result("--step-times", "1000,1000,1000,1000,1000", "--duration", "10")
        ttft = found["ttft_seconds"]
        self.assertLess(ttft["p50"], ttft["p90"])
        self.assertLess(ttft["p99"], ttft["max"] * 1.008)
        self.assertGreater(ttft["p99"], ttft["max"] / 2)

    def test_lines_are_blamed_by_their_field(self):
        line = '{"arrival": 0, "prompt_tokens": 9, "output_tokens": 1, %s}'
        for field, words in (('"promt": 1', "line 1: 'promt' means nothing here"),
                             ('"prefix": 7', "'prefix' goes with 'prefix_tokens' only"),
                             ('"follows": -1', "this is the first"),
                             ('"arrival": 1', "'arrival' stands twice"),
                             ('"priority": 1e999', "a number that is too large")):
            self.assertIn(words, self.fails("simulate", "--workload", "-", stdin=line % field))

    def test_a_workload_of_nothing_and_numbers_out_of_range_are_told(self):
        for text in ("", "\n\n"):
            self.assertIn("standard input: holds no request; 'baton simulate --help'",
                          self.fails("simulate", "--workload", "-", stdin=text))
        for given in ("lognormal:400,1e9", "64=0", "64=1e300"):
            line = self.fails("simulate", "--prompt-tokens", given, code=2)
            self.assertRegex(line, r"sigma above 0, at most 5\).*weights above 0, at most "
                             rf"1000000000000\), not '{re.escape(given)}'")

    def test_options_that_exclude_each_other(self):
        cases = [
            (["--workload", "x", "--rate", "1"], "--workload has its own arrivals, and --rate is"),
            (["--workload", "x", "--turns", "2"], "and --turns is of generated ones; leave one of"),
            (["--time-model", "x", "--step-times", "1,1,1,1,1"], "exclude each other"),
            (["--prefixes", "2"], "go with --shared-prefix only"),
            (["--think", "2"], "goes with --turns only"),
            (["--kv-tokens", "4096"], "--kv-tokens 4096 cannot hold one sequence of --ctx 8192; give "
             "--kv-tokens 8192 or more, or --ctx 4096 or less"),
            (["--rate", "1000", "--duration", "1e6"], "at most 10000000 can be simulated"),
            (["--workload", "-", "--time-model", "-"], "standard input can be read once"),
            (["model.gguf"], "unexpected argument 'model.gguf'"),
        ]
        for arguments, words in cases:
            self.assertIn(words, self.fails("simulate", *arguments, code=2))


if __name__ == "__main__":
    main()
