#!/usr/bin/env python3
"""baton template: prompts of golden conversations, and what is refused."""
import json

from baton_case import SMOL, BatonCase, cached, main
from gguf_file import tiny_llama

HI = json.dumps([{"role": "user", "content": "Hi"}])


class Template(BatonCase):
    def test_a_models_own_template(self):
        path = self.file("tiny.gguf", tiny_llama().bytes())
        expected = "<|im_start|>user\nHi<|im_end|>\n"
        self.assertEqual(self.ok("template", path, "--messages", "-", stdin=HI),
                         expected + "<|im_start|>assistant\n")
        self.assertEqual(self.ok("template", path, "--messages", "-", "--no-generation-prompt",
                                 stdin=HI), expected)
        self.assertIn("<|im_start|>user\nHi<|im_end|>",
                      self.ok("template", cached(SMOL), "--messages", "-", stdin=HI))

    def test_variables_tokens_and_time(self):
        template = self.file("t.jinja", "{{ bos_token }}|{{ eos_token }}|{{ n + 1 }}|"
                                        "{{ strftime_now('%Y') }}|{{ tools | length }}")
        tools = self.file("tools.json", '[{"type": "function"}]')
        self.assertEqual(
            self.ok("template", "--template", template, "--messages", "-", "--bos", "<b>", "--eos",
                    "<e>", "--var", "n=41", "--now", "2024-07-26", "--tools", tools, stdin=HI),
            "<b>|<e>|42|2024|1")
        path = self.file("special.gguf",
                         tiny_llama(template="{{ bos_token }}{{ eos_token }}").bytes())
        self.assertEqual(self.ok("template", path, "--messages", "-", stdin=HI),
                         "<|im_start|><|im_end|>")

    # Case C-01.
    def test_refusals(self):
        def refused(template, *arguments, stdin=HI):
            path = self.file("bad.jinja", template)
            return self.fails("template", "--template", path, "--messages", "-", *arguments,
                              stdin=stdin)
        self.assertIn("only users, please", refused("{{ raise_exception('only users, please') }}"))
        self.assertRegex(refused("a\n{% frobnicate %}"), r"line 2")
        self.assertIn("JSON", refused("x", stdin="{").upper())
        line = refused("x", stdin="[1,\n}")
        self.assertTrue(line.endswith(
            "standard input: not valid JSON: it goes wrong at line 2, column 1"), line)
        messages = self.file("m.json", HI)
        tools = self.file("tools.json", "{")
        line = self.fails("template", "--template", self.file("t", "x"), "--messages", messages,
                          "--tools", tools)
        self.assertIn("tools.json': not valid JSON", line)
        self.assertIn("\"extra\" cannot set 'messages'",
                      refused("x", stdin='{"messages": [], "extra": {"messages": 1}}'))
        self.fails("template", "--template", "/no/such.jinja", "--messages", "-", stdin=HI)
        bare = self.file("bare.gguf", tiny_llama(template=None).bytes())
        self.assertIn("has no chat template",
                      self.fails("template", bare, "--messages", "-", stdin=HI))

    def test_usage(self):
        self.assertIn("--messages FILE", self.fails("template", "m.gguf", code=2))
        self.assertIn("exclude each other", self.fails(
            "template", "m.gguf", "--template", "t", "--messages", "x", code=2))
        self.assertIn("name a model file", self.fails("template", "--messages", "x", code=2))


if __name__ == "__main__":
    main()
