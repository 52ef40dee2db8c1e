"""Runs OpenVINO GenAI for tools/peers: a model a process, requests and answers a line of JSON each.

Arguments: MODEL THREADS. First answer: {"versions": ...} or {"error": ...}.
Requests: {"work": "generate", "tokens": N, "new": N, "sequences": N} is answered with
          {"first": seconds to the first token, "rest": seconds from the first to the last};
          {"work": "logits", "prompts": [{"tokens": [...], "positions": [...], "ids": [...]}]}
          with {"logprobs": [[[...] for each position] for each prompt], "computed_with": ...};
          {"work": "sparse", "ids": [...]} with {"first": seconds to the first token, with XAttention
          as it is by default, "setting": ...};
          {"work": "divergence", "ids": [...], "positions": N} with {"kl": {"last", "p99", "top1",
          "spread"}}: KL(dense || XAttention) in nats at the last N positions and at N others.
"""
import json
import math
import os
import pathlib
import sys
import tempfile
import time

import numpy as np
import openvino
import openvino_genai as genai
from openvino._offline_transformations import paged_attention_transformation


def reason(error):
    """An exception as one line: where OpenVINO puts what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Exception from", "Check '"))]
    return (telling or lines or [type(error).__name__])[-1][:300]


BLOCK = 32  # tokens, of the plugin's paged cache


class Worker:
    def __init__(self, model, threads):
        self._model, self._threads = model, threads
        self._pipeline, self._sparse_pipeline = self._open(None), None

    def _open(self, sparse):
        """A pipeline; sparse: a SparseAttentionConfig or None."""
        scheduler = genai.SchedulerConfig()
        if sparse is not None:
            scheduler.use_sparse_attention = True
            scheduler.sparse_attention_config = sparse
        scheduler.enable_prefix_caching = False
        scheduler.max_num_batched_tokens = 1 << 20  # a prompt in one piece
        scheduler.max_num_seqs = 64
        scheduler.cache_size = 2
        return genai.LLMPipeline(self._model, "CPU", scheduler_config=scheduler,
                                 INFERENCE_NUM_THREADS=self._threads)

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

    def sparse(self, request):
        """The time to the first token with XAttention."""
        config = genai.SparseAttentionConfig(mode=genai.SparseAttentionMode.XATTENTION)
        if self._sparse_pipeline is None:
            self._sparse_pipeline = self._open(config)
        ids = np.array([request["ids"]])
        options = genai.GenerationConfig()
        options.max_new_tokens, options.do_sample = 1, False
        result = self._sparse_pipeline.generate(
            genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids))),
            options)
        return {"first": result.perf_metrics.get_ttft().mean / 1000,
                "setting": f"XAttention, threshold {config.xattention_threshold:.2g}, blocks of "
                           f"{config.xattention_block_size}, stride {config.xattention_stride}"}

    def divergence(self, request):
        """What XAttention loses: the pipeline's model with paged attention, asked for all logits."""
        model = self._compiled(lambda read: paged_attention_transformation(
            read, allow_score_aggregation=True, allow_xattention=True))
        count = len(request["ids"])
        wanted = min(request["positions"], count)
        positions = {"last": np.arange(count - wanted, count),
                     "spread": (2 * np.arange(wanted) + 1) * count // (2 * wanted)}
        threshold = genai.SparseAttentionConfig().xattention_threshold
        dense = self._log_softmax_at(model, request["ids"], 1.0, positions)
        sparse = self._log_softmax_at(model, request["ids"], threshold, positions)
        kl = {name: np.sort((np.exp(dense[name]) * (dense[name] - sparse[name])).sum(1))
              for name in positions}
        same = dense["last"].argmax(1) == sparse["last"].argmax(1)
        return {"kl": {"last": float(kl["last"].mean()),
                       "p99": float(kl["last"][math.ceil(0.99 * wanted) - 1]),
                       "top1": float(same.mean()), "spread": float(kl["spread"].mean())}}

    @staticmethod
    def _log_softmax_at(model, ids, threshold, positions):
        """{name: [positions, vocabulary]} of one prompt in one piece; threshold 1 is dense."""
        config = genai.SparseAttentionConfig()
        count = len(ids)
        blocks = -(-count // BLOCK)
        values = {"input_ids": np.array(ids), "position_ids": np.arange(count),
                  "max_context_len": np.array(count, np.int32),
                  "past_lens": np.zeros(1, np.int32),
                  "subsequence_begins": np.array([0, count], np.int32),
                  "block_indices": np.arange(blocks, dtype=np.int32),
                  "block_indices_begins": np.array([0, blocks], np.int32),
                  "score_aggregation_window": np.zeros(1, np.int32),
                  "xattention_threshold": np.array([threshold], np.float32),
                  "xattention_block_size": np.array(config.xattention_block_size, np.int32),
                  "xattention_stride": np.array(config.xattention_stride, np.int32)}
        feed = {}
        for port in model.inputs:
            name = port.get_any_name()
            kind = name.split(".")[0]
            if kind in ("key_cache", "value_cache"):
                shape = port.get_partial_shape()
                feed[name] = openvino.Tensor(port.get_element_type(), openvino.Shape(
                    [blocks, *(shape[axis].get_length() for axis in (1, 2, 3))]))
            else:
                feed[name] = values[kind]
        logits = list(model.create_infer_request().infer(feed).values())[0][:, 0]
        found = {}
        for name, at in positions.items():
            rows = logits[at].astype(np.float64)
            rows -= rows.max(1, keepdims=True)
            found[name] = rows - np.log(np.exp(rows).sum(1, keepdims=True))
        return found

    def _compiled(self, change):
        """The file as the pipeline reads it, which it can save in OpenVINO's own format; changed."""
        with tempfile.TemporaryDirectory() as folder:
            link = pathlib.Path(folder, pathlib.Path(self._model).name)
            link.symlink_to(os.path.abspath(self._model))
            genai.LLMPipeline(str(link), "CPU", enable_save_ov_model=True)
            core = openvino.Core()
            read = core.read_model(str(link.with_name("openvino_model.xml")))
            change(read)
            return core.compile_model(read, "CPU", {"INFERENCE_NUM_THREADS": self._threads})

    def logits(self, request):
        model = self._compiled(lambda read: None)
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
