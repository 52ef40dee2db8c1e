#!/usr/bin/env python3
"""Tuned models: tune, --prefill auto, and --prefill sparse that finds a tune file."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

from baton_case import BATON, SMOL, BatonCase, cached, main
from gguf_file import tiny_llama

TEXT = pathlib.Path(__file__).parents[1] / "data/golden/text/kjv-slice.txt"


class Tuned(BatonCase):
    def model(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        path = folder / "model.gguf"
        shutil.copyfile(cached(SMOL), path)
        return path

    def answer(self, path, count, *options):
        words = " ".join(TEXT.read_text().split()[:count])
        return json.loads(self.ok("run", path, "-p", words, "--raw", "-n", "4", "--temp", "0",
                                  "--json", "--logprobs", "1", *options))

    @unittest.skipUnless(os.environ.get("BATON_NIGHTLY"), "takes minutes: tests/nightly runs it")
    def test_tune_and_auto(self):
        path = self.model()
        file = pathlib.Path(f"{path}.tune.json")
        # Without a tune file auto says what to do, and sparse has its default.
        line = self.fails("run", path, "-p", "Hello", "--prefill", "auto")
        self.assertRegex(line, r"model\.gguf\.tune\.json: the model is not tuned; tune it with: "
                               r"baton tune .*model\.gguf")
        # A file that is not ours stays.
        file.write_text('{"recipe": 1}')
        self.assertIn("tune file", self.fails("tune", path, "--text", TEXT))
        self.assertEqual(file.read_text(), '{"recipe": 1}')
        file.unlink()
        self.assertIn("--prefill", self.fails("tune", path, "--text", TEXT, "--prefill", "sparse",
                                              code=2))

        result = json.loads(self.ok("tune", path, "--text", TEXT, "--tokens", "1024", "--kl", "0.05",
                                    "--json", timeout=900))
        saved = json.loads(file.read_text())
        self.assertEqual(result["file"], str(file))
        for key in ("policy", "break_even_tokens", "measured"):
            self.assertEqual(result[key], saved[key])
        measured = saved["measured"]
        self.assertLessEqual(measured["kl"], 0.05)
        self.assertLess(measured["density"], 1)
        # The induction heads of this model, as an independent study found them.
        heads = {(head["layer"], head["kv_head"]) for head in measured["induction_heads"]
                 if head["score"] > 0.15}
        self.assertLessEqual({(17, 1), (18, 2), (20, 2), (23, 0), (23, 2)}, heads)
        self.assertLessEqual(len(heads), 9)

        # A break-even that the test knows, whatever the machine.
        saved["break_even_tokens"] = 500
        file.write_text(json.dumps(saved))
        short = self.answer(path, 100, "--prefill", "auto")
        self.assertEqual(short["policy"]["prefill"], "dense")
        self.assertEqual(short["policy"]["tune_file"], str(file))
        self.assertEqual(short["tokens"], self.answer(path, 100)["tokens"])
        long = self.answer(path, 1200, "--prefill", "auto")
        self.assertEqual(long["policy"]["prefill"], saved["policy"])
        self.assertLess(long["figures"]["sparse_prefill"]["density"], 1)
        for options in ([], ["--sparse", saved["policy"]]):
            again = self.answer(path, 1200, "--prefill", "sparse", *options)
            self.assertEqual(again["tokens"], long["tokens"])
            self.assertEqual(again["policy"]["prefill"], saved["policy"])
        words = " ".join(TEXT.read_text().split()[:1200])
        figures = self.baton("run", path, "-p", words, "-n", "1", "--prefill", "auto").stderr
        self.assertIn(f"policy   {saved['policy']}", figures.decode())

        # Damage, another model's, a newer one: refused where it is used, and nowhere else.
        for change, words in [({"baton_tune": 9}, "version 9"), ({"model": "0" * 32}, "another model"),
                              ({"policy": "rule=share:7"}, "damaged tune file")]:
            file.write_text(json.dumps({**saved, **change}))
            for mode in ("auto", "sparse"):
                line = self.fails("run", path, "-p", "Hello", "--prefill", mode)
                self.assertRegex(line, rf"tune\.json: .*{words}.*baton tune")
            self.ok("run", path, "-p", "Hello", "-n", "1")
            self.ok("run", path, "-p", "Hello", "-n", "1", "--prefill", "sparse",
                    "--sparse", "rule=share:0.2")

    def test_inspect_tells_of_the_tune_file(self):
        path = self.folder / "tiny.gguf"
        path.write_bytes(tiny_llama(context=4096).bytes())
        file = pathlib.Path(f"{path}.tune.json")

        def told():
            report = json.loads(self.ok("inspect", path, "--json"))
            self.assertTrue(report["runs"])
            return " ".join(self.ok("inspect", path).split()), report["tune_file"]

        text, report = told()
        self.assertIn("tune file none; 'baton tune' makes one", text)
        self.assertIsNone(report)
        self.ok("tune", path, "--text", TEXT, "--tokens", "1024", "--kl", "1")
        saved = json.loads(file.read_text())
        saved["break_even_tokens"] = 5000
        file.write_text(json.dumps(saved))
        text, report = told()
        self.assertIn(f"tune file faster beyond 5,000 tokens; {saved['policy']}", text)
        self.assertEqual(report, {"path": str(file), "usable": True, "policy": saved["policy"],
                                  "break_even_tokens": 5000, "fault": None})
        file.write_text(json.dumps({**saved, "break_even_tokens": None}))
        self.assertIn("tune file faster at no length that was measured", told()[0])

        makers = {
            "tuned for another model file": lambda: file.write_text(
                json.dumps({**saved, "model": "0" * 32})),
            "a damaged tune file": lambda: file.write_text('{"baton_tune": 1'),
            "is not a tune file": lambda: file.write_text("{"),
            "is a folder, not a tune file": file.mkdir,
            "is a pipe, not a tune file": lambda: os.mkfifo(file),
        }
        for words, make in makers.items():
            file.unlink(missing_ok=True)
            make()
            text, report = told()
            self.assertIn(f"tune file of no use: {words}", text)
            self.assertEqual((report["usable"], report["policy"]), (False, None))
            self.assertRegex(report["fault"], rf"^{words}.*baton tune")
            # Nor is it waited for where it is needed.
            for mode in ("auto", "sparse"):
                line = self.fails("run", path, "--raw", "-p", "x", "--prefill", mode, timeout=20)
                self.assertIn(f"tiny.gguf.tune.json: {words}", line)
            self.ok("run", path, "--raw", "-p", "x", "-n", "1", "--ignore-eos", timeout=20)
            if file.is_dir():
                file.rmdir()

    def tiny(self, name="tiny.gguf"):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        path = folder / name
        path.write_bytes(tiny_llama(context=4096).bytes())
        return path

    TUNE = ["--text", TEXT, "--tokens", "1024", "--threads", "1"]

    def test_a_tune_file_elsewhere(self):
        path = self.tiny()
        elsewhere = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "of tiny.json"
        beside = pathlib.Path(f"{path}.tune.json")
        # Something that tune may not replace: the model's folder is of no use.
        beside.mkdir()
        line = self.fails("tune", path, *self.TUNE, "--kl", "1")
        self.assertIn(f"cannot write '{beside}': Is a directory", line)
        self.assertTrue(line.endswith("; --tune-file FILE saves it elsewhere"), line)
        self.ok("tune", path, *self.TUNE, "--kl", "1", "--tune-file", elsewhere)
        beside.rmdir()
        saved = json.loads(elsewhere.read_text())
        saved["break_even_tokens"] = 100
        elsewhere.write_text(json.dumps(saved))

        self.assertIn("is not tuned", self.fails("run", path, "--raw", "-p", "x", "--prefill", "auto"))
        named = ["--prefill", "auto", "--tune-file", elsewhere]
        for words, policy in (("x", "dense"), ("x" * 200, saved["policy"])):
            result = json.loads(self.ok("run", path, "--raw", "-p", words, "-n", "1", "--json",
                                        "--ignore-eos", *named))
            self.assertEqual(result["policy"]["prefill"], policy)
            self.assertEqual(result["policy"]["tune_file"], str(elsewhere))
        result = json.loads(self.ok("eval", "perplexity", path, "--text", TEXT, "--window", 200,
                                    "--windows", 1, "--json", *named))
        self.assertEqual(result["policy"], saved["policy"])
        ids = self.file("ids", " ".join(["7"] * 150))
        self.ok("eval", "logits", path, "--ids", ids, "--positions", "149", *named)
        self.ok("bench", "serve", path, "--quick", "--ctx", 256, "--kv-tokens", 1024, *named)
        self.ok("chat", path, "--chat-template", "chatml", "-n", "1", *named, stdin="Hi\n")
        self.ok("serve", path, "--print-config", *named)
        # Requests may ask for it, so serve takes it with dense prefill, too.
        self.ok("serve", path, "--print-config", "--tune-file", elsewhere)
        told = json.loads(self.ok("inspect", path, "--json", "--tune-file", elsewhere))["tune_file"]
        self.assertEqual((told["path"], told["usable"], told["policy"]),
                         (str(elsewhere), True, saved["policy"]))

        elsewhere.write_text(json.dumps({**saved, "model": "0" * 32}))
        for command in (["run", path, "--raw", "-p", "x", "--prefill", "sparse"],
                        ["serve", path, "--port", "0"], ["serve", path, "--print-config"]):
            line = self.fails(*command, "--tune-file", elsewhere)
            self.assertIn(f"{elsewhere}: tuned for another model file; name another, or make one "
                          f"with: baton tune {path} --text FILE --tune-file NEW", line)
        missing = f"{elsewhere}.no"
        self.assertIn(f"{missing}: there is no such file",
                      self.fails("run", path, "--raw", "-p", "x", "--prefill", "sparse",
                                 "--tune-file", missing))
        told = json.loads(self.ok("inspect", path, "--json", "--tune-file", missing))["tune_file"]
        self.assertEqual((told["path"], told["usable"]), (missing, False))
        # What belongs to the model still does, and the file to the option.
        self.assertIn("name the same file", self.fails(
            "run", path, "-p", "x", "--prefill", "auto", "--tune-file", elsewhere, "--trace",
            elsewhere, code=2))

    def test_two_at_once_leave_one_whole_file(self):
        path = self.tiny()
        file = pathlib.Path(f"{path}.tune.json")
        runs = [subprocess.Popen([BATON, "tune", path, *self.TUNE, "--json", "--kl", kl],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for kl in ("0.9", "0.8", "0.7")]
        results = []
        while any(run.poll() is None for run in runs):
            # At every moment there is no file or a whole one.
            if file.exists():
                json.loads(file.read_text())
            time.sleep(0.002)
        for run in runs:
            output, error = run.communicate(timeout=60)
            self.assertEqual(run.returncode, 0, error)
            results.append(json.loads(output)["measured"])
        self.assertIn(json.loads(file.read_text())["measured"], results)
        self.assertEqual(sorted(os.listdir(path.parent)), ["tiny.gguf", "tiny.gguf.tune.json"])
        self.assertIn("faster", self.ok("inspect", path))

    def test_texts_that_are_not_read_as_they_are(self):
        path = self.tiny()
        long = self.file("long.txt", TEXT.read_bytes()[:5000])
        middle = self.file("middle.txt", TEXT.read_bytes()[:1500])
        done = self.baton("tune", path, "--text", long, "--text", middle, "--kl", "1", "--json",
                          timeout=300)
        self.assertEqual(json.loads(done.stdout)["measured"]["text_tokens"], [4096, 1500])
        self.assertEqual(done.stderr.decode().splitlines(), [
            f"baton: note: {long}: the first 4,096 of 5,000 tokens are read, unless --tokens says "
            "otherwise",
            f"baton: note: {middle}: has 1,500 tokens, fewer than the usual 4,096; all are read"])

    def test_a_text_counts_once(self):
        path = self.tiny()
        text = self.file("twice.txt", TEXT.read_bytes()[:5000])
        copy = self.file("copy.txt", TEXT.read_bytes()[:5000])
        other = self.file("other.txt", TEXT.read_bytes()[5000:10000])
        for again in (text, f"{self.folder}/../{self.folder.name}/twice.txt", copy):
            line = self.fails("tune", path, "--text", text, "--text", other, "--text", again)
            self.assertIn(f"{again}: the same text as {text}, and would count twice; name another, "
                          "or leave one out", line)
        line = self.fails("tune", path, "--text", "-", "--text", text, stdin=TEXT.read_bytes()[:5000])
        self.assertIn(f"{text}: the same text as standard input, and would", line)

    def test_what_tune_refuses(self):
        path = cached(SMOL)
        for flag, name in (("-o", "--output"), ("--output", "--output"),
                           ("--tune-file", "--tune-file")):
            self.assertIn(f"baton tune: {name} takes the name of a file, not ''",
                          self.fails("tune", path, flag, "", code=2))
        short = self.folder / "short.txt"
        short.write_text("Too short a text.")
        self.assertRegex(self.fails("tune", path, "--text", short), r"short\.txt: has \d+ tokens; .*1,024")
        self.assertIn("name a text", self.fails("tune", path, code=2))
        self.assertRegex(self.fails("tune", path, "--text", "-", stdin="short"),
                         r"standard input: has \d+ tokens?; a text to tune with needs")
        self.assertIn("standard input can be read once",
                      self.fails("tune", path, "--text", "-", "--text", "-", code=2))
        self.assertIn("the context of 512 tokens is shorter than the 1,024 that tuning needs",
                      self.fails("tune", path, "--text", TEXT, "--ctx", "512"))


if __name__ == "__main__":
    main()
