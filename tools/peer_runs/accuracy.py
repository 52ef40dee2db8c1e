"""How far each engine's answers are from the truth: tests/data/golden, computed in binary64.

The divergence is that of the reference's 20 best tokens and of all others taken as one, in nats.
"""
import json
import math

from peer_runs.engines import Unavailable, output_of

FOLDERS = {"smollm2": "smollm2-135m-instruct-q4_1", "gemma-3": "gemma-3-270m-q4_k_m"}
LLAMA_RUN = "llama.cpp, default (f16 cache, flash attention auto)"


def divergence(reference, other):
    """KL of the reference's log-probabilities from others of the same tokens."""
    total, left, other_left = 0.0, 1.0, 1.0
    for p, q in zip(reference, other):
        total += math.exp(p) * (p - q)
        left -= math.exp(p)
        other_left -= math.exp(q)
    left, other_left = max(left, 1e-12), max(other_left, 1e-12)
    return total + left * math.log(left / other_left)


def prompts_of(root, model, most_tokens):
    """The golden prompts of a model: tokens, positions, and the reference at each of them."""
    folder = root / "tests" / "data" / "golden" / FOLDERS[model]
    found = []
    for path in sorted(folder.glob("logits-*.json")):
        golden = json.loads(path.read_text(encoding="utf-8"))
        if len(golden["tokens"]) <= most_tokens:
            found.append({"tokens": golden["tokens"],
                          "positions": [p["pos"] for p in golden["positions"]],
                          "ids": [[t[0] for t in p["top"]] for p in golden["positions"]],
                          "reference": [[t[2] for t in p["top"]] for p in golden["positions"]]})
    return found


def figures(prompts, logprobs):
    """{"positions", "mean", "max"} of the divergences."""
    values = [divergence(reference, other) for prompt, rows in zip(prompts, logprobs)
              for reference, other in zip(prompt["reference"], rows)]
    return {"positions": len(values), "mean": sum(values) / len(values), "max": max(values)}


def baton_logprobs(program, precision, model, prompt):
    """Of `baton eval logits`, for the wanted ids of each position."""
    wanted = sorted({index for ids in prompt["ids"] for index in ids})
    text = output_of(
        [program, "eval", "logits", model, "--ids", "-", "--precision", precision, *options,
         "--top", "0",
         "--tokens", ",".join(map(str, wanted)),
         "--positions", ",".join(map(str, prompt["positions"])), "--json"],
        "baton eval logits", given=json.dumps(prompt["tokens"]))
    place = {index: number for number, index in enumerate(wanted)}
    return [[p["token_logits"][place[index]] - p["logsumexp"] for index in ids]
            for p, ids in zip(json.loads(text)["positions"], prompt["ids"])]


def measure(root, model, path, program, kv_type, openvino, most_tokens):
    """{engine: figures or {"reason"}} of one model; openvino may be None."""
    prompts = prompts_of(root, model, most_tokens)
    found = {}
    options = ["--kv-type", kv_type] if kv_type else []
    for precision in ("fast", "exact"):
        try:
            found[f"Baton {precision}"] = figures(
                prompts, [baton_logprobs(program, precision, options, path, prompt)
                          for prompt in prompts])
        except Unavailable as error:
            found[f"Baton {precision}"] = {"reason": str(error)}
    golden = json.loads((root / "tests/data/golden" / FOLDERS[model] / "accuracy.json").read_text())
    run = golden["runs"][LLAMA_RUN]
    found["llama.cpp"] = {"positions": run["positions"], "mean": run["kl_mean"],
                          "max": run["kl_max"]}
    if openvino is not None:
        asked = [{key: prompt[key] for key in ("tokens", "positions", "ids")}
                 for prompt in prompts]
        try:
            answer = openvino.ask({"work": "logits", "prompts": asked}, path)
            found["OpenVINO"] = {**figures(prompts, answer["logprobs"]),
                                 "computed_with": answer["computed_with"]}
        except Unavailable as error:
            found["OpenVINO"] = {"reason": str(error)}
    return found


def note(journal, model, found):
    """Keeps what measure() found in the journal of a run."""
    for engine, values in found.items():
        journal.add({"row": f"accuracy of {model}", "engine": engine, "round": 0,
                     "figures": values})


def noted(journal, model):
    """What was kept: as measure() returns it, or {}."""
    return {entry["engine"]: entry["figures"] for entry in journal.entries()
            if entry["row"] == f"accuracy of {model}"}
