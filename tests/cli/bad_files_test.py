#!/usr/bin/env python3
"""Model files that cannot be: one line, exit code 1, no trace, no wait."""
import os
import pathlib
import random
import re
import signal
import struct
import subprocess

from baton_case import BATON, GEMMA, SMOL, BatonCase, cached, main
from gguf_file import (ARRAY, F32, FLOAT32, INT32, Q4_1, STRING, UINT32, GgufFile, repeat_layers,
                       tiny_llama)
from process_state import drop_root_rights, is_mapped, wait_until


class BadFiles(BatonCase):
    def refuse(self, content, *words, command="inspect"):
        path = self.file("bad.gguf", content)
        line = self.fails(command, path, timeout=10)
        self.assertIn("bad.gguf", line)
        for word in words:
            self.assertIn(word, line)
        return line

    def test_no_such_file_folder_and_device(self):
        self.assertIn("no such file", self.fails("inspect", self.folder / "none.gguf"))
        self.assertIn("folder", self.fails("inspect", self.folder))
        self.fails("inspect", "/dev/null")
        self.fails("inspect", "/dev/zero")

    # Case L-01.
    def test_never_waits_on_a_fifo(self):
        path = str(self.folder / "fifo.gguf")
        os.mkfifo(path)
        self.fails("inspect", path, timeout=5)
        self.fails("run", path, "-p", "x", timeout=5)

    def test_no_read_permission(self):
        path = self.file("secret.gguf", tiny_llama().bytes())
        os.chmod(path, 0)
        line = self.fails("inspect", path, preexec_fn=drop_root_rights)
        self.assertRegex(line, r"^baton inspect: .*secret\.gguf.*permission")

    # Case L-01.
    def test_empty_and_foreign(self):
        self.refuse(b"", "empty")
        self.refuse(b"GGUF")
        self.refuse(b"gguf" + bytes(100))
        self.refuse(b"\x7fELF" + bytes(1000))
        self.refuse(b"PK\x03\x04" + bytes(1000))
        self.refuse(b"{\"a\": 1}" * 100)

    # Case L-01.
    def test_versions_and_byte_order(self):
        good = tiny_llama().bytes()
        for version in (0, 1, 4, 2 ** 31):
            self.refuse(good[:4] + struct.pack("<I", version) + good[8:], "version")
        self.refuse(good[:4] + struct.pack(">I", 3) + good[8:], "big-endian")

    # Case L-01.
    def test_cut_anywhere(self):
        good = tiny_llama().bytes()
        rng = random.Random(7)
        cuts = list(range(0, 64)) + rng.sample(range(64, len(good)), 60) + [len(good) - 1]
        for cut in cuts:
            self.refuse(good[:cut])

    def test_random_damage_never_ends_in_a_trace(self):
        good = tiny_llama().bytes()
        rng = random.Random(11)
        for _ in range(60):
            bad = bytearray(good)
            for _ in range(rng.choice([1, 2, 8])):
                bad[rng.randrange(0, 8000)] = rng.randrange(256)
            path = self.file("damaged.gguf", bytes(bad))
            done = self.baton("inspect", path, timeout=10)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            if done.returncode == 1:
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)

    # Case L-02.
    def test_hostile_shapes(self):
        cases = [
            ([32, 0], F32), ([2 ** 62, 8], F32), ([2 ** 32, 2 ** 32], F32), ([1] * 5, F32),
            ([], F32), ([31, 4], Q4_1), ([32, 4], 9999), ([32, 4], 4), ([2 ** 64 - 32, 4], F32),
        ]
        for dims, kind in cases:
            file = GgufFile()
            file.set("general.architecture", STRING, "llama")
            file.tensor("odd.weight", dims, bytes(1024), kind)
            line = self.refuse(file.bytes())
            if len(dims) < 5:
                self.assertIn("odd.weight", line)

    # Case L-01.
    def test_memory_stays_small_for_absurd_counts(self):
        for tensors, keys in [(2 ** 63, 1), (1, 2 ** 63), (2 ** 64 - 1, 2 ** 64 - 1)]:
            head = b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + bytes(100)
            path = self.file("counts.gguf", head)
            # 256 MiB of address space is plenty for a file of a hundred bytes.
            done = subprocess.run(["prlimit", "--as=268435456", BATON, "inspect", path],
                                  capture_output=True, timeout=10, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertNotIn(b"out of memory", done.stderr)

    def test_text_from_the_file_cannot_steer_the_terminal(self):
        file = tiny_llama(template="\x1b]0;owned\x07\n")
        file.set("general.name", STRING, "a\x1b[2Jb\r\nc")
        path = self.file("escape.gguf", file.bytes())
        text = self.ok("inspect", path)
        self.assertIn("a\\x1B[2Jb\\x0D\\nc", text)
        self.assertNotIn("\x1b", text)


class UnrunnableModels(BatonCase):
    """Well-formed files that cannot be run: inspect says why, run refuses for the same reason."""

    def lacks(self, file, *words):
        path = self.file("model.gguf", file.bytes())
        text = self.inspect(path)
        self.assertIn("does not run", text)
        line = self.fails("run", path, "-p", "hello", timeout=20)
        for word in words:
            self.assertIn(word, text)
            self.assertIn(word, line)

    def inspect(self, path, *arguments):
        """The report with its lines joined; none but the file's name is too long."""
        text = self.ok("inspect", path, *arguments)
        for line in text.splitlines()[1:]:
            self.assertLessEqual(len(line), 80, line)
        return " ".join(text.split())

    def test_unknown_architecture(self):
        file = tiny_llama()
        file.set("general.architecture", STRING, "mamba")
        self.lacks(file, "mamba")

    def test_no_architecture(self):
        file = tiny_llama()
        del file.keys["general.architecture"]
        self.lacks(file, "general.architecture")

    def test_missing_tensors(self):
        for name in ["blk.1.ffn_down.weight", "blk.0.attn_norm.weight", "output_norm.weight",
                     "token_embd.weight"]:
            file = tiny_llama()
            del file.tensors[name]
            self.lacks(file, name)

    def test_wrong_shape(self):
        file = tiny_llama()
        dims, kind, data = file.tensors["blk.0.attn_q.weight"]
        file.tensors["blk.0.attn_q.weight"] = ([dims[0], dims[1] // 2], kind,
                                               data[:len(data) // 2])
        self.lacks(file, "blk.0.attn_q.weight")

    # Case L-07.
    def test_impossible_metadata(self):
        cases = [
            ("llama.block_count", UINT32, 0), ("llama.block_count", UINT32, 10 ** 6),
            ("llama.block_count", STRING, "two"), ("llama.attention.head_count", UINT32, 0),
            ("llama.attention.head_count_kv", UINT32, 0),
            ("llama.attention.head_count_kv", UINT32, 3),
            ("llama.embedding_length", UINT32, 65), ("llama.context_length", UINT32, 0),
            ("llama.attention.layer_norm_rms_epsilon", FLOAT32, float("nan")),
            ("llama.rope.freq_base", FLOAT32, 0.0),
            ("tokenizer.ggml.bos_token_id", UINT32, 259),
            ("tokenizer.ggml.eos_token_id", UINT32, 2 ** 32 - 1),
        ]
        for key, kind, content in cases:
            file = tiny_llama()
            file.set(key, kind, content)
            with self.subTest(key=key, content=content):
                # The message names the key; head counts may be blamed on either of the two.
                self.lacks(file, "head" if "head" in key or "embedding" in key
                           else key.removeprefix("tokenizer.ggml."))

    # Case L-07.
    def test_impossible_vocabulary(self):
        tokens = tiny_llama().keys["tokenizer.ggml.tokens"][1]
        for changed in (tokens[:-1], tokens + ["extra"]):
            file = tiny_llama()
            file.set("tokenizer.ggml.tokens", ARRAY, changed, STRING)
            file.set("tokenizer.ggml.token_type", ARRAY, [1] * len(changed), INT32)
            self.lacks(file, "tokenizer.ggml.tokens")
        file = tiny_llama()
        del file.keys["tokenizer.ggml.model"]
        self.lacks(file, "tokenizer.ggml.model")
        file = tiny_llama()
        file.set("tokenizer.ggml.pre", STRING, "no-such-family")
        self.lacks(file, "no-such-family")
        file = tiny_llama()
        file.set("tokenizer.ggml.merges", ARRAY, ["zzz qqq"], STRING)
        self.lacks(file, "merges")

    def test_messages_cannot_steer_the_terminal(self):
        file = tiny_llama()
        file.set("general.architecture", STRING, "x\x1b]0;title\x07\u009b2J" + "y" * 5000)
        path = self.file("steer.gguf", file.bytes())
        done = self.baton("run", path, "-p", "x")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"\\x1B]0;title\\x07", done.stderr)
        for byte in (b"\x1b", b"\x07", b"\xc2\x9b"):
            self.assertNotIn(byte, done.stderr)
        self.assertLess(len(done.stderr), 1100)

    def test_a_model_that_is_shortened_while_it_is_loaded(self):
        # So many layers that the process can be stopped when the file is mapped and most of it is
        # unread.
        path = self.file("shrinking.gguf", repeat_layers(tiny_llama(), 400).bytes())
        for _ in range(20):  # until the process is caught in the act
            process = subprocess.Popen([BATON, "run", path, "-p", "x", "-n", "1", "-t", "1"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            wait_until(lambda: process.poll() is not None or is_mapped(process.pid, path),
                       "the file is mapped")
            process.send_signal(signal.SIGSTOP)
            caught = process.poll() is None and is_mapped(process.pid, path)
            content = pathlib.Path(path).read_bytes()
            if caught:
                os.truncate(path, 4096)
            process.send_signal(signal.SIGCONT)
            output, error = process.communicate(timeout=60)
            pathlib.Path(path).write_bytes(content)
            if caught:
                break
        self.assertTrue(caught)
        self.assertEqual((process.returncode, output), (1, b""))
        self.assertRegex(error, rb"^baton: a file was shortened [^\n]*\n$")

    # Case P-07.
    def test_unknown_rope_scaling(self):
        file = tiny_llama()
        file.set("llama.rope.scaling.type", STRING, "spiral")
        self.lacks(file, "spiral")
        file = tiny_llama()
        file.set("llama.rope.scaling.type", STRING, "linear")
        file.set("llama.rope.scaling.factor", FLOAT32, 0.0)
        self.lacks(file, "rope.scaling.factor")

    # What loading checks besides the weights.
    def test_templates_and_rope_values_are_checked_like_everything_else(self):
        self.lacks(tiny_llama(template="{% for x in %}"), "tokenizer.chat_template", "line 1")
        self.lacks(tiny_llama(template="{% endfor %}"), "tokenizer.chat_template", "line 1")
        file = tiny_llama()
        file.set("tokenizer.chat_template", UINT32, 1)
        self.lacks(file, "tokenizer.chat_template")
        for factor in (0.0, -1.0, float("nan"), 1e-30):
            file = tiny_llama()
            file.tensor("rope_freqs.weight", [8], struct.pack("<8f", *[factor] * 8))
            with self.subTest(factor=factor):
                self.lacks(file, "rope")
        file = tiny_llama()
        file.set("llama.rope.freq_base", FLOAT32, 1e-6)
        self.lacks(file, "rope")

    def test_memory_is_checked_like_everything_else(self):
        path = self.file("large.gguf", repeat_layers(tiny_llama(context=2 ** 24), 64).bytes())
        text = self.inspect(path)
        self.assertIn("not enough memory: weights", text)
        line = self.fails("run", path, "-p", "x")
        self.assertIn("not enough memory: weights", line)
        for words in (text, line):
            self.assertRegex(words, r"--ctx \d+ would fit")
            self.assertNotIn(" MB", words)
        smaller = re.search(r"--ctx (\d+) would fit", text).group(1)
        self.assertIn("runs yes", self.inspect(path, "--ctx", str(int(smaller) // 2)))
        # Head size 16: 8 bits take 43/67 of the memory.
        larger = ["--ctx", str(int(smaller) * 6 // 5)]
        self.assertIn("take --kv-type q8, for less cache", self.inspect(path, *larger))
        self.assertIn("runs yes", self.inspect(path, *larger, "--kv-type", "q8"))
        self.assertNotIn("--kv-type", self.inspect(path, "--kv-type", "q8"))

    def test_unsupported_tensor_type_is_named(self):
        file = tiny_llama()
        # IQ4_NL: 18 bytes for 32 numbers.
        file.tensors["blk.0.attn_q.weight"] = ([64, 64], 20, bytes(64 * 2 * 18))
        self.lacks(file, "IQ4_NL")

    def test_vocabulary_only(self):
        for name in ("llama-spm", "qwen2"):  # also of an architecture that Baton lacks
            path = cached(f"llama-cpp-models/ggml-vocab-{name}.gguf")
            self.assertIn("vocabulary only", self.inspect(path))
            self.assertIn("vocabulary only", self.fails("run", path, "-p", "x"))


class RealModelsCut(BatonCase):
    # Case L-01.
    def test_smol_cut_one_byte_before_its_end_and_at_the_data(self):
        for name in (SMOL, GEMMA):
            path = cached(name)
            cut = self.folder / "cut.gguf"
            size = os.path.getsize(path)
            # A hole costs no disk.
            with open(path, "rb") as source, open(cut, "wb") as target:
                target.write(source.read(16 << 20))
                target.truncate(size - 1)
            self.assertIn("cut.gguf", self.fails("inspect", cut))


if __name__ == "__main__":
    main()
