#!/usr/bin/env python3
"""Checks of README.md, CONTRIBUTING.md and docs/*.md:

pages.py links ROOT                        every relative link and #anchor leads somewhere
pages.py examples ROOT GRAPHMILL           every block marked ```gm is a text that `graphmill opt --verify-only` accepts;
                                           one that begins with "regions" belongs to the last graph before it
pages.py console ROOT GRAPHMILL [--write]  every `$ graphmill ...` of a block marked ```console runs and prints what
                                           stands below it. Times and file sizes may differ, a line "..." stands for any
                                           lines, and a block of commands alone must only run. --write puts the real
                                           output in place, except where lines were left out.
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
VARIES = re.compile(r"[0-9.]+ (?=s\b|tokens/s|KiB\))|[0-9a-f]{32}")


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


def same(wanted, got):
    """Whether the lines are those that are wanted, where a line "..." stands for any number of lines."""
    wanted = [VARIES.sub("", line.rstrip()) for line in wanted]
    got = [VARIES.sub("", line.rstrip()) for line in got]
    at = 0
    skipping = False
    for i, line in enumerate(wanted):
        if line == "...":
            skipping = True
            continue
        if skipping:
            while at < len(got) and got[at] != line:
                at += 1
        if at >= len(got) or got[at] != line:
            return False
        at += 1
        skipping = False
    return skipping or at == len(got)


def split_block(text):
    """[command, lines below it] of a block; a command goes on after a backslash."""
    steps = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append([line, []])
        elif steps and not steps[-1][1] and steps[-1][0].endswith("\\"):
            steps[-1][0] += "\n" + line
        elif steps:
            steps[-1][1].append(line)
    return steps


def check_console(root, pages, graphmill, write):
    faults = 0
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "tests").symlink_to(root / "tests")
            text = page.read_text()
            for block in [match.group(2) for match in FENCE.finditer(text) if match.group(1) == "console"]:
                steps = split_block(block)
                silent = not any(lines for _, lines in steps)
                if "PLAN" in block or "/path/to" in block or "mlp.gm" in block:
                    continue
                for step in steps:
                    argv = shlex.split(step[0][2:].replace("\\\n", " "), comments=True)
                    if not argv or argv[0] != "graphmill":
                        continue
                    done = subprocess.run([graphmill, *argv[1:]], cwd=folder, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                    lines = done.stdout.decode(errors="replace").splitlines()
                    fails = done.returncode != 0 and not any(line.startswith("error:") for line in step[1])
                    if fails:
                        print(f"{page.relative_to(root)}: {step[0]}: exit code {done.returncode}\n" + "\n".join(lines))
                        faults += 1
                    elif not silent and not same(step[1], lines):
                        if write and "..." not in step[1]:
                            step[1] = [line.rstrip() for line in lines]
                        else:
                            print(f"{page.relative_to(root)}: {step[0]}: prints\n" + "\n".join(lines))
                            print("fix: tests/docs/pages.py console ROOT GRAPHMILL --write; where lines were left out, by hand")
                            faults += 1
                if write and not silent:
                    new = "".join(f"{command}\n" + "".join(f"{line}\n" for line in lines) for command, lines in steps)
                    text = text.replace(f"```console\n{block}```", f"```console\n{new}```")
            if write:
                page.write_text(text)
    return faults


def main():
    root = pathlib.Path(sys.argv[2]).resolve()
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]
    if sys.argv[1] == "links":
        faults = check_links(root, pages)
    elif sys.argv[1] == "examples":
        faults = check_examples(root, pages, sys.argv[3])
    else:
        faults = check_console(root, pages, str(pathlib.Path(sys.argv[3]).resolve()), "--write" in sys.argv)
    sys.exit(1 if faults else 0)


main()
