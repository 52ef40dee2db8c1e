#!/usr/bin/env python3
"""Checks the length of files and functions: 600 lines a file (900 a test), 70 a function.

What is longer stands with its length in tests/ratchet.json, and may only shrink: a longer one
fails, and so does a shorter one until --update has written the smaller number down. --update never
adds or raises an entry.

Usage: tools/ratchet.py [--root DIR] [--update] [--list]
"""
import argparse
import ast
import json
import pathlib
import re
import sys

MAX_FILE, MAX_TEST_FILE, MAX_FUNCTION, AIM_FILE = 600, 900, 70, 300
FOLDERS = ("src", "tests", "fuzz", "tools")
CONTROL = re.compile(r"^(namespace|class|struct|union|enum|extern)\b|^inline namespace\b")
ACCESS = re.compile(r"(\s|(public|private|protected)\s*:)*")
NOISE = re.compile(
    r'R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"'   # raw string
    r"|//[^\n]*|/\*.*?\*/"                           # comments
    r'|"(?:\\.|[^"\\\n])*"'                          # string
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'"         # character, but no digit separator
    r"|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)        # preprocessor line with its continuations


def blank(text):
    """`text` with comments, literals and preprocessor lines replaced by spaces, lines kept."""
    return NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def drop_parentheses(text):
    """`text` without what stands in round or square brackets."""
    out, depth = [], 0
    for char in text:
        depth += char in "(["
        if depth == 0:
            out.append(char)
        depth -= char in ")]"
    return "".join(out)


def opens_function(head):
    """Whether a brace after `head`, the text since the last statement, opens a function body."""
    head = re.sub(r"^(template\s*<[^{};]*>\s*|(public|private|protected)\s*:)+", "", head.strip())
    head = re.sub(r"^([A-Z][A-Z0-9_]*\([^()]*\)\s+)+(?=\S)", "", head)  # macros without semicolon
    if "(" not in head or CONTROL.search(head):
        return False
    if re.search(r"\]\s*(\([^{}]*\))?[^{}]*$", head) and "=" in head:  # a lambda with a name
        return True
    return "=" not in drop_parentheses(re.sub(r"operator\s*[^\s\w(]+", "operator", head))


def function_name(head):
    found = re.search(r"([~\w:]+|operator\s*\S+?)\s*\(", head)
    name = found.group(1) if found else "?"
    if name in ("TEST", "TEST_F", "TEST_P", "TYPED_TEST"):
        arguments = re.search(r"\(([^()]*)\)", head)
        name += "(" + " ".join(arguments.group(1).split()) + ")" if arguments else ""
    return name


def cpp_functions(text):
    """[(name, first line, lines)] of the outermost function bodies of C++ source."""
    text, found = blank(text), []
    depth_of_body, depth, start, body = None, 0, 0, None
    for position, char in enumerate(text):
        if char == "{":
            head = text[start:position]
            if depth_of_body is None and opens_function(head):
                lead = ACCESS.match(head).end()
                first = text.count("\n", 0, start + lead) + 1
                body, depth_of_body = (function_name(head), first, start), depth
            elif depth_of_body is None:
                start = position + 1
            depth += 1
        elif char == "}":
            depth -= 1
            if depth_of_body is not None and depth == depth_of_body:
                depth_of_body = None
                if re.match(r"\s*[,{]", text[position + 1:position + 80]):
                    start = body[2]  # `: a_{1}, b_{2} {`: still on the way to the body
                    continue
                found.append((body[0], body[1], text.count("\n", 0, position) + 2 - body[1]))
            if depth_of_body is None:
                start = position + 1
        elif char == ";" and depth_of_body is None:
            start = position + 1
    return found


def python_functions(text):
    return [(node.name, node.lineno, node.end_lineno - node.lineno + 1)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def is_python(path, text):
    return path.suffix == ".py" or (not path.suffix and text.startswith("#!/usr/bin/env python3"))


def measure(root):
    """{name: (lines, limit)} of everything that is too long, and the counts of all."""
    long, files, functions, above_aim = {}, 0, 0, 0
    for path in sorted(p for f in FOLDERS for p in (root / f).rglob("*") if p.is_file()):
        relative = path.relative_to(root)
        if relative.parts[:2] == ("tests", "data") or path.suffix in (".json", ".txt", ".pyc") \
                or "corpus" in relative.parts:
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        limit = MAX_TEST_FILE if path.stem.endswith("_test") else MAX_FILE
        files += 1
        above_aim += lines > AIM_FILE
        if lines > limit:
            long[str(relative)] = (lines, limit)
        parts = cpp_functions(text) if path.suffix in (".h", ".cc") else \
            python_functions(text) if is_python(path, text) else []
        functions += len(parts)
        for name, _, length in parts:
            if length > MAX_FUNCTION:
                key = f"{relative}:{name}"
                long[key] = (max(length, long.get(key, (0, 0))[0]), MAX_FUNCTION)
    return long, f"{files} files ({above_aim} above the aim of {AIM_FILE} lines), " \
                 f"{functions} functions"


def compare(long, known):
    """Complaints about what is long now against what was known to be."""
    for name, (lines, limit) in sorted(long.items()):
        if name not in known:
            yield f"{name}: {lines} lines, at most {limit}"
        elif lines > known[name]:
            yield f"{name}: grew from {known[name]} to {lines} lines; it may only shrink"
        elif lines < known[name]:
            yield f"{name}: shrank from {known[name]} to {lines} lines: tools/ratchet.py --update"
    for name in sorted(set(known) - set(long)):
        yield f"{name}: no longer too long: tools/ratchet.py --update"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--list", action="store_true", help="print every function's length")
    arguments = parser.parse_args()
    root = arguments.root
    if arguments.list:
        for path in sorted((root / "src").rglob("*")):
            if path.suffix in (".h", ".cc"):
                for name, line, length in cpp_functions(path.read_text(encoding="utf-8")):
                    print(f"{length:4} {path.relative_to(root)}:{line} {name}")
        return 0
    ledger = root / "tests" / "ratchet.json"
    known = json.loads(ledger.read_text())
    long, summary = measure(root)
    if arguments.update:
        kept = {n: min(known[n], long[n][0]) for n in sorted(known) if n in long}
        ledger.write_text(json.dumps(kept, indent=1) + "\n")
        known = kept
    errors = list(compare(long, known))
    for error in errors:
        print(error)
    print(f"{summary}, {len(known)} known to be too long, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
