#!/usr/bin/env python3
"""Makes the tokenizer vectors in tests/data/tokenizer that come from Hugging Face `tokenizers` and
Google's `sentencepiece`.

  pip install tokenizers sentencepiece protobuf gguf
  tools/vocab_data.py CACHE_FOLDER        (the folder that tools/fetch fills)

mixed.jsonl            2,000 strings drawn from pieces that pre-tokenizers treat differently, with a
                       digest of the ids for SmolLM2 and Gemma 3.
small-byte-level.json  a byte-level vocabulary of 700 tokens, trained on tests/data/golden/text.
small-spm.json         a SentencePiece vocabulary of 600 tokens with a space prefix, likewise.
                       Both with strings and ids; the latter also with special tokens parsed.

Everything is seeded; a second run writes the same bytes. The rebuilt tokenizers of the two models
are first checked against the 314 strings of MODEL.jsonl.
"""

import hashlib
import json
import pathlib
import random
import re
import sys
import tempfile

import sentencepiece
import tokenizers
from gguf import GGUFReader
from sentencepiece import sentencepiece_model_pb2
from tokenizers import models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "tokenizer"
TEXT = ROOT / "tests" / "data" / "golden" / "text" / "kjv-slice.txt"
SMOL = "smollm2-135m-instruct-q4_1"
GEMMA = "gemma-3-270m-q4_k_m"

PIECES = ["\n", "\n\n", "\n\n\n", "x\n\ny", "\n \n", "x  y   z", " " * 31, "\t\tq", "12345 6,789",
          "don't", "WE'LL", "I'm", "o'S", "\u00a0", "\u3000", "\u2028", "e\u0301", " ",
          "\U0001F469\u200d\U0001F469\u200d\U0001F467", "\u05e9\u05dc\u05d5\u05dd",
          "\u0645\u0631\u062d\u0628\u0627", "\u2581", "word", " word", "Word", "_", "-", "...", "?!",
          "\u00e9", "\u6f22\u5b57", "\u0967\u0968", "\u00bd", "\r\n", "3.14", "\U0001F989", "</td>",
          "  ", "   ", "\t", "a", "A", "\u017f", "'\u017f", "\u0301", "\u00ad", "\u200b", "\u0085"]


def mixed_strings(seed, count):
    rng = random.Random(seed)
    return ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 12))) for _ in range(count)]


def digest(ids):
    return hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()[:16]


def strings(field):
    return [bytes(field.parts[i]).decode() for i in field.data]


def numbers(field):
    return [field.parts[i][0].item() for i in field.data]


def smol_encoder(path):
    reader = GGUFReader(path)
    tokens = strings(reader.fields["tokenizer.ggml.tokens"])
    merges = [tuple(m.split(" ")) for m in strings(reader.fields["tokenizer.ggml.merges"])]
    bpe = models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges)
    tokenizer = tokenizers.Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def gemma_encoder(path):
    reader = GGUFReader(path)
    tokens = strings(reader.fields["tokenizer.ggml.tokens"])
    scores = numbers(reader.fields["tokenizer.ggml.scores"])
    types = numbers(reader.fields["tokenizer.ggml.token_type"])
    proto = sentencepiece_model_pb2.ModelProto()
    proto.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = True
    proto.trainer_spec.unk_id, proto.trainer_spec.bos_id = 3, 2
    proto.trainer_spec.eos_id, proto.trainer_spec.pad_id = 1, 0
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    for i, (token, score, kind) in enumerate(zip(tokens, scores, types)):
        piece = proto.pieces.add()
        piece.piece = token.replace(" ", "\u2581") if kind == 4 else token
        piece.score = score
        piece.type = 2 if i == 3 else kind
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    return lambda text: processor.encode(text)


def check_against_golden(name, encode):
    lines = (DATA / f"{name}.jsonl").read_bytes().decode().split("\n")
    for case in (json.loads(line) for line in lines if line):
        ids = encode(case["text"])
        assert ids == case["ids"], (name, case["id"], ids, case["ids"])


def write_mixed(cache):
    encoders = {"smollm2": smol_encoder(cache / f"{SMOL}.gguf"),
                "gemma": gemma_encoder(cache / f"{GEMMA}.gguf")}
    check_against_golden(SMOL, encoders["smollm2"])
    check_against_golden(GEMMA, encoders["gemma"])
    with open(DATA / "mixed.jsonl", "w", encoding="utf-8", newline="\n") as out:
        for text in mixed_strings(5, 2000):
            record = {"text": text}
            record.update({name: digest(encode(text)) for name, encode in encoders.items()})
            out.write(json.dumps(record, ensure_ascii=True) + "\n")


