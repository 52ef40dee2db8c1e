#!/usr/bin/env python3
"""The clients that people use: the README's examples, and the packages openai and httpx from PyPI."""
import os
import pathlib
import re
import subprocess
import unittest

from server_case import Server, ServerCase, main

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PORT = 8080  # in the README


def python(env="clients"):
    """That of tools/client_env; skips the test without it, or fails if it is required."""
    cache = os.environ.get("BATON_CACHE") or os.path.join(os.path.expanduser("~"), ".cache/baton")
    path = pathlib.Path(cache) / env / "bin/python"
    if (path.parent.parent / "requirements.txt").is_file():
        return str(path)
    message = f"{path} is missing: run tools/client_env"
    if os.environ.get("BATON_REQUIRE_MODELS"):
        raise AssertionError(message)
    raise unittest.SkipTest(message)


OPENAI = '''
import sys
import openai

url, model = sys.argv[1:]
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
assert [one.id for one in client.models.list()] == [model]
assert client.models.retrieve(model).id == model
ask = dict(model=model, messages=[{"role": "user", "content": "Name three colours."}],
           temperature=0, max_completion_tokens=16, logprobs=True, top_logprobs=2)
whole = client.chat.completions.create(**ask)
text = whole.choices[0].message.content
assert text and whole.usage.completion_tokens == 16, whole
assert whole.usage.prompt_tokens_details.cached_tokens >= 0
assert len(whole.choices[0].logprobs.content) == 16
pieces, usage, logprobs = "", None, 0
for chunk in client.chat.completions.create(stream=True, stream_options={"include_usage": True},
                                            **ask):
    if chunk.usage:
        usage = chunk.usage
    for choice in chunk.choices:
        pieces += choice.delta.content or ""
        logprobs += len(choice.logprobs.content) if choice.logprobs else 0
assert pieces == text and logprobs == 16, (pieces, text, logprobs)
assert usage.completion_tokens == 16
plain = client.completions.create(model=model, prompt=["a", "b"], n=2, max_tokens=3, logprobs=1,
                                  seed=1)
assert [one.index for one in plain.choices] == [0, 1, 2, 3]
assert all(len(one.logprobs.tokens) == 3 for one in plain.choices)
try:
    client.chat.completions.create(**{**ask, "temperature": -1})
    raise AssertionError("accepted")
except openai.BadRequestError as error:
    assert error.param == "temperature" and error.code == "invalid_value", error
try:
    client.chat.completions.create(**{**ask, "model": "other"})
    raise AssertionError("accepted")
except openai.NotFoundError as error:
    assert error.code == "model_not_found", error
# Leaving a stream early.
for chunk in client.chat.completions.create(stream=True, **{**ask, "max_completion_tokens": 4000}):
    if chunk.choices and chunk.choices[0].delta.content:
        break
print("openai", openai.__version__)
'''

RETRIEVE = '''
import sys
import openai

url, model = sys.argv[1:]
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
assert [one.id for one in client.models.list()] == [model]
assert client.models.retrieve(model).id == model
'''

HTTPX = '''
import asyncio
import sys
import httpx

url, model = sys.argv[1:]


async def ask(client, number):
    body = {"prompt": "Once", "max_tokens": 8, "seed": number, "stream": True}
    async with client.stream("POST", url + "/v1/completions", json=body) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        lines = [line async for line in answer.aiter_lines()]
    assert lines[-2:] == ["data: [DONE]", ""], lines[-3:]


async def main():
    limits = httpx.Limits(max_connections=4)
    async with httpx.AsyncClient(timeout=60, limits=limits) as client:
        await asyncio.gather(*(ask(client, number) for number in range(12)))
        # A connection that is kept is used again.
        assert (await client.get(url + "/health")).json() == {"status": "ok"}


asyncio.run(main())
print("httpx", httpx.__version__)
'''


class Clients(ServerCase):
    def run_code(self, code, *arguments):
        done = subprocess.run([python(), "-c", code, *arguments], capture_output=True, check=False,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def test_openai(self):
        self.assertRegex(self.run_code(OPENAI, self.server.url, self.server.model),
                         r"^openai \d")

    def test_openai_finds_a_model_of_any_name(self):
        server = Server(self.folder, "--name", "org/My-Model%2F", name="named")
        try:
            self.run_code(RETRIEVE, server.url, "org/My-Model%2F")
        finally:
            self.assertEqual(server.stop(), 0)

    def test_httpx(self):
        self.assertRegex(self.run_code(HTTPX, self.server.url, self.server.model), r"^httpx \d")

    def examples(self, language):
        """The README's code blocks in its chapter about the server, for this server."""
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        chapter = text.partition("\n## A server\n")[2].partition("\n## ")[0]
        blocks = re.findall(rf"```{language}\n(.*?)```", chapter, re.S)
        self.assertTrue(blocks)
        return [block.replace(f"localhost:{PORT}", f"localhost:{self.server.port}")
                for block in blocks]

    def test_the_readme_with_curl(self):
        ran = 0
        for block in self.examples("sh"):
            if "curl" not in block:
                continue
            done = subprocess.run(["bash", "-euc", block], capture_output=True, check=False,
                                  timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            self.assertIn(b'"choices":[{', done.stdout)
            ran += 1
        self.assertGreater(ran, 0)

    def test_the_readme_with_python(self):
        for block in self.examples("python"):
            self.assertTrue(self.run_code(block).strip())


if __name__ == "__main__":
    main()
