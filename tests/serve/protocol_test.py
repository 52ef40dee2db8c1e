#!/usr/bin/env python3
"""Programs that check what the server says about itself: schemathesis against its OpenAPI
description, promtool on its metrics, and litellm, which stands between many clients and servers."""
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from clients_test import python  # noqa: E402
from gguf_file import tiny_llama  # noqa: E402
from server_case import CHAT, PLAIN, BatonCase, Server, main, user  # noqa: E402

# What a schema cannot say is refused with 400 though the schema allows it: ids beyond the
# vocabulary, prompts beyond the context, `stream_options` without `stream`.
LEFT_OUT = "positive_data_acceptance"

LITELLM = '''
import os
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched
import sys
import litellm

url, model = sys.argv[1:]
litellm.telemetry = False
ask = dict(model="openai/" + model, api_base=url + "/v1", api_key="none", temperature=0,
           messages=[{"role": "user", "content": "Name three colours."}], max_tokens=12,
           num_retries=0)
whole = litellm.completion(**ask)
text = whole.choices[0].message.content
assert text and whole.usage.completion_tokens == 12, whole
pieces = "".join(chunk.choices[0].delta.content or ""
                 for chunk in litellm.completion(stream=True, **ask) if chunk.choices)
assert pieces == text, (pieces, text)
plain = litellm.text_completion(model="text-completion-openai/" + model, api_base=url + "/v1",
                                api_key="none", prompt="Once", max_tokens=3, temperature=0)
assert plain.choices[0].text, plain
for wrong in (lambda: litellm.embedding(model="openai/" + model, api_base=url + "/v1",
                                        api_key="none", input=["a"]),
              lambda: litellm.completion(**{**ask, "model": "openai/other"})):
    try:
        wrong()
        raise AssertionError("accepted")
    except litellm.NotFoundError:
        pass
try:
    litellm.completion(**{**ask, "temperature": -1})
    raise AssertionError("accepted")
except litellm.BadRequestError as error:
    assert "temperature" in str(error), error
print("litellm")
'''


class Protocol(BatonCase):
    """A tiny model: what it says does not matter, and it says it at once."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = cls.folder / "tiny.gguf"
        model.write_bytes(tiny_llama(context=96).bytes())
        cls.server = Server(cls.folder, model=str(model))

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        super().tearDownClass()
        assert code == 0, f"exit code {code}"

    def run_program(self, *command, stdin=None, timeout=300):
        done = subprocess.run([str(word) for word in command], capture_output=True, check=False,
                              timeout=timeout, input=stdin, cwd=self.folder)
        text = (done.stdout + done.stderr).decode(errors="replace")
        self.assertEqual(done.returncode, 0, text[-6000:])
        return text

    def test_schemathesis_finds_nothing(self):
        program = pathlib.Path(python()).parent / "schemathesis"
        text = self.run_program(
            program, "run", self.server.url + "/openapi.json", "--checks", "all",
            "--exclude-checks", LEFT_OUT, "--seed", "1", "--max-examples", "12", "--no-shrink",
            "--phases", "examples,coverage,fuzzing", "--suppress-health-check", "all",
            "--request-timeout", "120", "--max-response-time", "60", "--no-color")
        self.assertRegex(text, r"Coverage \(in [^)]*\)\s+\S+ \d+ passed\s")
        self.assertRegex(text, r"Fuzzing \(in [^)]*\)\s+\S+ \d+ passed\s")
        blocks = self.server.metrics()
        self.assertEqual(blocks['baton_kv_blocks{state="owned"}'], 0)
        self.assertGreater(blocks['baton_requests_total{outcome="ok"}'], 0)

    def test_promtool_finds_nothing(self):
        program = pathlib.Path(python()).with_name("promtool")
        if not program.is_file():
            raise unittest.SkipTest("promtool comes from a Debian package, and this is no Debian")
        self.server.post(PLAIN, {"prompt": "a", "max_tokens": 3})
        self.server.post(CHAT, {"messages": user("a"), "max_tokens": 3})
        text = self.run_program(program, "check", "metrics",
                                stdin=self.server.ask("GET", "/metrics")[2].encode())
        self.assertEqual(text.strip(), "")

    def test_litellm(self):
        self.assertIn("litellm", self.run_program(python(), "-c", LITELLM, self.server.url,
                                                  self.server.model))


if __name__ == "__main__":
    main()
