"""Runs OpenVINO GenAI for tools/peers: a model a process, requests and answers a line of JSON each.

Arguments: MODEL THREADS. First answer: {"versions": ...} or {"error": ...}.
Requests: {"work": "generate", "tokens": N, "new": N, "sequences": N} is answered with
          {"first": seconds to the first token, "rest": seconds from the first to the last};
          {"work": "logits", "prompts": [{"tokens": [...], "positions": [...], "ids": [...]}]}
          with {"logprobs": [[[...] for each position] for each prompt], "computed_with": ...}.
"""
import json
import os
import pathlib
import sys
import tempfile
import time

import numpy as np
import openvino
import openvino_genai as genai


def reason(error):
    """An exception as one line: where OpenVINO puts what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Exception from", "Check '"))]
    return (telling or lines or [type(error).__name__])[-1][:300]


class Worker:
    def __init__(self, model, threads):
        self._model, self._threads = model, threads
        scheduler = genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        scheduler.max_num_batched_tokens = 1 << 20  # a prompt in one piece
        scheduler.max_num_seqs = 64
        scheduler.cache_size = 2
        self._pipeline = genai.LLMPipeline(model, "CPU", scheduler_config=scheduler,
                                           INFERENCE_NUM_THREADS=threads)

    def generate(self, request):
        ids = np.random.default_rng(1).integers(100, 40000,
                                                (request["sequences"], request["tokens"]))
        options = genai.GenerationConfig()
        options.max_new_tokens = options.min_new_tokens = request["new"]
        options.ignore_eos, options.do_sample = True, False
        inputs = genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        begin = time.perf_counter()
        result = self._pipeline.generate(inputs, options)
        whole = time.perf_counter() - begin
        if any(len(tokens) != request["new"] for tokens in result.tokens):
            raise RuntimeError("made fewer tokens than asked for")
        first = result.perf_metrics.get_ttft().mean / 1000
        return {"first": first, "rest": whole - first}

    def logits(self, request):
        """Of the file as the pipeline reads it, which it can save in OpenVINO's own format."""
        with tempfile.TemporaryDirectory() as folder:
            link = pathlib.Path(folder, pathlib.Path(self._model).name)
            link.symlink_to(os.path.abspath(self._model))
            genai.LLMPipeline(str(link), "CPU", enable_save_ov_model=True)
            core = openvino.Core()
            model = core.compile_model(core.read_model(str(link.with_name("openvino_model.xml"))),
                                       "CPU", {"INFERENCE_NUM_THREADS": self._threads})
        precision = model.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        cache = model.get_property("KV_CACHE_PRECISION").get_type_name()
        return {"logprobs": [self._logprobs(model, prompt) for prompt in request["prompts"]],
                "computed_with": f"{precision} inference, {cache} cache"}

    @staticmethod
    def _logprobs(model, prompt):
        ids = np.array([prompt["tokens"]])
        out = model.create_infer_request().infer({
            "input_ids": ids, "attention_mask": np.ones_like(ids),
            "position_ids": np.arange(ids.shape[1])[None], "beam_idx": np.zeros(1, np.int32)})
        found = []
        for position, wanted in zip(prompt["positions"], prompt["ids"]):
            row = list(out.values())[0][0][position].astype(np.float64)
            row -= row.max()
            row -= np.log(np.exp(row).sum())
            found.append([float(row[index]) for index in wanted])
        return found


def main():
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the library prints does not get between the answers

    def answer(value):
        print(json.dumps(value), file=out, flush=True)

    try:
        worker = Worker(sys.argv[1], int(sys.argv[2]))
    except Exception as error:  # pylint: disable=broad-except  # the library throws everything
        answer({"error": reason(error)})
        return
    answer({"versions": genai.get_version()})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(getattr(worker, request["work"])(request))
        except Exception as error:  # pylint: disable=broad-except
            answer({"error": reason(error)})


if __name__ == "__main__":
    main()
