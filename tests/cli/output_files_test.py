#!/usr/bin/env python3
"""Files that are written: --trace, --save-kv, --plot, pack. What may be replaced, and what is left."""
import json
import os
import pathlib
import resource
import shutil
import signal
import stat
import subprocess
import tempfile

from baton_case import BATON, SMOL, BatonCase, cached, main
from gguf_file import tiny_llama
from process_state import FOX, cpu_seconds, drop_root_rights, is_mapped, wait_until

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


class OutputFiles(BatonCase):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.model = self.place / "model.gguf"
        self.model.write_bytes(tiny_llama(context=4096).bytes())

    # Each writes a file at the end of a command, by the name of it.
    def writers(self):
        run = ["run", self.model, "--raw", "-p", "x", "-n", "2", "--ignore-eos"]
        return {"--trace": run, "--save-kv": run, "--plot": ["bench", "model", self.model, "--quick"]}

    def test_devices_and_links_to_them_stay(self):
        os.mkfifo(self.place / "pipe")
        nodes = ["pipe"]
        if os.geteuid() == 0:
            os.mknod(self.place / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
            nodes.append("device")
        for node in list(nodes):
            os.symlink(node, self.place / (node + "_link"))
            nodes.append(node + "_link")
        before = {name: os.lstat(self.place / name).st_mode for name in nodes}
        for option, command in self.writers().items():
            for name in nodes:
                self.assertIn("a device or pipe is there",
                              self.fails(*command, option, self.place / name))
        for name, packed in (("pipe", "pipe"), ("pipe_link", "pipe_link")):
            os.symlink(name, str(self.model) + ".packed")
            self.assertIn("a device or pipe is there", self.fails("pack", self.model))
            os.unlink(str(self.model) + ".packed")
        self.assertEqual({name: os.lstat(self.place / name).st_mode for name in nodes}, before)

    def test_standard_output_by_name_is_refused_where_it_is_a_file(self):
        os.symlink("/proc/self/fd/1", self.place / "link")
        for option, command in self.writers().items():
            for name in ("/dev/stdout", "/proc/self/fd/1", self.place / "link"):
                with open(self.place / "out", "wb") as out:
                    done = subprocess.run([BATON, *map(str, command), option, str(name)],
                                          stdout=out, stderr=subprocess.PIPE, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(b"name the file itself", done.stderr)
                self.assertEqual((self.place / "out").read_bytes(), b"")

    def test_only_its_own_kind_is_replaced(self):
        kinds = {"text": b"notes", "list": b"[1, 2, 3]\n", "empty": b"",
                 "brackets": b"[]", "html": b"<html><svg></svg></html>"}
        for name, content in kinds.items():
            (self.place / name).write_bytes(content)
        made = {}
        for option, command in self.writers().items():
            for name, content in kinds.items():
                if content:
                    line = self.fails(*command, option, self.place / name)
                    self.assertIn("remove it first, or choose another name", line)
                    self.assertEqual((self.place / name).read_bytes(), content)
            made[option] = self.place / option.strip("-")
            for _ in range(2):
                self.ok(*command, option, made[option])
        for option, command in self.writers().items():
            for other, path in made.items():
                if other != option:
                    before = path.read_bytes()
                    self.assertIn("something else than", self.fails(*command, option, path))
                    self.assertEqual(path.read_bytes(), before)
        packed = pathlib.Path(str(self.model) + ".packed")
        packed.write_bytes(b"my notes")
        self.assertIn("something else than a packed model", self.fails("pack", self.model))
        self.assertEqual(packed.read_bytes(), b"my notes")
        packed.unlink()
        packed.mkdir()
        self.assertIn("Is a directory", self.fails("pack", self.model))

    def test_one_file_for_two_options_is_wrong_usage(self):
        run = ["run", self.model, "-p", "x"]
        bench = ["bench", "model", self.model, "--quick"]
        new, text = self.place / "new", self.place / "text"
        text.write_text("a text")
        before = self.model.read_bytes()
        for command in (
                [*run, "--trace", self.model], [*run, "--save-kv", self.model],
                [*run, "--trace", new, "--save-kv", new], [*run, "--load-kv", new, "--trace", new],
                [*run, "-f", text, "--trace", text],
                [*run, "--trace", self.place / ".." / self.place.name / "model.gguf"],
                [*run, "--chat-template", text, "--save-kv", text],
                [*bench, "--plot", self.model], ["chat", "-m", self.model, "--save-kv", self.model],
                ["eval", "logits", self.model, "--ids", text, "--trace", text]):
            self.assertIn("name the same file", self.fails(*command, code=2))
        for option, command in self.writers().items():
            self.assertIn("which belongs to MODEL",
                          self.fails(*command, option, f"{self.model}.packed", code=2))
            self.assertIn("which belongs to MODEL",
                          self.fails(*command, option, f"{self.model}.tune.json", code=2))
        # What makes it may write it, and no more than that.
        tune = ["tune", self.model, "--text", text]
        self.assertIn("which belongs to MODEL",
                      self.fails(*tune, "-o", f"{self.model}.packed", code=2))
        self.assertNotIn("which belongs", self.fails(*tune, "-o", f"{self.model}.tune.json"))
        self.assertEqual(self.model.read_bytes(), before)
        self.assertEqual(text.read_text(), "a text")
        self.assertFalse(new.exists())

    def test_what_cannot_be_written_is_told_before_anything_is_computed(self):
        closed = self.place / "closed"
        closed.mkdir(mode=0o555)
        for option, command in self.writers().items():
            for path, words in ((self.place, "Is a directory; name a file in it"),
                                (self.place / "no" / "x", "make the folder first"),
                                (closed / "x", "Permission denied; choose another name or place"),
                                (self.place / ("n" * 256), "File name too long")):
                line = self.fails(*command, option, path, preexec_fn=drop_root_rights)
                self.assertIn(words, line)

    def test_a_limit_of_file_sizes_is_reported_as_a_full_disk_is(self):
        for command in ([*self.writers()["--save-kv"], "--save-kv", self.place / "x.kv"],
                        ["pack", self.model]):
            done = self.baton(*command, preexec_fn=limit_file_size)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("File too large; make room", done.stderr.decode())
        self.assertEqual(os.listdir(self.place), ["model.gguf"])

    def test_killed_while_it_packs_nothing_is_left(self):
        subprocess.run([TOOLS / "make_gguf", "tiny", "F32", self.model, "--quiet"], check=True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            process = subprocess.Popen([BATON, "pack", self.model], stderr=subprocess.PIPE)
            wait_until(lambda: is_mapped(process.pid, str(self.model)) or process.poll() is not None,
                       "the model is open")
            os.kill(process.pid, number)
            process.wait(timeout=60)
            process.stderr.close()
            self.assertLessEqual(set(os.listdir(self.place)),
                                 {"model.gguf", "model.gguf.packed"})

    def test_what_a_killed_program_left_goes_at_the_next_run(self):
        for name in ("model.gguf.packed.1-0.tmp", "x.kv.99999-12.tmp"):
            (self.place / name).write_bytes(b"half")
        (self.place / "x.kv.mine.tmp").write_bytes(b"mine")
        self.ok("pack", self.model)
        self.ok(*self.writers()["--save-kv"], "--save-kv", self.place / "x.kv")
        self.assertEqual(sorted(os.listdir(self.place)),
                         ["model.gguf", "model.gguf.packed", "x.kv", "x.kv.mine.tmp"])

    def test_a_saved_cache_is_private(self):
        self.ok(*self.writers()["--save-kv"], "--save-kv", self.place / "x.kv")
        self.assertEqual(stat.S_IMODE(os.stat(self.place / "x.kv").st_mode), 0o600)

    def test_a_stopped_prefill_says_that_nothing_is_saved(self):
        process = subprocess.Popen([BATON, "run", cached(SMOL), "--raw", "-p", FOX * 150, "--isa",
                                    "portable", "-t", "1", "--chunk", "4000", "--save-kv",
                                    self.place / "x.kv"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        # Loading takes a fraction of that, and the prompt ten times as long.
        wait_until(lambda: cpu_seconds(process.pid) > 3, "the prompt is being read")
        os.kill(process.pid, signal.SIGINT)
        error = process.communicate(timeout=60)[1].decode()
        self.assertEqual(process.returncode, 130, error)
        self.assertIn("prefill  nothing was read", error)
        self.assertRegex(error, "nothing was computed, so .*x.kv is not written")
        self.assertFalse((self.place / "x.kv").exists())

    def test_a_forgotten_conversation_is_not_saved(self):
        command = ["chat", self.model, "--chat-template", "chatml", "-n", "2", "--ignore-eos",
                   "--save-kv", self.place / "x.kv"]
        done = self.baton(*command, stdin="a secret\n/reset\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("x.kv: nothing was saved", done.stderr.decode())
        self.assertFalse((self.place / "x.kv").exists())
        self.ok(*command, stdin="a secret\n/reset\nsomething else\n")
        after = (self.place / "x.kv").read_bytes()
        (self.place / "x.kv").unlink()
        self.ok(*command, stdin="something else\n")
        self.assertEqual((self.place / "x.kv").read_bytes(), after)

    def test_a_cache_that_is_not_there_is_told_before_the_model_is_loaded(self):
        # The file is no model, which would be told else.
        for content, words in ((None, "no such file"), (b"GG", "not a saved cache")):
            path = self.place / "x.kv"
            if content is not None:
                path.write_bytes(content)
            self.assertIn(words, self.fails("run", self.file("no.gguf", "x"), "-p", "x",
                                            "--load-kv", path))


class DamagedPacked(BatonCase):
    """What stands in the place of a packed file and is none."""

    def test_the_way_out_is_told(self):
        model = self.folder / "my model.gguf"
        model.write_bytes(tiny_llama(context=4096).bytes())
        packed = pathlib.Path(f"{model}.packed")
        run = ["run", model, "--raw", "-p", "x", "-n", "1", "--ignore-eos"]
        self.ok("pack", model)
        whole = packed.read_bytes()
        packed.unlink()
        makers = {
            "empty": lambda: packed.write_bytes(b""),
            "cut": lambda: packed.write_bytes(whole[:5000]),
            "folder": packed.mkdir,
            "pipe": lambda: os.mkfifo(packed),
            "loop": lambda: os.symlink(packed.name, packed),
            "unreadable": lambda: (packed.write_bytes(whole), packed.chmod(0o200)),
        }
        for name, make in makers.items():
            make()
            line = self.fails(*run, preexec_fn=drop_root_rights)
            self.assertRegex(line, r"delete it, make it anew \(baton pack '/.*/my model\.gguf'\), or "
                             r"go without \(--no-packed\)", name)
            self.assertEqual(self.baton(*run, "--no-packed").returncode, 0)
            if name == "unreadable":
                packed.unlink()
                continue
            text = self.ok("inspect", model)
            self.assertRegex(text, r"packed file .*of no use")
            self.assertRegex(text, r"does not run(.|\n)*--no-packed")
            report = json.loads(self.ok("inspect", model, "--json"))
            self.assertEqual((report["runs"], report["packed_file"]["usable"]), (False, False))
            self.assertEqual(report["packed_file"]["path"], str(packed))
            if name == "folder":
                packed.rmdir()
            else:
                packed.unlink()

    def test_names_that_leave_no_room_for_a_packed_one_run(self):
        model = self.folder / ("m" * 246 + ".gguf")
        model.write_bytes(tiny_llama(context=4096).bytes())
        self.ok("run", model, "--raw", "-p", "x", "-n", "1", "--ignore-eos")
        self.assertIn("File name too long", self.fails("pack", model))

    def test_check_compares_the_whole(self):
        model = self.folder / "model.gguf"
        data = tiny_llama(context=4096).bytes()
        subprocess.run([TOOLS / "make_gguf", "tiny", "Q4_0", model, "--quiet"], check=True)
        self.ok("pack", model)
        self.assertIn("up to date and whole", self.ok("pack", model, "--check"))
        data = bytearray(model.read_bytes())
        data[len(data) // 2] ^= 1
        model.write_bytes(data)
        self.assertRegex(self.fails("pack", model, "--check"), r"stale: it has another tensor \S+ of")
        shutil.rmtree(f"{model}.packed", ignore_errors=True)


if __name__ == "__main__":
    main()