def small_cases(encode):
    lines = TEXT.read_text(encoding="utf-8").split("\n")[:40]
    return [{"text": t, "ids": encode(t)} for t in lines + ["", " ", "  a"] + mixed_strings(7, 200)]


def dump(name, head, cases):
    with open(DATA / name, "w", encoding="utf-8", newline="\n") as out:
        fields = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
        fields += [f"{json.dumps(k)}: [\n" + ",\n".join(json.dumps(c) for c in v) + "\n]"
                   for k, v in cases.items()]
        out.write("{" + ",\n".join(fields) + "}\n")


def write_small_byte_level():
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    trainer = trainers.BpeTrainer(vocab_size=698, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(TEXT.read_text(encoding="utf-8").split("\n"), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocab = sorted(model["vocab"], key=model["vocab"].get)
    merges = [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]
    specials = ["<|endoftext|>", "<|im_end|>"]
    tokens, types = vocab + specials, [1] * len(vocab) + [3] * len(specials)
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    dump("small-byte-level.json",
         {"what": "byte-level BPE, pre-tokenizer gpt-2", "tokens": tokens, "types": types,
          "merges": merges, "eos": len(vocab)}, {"cases": small_cases(encode)})


def hf_merges(tokens, scores):
    """All ways to make a piece of two others, best score first, as Hugging Face converts them."""
    ids = {t: i for i, t in enumerate(tokens)}
    merges = []
    for token, score in zip(tokens, scores):
        splits = [(token[:k], token[k:]) for k in range(1, len(token))]
        known = [s for s in splits if s[0] in ids and s[1] in ids]
        merges += [(score, s) for s in sorted(known, key=lambda s: (ids[s[0]], ids[s[1]]))]
    return [s for _, s in sorted(merges, key=lambda m: m[0], reverse=True)]


def write_small_spm():
    names = ["<pad>", "<eos>", "<start_of_turn>"]
    with tempfile.TemporaryDirectory() as folder:
        sentencepiece.SentencePieceTrainer.train(
            input=str(TEXT), model_prefix=f"{folder}/m", vocab_size=600, model_type="bpe",
            byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=True,
            remove_extra_whitespaces=False, character_coverage=1.0, control_symbols=names,
            num_threads=1, minloglevel=2)
        raw = pathlib.Path(f"{folder}/m.model").read_bytes()
    proto = sentencepiece_model_pb2.ModelProto.FromString(raw)
    processor = sentencepiece.SentencePieceProcessor(model_proto=raw)
    tokens = [p.piece for p in proto.pieces]
    scores = [p.score for p in proto.pieces]
    types = [p.type for p in proto.pieces]
    normal = [t if k == 1 else "" for t, k in zip(tokens, types)]
    hf = tokenizers.Tokenizer(models.BPE(
        vocab={t: i for i, t in enumerate(tokens)}, merges=hf_merges(normal, scores),
        byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    hf.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    hf.add_special_tokens(["<unk>", "<s>", "</s>"] + names)
    cases = small_cases(processor.encode)
    proto.normalizer_spec.add_dummy_prefix = False
    no_prefix = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    special = []
    for text in ["<pad>word<eos>", "<start_of_turn>user", "word", " word", "a<eos>b", "a<eos> b",
                 "  word", "<pad> word", "<eos><eos>", "a<eos>", "<eos>  a  <pad>\n<eos>"]:
        ids = []
        for i, part in enumerate(re.split("(" + "|".join(names) + ")", text)):
            if part in names:
                ids.append(tokens.index(part))
            else:
                ids += (processor if i == 0 else no_prefix).encode(part)
        special.append({"text": text, "ids": ids})
    for case in cases + special:
        # Metaspace puts no prefix before a text that starts with a space; sentencepiece does.
        if not case["text"].startswith((" ", "\u2581")):
            ids = hf.encode(case["text"], add_special_tokens=False).ids
            assert ids == case["ids"], (case["text"], ids, case["ids"])
    dump("small-spm.json",
         {"what": "SentencePiece BPE with byte fallback and a space prefix", "tokens": tokens,
          "scores": scores, "types": types, "unk": 0, "bos": 1, "eos": 2},
         {"cases": cases, "special_cases": special})


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write_small_byte_level()
    write_small_spm()
    write_mixed(pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
