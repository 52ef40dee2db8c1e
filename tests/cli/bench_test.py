#!/usr/bin/env python3
"""Every benchmark once with tiny sizes: it runs, is right, and its reports have their shape."""
import csv
import importlib.machinery
import importlib.util
import io
import json
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree

from baton_case import BATON, SMOL, TESTS, BatonCase, cached, main
from gguf_file import tiny_llama

TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "F16",
         "BF16", "F32"]


def floors():
    """tools/bench_floors as a module."""
    loader = importlib.machinery.SourceFileLoader(
        "bench_floors", str(TESTS.parent / "tools/bench_floors"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_floors",
                                                                             loader))
    loader.exec_module(module)
    return module


QUICK = b"baton: note: --quick does everything once with tiny sizes: these figures mean nothing\n"


class Bench(BatonCase):
    def check_table(self, text):
        for line in text.splitlines():
            self.assertLessEqual(len(line), 100, line)
        self.assertRegex(text, r"(?m)^CPU +\S")

    def test_help(self):
        for command in ["limits", "kernels", "model", "serve"]:
            text = self.ok("bench", command, "--help")
            self.assertTrue(text.startswith(f"Usage: baton bench {command} "), text)
            self.assertIn("--quick", text)
        self.assertIn("'bench' needs one of: limits, kernels, model, serve", self.fails("bench", code=2))

    def test_quick_figures_are_warned_of(self):
        model = self.folder / "tiny.gguf"
        model.write_bytes(tiny_llama(context=256).bytes())
        for arguments in (["limits"], ["kernels", "--only", "linear", "--type", "F32"],
                          ["model", model], ["serve", model]):
            for form in ([], ["--json"]):
                done = self.baton("bench", *arguments, "--quick", *form)
                self.assertEqual((done.returncode, done.stderr.count(QUICK)), (0, 1), done.stderr)
        done = self.baton("bench", "kernels", "--only", "linear", "--type", "F32", "--shape",
                          "1x16x32", "--seconds", "0.001")
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_limits(self):
        self.check_table(self.ok("bench", "limits", "--quick", "--threads", "2"))
        report = json.loads(self.ok("bench", "limits", "--quick", "--threads", "2", "--json"))
        self.assertEqual([read["from"] for read in report["reads"]],
                         ["L1", "L2", "L3", "memory", "memory"])
        isas = report["machine"]["instruction_sets"]
        self.assertEqual([limit["isa"] for limit in report["arithmetic"]], [*isas, isas[-1]])
        for limit in report["arithmetic"]:
            self.assertGreater(limit["f32_macs_per_second"]["median"], 1e7)

    def test_serve(self):
        model = cached(SMOL)
        plot = self.folder / "serve.svg"
        options = ["--quick", "--ctx", "256", "--threads", "2", "--max-running", "4"]
        self.check_table(self.ok("bench", "serve", model, *options))
        report = json.loads(self.ok("bench", "serve", model, *options, "--clients", "1,3",
                                    "--rate", "50", "--shared", "15", "--prompt", "80",
                                    "--long-prompt", "100", "--json", "--plot", plot))
        loads = [(row["clients"], row["requests_per_second"]) for row in report["rows"]]
        self.assertEqual(loads, [(1, 0), (3, 0), (0, 50)])
        for row in report["rows"]:
            self.assertEqual((row["requests"], row["refused"]), (4, 0))
            self.assertGreater(row["ttft_seconds"]["p50"], 0)
            self.assertLessEqual(row["gap_seconds"]["p50"], row["gap_seconds"]["max"])
            # 15 shared tokens fill no block of 64.
            self.assertEqual(row["cached_share"], 0)
        self.assertEqual([row["streams"] for row in report["long_prompts"]], [1, 3])
        for row in report["long_prompts"]:
            self.assertGreater(row["ttft_seconds"], 0)
            self.assertGreater(row["longest_gap_seconds"], 0)
            least = row["longest_gap_seconds"] / max(row["gap_before_seconds"],
                                                     row["gap_after_seconds"])
            self.assertGreaterEqual(row["longest_gap_steps"] * 1.0001, least)
        self.assertTrue(xml.etree.ElementTree.parse(plot).getroot().tag.endswith("svg"))
        shared = json.loads(self.ok("bench", "serve", model, *options, "--clients", "1",
                                    "--shared", "70", "--prompt", "80", "--json"))
        self.assertEqual(shared["rows"][0]["cached_share"], 3 * 64 / (4 * 80))
        for wrong in [["--clients", "0"], ["--rate", "0"], ["--rate", "nan"], ["--prompt", "0"],
                      ["--shared", "600"], ["--gap-limit", "-1"], ["--max-running", "0"]]:
            self.assertIn(wrong[0], self.fails("bench", "serve", model, *wrong, code=2))
        for option in ("--rate", "--clients"):
            self.assertIn(f"{option} takes each thing once, not '2' twice",
                          self.fails("bench", "serve", model, option, "2,3,2", code=2))
        text = self.fails("bench", "serve", model, "--ctx", "100", "--prompt", "90", code=1)
        self.assertIn("154", text)

    def test_serve_keeps_a_place_for_a_long_prompt(self):
        line = self.fails("bench", "serve", cached(SMOL), "--clients", "1,2", "--max-running", "2",
                          "--long-prompt", "60", code=2)
        self.assertIn("--max-running 2 has none: make it 3", line)
        line = self.fails("bench", "serve", cached(SMOL), "--rate", "1", "--long-prompt", "60",
                          code=2)
        self.assertIn("give --clients", line)
        report = json.loads(self.ok("bench", "serve", cached(SMOL), "--quick", "--ctx", "128",
                                    "--clients", "17", "--requests", "1", "--prompt", "2",
                                    "--output", "1", "--long-prompt", "10", "--json"))
        self.assertEqual(report["max_running"], 18)

    def test_serve_says_how_long_arrivals_take(self):
        model = self.folder / "slow.gguf"
        model.write_bytes(tiny_llama(context=256).bytes())
        arguments = ["bench", "serve", model, "--quick", "--rate"]
        process = subprocess.Popen([BATON, *map(str, arguments), "0.001,0.01"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = process.stderr.readline().decode()
        self.assertRegex(line, r"^baton: note: the arrivals of 4 requests take \d+ (h \d\d min|min "
                               r"\d\d s) at 0.001 per second \(\d+ (h \d\d min|min \d\d s) at all "
                               r"2 rates\); fewer --requests or a higher --rate take less$")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out), (130, b""), error)
        # Nothing is said of what is soon over.
        self.assertEqual(self.baton(*arguments, "100").stderr, QUICK)

    def test_serve_counts_what_an_overload_has_refused(self):
        report = json.loads(self.ok("bench", "serve", cached(SMOL), "--rate", "1000000",
                                    "--clients", "1", "--requests", "1500", "--prompt", "2",
                                    "--output", "1", "--ctx", "64", "--json", timeout=300))
        closed, load = report["rows"]
        self.assertEqual((closed["requests"], closed["refused"]), (1500, 0))
        self.assertEqual(load["requests"], 1500)
        self.assertGreater(load["refused"], 0)
        self.assertLess(load["refused"], 500)
        self.assertLess(load["good_share"], 1)

    def test_kernels(self):
        report = json.loads(self.ok("bench", "kernels", "--quick", "--json"))
        rows = report["rows"]
        self.assertTrue(all(row["verified"] for row in rows))
        linear = [row for row in rows if row["operation"] == "linear"]
        self.assertEqual(sorted({row["type"] for row in linear}), sorted(TYPES))
        self.assertEqual({row["shape"]["rows"] for row in linear}, {1, 2, 4, 8, 16, 18})
        operations = {row["operation"] for row in rows}
        self.assertGreaterEqual(operations, {"linear", "prefill-attention", "decode-attention",
                                             "rms-norm", "quantize", "rope", "kv-write"})
        for row in rows:
            self.assertGreater(row["seconds"]["median"], 0)
            self.assertTrue(row["limits"])

    def test_one_phase_of_attention_alone(self):
        for phase in ("prefill", "decode"):
            rows = json.loads(self.ok("bench", "kernels", "--quick", "--only", phase, "--json"))["rows"]
            self.assertEqual({row["operation"] for row in rows}, {f"{phase}-attention"})

    def test_sparse_rows_show_their_stages(self):
        arguments = ["bench", "kernels", "--quick", "--only", "sparse"]
        rows = json.loads(self.ok(*arguments, "--json"))["rows"]
        self.assertEqual([row["type"] for row in rows], ["dense", "mean", "far 4"])
        self.assertNotIn("sparse", rows[0])
        for row in rows[1:]:
            self.assertTrue(row["verified"])
            self.assertEqual(list(row["sparse"]["stages"]), ["pack", "score", "select", "correct"])
            self.assertEqual(row["compared"]["of"], "speed of dense attention")
        table = self.ok(*arguments)
        self.check_table(table)
        self.assertIn("kept blocks", table)
        lines = list(csv.DictReader(io.StringIO(self.ok(*arguments, "--csv"))))
        self.assertEqual(lines[0]["overhead"], "")
        self.assertGreater(float(lines[1]["overhead"]), 0)

    def test_kernels_as_table_and_csv(self):
        arguments = ["bench", "kernels", "--quick", "--only", "linear", "--type", "Q4_0,F32",
                     "--precision", "fast"]
        self.check_table(self.ok(*arguments))
        rows = list(csv.DictReader(io.StringIO(self.ok(*arguments, "--csv"))))
        self.assertEqual([row["type"] for row in rows], ["Q4_0"] * 6 + ["F32"] * 6)
        self.assertTrue(all(None not in row and None not in row.values() for row in rows))
        shaped = self.ok(*arguments, "--shape", "3x20x64", "--isa", "all", "--csv")
        rows = list(csv.DictReader(io.StringIO(shaped)))
        self.assertEqual({row["extents"] for row in rows}, {"3x20x64"})
        self.assertIn("portable", {row["isa"] for row in rows})

    def test_model(self):
        plot = self.folder / "plot.svg"
        plot.write_text("<svg>something longer than a plot" * 1000)
        text = self.ok("bench", "model", cached(SMOL), "--quick", "--threads", "1,2", "--json",
                       "--plot", plot)
        report = json.loads(text)
        self.assertEqual(len(report["rows"]), 2 * 4)
        self.assertEqual([row["depth"] for row in report["rows"][:4]], [0, 0, 70, 0])
        self.assertGreater(report["memory"]["peak_resident_bytes"],
                           report["memory"]["weight_bytes"])
        root = xml.etree.ElementTree.parse(plot).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(len(root.findall(".//{*}circle")), 2 * (1 + 2 + 2) + 2)

    def test_a_model_over_a_cache_of_8_bits(self):
        reports = {}
        for kv_type in ("f16", "q8"):
            reports[kv_type] = json.loads(self.ok("bench", "model", cached(SMOL), "--quick", "--json",
                                                  "--kv-type", kv_type))
            self.assertEqual(reports[kv_type]["kv_type"], kv_type)
        kv_bytes = {name: report["memory"]["kv_bytes"] for name, report in reports.items()}
        # Of head size 64: 265 and 149 bytes a token.
        self.assertEqual(kv_bytes["q8"] * 265, kv_bytes["f16"] * 149)

    def test_where_the_time_of_a_model_goes(self):
        trace = self.folder / "model.trace"
        arguments = ["bench", "model", cached(SMOL), "--quick", "--prompt", "7", "--depth", "3",
                     "--batch", "1,2", "--json"]
        done = self.baton(*arguments, "--profile", "--trace", trace)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(len(json.loads(done.stdout)["rows"]), 3)
        steps = [event for event in json.loads(trace.read_text()) if event["name"].endswith("step")]
        kinds = {(event["name"], event["args"]["rows"]) for event in steps}
        self.assertEqual(kinds, {("prefill step", 7), ("decode step", 1), ("decode step", 2)})
        # Every row as often, rounds and warming up.
        counts = {kind: sum((event["name"], event["args"]["rows"]) == kind for event in steps)
                  for kind in kinds}
        self.assertEqual(len(set(counts.values())), 1, counts)
        times = counts[("prefill step", 7)]
        self.assertIn(f"prefill of {7 * times} rows", done.stderr.decode())
        self.assertIn(f"decode of {3 * times} rows", done.stderr.decode())
        for word in ("prefill attention", "decode attention", "everything else", "layers"):
            self.assertIn(word, done.stderr.decode())
        # Before anything is measured, and only if it was asked for.
        self.assertIn("cannot write", self.fails(*arguments, "--trace", self.folder / "no" / "t"))
        self.assertEqual(self.baton(*arguments).stderr, QUICK)

    def test_a_packed_model_is_measured_as_it_is_run(self):
        model = self.folder / "model.gguf"
        shutil.copyfile(cached(SMOL), model)
        self.ok("pack", model)
        arguments = ["bench", "model", model, "--quick", "--prompt", "7", "--depth", "3", "--batch",
                     "1", "--json"]
        self.assertTrue(json.loads(self.ok(*arguments))["packed"])
        self.assertFalse(json.loads(self.ok(*arguments, "--no-packed"))["packed"])
        with open(f"{model}.packed", "r+b") as file:
            file.truncate(5000)
        self.assertIn("--no-packed", self.fails(*arguments))
        self.ok(*arguments, "--no-packed")

    def test_beyond_the_trained_context_is_noted(self):
        arguments = ["bench", "model", cached(SMOL), "--quick", "--prompt", "7", "--depth", "9000",
                     "--batch", "1"]
        words = "beyond the context of 8,192"
        self.assertIn(words, self.ok(*arguments))
        self.assertIn(words, json.loads(self.ok(*arguments, "--json"))["notes"][0])
        done = self.baton(*arguments, "--csv")
        self.assertIn(words, done.stderr.decode())
        self.assertNotIn(words, done.stdout.decode())

    def test_model_as_table_and_csv(self):
        arguments = ["bench", "model", cached(SMOL), "--quick", "--prompt", "7", "--depth", "3",
                     "--batch", "1"]
        self.check_table(self.ok(*arguments))
        rows = list(csv.DictReader(io.StringIO(self.ok(*arguments, "--csv"))))
        self.assertEqual([row["phase"] for row in rows], ["prefill", "decode"])
        self.assertGreater(float(rows[0]["tokens_per_second"]), 0)

    def test_what_is_refused(self):
        cases = [
            (["kernels", "--type", "Q4_O"], "--type takes Q4_0, "),
            (["kernels", "--type", "Q4_0,"], "--type takes"),
            (["kernels", "--shape", "512x1536"], "--shape takes rows x outputs x inputs"),
            (["kernels", "--shape", "1x2x33"], "--shape takes"),
            (["kernels", "--shape", "1x1048576x1048576"], "--shape takes"),
            (["kernels", "--isa", "mmx"], "--isa"),
            (["kernels", "--only", "all"], "--only takes linear, attention, prefill, decode, sparse, rows"),
            (["kernels", "--keys", "4096,5000"], "--keys takes 4096, 8192, "),
            (["kernels", "--keys", "4096,4096"], "--keys takes each thing once, not '4096'"),
            (["kernels", "--only", "rows", "--keys", "4096"], "--keys is about sparse attention"),
            (["kernels", "--quick", "--keys", "4096"], "--keys has no meaning"),
            (["kernels", "--json", "--csv"], "exclude each other"),
            (["kernels", "--seconds", "-1"], "--seconds takes"),
            (["kernels", "--seconds", "1", "--quick"], "--seconds has no meaning"),
            (["kernels", "--isa", "all,avx2"], "takes all alone"),
            (["kernels", "--isa", "portable,portable"], "'portable' twice"),
            (["kernels", "--type", "Q4_0,F32,Q4_0"], "'Q4_0' twice"),
            (["kernels", "--shape", "1x2x32", "--shape", "1x2x32"], "'1x2x32' twice"),
            (["kernels", "--only", "rows", "--shape", "1x2x32"], "--shape is about linear layers"),
            (["kernels", "--only", "attention", "--type", "F32"], "--type is about linear layers"),
            (["kernels", "--only", "rows", "--precision", "fast"], "--precision is about linear"),
            (["model", "x.gguf", "--batch", "1,2,1"], "--batch takes each thing once, not '1'"),
            (["limits", "--threads", "0"], "--threads takes"),
            (["model"], "name a model file"),
            (["model", "x.gguf", "--prompt", "128,,512"], "--prompt takes whole numbers from 1"),
            (["model", "x.gguf", "--depth", "-1"], "--depth takes"),
            (["model", "x.gguf", "--threads", "1,two"], "--threads takes"),
            (["model", "x.gguf", "--batch", ",".join(["1"] * 65)], "--batch takes"),
        ]
        for arguments, words in cases:
            self.assertIn(words, self.fails("bench", *arguments, code=2))
        self.assertIn("nowhere.gguf", self.fails("bench", "model", "nowhere.gguf"))
        self.assertIn("cannot write", self.fails("bench", "model", cached(SMOL), "--quick",
                                                 "--plot", self.folder / "no/folder.svg"))
        leftover = self.folder / "leftover.svg"
        self.fails("bench", "model", "nowhere.gguf", "--plot", leftover)
        self.assertFalse(leftover.exists())
        self.assertIn("do not fit", self.fails("bench", "model", cached(SMOL), "--depth",
                                               "1000000", "--batch", "1000"))


