#!/usr/bin/env python3
"""aiperf as load: its figures agree with what it was asked for and with the server's metrics.
tests/nightly runs it; it needs `tools/client_env --nightly`."""
import json
import pathlib
import subprocess

from clients_test import python
from lm_eval_test import MAKE_TOKENIZER, put_vocabulary
from server_case import ServerCase, main

REQUESTS = 24


class AiPerf(ServerCase):
    OPTIONS = ["--kv-tokens", "16384"]

    def test_its_figures_are_those_of_the_server(self):
        put_vocabulary(self)
        done = subprocess.run([python("nightly-clients"), "-c", MAKE_TOKENIZER, str(self.folder)],
                              capture_output=True, check=False, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr.decode()[-2000:])
        program = pathlib.Path(python("nightly-clients")).parent / "aiperf"
        done = subprocess.run(
            [program, "profile", "--model", self.server.model, "--url", self.server.url,
             "--endpoint-type", "chat", "--streaming", "--tokenizer",
             str(self.folder / "tokenizer"), "--concurrency", "4", "--request-count", str(REQUESTS),
             "--synthetic-input-tokens-mean", "100", "--synthetic-input-tokens-stddev", "0",
             "--output-tokens-mean", "16", "--random-seed", "1", "--ui", "none",
             "--artifact-dir", str(self.folder / "artifacts")],
            capture_output=True, check=False, timeout=900, cwd=self.folder)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr).decode()[-4000:])
        told = json.loads((self.folder / "artifacts/profile_export_aiperf.json").read_text())
        self.assertEqual(told["request_count"]["avg"], REQUESTS)
        self.assertEqual(told["error_summary"], [])
        self.assertGreater(told["inter_token_latency"]["p50"], 0)
        self.assertGreater(told["time_to_first_token"]["p50"], told["inter_token_latency"]["p50"])
        metrics = self.server.metrics()
        self.assertGreaterEqual(metrics['baton_requests_total{outcome="ok"}'], REQUESTS)
        self.assertGreaterEqual(metrics["baton_generated_tokens_total"],
                                told["total_usage_completion_tokens"]["avg"])


if __name__ == "__main__":
    main()
