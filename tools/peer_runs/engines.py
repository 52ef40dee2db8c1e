"""The engines that tools/peers measures: each turns a row into {"rate": tokens per second, ...}.

The rates hold no loading of the model. Prompts are random tokens in all engines, decoded tokens
those that come; no engine's speed depends on which they are.
"""
import json
import os
import select
import signal
import statistics
import subprocess

from peer_runs import rows

TIMEOUT = 1800  # seconds, of one measurement


class Unavailable(Exception):
    """This engine cannot do this row; says why."""


def output_of(command, name, given=""):
    """What a program prints that is `given` a text; raises Unavailable with its last words."""
    try:
        done = subprocess.run([str(word) for word in command], input=given, capture_output=True,
                              text=True, errors="replace", timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{name} took longer than {TIMEOUT} s") from None
    if done.returncode < 0:
        raise Unavailable(f"{name} was ended by {signal.Signals(-done.returncode).name}")
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise Unavailable(f"{name}, exit status {done.returncode}: {lines[-1][:300]}")
    return done.stdout


def llama_bench_rate(text, row):
    """The rate of `row` in llama-bench's JSON, where a warming test may stand before it."""
    wanted = (row.tokens, 0, 0) if row.work == "prefill" else (0, row.tokens, row.depth)
    for entry in json.loads(text):
        if (entry["n_prompt"], entry["n_gen"], entry["n_depth"]) == wanted:
            return entry["avg_ts"]
    raise Unavailable("llama-bench: the row is missing in its output")


def batched_bench_rate(text, row):
    """The rate of the generated tokens in llama-batched-bench's lines of JSON."""
    for line in text.splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            if (entry["tg"], entry["pl"]) == (row.tokens, row.sequences):
                return entry["speed_tg"]
    raise Unavailable("llama-batched-bench: the row is missing in its output")


def whole_batch_rate(text, row):
    """The rate of all tokens, read and generated, in llama-batched-bench's lines of JSON."""
    for line in text.splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            if (entry["pp"], entry["tg"], entry["pl"]) == (row.depth, row.tokens, row.sequences):
                return entry["speed"]
    raise Unavailable("llama-batched-bench: the row is missing in its output")


def bench_serve_rate(text, row):
    """The rate of all tokens, read and generated, in `baton bench serve --json`."""
    for entry in json.loads(text)["rows"]:
        if (entry["clients"], entry["requests"]) == (row.sequences, row.sequences):
            return all_tokens(row) / entry["seconds"]
    raise Unavailable("baton bench serve: the row is missing in its output")


def all_tokens(row):
    """What the requests of a row read and write together."""
    return row.sequences * (row.depth + row.tokens)


def bench_model_row(text, row):
    """Rate, share of the limit, and what limits, of `row` in `baton bench model --json`."""
    phase = "prefill" if row.work == "prefill" else "decode"
    extent = "prompt_tokens" if row.work == "prefill" else "depth"
    wanted = row.tokens if row.work == "prefill" else row.depth
    for entry in json.loads(text)["rows"]:
        if (entry["phase"], entry[extent], entry["sequences"]) == (phase, wanted, row.sequences):
            return {"rate": entry["tokens_per_second"], "share": entry["share"],
                    "bound_by": entry["bound_by"]}
    raise Unavailable("baton bench model: the row is missing in its output")


# Whole requests are work that nobody listens to: prompts go first, as the peers read them.
MANY_STEPS = 1000


def prompt_tokens(program, row, model):
    """The first tokens of the text of sparse prefill, as Baton reads it."""
    text = output_of([program, "tokenize", model, "--no-special"], "baton tokenize",
                     given=rows.TEXT.read_text(encoding="utf-8"))
    return [int(word) for word in text.split()[:row.tokens]]


def eval_kl_row(text, row):
    """Rate, and loss against dense, of the only policy in `baton eval kl --json`."""
    report = json.loads(text)
    policy = report["policies"][0]
    if report["tokens"] != row.tokens or not policy["seconds"]:
        raise Unavailable("baton eval kl: the row is missing in its output")
    last, spread = policy["kl"]["last"], policy["kl"]["spread"]
    return {"rate": row.tokens / statistics.median(policy["seconds"]),
            "kl": {"last": last["mean"], "p99": last["p99"], "top1": last["top1"],
                   "spread": spread["mean"]},
            "dense_seconds": statistics.median(report["dense"]["seconds"]),
            "setting": policy["policy"]}


class Baton:
    """Baton with one precision and type of cache (None: its default)."""

    def __init__(self, program, precision, threads, level, kv_type=None):
        self.name = f"Baton {precision}"
        self._program = program
        self._options = ["--precision", precision, "--threads", threads,
                         *([] if level.has_avx512 else ["--isa", "avx2"]),
                         *(["--kv-type", kv_type] if kv_type else [])]

    def measure(self, row, model):
        if row.work == "requests":
            return {"rate": bench_serve_rate(output_of(
                [self._program, "bench", "serve", model, *self._options, "--clients", row.sequences, "--requests",
                 row.sequences, "--prompt", row.depth, "--output", row.tokens, "--ctx",
                 row.depth + row.tokens + 64, "--max-gap-steps", MANY_STEPS, "--json"],
                "baton bench serve"), row)}
        if row.work == "sparse":
            return eval_kl_row(output_of(
                [self._program, "eval", "kl", model, *self._options, "--text", rows.TEXT, "--tokens", row.tokens, "--sparse", row.policy,
                 "--repeat", 1, "--json"], "baton eval kl"), row)
        is_prefill = row.work == "prefill"
        return bench_model_row(output_of(
            [self._program, "bench", "model", model, *self._options, "--prompt", row.tokens if is_prefill else 16,
             "--depth", row.depth, "--batch", row.sequences,
             "--repeat", 1 if is_prefill else row.tokens, "--json"], "baton bench model"), row)

    def close(self):
        pass


class Llama:
    """llama.cpp with one setting of flash attention."""

    def __init__(self, programs, flash, threads):
        self.name = "llama.cpp, flash attention " + ("on" if flash else "off")
        self._programs, self._flash, self._threads = programs, flash, threads

    def measure(self, row, model):
        if row.work == "sparse":
            raise Unavailable("llama.cpp has no block-sparse prefill")
        if row.work in ("batch", "requests"):
            read_rate = batched_bench_rate if row.work == "batch" else whole_batch_rate
            return {"rate": read_rate(output_of(
                [self._programs / "llama-batched-bench", "-m", model, "-t", self._threads,
                 "-tb", self._threads, "-fa", "on" if self._flash else "off",
                 "-npp", row.depth or 1, "-ntg", row.tokens, "-npl", row.sequences,
                 "-c", row.sequences * (row.depth + row.tokens + 64),
                 "--output-format", "jsonl"], "llama-batched-bench"), row)}
        words = [self._programs / "llama-bench", "-m", model, "-t", self._threads,
                 "-fa", int(self._flash), "-r", 1, "-o", "json"]
        if row.work == "decode":
            words += ["-p", 0, "-n", row.tokens, "-d", row.depth]
        elif row.tokens > 256:  # its own warming run would be as long as the measurement
            words += ["--no-warmup", "-p", f"128,{row.tokens}", "-n", 0]
        else:
            words += ["-p", row.tokens, "-n", 0]
        return {"rate": llama_bench_rate(output_of(words, "llama-bench"), row)}

    def failure(self, model):
        """Why a short prompt cannot be computed at all, or None."""
        try:
            output_of([self._programs / "llama-bench", "-m", model, "-t", self._threads, "-p", 64,
                       "-n", 0, "-r", 1, "-o", "json"], "llama-bench")
        except Unavailable as error:
            return str(error)
        return None

    def close(self):
        pass


class WorkerEngine:
    """An engine that runs in a process of its own for each model: requests and answers are lines of
    JSON (openvino_worker.py, vllm_worker.py)."""

    name = None

    def __init__(self, python, worker, threads, level):
        self._python, self._worker, self._threads = python, worker, threads
        self._environment = dict(os.environ) if level.onednn is None else {
            **os.environ, "ONEDNN_MAX_CPU_ISA": level.onednn}
        self._process, self._model, self._failure = None, None, None
        self.version = None

    def path_of(self, model):
        """What the worker opens for a model; raises Unavailable."""
        return model

    def _answer(self):
        ready, _, _ = select.select([self._process.stdout], [], [], TIMEOUT)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self.close()
            raise Unavailable(f"{self.name} ended without an answer" if ready else
                              f"{self.name} took longer than {TIMEOUT} s")
        answer = json.loads(line)
        if "error" in answer:
            raise Unavailable(f"{self.name}: {answer['error']}")
        return answer

    def _open(self, model):
        if self._model == model:
            if self._failure:
                raise Unavailable(self._failure)
            return
        self.close()
        self._model, self._failure = model, None
        try:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                [str(self._python), str(self._worker), str(self.path_of(model)),
                 str(self._threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, env=self._environment)
            self.version = self._answer()["versions"]
            self.ask({"work": "generate", "tokens": 64, "new": 4, "sequences": 1}, model)  # warms
        except Unavailable as error:
            self.close()
            self._model, self._failure = model, str(error)
            raise

    def ask(self, request, model):
        """The worker's answer to a request; see openvino_worker.py."""
        self._open(model)
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()
        self._process, self._model, self._failure = None, None, None


class OpenVino(WorkerEngine):
    """OpenVINO GenAI with its paged pipeline, prefix cache off."""

    name = "OpenVINO"

    def __init__(self, python, worker, threads, level, tokens_of):
        super().__init__(python, worker, threads, level)
        self._tokens_of = tokens_of  # of a row of sparse prefill and a model's file
        self._losses = {}  # by row

    def _sparse(self, row, model):
        tokens = self._tokens_of(row, model)
        answer = self.ask({"work": "sparse", "ids": tokens}, model)
        if row.name not in self._losses:
            self._losses[row.name] = self.ask({"work": "divergence", "ids": tokens,
                                               "positions": 512}, model)
        return {"rate": len(tokens) / answer["first"], "setting": answer["setting"],
                "kl": self._losses[row.name]["kl"]}

    def measure(self, row, model):
        if row.work == "sparse":
            return self._sparse(row, model)
        if row.work == "prefill":
            answer = self.ask({"work": "generate", "tokens": row.tokens, "new": 1,
                               "sequences": 1}, model)
            return {"rate": row.tokens / answer["first"]}
        extra = 0 if row.work == "requests" else 1  # the first token belongs to the prompt
        answer = self.ask({"work": "generate", "tokens": row.depth or 1, "new": row.tokens + extra,
                           "sequences": row.sequences}, model)
        if row.work == "requests":
            return {"rate": all_tokens(row) / (answer["first"] + answer["rest"])}
        return {"rate": row.tokens * row.sequences / answer["rest"]}


class Vllm(WorkerEngine):
    """vLLM on the CPU, in bf16: requests that arrive together, prefix cache off."""

    name = "vLLM"

    def __init__(self, python, worker, threads, level, converted):
        super().__init__(python, worker, threads, level)
        self._converted = converted  # of a model's file: the folder that vLLM opens

    def path_of(self, model):
        return self._converted(model)

    def measure(self, row, model):
        if row.work != "requests":
            raise Unavailable("vLLM is measured with whole requests only")
        answer = self.ask({"work": "generate", "tokens": row.depth, "new": row.tokens,
                           "sequences": row.sequences}, model)
        return {"rate": all_tokens(row) / answer["whole"]}
