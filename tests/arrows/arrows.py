#!/usr/bin/env python3
"""Reads every #include of the project and names those that run against the arrows of docs/architecture.md:

    base <- ir <- ops <- {models, codegen} <- compiler <- tools
    base <- plan <- {runtime, compiler};  runtime <- tools

Third parties have borders too: Boost's graph stays in ir/*.cpp, LLVM and LLD in codegen/cpu. graphmill-run is built
without the compiler and without LLVM, and so is not allowed their headers.
"""

import argparse
import os
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"(?P<ours>[^"]+)"|<(?P<system>[^>]+)>)')
SUFFIXES = (".cpp", ".h", ".cc", ".hpp", ".inc", ".def")

# Longest folder first: whom a file of that folder may include, beside files of its own folder.
ALLOWED = [
    ("codegen/tile", {"base", "ir", "ops"}),
    ("codegen/cache", {"base"}),
    ("codegen", {"base", "ir", "ops", "codegen"}),
    ("tools/graphmill_run", {"base", "ir", "ops", "plan", "runtime", "codegen/tile", "codegen/cache", "tools/common"}),
    ("tools/common", {"base", "ir", "ops", "plan", "runtime", "codegen/tile", "codegen/cache"}),
    ("tools", {"base", "ir", "ops", "plan", "models", "codegen", "compiler", "runtime", "tools"}),
    ("base", set()),
    ("ir", {"base"}),
    ("ops", {"base", "ir"}),
    ("plan", {"base"}),
    ("models", {"base", "ir", "ops"}),
    ("compiler", {"base", "ir", "ops", "plan", "models", "codegen"}),
    ("runtime", {"base", "plan"}),
    ("tests", {"base", "ir", "ops", "plan", "models", "codegen", "compiler", "runtime", "tools", "tests"}),
]
FOLDERS = sorted({folder.split("/")[0] for folder, _ in ALLOWED})

# Third party (start of the include): the files that may include it.
BORDERS = [
    (re.compile(r"boost/(asio|beast)"), re.compile(r"tools/.*\.cpp$"), "the server in tools/*.cpp"),
    (re.compile(r"boost/"), re.compile(r"ir/[^/]*\.cpp$"), "ir/*.cpp"),
    (re.compile(r"(llvm|llvm-c|lld|clang)/"), re.compile(r"codegen/cpu/"), "codegen/cpu"),
]


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


def fault_of(root, path, ours, system):
    """Returns what is wrong with one include of the file `path`, or None."""
    target = ours or system
    for third_party, where, words in BORDERS:
        if third_party.match(target):
            return None if where.match(path) else f"<{target}> is for {words} alone"
    if ours is None:
        return None
    if ".." in ours.split("/"):
        return f'"{ours}": includes are named from the project\'s root'
    if not path.startswith("tests/") and os.path.exists(os.path.join(root, os.path.dirname(path), ours)):
        return f'"{ours}": includes are named from the project\'s root'
    if ours.split("/")[0] not in FOLDERS:
        return None  # a third party's or a generated file
    folder, allowed = next((f, a) for f, a in ALLOWED if inside(path, f))
    if inside(ours, folder) or any(inside(ours, other) for other in allowed):
        return None
    return f'"{ours}": {folder} may include only {", ".join(sorted(allowed | {folder}))}'


def check(root):
    """Returns (number of files read, list of 'file:line: fault')."""
    read, faults = 0, []
    for top in FOLDERS:
        for folder, subfolders, names in os.walk(os.path.join(root, top)):
            subfolders.sort()
            for name in sorted(names):
                if not name.endswith(SUFFIXES):
                    continue
                read += 1
                full = os.path.join(folder, name)
                path = os.path.relpath(full, root).replace(os.sep, "/")
                with open(full, encoding="utf-8", errors="replace") as text:
                    for number, line in enumerate(text, 1):
                        match = INCLUDE.match(line)
                        fault = match and fault_of(root, path, match["ours"], match["system"])
                        if fault:
                            faults.append(f"{path}:{number}: {fault}")
    return read, faults


def self_test():
    """Plants includes, good and bad, in a small tree: each bad one must be found and no good one."""
    good = [
        ("ir/graph.cpp", "#include <boost/graph/adjacency_list.hpp>"),
        ("ops/matmul.cpp", '#include "ir/graph.h"'),
        ("codegen/cpu/emit.cpp", "#include <llvm/IR/IRBuilder.h>"),
        ("codegen/cpu/emit.h", '#include "codegen/tile/pass.h"'),
        ("compiler/passes/fold.cpp", '#include "compiler/fusion/rules.h"'),
        ("runtime/bind.cpp", '#include "plan/plan.h"'),
        ("tools/graphmill/main.cpp", '#include "compiler/pipeline.h"'),
        ("tools/graphmill_run/main.cpp", '#include "codegen/tile/interpreter.h"'),
        ("tests/unit/ir/graph_test.cpp", '#include "compiler/pipeline.h"'),
        ("base/json.cpp", "#include <nlohmann/json.hpp>"),
    ]
    bad = [
        ("base/bad.cpp", '#include "ir/graph.h"'),
        ("ir/bad.cpp", '#  include "ops/matmul.h"'),
        ("ops/bad.h", '#include "models/qwen35/config.h"'),
        ("ops/bad_plan.cpp", '#include "plan/plan.h"'),
        ("models/qwen35/bad.cpp", '#include "codegen/tile/pass.h"'),
        ("plan/bad.cpp", '#include "ir/graph.h"'),
        ("codegen/tile/bad.cpp", '#include "codegen/cpu/emit.h"'),
        ("codegen/cuda/bad.cpp", '#include "compiler/pipeline.h"'),
        ("compiler/bad.cpp", '#include "runtime/bind.h"'),
        ("runtime/bad.cpp", '#include "codegen/tile/interpreter.h"'),
        ("tools/graphmill_run/bad.cpp", '#include "compiler/pipeline.h"'),
        ("ir/bad.h", "#include <boost/graph/adjacency_list.hpp>"),
        ("compiler/fusion/bad.cpp", '#include "boost/graph/dominator_tree.hpp"'),
        ("codegen/cuda/bad_llvm.cpp", "#include <llvm/IR/IRBuilder.h>"),
        ("compiler/passes/bad_relative.cpp", '#include "../pipeline.h"'),
        ("ops/bad_sibling.cpp", '#include "bad.h"'),
    ]
    with tempfile.TemporaryDirectory() as root:
        for path, line in good + bad:
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as out:
                out.write(f"// one line before\n{line}\n")
        read, faults = check(root)
    found = [fault.split(": ")[0] for fault in faults]
    want = [f"{path}:2" for path, _ in bad]
    if read != len(good) + len(bad) or sorted(found) != sorted(want):
        print("missed:", sorted(set(want) - set(found)), "false:", sorted(set(found) - set(want)))
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=os.path.join(os.path.dirname(__file__), "..", ".."))
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    read, faults = check(os.path.realpath(arguments.root))
    for fault in faults:
        print(fault)
    print(f"{read} files read, {len(faults)} includes against the arrows")
    return 1 if faults or read == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
