#!/usr/bin/env python3
"""Writes the seeds of fuzz/gguf_fuzz and of the reader's tests to tests/data/gguf/corpus, with the
writer of the `gguf` package (0.19.0), which is not ours.

    pip install gguf==0.19.0 && tools/gguf_corpus.py tests/data/gguf/corpus
"""

import struct
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES


def writer(path: Path, **options) -> gguf.GGUFWriter:
    return gguf.GGUFWriter(path, "llama", **options)


def finish(w: gguf.GGUFWriter) -> None:
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def add_all_kinds(w: gguf.GGUFWriter) -> None:
    w.add_uint8("kind.uint8", 200)
    w.add_int8("kind.int8", -100)
    w.add_uint16("kind.uint16", 60000)
    w.add_int16("kind.int16", -30000)
    w.add_uint32("kind.uint32", 4000000000)
    w.add_int32("kind.int32", -2000000000)
    w.add_float32("kind.float32", 0.15625)
    w.add_bool("kind.bool", True)
    w.add_string("kind.string", "gr\u00fc\u00df dich, \u4e16\u754c")
    w.add_uint64("kind.uint64", 2**63 + 5)
    w.add_int64("kind.int64", -(2**62))
    w.add_float64("kind.float64", 1e-300)
    w.add_array("array.int32", [1, -2, 3])
    w.add_array("array.float32", [0.5, -1.5])
    w.add_array("array.bool", [True, False, True])
    w.add_array("array.string", ["", "a", "bc", "\u00e9"])


def add_tensor(w: gguf.GGUFWriter, kind: Type, rng: np.random.Generator, rows: int) -> None:
    elements, size = GGML_QUANT_SIZES[kind]
    data = rng.integers(0, 256, size=(rows, size), dtype=np.uint8)
    w.add_tensor(f"{kind.name.lower()}.weight", data, raw_dtype=kind)


def main() -> None:
    folder = Path(sys.argv[1])
    rng = np.random.default_rng(7)

    w = writer(folder / "kinds.gguf")
    add_all_kinds(w)
    finish(w)

    w = writer(folder / "big_endian.gguf", endianess=gguf.GGUFEndian.BIG)
    add_all_kinds(w)
    finish(w)

    w = writer(folder / "simple_types.gguf")
    for kind in [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0]:
        add_tensor(w, kind, rng, 3)
    w.add_tensor("f32.weight", np.arange(12, dtype=np.float32).reshape(2, 2, 3))
    w.add_tensor("f16.weight", np.arange(5, dtype=np.float16))
    finish(w)

    w = writer(folder / "k_types.gguf")
    w.add_custom_alignment(64)
    for kind in [Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K]:
        add_tensor(w, kind, rng, 1)
    finish(w)

    w = writer(folder / "other_types.gguf")
    for kind in [Type.IQ4_NL, Type.MXFP4, Type.TQ2_0, Type.IQ1_S]:
        add_tensor(w, kind, rng, 1)
    finish(w)

    w = writer(folder / "vocabulary.gguf")
    w.add_tokenizer_model("gpt2")
    w.add_token_list(["<s>", "</s>", "a", "b", "ab"])
    w.add_token_types([3, 3, 1, 1, 1])
    w.add_token_merges(["a b"])
    finish(w)

    image = bytearray((folder / "simple_types.gguf").read_bytes())
    (folder / "cut.gguf").write_bytes(image[:len(image) - 40])
    image[4:8] = struct.pack("<I", 2)
    (folder / "version_2.gguf").write_bytes(image)


main()
