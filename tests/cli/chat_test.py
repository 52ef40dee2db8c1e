#!/usr/bin/env python3
"""baton chat: turns, what each of them computes, commands, saving."""
import json
import os
import re
import resource
import signal
import subprocess

from baton_case import BATON, SMOL, BatonCase, cached, main
from gguf_file import tiny_llama

TURN = re.compile(r"\[prompt (\d+) tokens, (\d+) cached; first token [\d.]+ s, prefill [\d.]+ "
                  r"tokens/s; (\d+) tokens, [\d.]+ tokens/s; ([^\]]+)\]")


class Chat(BatonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = str(cls.folder / "tiny.gguf")
        with open(cls.model, "wb") as file:
            file.write(tiny_llama(context=2000).bytes())

    def chat(self, typed, *arguments, model=None, **more):
        done = self.baton("chat", model or self.model, "--temp", "0", *arguments, stdin=typed,
                          **more)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode(), done.stderr.decode()

    def turns(self, errors):
        """(prompt tokens, cached, generated) of each turn."""
        return [tuple(int(n) for n in found[:3]) for found in TURN.findall(errors)]

    def saved(self, name):
        return json.loads((self.folder / name).read_text())["messages"]

    def test_each_turn_computes_only_what_is_new(self):
        _, errors = self.chat("one\ntwo\nthree\n", "-n", "20", "--ignore-eos")
        turns = self.turns(errors)
        self.assertEqual(len(turns), 3)
        self.assertEqual(turns[0][1], 0)
        for before, now in zip(turns, turns[1:]):
            # The last token of an answer is computed with the next turn.
            self.assertGreaterEqual(now[1], before[0] + before[2] - 1)
            self.assertLess(now[0] - now[1], 60)

    def test_the_history_reaches_the_model(self):
        path = self.folder / "history.json"
        self.chat(f"one\ntwo\n/save {path}\n", "-n", "10", "--ignore-eos", "--system", "Be brief.")
        messages = self.saved("history.json")
        self.assertEqual([m["role"] for m in messages],
                         ["system", "user", "assistant", "user", "assistant"])
        self.assertEqual([m["content"] for m in messages if m["role"] == "user"], ["one", "two"])
        self.assertEqual(messages[0]["content"], "Be brief.")

    def test_an_answer_does_not_depend_on_the_cache(self):
        model = cached(SMOL)
        first, second = "Name a colour.", "Name another one."
        path = self.folder / "warm.json"
        self.chat(f"{first}\n{second}\n/save {path}\n", "-n", "12", model=model)
        messages = self.saved("warm.json")
        start = self.file("start.json", json.dumps({"messages": messages[:2]}))
        path = self.folder / "cold.json"
        _, errors = self.chat(f"/load {start}\n{second}\n/save {path}\n", "-n", "12",
                              model=model)
        self.assertEqual(self.turns(errors)[0][1], 0)
        self.assertEqual(self.saved("cold.json"), messages)

    def test_reset_forgets(self):
        path = self.folder / "reset.json"
        output, errors = self.chat(f"one\n/reset\none\n/save {path}\n", "-n", "10",
                                   "--ignore-eos")
        turns = self.turns(errors)
        self.assertEqual(turns[0][0], turns[1][0])
        self.assertEqual(len(self.saved("reset.json")), 2)
        answers = output.splitlines()
        self.assertEqual(len(answers) % 2, 0)
        half = len(answers) // 2
        self.assertEqual(answers[:half], answers[half:])

    def test_messages_of_many_lines(self):
        path = self.folder / "lines.json"
        self.chat(f'one\\\ntwo\n"""\nthree\n\n/four\n"""\n /five\n/save {path}\n', "-n", "2",
                  "--ignore-eos")
        self.assertEqual([m["content"] for m in self.saved("lines.json") if m["role"] == "user"],
                         ["one\ntwo", "three\n\n/four", " /five"])

    def test_a_document_stands_before_the_first_message(self):
        document = self.file("notes.txt", "Notes.\n")
        path = self.folder / "doc.json"
        self.chat(f"one\ntwo\n/save {path}\n", "-f", document, "-n", "2", "--ignore-eos")
        self.assertEqual([m["content"] for m in self.saved("doc.json") if m["role"] == "user"],
                         ["Notes.\n\none", "two"])

    def test_commands_that_are_none(self):
        _, errors = self.chat("/rest\n/save\n/load\n/load /no/such\n/frob\n/help\n")
        self.assertIn("no command '/rest'; did you mean 'reset'?", errors)
        self.assertIn("/save needs the name of a file", errors)
        self.assertIn("/load needs the name of a file", errors)
        self.assertIn("cannot open '/no/such': No such file", errors)
        self.assertIn("no command '/frob'", errors)
        self.assertIn("/reset        forget the conversation", errors)

    def test_a_full_disk_loses_nothing(self):
        path = self.file("keep.json", "the old file")
        _, errors = self.chat("one\n/save /dev/full\ntwo\n", "-n", "2", "--ignore-eos")
        self.assertIn("cannot write '/dev/full': No space left on device", errors)
        self.assertEqual(len(self.turns(errors)), 2)

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        message = "x" * 200
        done = subprocess.run([BATON, "chat", self.model, "-n", "2", "--ignore-eos"],
                              input=f"{message}\n/save {path}\n".encode(), capture_output=True,
                              preexec_fn=small_files, timeout=60, check=False)
        self.assertIn(b"cannot write", done.stderr)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "the old file")
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("keep.json")],
                         ["keep.json"])

    def test_bad_messages_do_not_end_the_chat(self):
        done = self.baton("chat", self.model, "-n", "2", "--ignore-eos",
                          stdin=b"caf\xe9\n" + b"a" * 3000 + b"\nfine\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        errors = done.stderr.decode()
        self.assertIn("is not UTF-8: byte 0xE9 at offset 3", errors)
        self.assertRegex(errors, r"\b3\d{3}\b.*\b2000\b")
        self.assertEqual(len(self.turns(errors)), 1)

    def test_a_real_model_computes_only_what_is_new(self):
        _, errors = self.chat("My name is Ada. Please greet me.\nWhat is my name?\n", "-n", "40",
                              model=cached(SMOL), timeout=300)
        first, second = self.turns(errors)
        self.assertGreaterEqual(second[1], first[0] + first[2] - 1)
        self.assertLess(second[0] - second[1], 20)


if __name__ == "__main__":
    main()
