"""Runs vLLM for tools/peers: a model a process, requests and answers a line of JSON each.

Arguments: FOLDER THREADS; the folder is one of bf16_model.py. First answer: {"versions": ...} or
{"error": ...}. Requests: {"work": "generate", "tokens": N, "new": N, "sequences": N} is answered
with {"whole": seconds from the first prompt to the last token}.
"""
import json
import os
import sys
import time

# Before the library is imported, which reads them: no network, one process, so many threads.
os.environ.update({"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR",
                   "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "2",
                   "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": sys.argv[2]})


def main():
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the library prints does not get between the answers

    def answer(found):
        print(json.dumps(found), file=out, flush=True)

    try:
        # pylint: disable=import-error,import-outside-toplevel
        import numpy as np
        import torch
        import vllm
        torch.set_num_threads(int(sys.argv[2]))
        engine = vllm.LLM(model=sys.argv[1], skip_tokenizer_init=True, dtype="bfloat16",
                          max_model_len=2048, max_num_seqs=64, enable_prefix_caching=False,
                          disable_log_stats=True)
    except Exception as error:  # pylint: disable=broad-except  # the library throws everything
        answer({"error": (str(error).strip().splitlines() or [type(error).__name__])[-1][:300]})
        return
    answer({"versions": vllm.__version__})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            ids = np.random.default_rng(1).integers(100, 40000,
                                                    (request["sequences"], request["tokens"]))
            options = vllm.SamplingParams(temperature=0, max_tokens=request["new"],
                                          min_tokens=request["new"], ignore_eos=True,
                                          detokenize=False)
            prompts = [{"prompt_token_ids": row.tolist()} for row in ids]
            begin = time.perf_counter()
            results = engine.generate(prompts, options, use_tqdm=False)
            whole = time.perf_counter() - begin
            if any(len(result.outputs[0].token_ids) != request["new"] for result in results):
                raise RuntimeError("made fewer tokens than asked for")
            answer({"whole": whole})
        except Exception as error:  # pylint: disable=broad-except
            answer({"error": (str(error).strip().splitlines() or [type(error).__name__])[-1][:300]})


if __name__ == "__main__":
    main()
