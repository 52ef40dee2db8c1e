"""Random weights of every type, made byte by byte: what tools/make_gguf fills its tensors with.

A block of a type is a row of bytes, and each byte is drawn on its own: 256 equally likely values
stand in a table of 256 bytes, so a column of many blocks is random bytes put through that table.
The tables are such that the mean of the weights is zero, exactly for the types with few bits (a
common mean would grow from layer to layer), and their standard deviation is near DEVIATION.

Source of the layouts: the GGUF format's description of its block types; tests/make_gguf_test.py
reads the files back with a reader that is not ours.
"""
import statistics
import struct

DEVIATION = 0.02
CHUNK_BYTES = 1 << 20

ANY = bytes(range(256))
NORMAL = statistics.NormalDist()


def bell(count, deviation, low, high):
    """`count` integers in low..high whose distribution is that of round(N(0, deviation))."""
    steps = [NORMAL.inv_cdf((i + 0.5) / count) * deviation for i in range(count)]
    return [max(low, min(high, round(step))) for step in steps]


def nibbles(codes):
    """A byte of two independent 4-bit codes, each one of the 16 in `codes`."""
    return bytes(codes[b & 15] | codes[b >> 4] << 4 for b in range(256))


def one_of(values):
    """A byte that is one of `values`, as often each as 256 allows."""
    return bytes(values[b % len(values)] for b in range(256))


def half(value):
    """The two constant bytes of a binary16."""
    return [bytes([byte]) * 256 for byte in struct.pack("<e", value)]


# 4-bit codes around 8, and 5- and 6-bit codes whose low four bits have mean 8, which puts the mean
# of the whole code at half its range when the higher bits are uniform.
BELL_4 = nibbles([8 + code for code in bell(16, 3.0, -7, 7)])
CENTRED = nibbles([8] + list(range(1, 16)))
# Six-bit scales and minima of 32..47, packed as Q4_K and Q5_K do: eight bytes 10_10xxxx, then four
# of any value.
SCALES_K = [one_of([0xA0 | b for b in range(16)])] * 8 + [ANY] * 4
# Bytes of either sign.
SIGNED = one_of([b & 255 for size in range(64, 96) for b in (size, -size)])


def scaled(deviation_of_codes):
    """The scale that brings codes of this standard deviation to DEVIATION; 5 bits, so that
    multiples of it are exact in binary16."""
    exact = DEVIATION / deviation_of_codes
    unit = 2.0 ** -16
    while exact / unit >= 32:
        unit *= 2
    while exact / unit < 16:
        unit /= 2
    return round(exact / unit) * unit


def columns_of(kind):
    """The table of each byte of a block."""
    q4, q4_1, q5, q5_1, q8 = scaled(2.95), scaled(4.61), scaled(9.21), scaled(9.23), scaled(32)
    # The scales of K types carry scales of their own; their deviations were computed likewise:
    # sqrt(E[(scale * code - minimum)^2]).
    q2k, q3k, q4k, q5k, q6k = scaled(14.7), scaled(41.0), scaled(187), scaled(378), scaled(1486)
    return {
        "F32": [ANY, ANY, ANY, one_of([0x3C, 0xBC])],  # 2^-7 to 2^-5, of either sign
        "F16": [ANY, bytes(struct.pack("<e", DEVIATION * NORMAL.inv_cdf((i + 0.5) / 256))[1]
                           for i in range(256))],
        "BF16": [ANY, one_of([0x3C, 0xBC])],
        "Q4_0": half(q4) + [BELL_4] * 16,
        "Q4_1": half(q4_1) + half(-7.5 * q4_1) + [ANY] * 16,
        "Q5_0": half(q5) + [ANY] * 4 + [CENTRED] * 16,
        "Q5_1": half(q5_1) + half(-15.5 * q5_1) + [ANY] * 4 + [ANY] * 16,
        "Q8_0": half(q8) + [bytes(code & 255 for code in bell(256, 32, -127, 127))] * 32,
        "Q2_K": [nibbles([8 + b % 8 for b in range(16)])] * 16 + [ANY] * 64 + half(q2k)
                + half(1.5 * q2k),
        "Q3_K": [ANY] * 32 + [ANY] * 64 + [CENTRED] * 8 + [ANY] * 4 + half(q3k),
        "Q4_K": half(q4k) + half(7.5 * q4k) + SCALES_K + [ANY] * 128,
        "Q5_K": half(q5k) + half(15.5 * q5k) + SCALES_K + [ANY] * 32 + [ANY] * 128,
        "Q6_K": [ANY] * 128 + [ANY] * 64 + [SIGNED] * 16 + half(q6k),
    }[kind]


# Name: number in a file, weights in a block, bytes in a block.
TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84),
    "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210),
    "BF16": (30, 1, 2)}


def size_of(kind, weights):
    """Bytes of so many weights, which fill whole blocks."""
    _, per_block, block_bytes = TYPES[kind]
    assert weights % per_block == 0, (kind, weights)
    return weights // per_block * block_bytes


def random_weights(kind, weights, rng):
    """Yields the bytes of so many weights in pieces of at most CHUNK_BYTES; rng: random.Random."""
    columns = columns_of(kind)
    width = len(columns)
    left = size_of(kind, weights) // width
    while left > 0:
        count = min(left, CHUNK_BYTES // width)
        piece = bytearray(rng.randbytes(count * width))
        for place, table in enumerate(columns):
            if table is not ANY:
                piece[place::width] = piece[place::width].translate(table)
        yield piece
        left -= count
