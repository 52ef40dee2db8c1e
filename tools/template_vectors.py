#!/usr/bin/env python3
"""Makes the expected values of the chat-template tests with PyPI's jinja2 (3.1.6).

  tools/template_vectors.py templates DIR   tests/data/chat/rendered.json: for every template in DIR
                                            and every conversation, the SHA-256 of the rendering
  tools/template_vectors.py snippets        tests/data/chat/snippets.json: small templates of our
                                            own with their outputs

The environment is the one that the Transformers library renders chat templates in, rebuilt here:
immutable sandbox, trim_blocks, lstrip_blocks, loop controls, a generation tag, raise_exception,
strftime_now and a tojson without HTML escaping. Templates that use from_json get json.loads.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "chat"
NOW = datetime.datetime(2024, 7, 26, 14, 3, 9)
DIGITS = 16  # of each SHA-256 that are kept
BOS, EOS = "<|bos|>", "<|eos|>"


class Generation(jinja2.ext.Extension):
    """The generation block: renders its body in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = to_json
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def prepared(message):
    """Drops null fields; gives reasoning under both of its names."""
    message = {key: value for key, value in message.items() if value is not None}
    if "reasoning_content" in message:
        message["thinking"] = message["reasoning_content"]
    return message


def outcome(template, variables):
    try:
        return {"text": template.render(**variables)}
    except jinja2.exceptions.UndefinedError as error:
        return {"error": str(error)}
    except jinja2.exceptions.SecurityError as error:
        return {"error": str(error)}
    except jinja2.exceptions.TemplateError as error:
        raised = type(error) is jinja2.exceptions.TemplateError
        return {"raised" if raised else "error": str(error)}
    except Exception as error:  # Python's own complaints
        return {"error": f"{type(error).__name__}: {error}"}


def render_case(template, conversation, generate, tools_as_list):
    tools = conversation.get("tools")
    if tools is None and tools_as_list:
        tools = []
    variables = {
        "messages": [prepared(m) for m in conversation["messages"]],
        "tools": tools,
        "documents": conversation.get("documents"),
        "add_generation_prompt": generate,
        "bos_token": BOS,
        "eos_token": EOS,
        **conversation.get("extra", {}),
    }
    result = outcome(template, variables)
    if "text" in result:
        return hashlib.sha256(result["text"].encode()).hexdigest()[:DIGITS]
    return "!" + result["raised"] if "raised" in result else "?"


def make_rendered(folder):
    conversations = json.loads((DATA / "conversations.json").read_text())
    lines = []
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        source = path.read_bytes()
        try:
            template = environment().from_string(source.decode())
        except jinja2.exceptions.TemplateError as error:
            print(f"{path.name}: left out: {error}", file=sys.stderr)
            continue
        cases = {name: [render_case(template, conversation, True, False),
                        render_case(template, conversation, False, False),
                        render_case(template, conversation, True, True)]
                 for name, conversation in conversations.items()}
        digest = hashlib.sha256(source).hexdigest()
        lines.append(f'{{"file": {json.dumps(path.name)}, "sha256": "{digest}", "cases": '
                     + json.dumps(cases, ensure_ascii=False) + "}")
    text = (f'{{"about": "per conversation: with generation prompt, without, with it and an empty '
            f'tools list; digest of the text, or ! and what the template raised, or ? for an error '
            f'of its own; made by tools/template_vectors.py", "digits": {DIGITS},\n'
            f'"bos_token": "{BOS}", "eos_token": "{EOS}", "now": "{NOW.isoformat()}",\n'
            f'"templates": [\n' + ",\n".join(lines) + "\n]}\n")
    (DATA / "rendered.json").write_text(text)
    print(f"{len(lines)} templates, {3 * len(lines) * len(conversations)} cases")


def make_snippets():
    """snippets.txt holds one template a line; the sign for "return" stands for a newline."""
    variables = (DATA / "snippet_variables.json").read_text()
    out = []
    for line in (DATA / "snippets.txt").read_text().split("\n"):
        if not line:
            continue
        source = line.replace("\u23ce", "\n")
        try:
            template = environment().from_string(source)
        except Exception as error:  # Python refuses some of what Jinja generates
            out.append({"template": source, "syntax_error": str(error)})
            continue
        out.append({"template": source, **outcome(template, json.loads(variables))})
    body = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in out)
    (DATA / "snippets.json").write_text("[\n" + body + "\n]\n")
    print(f"{len(out)} snippets")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("templates").add_argument("folder")
    commands.add_parser("snippets")
    arguments = parser.parse_args()
    if arguments.command == "templates":
        make_rendered(arguments.folder)
    else:
        make_snippets()


if __name__ == "__main__":
    main()
