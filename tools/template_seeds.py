#!/usr/bin/env python3
"""Writes the templates of tests/data/chat/snippets.json as files: seeds of fuzz/template_fuzz.

Usage: tools/template_seeds.py FOLDER
"""
import json
import pathlib
import sys

SNIPPETS = pathlib.Path(__file__).parent.parent / 'tests/data/chat/snippets.json'


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    snippets = json.loads(SNIPPETS.read_text(encoding='utf-8'))
    cases = snippets['snippets'] if isinstance(snippets, dict) else snippets
    for number, case in enumerate(cases):
        (folder / f'snippet-{number}').write_text(case['template'], encoding='utf-8')


if __name__ == '__main__':
    main()
