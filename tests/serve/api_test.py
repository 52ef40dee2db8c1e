#!/usr/bin/env python3
"""The API over a real model: both forms of an answer, seeds, choices, log-probabilities, limits."""
import concurrent.futures
import json
import math
import pathlib
import re
import shutil
import subprocess

from server_case import CHAT, PLAIN, Server, ServerCase, main, user, wait_until

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LONG = "The quick brown fox jumps over the lazy dog. " * 20


class Api(ServerCase):
    def joined(self, path, body):
        """What a stream's pieces add up to, its reason, and its logprobs."""
        events = self.server.stream(path, body)
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(events.count("[DONE]"), 1)
        text, reasons, tokens, roles = "", [], [], 0
        for event in events[:-1]:
            choice = json.loads(event)["choices"][0]
            delta = choice.get("delta", {"content": choice.get("text", "")})
            text += delta.get("content") or ""
            roles += "role" in delta
            reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
            if choice["logprobs"]:
                tokens += choice["logprobs"].get("content") or choice["logprobs"]["tokens"]
        self.assertEqual(len(reasons), 1)
        self.assertEqual(roles, 1 if path == CHAT else 0)
        return text, reasons[0], tokens

    def test_the_manual_lists_what_is_refused(self):
        source = (ROOT / "src/serve/unsupported_fields.cc").read_text()
        names = re.findall(r'\.name = "(\w+)"', source)
        self.assertGreater(len(names), 30)
        manual = (ROOT / "docs/serve.md").read_text()
        for name in names:
            self.assertIn(f"`{name}`", manual)
            for path, body in ((CHAT, {"messages": user("x")}), (PLAIN, {"prompt": "x"})):
                status, _, text = self.server.ask("POST", path, {**body, name: {"some": "thing"}})
                self.assertEqual((status, json.loads(text)["error"]["param"]), (400, name))

    def test_a_ban_is_a_ban(self):
        size = json.loads(self.server.ask("GET", "/v1/models")[2])["data"][0]["vocab_size"]
        ban = {str(token): -100 for token in range(size)}
        body = {"prompt": "x", "logit_bias": ban}
        status, _, text = self.server.ask("POST", PLAIN, body)
        self.assertEqual(status, 400, text)
        self.assertIn("bans all", json.loads(text)["error"]["message"])
        # The last one is all that is left, however hot.
        del ban[str(size - 1)]
        only = self.post(PLAIN, prompt="x", logit_bias=ban, temperature=1e9, max_tokens=3,
                         ignore_eos=True)
        piece = self.post("/detokenize", tokens=[size - 1])["content"]
        self.assertEqual(only["choices"][0]["text"], piece * 3)

    def test_pieces_add_up_to_the_whole(self):
        greedy = {"temperature": 0, "max_tokens": 24}
        lively = {"temperature": 1.5, "seed": 11, "max_tokens": 24}
        cases = [(CHAT, {"messages": user("Name three colours."), **greedy}),
                 (CHAT, {"messages": user("Write emoji 🦉 and 漢字."), **lively}),
                 (PLAIN, {"prompt": "🦉🦉🦉", **lively}),
                 (PLAIN, {"prompt": "One, two, three, four,", "stop": ["six", "eight, n"], **greedy}),
                 (PLAIN, {"prompt": "One, two, three, four,", "stop": "ine, te", "echo": True,
                          **greedy}),
                 (PLAIN, {"prompt": "One, two,", "max_tokens": 0}),
                 (PLAIN, {"prompt": "One, two,", "max_tokens": 1, "temperature": 0})]
        for path, body in cases:
            with self.subTest(body=body):
                whole = self.post(path, **body)
                choice = whole["choices"][0]
                text = choice["message"]["content"] if path == CHAT else choice["text"]
                self.assertEqual(self.joined(path, body)[:2], (text, choice["finish_reason"]))
                for stop in [body["stop"]] if isinstance(body.get("stop"), str) \
                        else body.get("stop", []):
                    self.assertNotIn(stop, text)
                self.assertLessEqual(whole["usage"]["completion_tokens"], body["max_tokens"])

    def test_a_stop_string_ends_the_text_before_it(self):
        free = self.post(PLAIN, prompt="One, two, three, four,", temperature=0, max_tokens=12)
        text = free["choices"][0]["text"]
        self.assertIn("six", text)
        cut = self.post(PLAIN, prompt="One, two, three, four,", temperature=0, max_tokens=12,
                        stop=["six"])["choices"][0]
        self.assertEqual((cut["text"], cut["finish_reason"]), (text.partition("six")[0], "stop"))

    def test_usage_of_streams_is_that_of_the_whole(self):
        for path, body in [(CHAT, {"messages": user("Hi"), "max_tokens": 5, "n": 2}),
                           (PLAIN, {"prompt": "x", "max_tokens": 5})]:
            body.update(seed=1, temperature=0.8)
            whole = self.post(path, **body)["usage"]
            events = self.server.stream(path, {**body, "stream_options": {"include_usage": True}})
            last = json.loads(events[-2])
            self.assertEqual((events[-1], last["choices"]), ("[DONE]", []))
            # How much the cache had is another matter each time.
            for usage in (whole, last["usage"]):
                usage.pop("prompt_tokens_details")
            self.assertEqual(last["usage"], whole)
            for options in ({}, {"stream_options": {"include_usage": False}},
                            {"stream_options": {"include_usage": None}},
                            {"stream_options": None}):
                for event in self.server.stream(path, {**body, **options})[:-1]:
                    self.assertNotIn("usage", json.loads(event))
                    self.assertTrue(json.loads(event)["choices"])

    def test_one_request_one_answer_whatever_runs_beside_it(self):
        body = {"messages": user("Tell me a story."), "temperature": 1.2, "seed": 5,
                "max_tokens": 20, "logprobs": True, "top_logprobs": 2}
        alone = self.post(CHAT, **body)["choices"]
        others = [{"prompt": LONG[:20 * i + 7], "max_tokens": 3 * i + 3, "seed": i}
                  for i in range(8)]
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            crowd = [pool.submit(self.server.post, PLAIN, other) for other in others]
            among = [pool.submit(self.server.post, CHAT, body) for _ in range(2)]
            for answer in among:
                self.assertEqual(answer.result()["choices"], alone)
            crowded = [answer.result()["choices"] for answer in crowd]
        for other, choices in zip(others[::3], crowded[::3]):
            self.assertEqual(self.server.post(PLAIN, other)["choices"], choices)

    def test_choices_are_each_their_own(self):
        body = {"prompt": "Once upon a time", "temperature": 1.3, "seed": 9, "max_tokens": 10}
        first = self.post(PLAIN, **body)["choices"][0]["text"]
        several = self.post(PLAIN, n=4, **body)
        texts = [choice["text"] for choice in several["choices"]]
        self.assertEqual(texts[0], first)
        self.assertEqual(len(set(texts)), 4)
        self.assertEqual([choice["index"] for choice in several["choices"]], [0, 1, 2, 3])
        # Without a seed each call draws anew.
        del body["seed"]
        self.assertGreater(len({self.post(PLAIN, **body)["choices"][0]["text"]
                                for _ in range(4)}), 1)

    def test_how_a_prompt_is_read(self):
        body = {"prompt": LONG * 6, "temperature": 0, "max_tokens": 3, "logprobs": 1}
        sparse = {"prefill": "sparse",
                  "sparse": "rule=share:0.05 sink=0 window=64 last=1 estimate=mean"}
        plain = self.post(PLAIN, **body)
        self.assertNotIn("baton", plain)
        dense = self.post(PLAIN, prefill="dense", **body)
        self.assertEqual(dense["choices"], plain["choices"])
        self.assertEqual(dense["baton"], {"prefill": [{"policy": "dense"}]})
        first = self.post(PLAIN, **sparse, **body)
        self.assertNotEqual(first["choices"][0]["logprobs"], plain["choices"][0]["logprobs"])
        read = first["baton"]["prefill"][0]
        self.assertIn("rule=share:0.05,1 estimate=mean", read["policy"])
        self.assertLess(0, read["density"])
        self.assertLess(read["density"], 1)
        self.assertEqual(len(read["layer_densities"]), 30)
        self.assertGreater(read["thread_seconds"]["attend"], 0)
        # What dense reading left is not found; what this policy left is, and changes nothing.
        self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            crowd = [pool.submit(self.server.post, PLAIN, {**body, **(sparse if i % 2 else {})})
                     for i in range(6)]
            for i, answer in enumerate(crowd):
                self.assertEqual(answer.result()["choices"], (first if i % 2 else plain)["choices"])
        again = self.post(PLAIN, **sparse, **body)
        self.assertGreater(again["usage"]["prompt_tokens_details"]["cached_tokens"], 500)
        events = self.server.stream(PLAIN, {**body, **sparse,
                                            "stream_options": {"include_usage": True}})
        self.assertEqual(json.loads(events[-2])["baton"]["prefill"][0]["policy"], read["policy"])
        metrics = self.server.metrics()
        self.assertGreaterEqual(metrics['baton_prefills_total{policy="sparse"}'], 6)
        self.assertGreater(metrics['baton_sparse_prefill_blocks_total{state="skipped"}'], 0)
        for fields, param, words in [
                ({"prefill": "fast"}, "prefill", "'dense', 'sparse' or 'auto'"),
                ({"sparse": "rule=all"}, "sparse", "sparse"),
                ({"prefill": "sparse", "sparse": "block=96"}, "sparse", "64 or 128"),
                ({"prefill": "sparse", "sparse": "dense-layers=30"}, "sparse", "0..29"),
                ({"prefill": "sparse", "sparse": "dense-heads=0:3"}, "sparse", "0..2"),
                ({"prefill": "auto"}, "prefill", "baton tune")]:
            status, _, text = self.server.ask("POST", PLAIN, {**body, **fields})
            error = json.loads(text)["error"]
            self.assertEqual((status, error["param"]), (400, param), text)
            self.assertIn(words, error["message"])

    def test_logprobs(self):
        body = {"prompt": "The capital of France is", "temperature": 0, "max_tokens": 4}
        plain = self.post(PLAIN, logprobs=3, **body)["choices"][0]
        tokens = plain["logprobs"]
        self.assertEqual("".join(tokens["tokens"]), plain["text"])
        for chosen, logprob, top in zip(tokens["tokens"], tokens["token_logprobs"],
                                        tokens["top_logprobs"]):
            self.assertEqual(len(top), 3)
            self.assertEqual(top[chosen], logprob)
            self.assertEqual(max(top.values()), logprob)  # greedy takes the best
            self.assertLess(sum(math.exp(value) for value in top.values()), 1)
        self.assertEqual([plain["text"][offset:offset + len(token)] for offset, token in
                          zip(tokens["text_offset"], tokens["tokens"])], tokens["tokens"])
        # The meaning is one: of the model's own distribution, whatever the sampling does.
        hot = self.post(PLAIN, logprobs=0, **{**body, "temperature": 1, "top_k": 1})
        self.assertEqual(hot["choices"][0]["logprobs"]["token_logprobs"],
                         tokens["token_logprobs"])
        whole = self.post(CHAT, messages=user("Hi"), temperature=0, max_tokens=4, logprobs=True,
                          top_logprobs=2)["choices"][0]
        content = whole["logprobs"]["content"]
        text, _, streamed = self.joined(CHAT, {
            "messages": user("Hi"), "temperature": 0, "max_tokens": 4, "logprobs": True,
            "top_logprobs": 2})
        self.assertEqual((text, streamed), (whole["message"]["content"], content))
        self.assertEqual(bytes(b for token in content for b in token["bytes"]).decode(), text)
        self.assertIsNone(self.post(CHAT, messages=user("Hi"), max_tokens=1)
                          ["choices"][0]["logprobs"])

    def test_bias_bans_and_forces(self):
        body = {"prompt": "The capital of France is", "temperature": 0, "max_tokens": 1}
        best = self.post(PLAIN, **body)["choices"][0]["text"]
        best_id = self.post("/tokenize", content=best)["tokens"][0]
        banned = self.post(PLAIN, logit_bias={str(best_id): -100}, **body)["choices"][0]["text"]
        self.assertNotEqual(banned, best)
        forced = self.post(PLAIN, logit_bias={"28": 100}, **body)["choices"][0]["text"]
        self.assertEqual(forced, self.post("/detokenize", tokens=[28])["content"])

    def test_ids_and_text_are_one_prompt(self):
        ids = self.post("/tokenize", content="Once upon a time")["tokens"]
        self.assertEqual(self.post("/detokenize", tokens=ids)["content"], "Once upon a time")
        body = {"temperature": 0, "max_tokens": 6}
        by_ids = self.post(PLAIN, prompt=ids, **body)
        by_text = self.post(PLAIN, prompt="Once upon a time", **body)
        both = self.post(PLAIN, prompt=[ids, ids[:1]], **body)
        self.assertEqual(by_ids["choices"], by_text["choices"])
        self.assertEqual(both["choices"][0], by_text["choices"][0])
        self.assertEqual(both["usage"]["prompt_tokens"], len(ids) + 1)

    def test_what_was_read_before_is_not_read_again(self):
        body = {"prompt": "Cache. " + LONG, "temperature": 0, "max_tokens": 4}
        first, second = self.post(PLAIN, **body), self.post(PLAIN, **body)
        total = first["usage"]["prompt_tokens"]
        self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        # Whole blocks of 64, but for the last token, which gives the logits.
        self.assertEqual(second["usage"]["prompt_tokens_details"]["cached_tokens"],
                         (total - 1) // 64 * 64)
        self.assertEqual(first["choices"], second["choices"])

    def test_what_another_server_read_is_found_on_disk(self):
        body = {"prompt": "Disk. " + LONG, "temperature": 0, "max_tokens": 4}
        total = None
        for cached in (0, None):
            server = Server(self.folder, "--kv-disk", str(self.folder / "kv"), name="disk")
            answer = server.post(PLAIN, body)
            self.assertEqual(server.stop(), 0)
            usage = answer["usage"]
            found = usage["prompt_tokens_details"]["cached_tokens"]
            if total is None:
                self.assertEqual(found, cached)
                total, choices = usage["prompt_tokens"], answer["choices"]
        self.assertEqual(found, (total - 1) // 64 * 64)
        self.assertEqual(answer["choices"], choices)

    def test_what_a_cache_of_one_type_holds_the_other_is_not_served(self):
        body = {"prompt": "Types. " + LONG, "temperature": 0, "max_tokens": 4}
        found, choices = [], {}
        for kv_type in ("f16", "q8", "q8", "f16"):
            server = Server(self.folder, "--kv-disk", str(self.folder / "types"), "--kv-type",
                            kv_type, name="types")
            answer = server.post(PLAIN, body)
            status = json.loads(server.ask("GET", "/status")[2])
            self.assertEqual(server.stop(), 0)
            self.assertEqual(status["kv"]["type"], kv_type)
            memory, = [line["message"] for line in server.log() if line["event"] == "memory"]
            self.assertIn(f" MiB of {kv_type} KV cache for ", memory)
            found.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
            self.assertEqual(choices.setdefault(kv_type, answer["choices"]), answer["choices"])
        whole = (answer["usage"]["prompt_tokens"] - 1) // 64 * 64
        self.assertEqual(found, [0, 0, whole, whole])

    def test_a_disk_that_refuses_is_told(self):
        disk = self.folder / "refuses"
        server = Server(self.folder, "--kv-disk", str(disk), name="refuses")
        shutil.rmtree(disk)
        answer = server.post(PLAIN, {"prompt": "Gone. " + LONG, "max_tokens": 2})
        self.assertEqual(len(answer["choices"]), 1)
        failed = 'baton_kv_disk_blocks_total{outcome="failed"}'
        wait_until(lambda: server.metrics()[failed] > 0, "a block could not be stored")
        self.assertEqual(server.stop(), 0)
        told = [line["message"] for line in server.log() if line["event"] == "kv_disk"]
        self.assertEqual(len(told), 1, told)
        self.assertIn(str(disk), told[0])

    def test_progress_on_request(self):
        events = self.server.stream(CHAT, {"messages": user("Progress. " + LONG), "max_tokens": 1,
                                           "return_progress": True})
        progress = [json.loads(event)["prompt_progress"] for event in events[:-1]
                    if "prompt_progress" in event]
        self.assertTrue(progress)
        self.assertEqual(progress[-1]["processed"], progress[-1]["total"])
        read = [one["processed"] for one in progress]
        self.assertEqual(read, sorted(read))

    def test_too_much_is_said_with_the_numbers(self):
        status, _, text = self.server.ask("POST", PLAIN, {"prompt": [1] * 8192})
        error = json.loads(text)["error"]
        self.assertEqual((status, error["code"], error["param"]),
                         (400, "context_length_exceeded", "prompt"))
        self.assertIn("8192 tokens", error["message"])

    def test_tools_and_a_template_that_knows_them(self):
        tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
        body = {"messages": user("Say: Good day."), "tools": tools, "max_tokens": 8,
                "temperature": 0}
        status, _, text = self.server.ask("POST", CHAT, body)
        error = json.loads(text)["error"]
        self.assertEqual((status, error["param"], error["code"]),
                         (400, "tools", "tools_not_supported"))
        # Of a template that names them the model reads more, and text stays text.
        template = self.file("template.jinja", (
            "{% if tools %}<|im_start|>system\nTools, called as <tool_call>{\"name\"}</tool_call>:"
            "{% for t in tools %} {{ t.function.name }}{% endfor %}<|im_end|>\n{% endif %}"
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"))
        server = Server(self.folder, "--chat-template", template, name="tools")
        try:
            plain = server.post(CHAT, {**body, "tool_choice": "none"})
            told = server.post(CHAT, body)
            self.assertGreater(told["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"])
            self.assertTrue(told["choices"][0]["message"]["content"])
            self.assertNotIn("tool_calls", told["choices"][0]["message"])
        finally:
            self.assertEqual(server.stop(), 0)

    def test_curl(self):
        done = subprocess.run(
            ["curl", "-sS", "-N", "--max-time", "60", self.server.url + CHAT, "-d",
             json.dumps({"messages": user("Hi"), "max_tokens": 3, "stream": True})],
            capture_output=True, check=True)
        self.assertTrue(done.stdout.endswith(b"data: [DONE]\n\n"), done.stdout)
        # A body that curl asks about first (Expect: 100-continue).
        big = json.dumps({"content": "x" * 1_500_000})
        done = subprocess.run(["curl", "-sS", "--max-time", "60", "-H", "Expect: 100-continue",
                               "-d", "@-", self.server.url + "/tokenize"], input=big.encode(),
                              capture_output=True, check=True)
        self.assertTrue(json.loads(done.stdout)["tokens"])


if __name__ == "__main__":
    main()
