"""Writes small GGUF files for tests: valid ones, and ones that are wrong in one place."""
import random
import struct

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 4, 5, 6, 7, 8, 9, 10
F32, Q4_1 = 0, 3
SCALARS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?", UINT64: "<Q"}


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    return string(value) if kind == STRING else struct.pack(SCALARS[kind], value)


def value(kind, content, element=None):
    if kind == ARRAY:
        return (struct.pack("<IQ", element, len(content))
                + b"".join(scalar(element, item) for item in content))
    return scalar(kind, content)


class GgufFile:
    """Metadata and tensors, in order; bytes() lays them out."""

    def __init__(self, version=3):
        self.version = version
        self.keys = {}
        self.tensors = {}  # name: (dims, type, data)

    def set(self, key, kind, content, element=None):
        self.keys[key] = (kind, content, element)

    def tensor(self, name, dims, data, kind=F32):
        self.tensors[name] = (dims, kind, data)

    def bytes(self):
        head = b"GGUF" + struct.pack("<IQQ", self.version, len(self.tensors), len(self.keys))
        for key, (kind, content, element) in self.keys.items():
            head += string(key) + struct.pack("<I", kind) + value(kind, content, element)
        offset = 0
        blobs = []
        for name, (dims, kind, data) in self.tensors.items():
            head += string(name) + struct.pack("<I", len(dims))
            head += b"".join(struct.pack("<Q", d) for d in dims)
            head += struct.pack("<IQ", kind, offset)
            padded = data + bytes(-len(data) % 32)
            blobs.append(padded)
            offset += len(padded)
        return head + bytes(-len(head) % 32) + b"".join(blobs)


def byte_alphabet():
    """The 256 characters that stand for bytes in byte-level vocabularies (GPT-2's table)."""
    shown = (list(range(ord("!"), ord("~") + 1)) + list(range(0xA1, 0xAD))
             + list(range(0xAE, 0x100)))
    table, extra = {}, 0
    for byte in range(256):
        if byte in shown:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + extra)
            extra += 1
    return [table[byte] for byte in range(256)]


TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")

TINY = {"layers": 2, "hidden": 64, "inner": 128, "heads": 4, "kv_heads": 2}


def tiny_llama(context=64, seed=1, template=TEMPLATE, output=True):
    """A llama of two layers with random weights over a byte-level vocabulary."""
    rng = random.Random(seed)
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + byte_alphabet()
    hidden, inner = TINY["hidden"], TINY["inner"]
    kv = hidden // TINY["heads"] * TINY["kv_heads"]
    file = GgufFile()
    file.set("general.architecture", STRING, "llama")
    file.set("general.name", STRING, "tiny llama")
    for key, number in [("context_length", context), ("embedding_length", hidden),
                        ("block_count", TINY["layers"]), ("feed_forward_length", inner),
                        ("attention.head_count", TINY["heads"]),
                        ("attention.head_count_kv", TINY["kv_heads"])]:
        file.set("llama." + key, UINT32, number)
    file.set("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5)
    file.set("llama.rope.freq_base", FLOAT32, 10000.0)
    file.set("tokenizer.ggml.model", STRING, "gpt2")
    file.set("tokenizer.ggml.pre", STRING, "gpt-2")
    file.set("tokenizer.ggml.tokens", ARRAY, tokens, STRING)
    file.set("tokenizer.ggml.token_type", ARRAY, [3, 3, 3] + [1] * 256, INT32)
    file.set("tokenizer.ggml.merges", ARRAY, [], STRING)
    file.set("tokenizer.ggml.bos_token_id", UINT32, 1)
    file.set("tokenizer.ggml.eos_token_id", UINT32, 2)
    file.set("tokenizer.ggml.add_bos_token", BOOL, False)
    if template is not None:
        file.set("tokenizer.chat_template", STRING, template)

    def numbers(count, scale):
        return struct.pack(f"<{count}f", *(rng.gauss(0, scale) for _ in range(count)))

    def matrix(name, rows, columns):
        file.tensor(name, [columns, rows], numbers(rows * columns, columns ** -0.5))

    def ones(name):
        file.tensor(name, [hidden], struct.pack(f"<{hidden}f", *[1.0] * hidden))

    matrix("token_embd.weight", len(tokens), hidden)
    for layer in range(TINY["layers"]):
        prefix = f"blk.{layer}."
        ones(prefix + "attn_norm.weight")
        matrix(prefix + "attn_q.weight", hidden, hidden)
        matrix(prefix + "attn_k.weight", kv, hidden)
        matrix(prefix + "attn_v.weight", kv, hidden)
        matrix(prefix + "attn_output.weight", hidden, hidden)
        ones(prefix + "ffn_norm.weight")
        matrix(prefix + "ffn_gate.weight", inner, hidden)
        matrix(prefix + "ffn_up.weight", inner, hidden)
        matrix(prefix + "ffn_down.weight", hidden, inner)
    ones("output_norm.weight")
    if output:
        matrix("output.weight", len(tokens), hidden)
    return file


def repeat_layers(file, count):
    """Makes the model `count` layers deep; all but the last are like its first."""
    file.set("llama.block_count", UINT32, count)
    last = TINY["layers"] - 1
    for name, tensor in list(file.tensors.items()):
        if name.startswith(f"blk.{last}."):
            file.tensors[name.replace(f"blk.{last}.", f"blk.{count - 1}.")] = tensor
        if name.startswith("blk.0."):
            for layer in range(1, count - 1):
                file.tensors[name.replace("blk.0.", f"blk.{layer}.")] = tensor
    return file