class Floors(BatonCase):
    """tools/bench_floors on reports that are written here."""

    def row(self, **changes):
        row = {"operation": "linear", "type": "Q4_0", "precision": "fast", "isa": "avx512",
               "threads": 1, "shape": {"rows": 512, "outputs": 1536, "inputs": 576},
               "limits": {"int8": {"share": 0.65}, "fma": {"share": 2.5}}, "verified": True}
        return {**row, **changes}

    def test_best_of_all_tries_counts(self):
        best = floors().Best()
        for share in (0.30, 0.63, 0.55):
            best.take({"rows": [self.row(limits={"int8": {"share": share}})]})
        self.assertEqual(list(best.values.values()), [0.63])
        self.assertEqual(best.below(), [])

    def test_what_is_below_is_found(self):
        cases = [
            (self.row(limits={"int8": {"share": 0.61}}), True),
            (self.row(type="Q6_K", limits={"int8": {"share": 0.54}}), False),
            (self.row(isa="avx2", limits={"fma": {"share": 1.8}}), True),
            (self.row(isa="avx2", type="Q8_0", limits={"fma": {"share": 1.8}}), False),
            (self.row(precision="exact", limits={"int8": {"share": 0.32}}), False),
            (self.row(type="F32", precision=None, limits={"fma": {"share": 0.84}}), True),
            (self.row(shape={"rows": 1, "outputs": 4096, "inputs": 4096},
                      limits={"read": {"share": 0.84}}), True),
            (self.row(shape={"rows": 4, "outputs": 4096, "inputs": 4096},
                      compared={"of": "time of 1 row", "ratio": 1.6}), True),
            (self.row(shape={"rows": 4, "outputs": 4096, "inputs": 4096},
                      compared={"of": "time of 1 row", "ratio": 1.3}), False),
        ]
        for row, is_below in cases:
            best = floors().Best()
            best.take({"rows": [row]})
            self.assertEqual(len(best.values), 1, row)
            self.assertEqual(bool(best.below()), is_below, row)

    def tool(self, *arguments):
        done = subprocess.run([sys.executable, "-B", TESTS.parent / "tools/bench_floors",
                               *map(str, arguments)], capture_output=True, text=True, check=False)
        self.assertNotIn("Traceback", done.stderr)
        return done

    def test_what_is_no_report_is_told(self):
        paths = [self.file("empty", ""), self.file("text", "no report"), self.file("bytes", b"\xff"),
                 self.file("list", "[1]"), self.file("object", "{}"),
                 self.file("rowless", '{"rows": []}'),
                 self.file("foreign", '{"rows": [{"verified": true}]}')]
        for path in paths:
            done = self.tool(path)
            self.assertEqual(done.returncode, 1)
            self.assertIn("is no report of `baton bench kernels --json`", done.stderr)
        for path, words in ((self.folder, "Is a directory"), (self.folder / "no", "No such file")):
            done = self.tool(path)
            self.assertEqual((done.returncode, words in done.stderr), (1, True), done.stderr)
        nothing = {"rows": [self.row(isa="portable")]}
        done = self.tool(self.file("portable", json.dumps(nothing)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing was compared", done.stderr)

    def test_a_quick_report_is_warned_of(self):
        report = {"rows": [self.row()]}
        self.assertEqual(self.tool(self.file("real", json.dumps(report))).stderr, "")
        done = self.tool(self.file("quick", json.dumps({"quick": True, **report})))
        self.assertIn("its figures mean nothing", done.stderr)
        measured = self.ok("bench", "kernels", "--quick", "--only", "linear", "--type", "F32", "--json")
        self.assertIn("its figures mean nothing", self.tool(self.file("measured", measured)).stderr)

    def test_arguments_of_the_tool(self):
        report = self.file("a_report", json.dumps({"rows": [self.row()]}))
        for arguments in (["--tries", "0"], ["--tries", "x"], ["--type", ""], ["--isa", "avx2", report],
                          ["--type", "F32", report], ["--tries", "2", report]):
            self.assertEqual(self.tool(*arguments).returncode, 2, arguments)
        for program, words in (("/nope", "cannot be run"), (self.folder, "cannot be run"),
                               ("true", "gave no report")):
            done = self.tool("--baton", program)
            self.assertEqual((done.returncode, words in done.stderr), (1, True), done.stderr)

    def test_dense_floors_are_no_floors_of_sparse_attention(self):
        shape = {"rows": 512, "keys": 32768, "heads": 4, "head_dim": 128, "density": 175}
        for operation, count in (("prefill-attention", 1), ("sparse-prefill-attention", 0)):
            best = floors().Best()
            best.take({"rows": [self.row(operation=operation, type=None, precision=None, shape=shape,
                                         limits={"fma": {"share": 0.5}})]})
            self.assertEqual(len(best.values), count)

    def test_wrong_bits_are_no_speed(self):
        best = floors().Best()
        best.take({"rows": [self.row(verified=False)]})
        self.assertEqual(len(best.wrong), 1)


if __name__ == "__main__":
    main()
