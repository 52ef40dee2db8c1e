"""Writes a GGUF model's own weights as bf16 in the format that vLLM reads: a folder with config.json
and model.safetensors. Runs in the environment of vLLM, which has all that it imports.

Arguments: MODEL FOLDER. Only the architecture `llama`; no tokenizer, since the prompts are token
ids. The rows of q and k come back into the order that the rotation of halves expects: a file of
this architecture has the pairs of each head side by side.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

LAYER = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm"}
WHOLE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
         "output.weight": "lm_head.weight"}


def value(reader, key, default=None):
    """A scalar of the file's metadata."""
    field = reader.fields.get(key)
    return field.parts[field.data[0]][0].item() if field is not None else default


def name_of(tensor):
    """What vLLM calls a tensor of the file, or None."""
    if tensor in WHOLE:
        return WHOLE[tensor]
    words = tensor.split(".")
    if len(words) == 4 and words[0] == "blk" and words[2] in LAYER:
        return f"model.layers.{words[1]}.{LAYER[words[2]]}.weight"
    return None


def halves_from_pairs(rows, heads):
    """[heads * size, columns], each head's rows 0, 1, 2, ... become 0, 2, ... and then 1, 3, ..."""
    size = rows.shape[0] // heads
    return rows.reshape(heads, size // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def config_of(reader, vocabulary, is_tied):
    def llama(key, default=None):
        return value(reader, f"llama.{key}", default)
    heads = llama("attention.head_count")
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "hidden_size": llama("embedding_length"), "num_hidden_layers": llama("block_count"),
            "intermediate_size": llama("feed_forward_length"), "num_attention_heads": heads,
            "num_key_value_heads": llama("attention.head_count_kv", heads),
            "max_position_embeddings": llama("context_length"), "vocab_size": vocabulary,
            "rms_norm_eps": llama("attention.layer_norm_rms_epsilon"),
            "rope_theta": llama("rope.freq_base", 10000.0), "tie_word_embeddings": is_tied,
            "torch_dtype": "bfloat16", "bos_token_id": value(reader, "tokenizer.ggml.bos_token_id"),
            "eos_token_id": value(reader, "tokenizer.ggml.eos_token_id")}


def main():
    path, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    reader = gguf.GGUFReader(path)
    architecture = reader.fields["general.architecture"]
    found = bytes(architecture.parts[architecture.data[0]]).decode()
    if found != "llama":
        sys.exit(f"the architecture is '{found}', not 'llama'")
    heads = {"attn_q": value(reader, "llama.attention.head_count")}
    heads["attn_k"] = value(reader, "llama.attention.head_count_kv", heads["attn_q"])
    tensors = {}
    for tensor in reader.tensors:
        name = name_of(tensor.name)
        if name is None:
            sys.exit(f"no place for the tensor '{tensor.name}'")
        rows = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        kind = tensor.name.split(".")[2] if tensor.name.startswith("blk.") else ""
        if kind in heads:
            rows = halves_from_pairs(rows, heads[kind])
        tensors[name] = torch.from_numpy(np.ascontiguousarray(rows)).to(torch.bfloat16)
    vocabulary = tensors["model.embed_tokens.weight"].shape[0]
    folder.mkdir(parents=True, exist_ok=True)
    config = config_of(reader, vocabulary, "lm_head.weight" not in tensors)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()
