"""What tools/peers measures: a model, a piece of work, and the ratios that are asked of Baton."""
import dataclasses
import pathlib


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.

    prefill  `tokens` of a prompt at once; the rate is of its tokens
    decode   `tokens` one after the other, behind a prompt of `depth`; the rate is of these tokens
    batch    as decode, for `sequences` sequences in step; the rate is of all their tokens
    requests `sequences` requests at once, each a prompt of `depth` and `tokens` behind it; the rate
             is of all tokens, read and written, from the first request to the last token
    sparse   as prefill, block-sparse, of the first `tokens` of a text: what is left out depends on
             what is read. Each engine's loss against its own dense prefill stands beside
    """
    name: str
    title: str
    model: str
    work: str
    tokens: int
    depth: int = 0
    sequences: int = 1
    # At least so many times as fast as: llama.cpp and OpenVINO on a machine with AVX-512 VNNI,
    # llama.cpp on one with AVX2.
    bars: tuple = (None, None, None)
    vllm_bar: float | None = None
    policy: str = ""  # of Baton's sparse prefill


DECODED = 32
# The text of sparse prefill.
TEXT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/golden/text/kjv-slice.txt"
SMOL_POLICY = ("rule=share:0.1 window=320 last=16 "
               "shares=6:0.3,7:0.8,17:1:0.6,18:2:0.6,20:1:0.6,20:2:0.6,23:0:0.6,23:2:0.6"
               )  # docs/sparse.md
# What loses less than OpenVINO's XAttention does, and not much less.
SMOL_CHEAP_POLICY = "rule=share:0.05 estimate=mean"


def smol(work, size, **options):
    title = {"prefill": f"prefill {size:,}", "decode": f"decode at depth {size:,}"}[work]
    tokens, depth = (size, 0) if work == "prefill" else (DECODED, size)
    return Row(f"smollm2-{work}-{size}", f"SmolLM2 Q4_1, {title}", "smollm2", work, tokens, depth,
               **options)


def llama(quantization):
    """Both rows of the Llama-3.2-1B shape in one quantization."""
    bar = {"Q4_0": (2.3, 2.7), "Q4_K_M": (1.25, 2.5), "Q8_0": (4, 2.2)}[quantization]
    model = f"llama-3.2-1b-{quantization.lower()}"
    title = f"Llama-3.2-1B shape {quantization}"
    return [Row(f"{model}-prefill-512", f"{title}, prefill 512", model, "prefill", 512,
                bars=(bar[0], None, bar[1])),
            Row(f"{model}-decode-0", f"{title}, decode", model, "decode", DECODED,
                bars=(1.25, None, 1.2))]


ROWS = [
    smol("prefill", 512, bars=(8, 1.25, 3.5)),
    smol("prefill", 2048, bars=(7, 1.25, 3.5)),
    smol("prefill", 8000, bars=(5.5, 1.1, 3.5)),
    # At most 0.9 of the time of OpenVINO's XAttention.
    Row("smollm2-sparse-8000", "SmolLM2 Q4_1, sparse prefill 8,000", "smollm2", "sparse", 8000,
        bars=(None, 1 / 0.9, None), policy=SMOL_POLICY),
    Row("smollm2-sparse-cheap-8000", "SmolLM2 Q4_1, cheaper sparse prefill 8,000", "smollm2", "sparse",
        8000, bars=(None, 1 / 0.9, None), policy=SMOL_CHEAP_POLICY),
    smol("decode", 0, bars=(1.8, 3, 1.3)),
    smol("decode", 2048, bars=(2.5, 2.5, 1.8)),
    smol("decode", 8000, bars=(2.7, 2.2, 2.5)),
    Row("smollm2-batch-16", "SmolLM2 Q4_1, 16 sequences at once", "smollm2", "batch", DECODED,
        sequences=16, bars=(6, None, 3)),
    # At most 0.15 of llama.cpp's time and 0.6 of vLLM's.
    Row("smollm2-requests-16", "SmolLM2, 16 requests of 512 and 64 tokens", "smollm2", "requests",
        64, depth=512, sequences=16, bars=(1 / 0.15, None, None), vllm_bar=1 / 0.6),
    Row("gemma-3-prefill-512", "Gemma 3 270M Q4_K_M, prefill 512", "gemma-3", "prefill", 512,
        bars=(3.5, None, 3)),
    Row("gemma-3-decode-0", "Gemma 3 270M Q4_K_M, decode", "gemma-3", "decode", DECODED,
        bars=(1.5, None, 1.2)),
    *llama("Q4_0"), *llama("Q4_K_M"), *llama("Q8_0"),
]


def quick(row):
    """The same kind of work, as little as possible of it."""
    return dataclasses.replace(row, title=row.title + ", but tiny",
                               tokens=min(row.tokens, {"prefill": 64, "sparse": 1024}.get(row.work, 4)),
                               depth=min(row.depth, 64), bars=(None, None, None),
                               vllm_bar=None)


def chosen(words):
    """The rows whose name begins with one of `words`; raises ValueError for a word without any."""
    for word in words:
        if not any(row.name.startswith(word) for row in ROWS):
            raise ValueError(f"no row begins with '{word}'; there are: "
                             + " ".join(row.name for row in ROWS))
    return [row for row in ROWS if not words or any(row.name.startswith(word) for word in words)]
