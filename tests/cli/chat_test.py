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
from process_state import drop_root_rights, has_signal, wait_until

TURN = re.compile(r"\[prompt ([\d,]+) tokens, ([\d,]+) cached; first token [\d.]+ s, prefill "
                  r"[\d,.]+ tokens/s;\n ([\d,]+) tokens?(?:, [\d,.]+ tokens/s)?; ([^\]]+)\]")


class Chat(BatonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = str(cls.folder / "tiny.gguf")
        with open(cls.model, "wb") as file:
            file.write(tiny_llama(context=2000).bytes())

    def chat(self, typed, *arguments, model=None, failures=0, **more):
        greedy = [] if "--temp" in arguments else ["--temp", "0"]
        done = self.baton("chat", model or self.model, *greedy, *arguments, stdin=typed, **more)
        errors = done.stderr.decode()
        self.assertEqual(done.returncode, 1 if failures else 0, errors)
        if failures:
            last = f"baton chat: {failures} of the messages and commands failed, as told above\n"
            self.assertTrue(errors.endswith(last), errors)
            errors = errors.removesuffix(last)
        return done.stdout.decode(), errors

    def turns(self, errors):
        """(prompt tokens, cached, generated) of each turn."""
        return [tuple(int(n.replace(",", "")) for n in found[:3]) for found in TURN.findall(errors)]

    def saved(self, name):
        return json.loads((self.folder / name).read_text())["messages"]

    # Case P-05.
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

    # Case P-05.
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
        _, errors = self.chat("/rest\n/save\n/load\n/load /no/such\n/frob\n/help\n",
                              failures=5)
        self.assertIn("no command '/rest'; did you mean '/reset'?", errors)
        self.assertIn("/save needs the name of a file", errors)
        self.assertIn("/load needs the name of a file", errors)
        self.assertIn("cannot open '/no/such': No such file", errors)
        self.assertIn("no command '/frob'", errors)
        self.assertIn("/reset        forget the conversation", errors)

    def test_a_full_disk_loses_nothing(self):
        old = '{"messages": []}'
        path = self.file("keep.json", old)
        _, errors = self.chat("one\n/save /dev/full\ntwo\n", "-n", "2", "--ignore-eos",
                              failures=1)
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
            self.assertEqual(file.read(), old)
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("keep.json")],
                         ["keep.json"])

    # Cases P-01 and P-05.
    def test_threads_chunk_isa_and_context_change_nothing(self):
        typed = "The quick brown fox\njumps over\nthe lazy dog\n"
        fixed = ["-n", "30", "--ignore-eos", "--temp", "1"]
        expected, errors = self.chat(typed, *fixed)
        counts = self.turns(errors)
        self.assertEqual(len(counts), 3)
        other, _ = self.chat(typed, *fixed, "--seed", "1")
        self.assertNotEqual(other, expected)
        for variant in [["--threads", "1"], ["--threads", "3"], ["--chunk", "1"],
                        ["--chunk", "7"], ["--isa", "portable"], ["--ctx", "1000"]]:
            output, errors = self.chat(typed, *fixed, *variant)
            self.assertEqual(output, expected, variant)
            self.assertEqual(self.turns(errors), counts, variant)

    def test_a_loaded_conversation_keeps_the_own_system_message(self):
        user = {"role": "user", "content": "one"}
        other = {"role": "system", "content": "Be long."}
        for loaded, wanted in [([user], "Be brief."), ([other, user], "Be long.")]:
            start = self.file("start.json", json.dumps({"messages": loaded}))
            path = self.folder / "system.json"
            _, errors = self.chat(f"/load {start}\n/save {path}\n", "--system", "Be brief.")
            self.assertIn(f"Loaded {len(loaded)} message{'s' * (len(loaded) > 1)}.\n", errors)
            self.assertEqual(self.saved("system.json"),
                             [{"role": "system", "content": wanted}, user])

    def test_files_closed_to_reading_or_writing(self):
        secret = self.file("secret.txt", "text")
        os.chmod(secret, 0)
        line = self.fails("chat", self.model, "-f", secret, preexec_fn=drop_root_rights)
        self.assertIn(f"cannot open '{secret}': Permission denied", line)
        fixed = self.file("fixed.json", "the old file")
        os.chmod(fixed, 0o444)
        closed = self.folder / "closed"
        closed.mkdir(mode=0o555)
        typed = f"/load {secret}\n/save {fixed}\n/save {closed}/new.json\n/exit\n"
        _, errors = self.chat(typed, preexec_fn=drop_root_rights, failures=3)
        self.assertEqual(errors.splitlines(), [
            f"baton chat: cannot open '{secret}': Permission denied",
            f"baton chat: cannot write '{fixed}': Permission denied; choose another name or place",
            f"baton chat: cannot write '{closed}/new.json': Permission denied; choose another name "
            "or place"])
        with open(fixed, encoding="utf-8") as file:
            self.assertEqual(file.read(), "the old file")
        self.assertEqual(os.listdir(closed), [])

    def test_ctrl_c_while_saving_leaves_no_temporary_file(self):
        # So long that writing it takes longer than to press Ctrl-C twice.
        text = "x" * 40_000_000
        start = self.file("start.json",
                          json.dumps({"messages": [{"role": "user", "content": text}]}))
        folder = self.folder / "saving"
        folder.mkdir()
        process = subprocess.Popen([BATON, "chat", self.model], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdin.write(f"/load {start}\n/save {folder}/target\n".encode())
        process.stdin.flush()
        wait_until(lambda: os.listdir(folder), "the file is begun")
        process.send_signal(signal.SIGINT)
        wait_until(lambda: not has_signal(process.pid, "ShdPnd"), "the signal is taken")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(os.listdir(folder), ["target"])
        saved = json.loads((folder / "target").read_text())["messages"]
        self.assertEqual(saved, [{"role": "user", "content": text}])

    def test_save_replaces_conversations_only(self):
        notes = self.file("notes.md", "# Notes\n")
        empty = self.file("empty.json", "")
        with open(self.model, "rb") as file:
            model = file.read()
        _, errors = self.chat(f"/save {self.model}\n/save {notes}\n/save {empty}\n"
                              f"/save {empty}\n", failures=2)
        self.assertEqual(errors.count("is no saved conversation: remove it first"), 2)
        self.assertEqual(errors.count(f"Saved 0 messages to '{empty}'"), 2)
        with open(self.model, "rb") as file:
            self.assertEqual(file.read(), model)
        with open(notes, encoding="utf-8") as file:
            self.assertEqual(file.read(), "# Notes\n")

    # Case P-06: the second message is longer than the context.
    def test_bad_messages_do_not_end_the_chat(self):
        done = self.baton("chat", self.model, "-n", "2", "--ignore-eos",
                          stdin=b"caf\xe9\n" + b"a" * 3000 + b"\nfine\n")
        self.assertEqual(done.returncode, 1, done.stderr)
        errors = done.stderr.decode()
        self.assertIn("baton chat: 2 of the messages and commands failed", errors)
        # The chat goes on after each.
        self.assertIn("is not UTF-8: byte 0xE9 at offset 3", errors)
        self.assertRegex(errors, r"\b3,\d{3}\b.*\b2,000\b")
        self.assertEqual(len(self.turns(errors)), 1)

    def test_a_missing_template_is_told_before_the_weights_are_read(self):
        file = tiny_llama(template=None)
        path = self.file("bare.gguf", file.bytes())
        for command in (["chat", path], ["run", path, "-p", "x"]):
            line = self.fails(*command, stdin="hello\n")
            self.assertIn("no chat template; name one with --chat-template (chatml", line)
        self.chat("hello\n", "--chat-template", "chatml", "-n", "1", model=path)
        # Packing these weights would fail; nothing gets so far.
        file.tensors["blk.0.attn_q.weight"] = ([64, 64], 20, bytes(64 * 2 * 18))
        path = self.file("bare.gguf", file.bytes())
        self.assertIn("no chat template", self.fails("chat", path, stdin="hello\n"))

    def test_a_template_that_makes_nothing_is_named(self):
        path = self.file("nothing.gguf", tiny_llama(template="{# nothing #}").bytes())
        _, errors = self.chat("hello\n", model=path, failures=1)
        self.assertIn("the chat template makes an empty prompt of the messages", errors)
        self.assertIn("the chat template makes an empty prompt", self.fails("run", path, "-p", "x"))

    # Case P-05.
    def test_a_real_model_computes_only_what_is_new(self):
        _, errors = self.chat("My name is Ada. Please greet me.\nWhat is my name?\n", "-n", "40",
                              model=cached(SMOL), timeout=300)
        first, second = self.turns(errors)
        self.assertGreaterEqual(second[1], first[0] + first[2] - 1)
        self.assertLess(second[0] - second[1], 20)


if __name__ == "__main__":
    main()
