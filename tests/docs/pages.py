#!/usr/bin/env python3
"""pages.py links ROOT: every relative link and #anchor of README.md, CONTRIBUTING.md and docs/*.md leads somewhere.
pages.py examples ROOT GRAPHMILL: every block marked ```gm is a text that `graphmill opt --verify-only` accepts. One that
begins with "regions" belongs to the last graph before it.
"""

import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def anchors(text):
    """The names GitHub gives to headings."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


def check_links(root, pages):
    faults = 0
    for page in pages:
        for target in LINK.findall(FENCE.sub("", page.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            if not there.exists():
                fault = "there is no such file"
            elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
                fault = "there is no such heading"
            else:
                continue
            print(f"{page.relative_to(root)}: link to {target}: {fault}")
            faults += 1
    return faults


def check_examples(root, pages, graphmill):
    faults = 0
    seen = 0
    for page in pages:
        graph = ""
        for language, text in FENCE.findall(page.read_text()):
            if language != "gm":
                continue
            seen += 1
            if text.startswith("graph "):
                graph = text
            elif text.startswith("regions "):
                text = graph + text
            done = subprocess.run([graphmill, "opt", "--verify-only", "-"], input=text, text=True, capture_output=True)
            if done.returncode != 0:
                print(f"{page.relative_to(root)}: example {text.splitlines()[0]!r}:\n{done.stderr}")
                faults += 1
    if seen == 0:
        print("no example was found")
        return 1
    return faults


def main():
    root = pathlib.Path(sys.argv[2]).resolve()
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]
    if sys.argv[1] == "links":
        faults = check_links(root, pages)
    else:
        faults = check_examples(root, pages, sys.argv[3])
    sys.exit(1 if faults else 0)


main()
