#!/usr/bin/env python3
"""lm-eval through the server, with a task of its own: likelihoods and accuracy are those that
`baton eval logits` has, and generated text is the server's. tests/nightly runs it; it needs
`tools/client_env --nightly`."""
import json
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))
from clients_test import python  # noqa: E402
from gguf_metadata import read_metadata  # noqa: E402
from server_case import PLAIN, SMOL, ServerCase, cached, main  # noqa: E402

QUESTIONS = [
    ("The capital of France is", [" Paris", " London", " a banana", " seventeen"], 0),
    ("Two plus two equals", [" twelve", " four", " Paris", " green"], 1),
    ("The opposite of hot is", [" warm", " table", " cold", " seven"], 2),
    ("Water freezes at zero degrees", [" of the moon", " to", " and dogs", " Celsius"], 3),
    ("The first president of the United States was", [" Albert Einstein", " George Washington",
                                                      " Mozart", " Napoleon"], 1),
    ("A dog is a kind of", [" number", " planet", " animal", " verb"], 2),
]

CHOICES = """task: baton_choices
dataset_path: json
dataset_kwargs:
  data_files: {{test: "{data}"}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
target_delimiter: ""
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
"""
WRITES = """task: baton_writes
dataset_path: json
dataset_kwargs:
  data_files: {{test: "{data}"}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{choices[answer]}}}}"
target_delimiter: ""
generation_kwargs: {{until: ["\\n", "."], max_gen_toks: 12, temperature: 0}}
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true}}
"""

# Its argument is a folder with vocabulary.json; the tokenizer goes beside it, as clients read it.
MAKE_TOKENIZER = '''
import json
import sys
folder = sys.argv[1]
with open(folder + "/vocabulary.json", encoding="utf-8") as file:
    words = json.load(file)
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
bpe = Tokenizer(models.BPE({token: i for i, token in enumerate(words["tokens"])},
                           [tuple(pair.split(" ")) for pair in words["merges"]]))
bpe.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                             pre_tokenizers.ByteLevel(add_prefix_space=False)])
bpe.decoder = decoders.ByteLevel()
PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>",
                        bos_token="<|im_start|>").save_pretrained(folder + "/tokenizer")
with open(folder + "/tokenizer/config.json", "w", encoding="utf-8") as file:
    json.dump({"model_type": "llama"}, file)
'''

PROGRAM = MAKE_TOKENIZER + '''
import os
os.environ.update(HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1",
                  HF_HOME=sys.argv[1] + "/hf", OPENAI_API_KEY="none")
folder, url, model = sys.argv[1:]
import lm_eval
from lm_eval.tasks import TaskManager
done = lm_eval.simple_evaluate(
    model="local-completions",
    model_args=dict(base_url=url + "/v1/completions", model=model, tokenizer=folder + "/tokenizer",
                    tokenizer_backend="huggingface", tokenized_requests=True, num_concurrent=4,
                    max_retries=1, max_length=1024, batch_size=2),
    tasks=["baton_choices", "baton_writes"], task_manager=TaskManager(include_path=folder),
    bootstrap_iters=0, log_samples=True)
out = {"results": done["results"], "samples": {}, "ids": {}}
for task, samples in done["samples"].items():
    out["samples"][task] = [{"doc": one["doc"], "resps": one["resps"]} for one in samples]
for question, choices, answer in json.load(open(folder + "/questions.json", encoding="utf-8")):
    for choice in choices:
        out["ids"][question + choice] = bpe.encode(question + choice).ids
    out["ids"][question] = bpe.encode(question).ids
with open(folder + "/out.json", "w", encoding="utf-8") as file:
    json.dump(out, file, default=str)
'''


def texts(array):
    """The strings of an array of a GGUF file."""
    found, at = [], 0
    for _ in range(array.count):
        length = struct.unpack_from("<Q", array.data, at)[0]
        found.append(array.data[at + 8:at + 8 + length].decode())
        at += 8 + length
    return found


def put_vocabulary(case):
    """The model's words as vocabulary.json in the test's folder."""
    words = read_metadata(cached(SMOL))
    case.file("vocabulary.json", json.dumps({
        "tokens": texts(words["tokenizer.ggml.tokens"][1]),
        "merges": texts(words["tokenizer.ggml.merges"][1])}))


class LmEval(ServerCase):
    OPTIONS = ["--kv-tokens", "16384"]

    def likelihood(self, context, ids):
        """The sum of log-probabilities of what is behind the context, by `baton eval logits`."""
        last = ids[len(context):]
        done = json.loads(self.ok(
            "eval", "logits", cached(SMOL), "--ids", "-", "--json", "--top", "0", "--tokens",
            ",".join(map(str, last)), "--positions", f"{len(context) - 1}-{len(ids) - 2}",
            stdin=json.dumps(ids)))
        return sum(position["token_logits"][i] - position["logsumexp"]
                   for i, position in enumerate(done["positions"]))

    def test_its_figures_are_those_of_the_model(self):
        put_vocabulary(self)
        self.file("questions.json", json.dumps(QUESTIONS))
        data = self.file("data.jsonl", "\n".join(
            json.dumps({"question": q, "choices": c, "answer": a}) for q, c, a in QUESTIONS))
        self.file("choices.yaml", CHOICES.format(data=data))
        self.file("writes.yaml", WRITES.format(data=data))
        done = subprocess.run([python("nightly-clients"), "-c", PROGRAM, str(self.folder),
                               self.server.url, self.server.model], capture_output=True,
                              check=False, timeout=900)
        self.assertEqual(done.returncode, 0, done.stderr.decode()[-4000:])
        out = json.loads((self.folder / "out.json").read_text())
        # Its tokenizer is the server's.
        for text, ids in out["ids"].items():
            self.assertEqual(self.server.post("/tokenize", {"content": text})["tokens"], ids)
        right = 0
        self.assertEqual(len(out["samples"]["baton_choices"]), len(QUESTIONS))
        for sample in out["samples"]["baton_choices"]:
            doc = sample["doc"]
            context = out["ids"][doc["question"]]
            sums = [self.likelihood(context, out["ids"][doc["question"] + choice])
                    for choice in doc["choices"]]
            told = [float(answer[0][0]) for answer in sample["resps"]]
            for mine, theirs in zip(sums, told):
                self.assertAlmostEqual(mine, theirs, delta=1e-4)
            right += sums.index(max(sums)) == doc["answer"]
        self.assertAlmostEqual(out["results"]["baton_choices"]["acc,none"],
                               right / len(QUESTIONS), delta=1e-12)
        self.assertGreater(right, len(QUESTIONS) // 2)
        for sample in out["samples"]["baton_writes"]:
            expected = self.server.post(PLAIN, {
                "prompt": sample["doc"]["question"], "max_tokens": 12, "temperature": 0,
                "stop": ["\n", "."]})["choices"][0]["text"]
            self.assertEqual(sample["resps"][0][0], expected)


if __name__ == "__main__":
    main()
