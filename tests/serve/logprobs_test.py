#!/usr/bin/env python3
"""Log-probabilities of prompts (`echo` with `logprobs`): those of `baton eval logits`."""
import concurrent.futures
import json
import struct

from server_case import PLAIN, SMOL, Server, ServerCase, cached, main

TEXT = ("The capital of France is Paris, and the capital of Italy is Rome. Une journ\u00e9e \u00e0 "
        "la caf\u00e9t\u00e9ria \u2014 \U0001f980 \u65e5\u672c. ") * 3


def single(number):
    """The binary32 that its digits stand for, or that is nearest."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


class PromptLogprobs(ServerCase):
    OPTIONS = ["--max-running", "4", "--kv-tokens", "16384"]

    def ask(self, server=None, **body):
        return (server or self.server).post(PLAIN, {"prompt": TEXT, "echo": True, "temperature": 0,
                                                    "logprobs": 5, "max_tokens": 1, **body})

    def choice(self, server=None, **body):
        return self.ask(server, **body)["choices"][0]

    def test_are_those_of_eval_logits(self):
        ids = self.server.post("/tokenize", {"content": TEXT})["tokens"]
        expected = json.loads(self.ok(
            "eval", "logits", cached(SMOL), "--ids", "-", "--json", "--top", "5", "--tokens",
            ",".join(map(str, sorted(set(ids)))), stdin=json.dumps(ids)))
        place = {token: i for i, token in enumerate(expected["tokens"])}
        answer = self.ask()
        self.assertEqual(answer["usage"]["prompt_tokens"], len(ids))
        choice = answer["choices"][0]
        told = choice["logprobs"]
        self.assertEqual(len(told["tokens"]), len(ids) + 1)
        self.assertEqual((told["token_logprobs"][0], told["top_logprobs"][0]), (None, None))
        for i, position in enumerate(expected["positions"][:-1], start=1):
            # Pieces of one text share a place, so the lists are compared as values in order.
            own = told["token_logprobs"][i]
            top = sorted(set(told["top_logprobs"][i].values()) - {own}, reverse=True)
            best = [entry[2] for entry in position["top"]]
            for value in top:
                self.assertIn(single(value), [single(entry) for entry in best])
            logit = position["token_logits"][place[ids[i]]]
            from_best = max(told["top_logprobs"][i].values()) + \
                (single(logit) - single(position["top"][0][1]))
            self.assertAlmostEqual(own, from_best, delta=1e-12)
            self.assertEqual(single(max(told["top_logprobs"][i].values())), single(best[0]))
            for ident, _, logprob in position["top"]:
                if ident == ids[i]:
                    self.assertEqual(single(own), single(logprob))

    def test_the_last_one_is_what_a_continuation_has(self):
        whole = self.choice(max_tokens=6)
        self.assertTrue(whole["text"].startswith(TEXT))
        plain = self.post(PLAIN, prompt=TEXT, temperature=0, logprobs=5, max_tokens=6)["choices"][0]
        self.assertEqual(whole["text"], TEXT + plain["text"])
        self.assertEqual(whole["logprobs"]["token_logprobs"][-6:],
                         plain["logprobs"]["token_logprobs"])
        # What was generated, given as a prompt: decode and prefill are one.
        ids = self.server.post("/tokenize", {"content": TEXT})["tokens"]
        more = self.server.post("/tokenize", {"content": TEXT + plain["text"]})["tokens"]
        if more[:len(ids)] == ids and len(more) == len(ids) + 6:
            again = self.choice(prompt=more, max_tokens=0)
            self.assertEqual(again["logprobs"]["token_logprobs"],
                             whole["logprobs"]["token_logprobs"])

    def test_places_in_the_text(self):
        choice = self.choice(max_tokens=0)
        self.assertEqual((choice["text"], choice["finish_reason"]), (TEXT, "length"))
        told = choice["logprobs"]
        for token, offset in zip(told["tokens"], told["text_offset"]):
            if "\ufffd" not in token:
                self.assertEqual(TEXT[offset:offset + len(token)], token)
        self.assertEqual(len({len(told[name]) for name in told}), 1)

    def test_the_same_bits_in_any_chunk_beside_others_and_after_giving_way(self):
        expected = self.choice(max_tokens=0)
        # The prompt is in the cache now; all of it is computed again.
        again = self.ask(max_tokens=0)
        self.assertEqual(again["choices"][0], expected)
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        for options in (["--threads", "1", "--chunk", "7"], ["--threads", "3", "--chunk", "64"],
                        ["--ctx", "256", "--kv-tokens", "320", "--no-prefix-cache"]):
            server = Server(self.folder, *options, "--max-running", "4", name="other")
            try:
                def one(number, server=server):
                    if number % 2 == 0:
                        return self.choice(server, max_tokens=0)
                    server.post(PLAIN, {"prompt": f"Count from {number}:", "max_tokens": 150,
                                        "ignore_eos": True, "seed": number})
                    return None
                with concurrent.futures.ThreadPoolExecutor(8) as pool:
                    answers = list(pool.map(one, range(8)))
                for answer in answers[::2]:
                    self.assertEqual(answer, expected, options)
                preemptions = server.metrics()["baton_preemptions_total"]
            finally:
                self.assertEqual(server.stop(), 0)
        self.assertGreater(preemptions, 0)

    def test_streams_choices_and_several_prompts(self):
        whole = self.ask(prompt=[TEXT, "Hi there"], n=2, max_tokens=3, seed=4,
                         temperature=1)["choices"]
        self.assertEqual(whole[0]["logprobs"]["token_logprobs"][:-3],
                         whole[1]["logprobs"]["token_logprobs"][:-3])
        joined = [{"text": "", "tokens": [], "token_logprobs": [], "top_logprobs": [],
                   "text_offset": []} for _ in whole]
        for event in self.server.stream(PLAIN, {
                "prompt": [TEXT, "Hi there"], "n": 2, "max_tokens": 3, "seed": 4, "echo": True,
                "logprobs": 5, "return_progress": True})[:-1]:
            for piece in json.loads(event)["choices"]:
                one = joined[piece["index"]]
                one["text"] += piece["text"]
                for name in list(one)[1:]:
                    one[name] += (piece["logprobs"] or {}).get(name, [])
        for one, choice in zip(joined, whole):
            self.assertEqual(one, {"text": choice["text"], **choice["logprobs"]})

    def test_an_end_token_is_told(self):
        """lm-eval leaves out the last entry, whatever it is."""
        prompt = "<|im_start|>user\nSay OK.<|im_end|>\n<|im_start|>assistant\nOK."
        choice = self.choice(prompt=prompt)
        self.assertEqual((choice["text"], choice["finish_reason"]), (prompt, "stop"))
        ids = self.server.post("/tokenize", {"content": prompt, "parse_special": True})["tokens"]
        self.assertEqual(len(choice["logprobs"]["tokens"]), len(ids) + 1)
        self.assertEqual(choice["logprobs"]["tokens"][-1], "<|im_end|>")

    def test_too_many_are_refused(self):
        status, _, text = self.server.ask("POST", PLAIN, {
            "prompt": [[5] * 600] * 80, "echo": True, "logprobs": 100, "max_tokens": 0})
        self.assertEqual(status, 400)
        self.assertEqual(json.loads(text)["error"]["param"], "logprobs")


if __name__ == "__main__":
    main()
