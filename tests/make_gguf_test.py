#!/usr/bin/env python3
"""tools/make_gguf: the form of its files, its mixes, its arguments; the weights' distribution where
the package `gguf`, whose dequantization is not ours, is installed."""
import os
import pathlib
import re
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools/make_gguf"
sys.dont_write_bytecode = True
TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split()
# Number of each type in a file, weights of a block, its bytes: the format's description.
FACTS = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20),
         "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84),
         "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
         "Q6_K": (14, 256, 210), "BF16": (30, 1, 2)}
NAMES = {number: name for name, (number, _, _) in FACTS.items()}


def parse(data):
    """({key: value}, {tensor: (extents, type, bytes)}) of a GGUF file: a reader of its own."""
    position = 24

    def take(form):
        nonlocal position
        value = struct.unpack_from("<" + form, data, position)
        position += struct.calcsize("<" + form)
        return value[0] if len(value) == 1 else value

    def text():
        nonlocal position
        length = take("Q")
        position += length
        return data[position - length:position].decode()

    def value(kind):
        if kind == 9:
            element, count = take("IQ")
            return [value(element) for _ in range(count)]
        return text() if kind == 8 else take("BbHhIif?"[kind] if kind < 8 else "Qqd"[kind - 10])

    magic, version, num_tensors, num_keys = struct.unpack_from("<4sIQQ", data)
    assert (magic, version) == (b"GGUF", 3), data[:8]
    keys = {text(): value(take("I")) for _ in range(num_keys)}
    heads = []
    for _ in range(num_tensors):
        name, count = text(), take("I")
        extents = [take("Q") for _ in range(count)]
        heads.append((name, extents, *take("IQ")))
    begin, tensors, end = position + -position % 32, {}, 0
    for name, extents, kind, offset in heads:
        assert offset == end, f"{name} begins at {offset}, not {end}"
        weights = 1
        for extent in extents:
            weights *= extent
        _, per_block, block_bytes = FACTS[NAMES[kind]]
        assert extents[0] % per_block == 0, name
        size = weights // per_block * block_bytes
        tensors[name] = (extents, NAMES[kind], data[begin + offset:begin + offset + size])
        end = offset + size + -size % 32
    assert len(data) == begin + end, f"{len(data)} bytes, not {begin + end}"
    return keys, tensors


