#!/usr/bin/env python3
"""Writes tests/data/gguf/dequant_vectors.bin: blocks of every tensor type that Baton decodes, with
the values that the `gguf` package (0.19.0) gives for them.

    pip install gguf==0.19.0 && tools/dequant_vectors.py tests/data/gguf/dequant_vectors.bin

Codes are random bytes. Scales are random binary16 of ordinary size in the first blocks, then one
special value each: zeros, the smallest and largest subnormal, the largest number, infinity, NaN.

Format, little-endian: for each type u32 GGUF type id, u32 number of bytes, u32 number of values,
the bytes, the values as binary32.
"""

import struct
import sys

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# Where the binary16 scales are in a block.
SCALE_OFFSETS = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}
SPECIAL = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E01]
ORDINARY_BLOCKS = 3


def blocks_of(kind: Type, rng: np.random.Generator) -> np.ndarray:
    elements, size = GGML_QUANT_SIZES[kind]
    offsets = SCALE_OFFSETS[kind]
    specials = [(s, offset) for s in SPECIAL for offset in offsets]
    count = ORDINARY_BLOCKS + len(specials)
    blocks = rng.integers(0, 256, size=(count, size), dtype=np.uint8)
    for offset in offsets:
        scales = (rng.standard_normal(count) * 0.05).astype(np.float16)
        blocks[:, offset:offset + 2] = scales.view(np.uint8).reshape(count, 2)
    for row, (bits, offset) in enumerate(specials, start=ORDINARY_BLOCKS):
        blocks[row, offset:offset + 2] = np.frombuffer(struct.pack("<H", bits), dtype=np.uint8)
    return blocks


def plain_values(kind: Type, rng: np.random.Generator) -> np.ndarray:
    if kind == Type.F32:
        return rng.integers(0, 256, size=(1, 4 * 300), dtype=np.uint8)
    halves = np.concatenate([rng.integers(0, 65536, size=300, dtype=np.uint16),
                             np.array(SPECIAL + [0x7F80, 0xFF80, 0x7FC1, 0x007F], dtype=np.uint16)])
    return halves.view(np.uint8).reshape(1, -1)


def main() -> None:
    rng = np.random.default_rng(20240607)
    with open(sys.argv[1], "wb") as out, np.errstate(all="ignore"):
        for kind in [Type.F32, Type.F16, Type.BF16, *SCALE_OFFSETS]:
            data = blocks_of(kind, rng) if kind in SCALE_OFFSETS else plain_values(kind, rng)
            if kind == Type.F32:
                values = data.view(np.float32)
            elif kind == Type.F16:
                values = data.view(np.float16).astype(np.float32)
            else:
                values = dequantize(data, kind)
            values = np.ascontiguousarray(values, dtype="<f4")
            out.write(struct.pack("<III", int(kind), data.size, values.size))
            out.write(data.tobytes())
            out.write(values.tobytes())


main()