class MakeGguf(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def tool(self, *arguments):
        return subprocess.run([sys.executable, "-B", str(TOOL), *map(str, arguments)],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "BATON_CACHE": str(self.folder)})

    def make(self, *arguments):
        run = self.tool(*arguments[:2], self.folder / "out.gguf", *arguments[2:])
        self.assertEqual(run.returncode, 0, run.stderr)
        return (self.folder / "out.gguf").read_bytes()

    def test_every_type(self):
        for kind in TYPES:
            keys, tensors = parse(self.make("tiny", kind, "--pure"))
            self.assertEqual(keys["general.architecture"], "llama")
            self.assertEqual(len(keys["tokenizer.ggml.tokens"]), 259)
            for name, (extents, found, data) in tensors.items():
                self.assertEqual(found, "F32" if len(extents) == 1 else kind, name)
                if len(extents) == 1:
                    self.assertEqual(data, struct.pack("<f", 1) * extents[0])
            self.assertEqual(tensors["token_embd.weight"][0], [256, 259])
            self.assertEqual(tensors["blk.1.ffn_down.weight"][0], [512, 256])
            self.assertEqual(tensors["blk.1.attn_k.weight"][0], [256, 128])
            self.assertEqual(len(tensors), 2 * 9 + 3)

    def test_the_same_arguments_make_the_same_bytes(self):
        first = self.make("tiny", "Q4_K_M")
        self.assertEqual(self.make("tiny", "Q4_K_M", "--seed", "0"), first)
        other = self.make("tiny", "Q4_K_M", "--seed", "1")
        self.assertEqual(len(other), len(first))
        tensors, others = parse(first)[1], parse(other)[1]
        for name, (extents, _, data) in tensors.items():
            self.assertEqual(data == others[name][2], len(extents) == 1, name)
        distinct = {data for extents, _, data in tensors.values() if len(extents) == 2}
        self.assertEqual(len(distinct), 16)  # no two matrices alike

    def test_nothing_but_the_file_is_left(self):
        self.make("tiny", "Q8_0")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["out.gguf"])
        run = self.tool("tiny", "Q8_0", self.folder / "none" / "out.gguf")
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, r"^make_gguf: .*out\.gguf: .*\n$")

    def test_only_a_model_file_is_replaced(self):
        os.mkfifo(self.folder / "pipe")
        os.symlink("pipe", self.folder / "link")
        (self.folder / "notes").write_text("my notes")
        before = sorted(os.listdir(self.folder))
        names = ["pipe", "link", "notes", "."]
        if os.geteuid() == 0:
            os.mknod(self.folder / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
            names, before = [*names, "device"], sorted([*before, "device"])
        for name in names:
            run = self.tool("tiny", "Q4_0", self.folder / name)
            self.assertEqual(run.returncode, 1, name)
            self.assertRegex(run.stderr, r"^make_gguf: .*\n$")
        run = self.tool("tiny", "Q4_0", "")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.assertEqual((self.folder / "notes").read_text(), "my notes")
        self.assertTrue(stat.S_ISFIFO(os.stat(self.folder / "link").st_mode))
        os.symlink("far.gguf", self.folder / "near.gguf")
        for _ in range(2):
            self.assertEqual(self.tool("tiny", "Q4_0", self.folder / "near.gguf").returncode, 0)
        self.assertTrue((self.folder / "near.gguf").is_symlink())
        self.assertGreater((self.folder / "far.gguf").stat().st_size, 100000)

    def test_stopped_it_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            process = subprocess.Popen([sys.executable, "-B", str(TOOL), "tiny", "Q2_K",
                                        str(self.folder / "out.gguf")], stderr=subprocess.PIPE)
            end = time.monotonic() + 60
            while not any(self.folder.glob(".out.gguf.*")) and time.monotonic() < end:
                time.sleep(0.001)
            process.send_signal(number)
            error = process.communicate()[1].decode()
            if number == signal.SIGKILL:
                break
            self.assertEqual((process.returncode, error), (128 + number, ""))
            self.assertEqual(os.listdir(self.folder), [])
        (self.folder / ".out.gguf.mine").write_text("mine")
        self.make("tiny", "Q4_0")
        self.assertEqual(sorted(os.listdir(self.folder)), [".out.gguf.mine", "out.gguf"])

    def test_bad_arguments(self):
        for arguments in (["tiny", "Q4_2", "x"], ["huge", "Q4_0", "x"], ["tiny", "Q4_0"]):
            self.assertEqual(self.tool(*arguments).returncode, 2)
        run = self.tool("tiny", "Q4_0", self.folder / "x", "--tokenizer", "/nope")
        self.assertEqual(run.returncode, 2)
        run = self.tool("llama-3.2-1b", "Q4_0", self.folder / "x")  # nothing is in the cache
        self.assertEqual(run.returncode, 1)
        self.assertIn("tools/fetch", run.stderr)
        (self.folder / "short.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 5) + b"abc")
        run = self.tool("llama-3.2-1b", "Q4_0", self.folder / "x", "--tokenizer",
                        self.folder / "short.gguf")
        self.assertEqual(run.returncode, 1)
        self.assertIn("short.gguf: ends in the middle", run.stderr)
        self.assertFalse((self.folder / "x").exists())

    def test_weights_look_normal(self):
        try:
            import gguf  # pylint: disable=import-outside-toplevel
            import numpy as np  # pylint: disable=import-outside-toplevel
        except ImportError as error:
            self.skipTest(f"{error}: pip install gguf==0.19.0")
        for kind in TYPES:
            self.make("tiny", kind, "--pure")
            reader = gguf.GGUFReader(self.folder / "out.gguf")
            rows = [gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
                    for tensor in reader.tensors if len(tensor.shape) == 2]
            weights = np.concatenate([matrix.ravel() for matrix in rows])
            self.assertGreater(len(weights), 1000000)
            self.assertAlmostEqual(weights.std(), 0.02, delta=0.0015, msg=kind)
            # Scales are shared, so fewer than all weights are independent: six deviations of a
            # mean over an eighth of them.
            bound = 6 * 0.02 / (len(weights) / 8) ** 0.5
            self.assertAlmostEqual(weights.mean(), 0, delta=bound, msg=kind)
            for matrix in rows:  # no row stands out
                self.assertLess(abs(matrix).max(), 0.02 * 10)
                self.assertGreater(matrix.std(axis=1).min(), 0.02 * 0.4)


class Mixes(unittest.TestCase):
    """The types of the tensors, without making large files."""

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(ROOT / "tools"))
        code = TOOL.read_text(encoding="utf-8")
        sys.modules["make_gguf"] = cls.tool = types.ModuleType("make_gguf")
        exec(compile(code, str(TOOL), "exec"), cls.tool.__dict__)  # pylint: disable=exec-used

    def kinds(self, shape, mix):
        return {tensor.name.removesuffix(".weight"): tensor.kind
                for tensor in self.tool.tensors_of(self.tool.SHAPES[shape], mix, False)}

    def test_more_bits_are_where_the_gemma_file_has_them(self):
        # tests/data/golden/README.md lists the layers of a Q4_K_M file of 18 layers.
        text = (ROOT / "tests/data/golden/README.md").read_text(encoding="utf-8")
        listed = re.search(r"\(layers ([\d, ]+) the larger type\)", text).group(1)
        self.assertEqual([layer for layer in range(18) if self.tool.gets_more_bits(layer, 18)],
                         [int(layer) for layer in listed.split(",")])

    def test_sizes_of_known_files(self):
        # Published files of Llama-3.2-1B: 770.9, 807.7 and 1321.1 MB with 7.8 MB of metadata.
        for mix, megabytes in (("Q4_0", 770.9), ("Q4_K_M", 807.7), ("Q8_0", 1321.1)):
            tensors = self.tool.tensors_of(self.tool.SHAPES["llama-3.2-1b"], mix, False)
            size = sum(tensor.size() for tensor in tensors) / 1e6
            self.assertAlmostEqual(size + 7.8, megabytes, delta=0.005 * megabytes, msg=mix)

    def test_parameters_of_the_shapes(self):
        for name, billions in (("llama-3.2-1b", 1.236), ("llama-3.1-8b", 8.030),
                               ("qwen3-0.6b", 0.596)):
            tensors = self.tool.tensors_of(self.tool.SHAPES[name], "F16", True)
            count = sum(tensor.size() // (2 if tensor.kind == "F16" else 4) for tensor in tensors)
            self.assertAlmostEqual(count / 1e9, billions, delta=0.001, msg=name)

    def test_mixes(self):
        found = self.kinds("llama-3.2-1b", "Q4_K_M")
        self.assertEqual([layer for layer in range(16) if found[f"blk.{layer}.ffn_down"] == "Q6_K"],
                         [0, 1, 4, 7, 10, 13, 14, 15])
        self.assertEqual(found["token_embd"], "Q6_K")  # it is the output, too
        self.assertEqual(found["blk.0.attn_q"], "Q4_K")
        found = self.kinds("llama-3.1-8b", "Q2_K")
        self.assertEqual(found["blk.5.attn_v"], "Q4_K")
        self.assertEqual(found["blk.5.ffn_down"], "Q3_K")
        self.assertEqual((found["token_embd"], found["output"]), ("Q2_K", "Q6_K"))
        found = self.kinds("qwen3-0.6b", "Q8_0")
        self.assertEqual(found["token_embd"], "Q8_0")
        self.assertEqual(found["blk.0.attn_q_norm"], "F32")
        found = self.kinds("llama-3.1-8b", "Q3_K_M")
        self.assertEqual([found[f"blk.{layer}.attn_v"] for layer in (1, 2)], ["Q5_K", "Q4_K"])
        self.assertEqual([found[f"blk.{layer}.ffn_down"] for layer in (1, 2)], ["Q5_K", "Q4_K"])
        self.assertEqual(found["blk.0.ffn_up"], "Q3_K")

    def test_rope_factors(self):
        # Wavelengths below 2,048 stay, those above 8,192 are divided by the factor.
        factors = list(self.tool.rope_factors(self.tool.SHAPES["llama-3.2-1b"]))
        self.assertEqual(len(factors), 32)
        self.assertEqual((factors[0], factors[-1]), (1.0, 32))
        self.assertEqual(factors, sorted(factors))
        self.assertEqual(sum(1 < factor < 32 for factor in factors), 3)  # pairs 15, 16, 17

    def test_a_vocabulary_is_filled_up(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tiny.gguf")
            subprocess.run([sys.executable, "-B", str(TOOL), "tiny", "Q4_0", str(path), "--quiet"],
                           check=True)
            pairs = self.tool.copied_tokenizer(path, 300)
        data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs)
        keys, _ = parse(data + bytes(-len(data) % 32))
        tokens, marks = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
        self.assertEqual((len(tokens), len(set(tokens)), len(marks)), (300, 300, 300))
        self.assertEqual(marks[256:262], [1, 1, 1, 5, 5, 5])
        self.assertEqual(tokens[:2], ["<|endoftext|>", "<|im_start|>"])
        with self.assertRaises(self.tool.metadata.BadFile):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "tiny.gguf")
                path.write_bytes(data + bytes(-len(data) % 32))
                self.tool.copied_tokenizer(path, 299)


if __name__ == "__main__":
    unittest.main()
