#!/usr/bin/env python3
"""refill.py DOCS/synth.md FOLDER SEED: the program of the page makes the values of the checkpoint, and its table is right."""

import json
import pathlib
import re
import struct
import sys

page, folder, seed = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), pathlib.Path(sys.argv[2]), int(sys.argv[3])
program = {}
exec(re.search(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE).group(1), program)


def bits(dtype, x):
    return struct.unpack("<I", struct.pack("<f", x))[0] if dtype == "F32" else program["bf16_bits"](x)


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: {found:x}, but the page's program gives {wanted:x}")


rows = re.findall(r"^\| (\S.*?) \| `(\S+)` \| ([\d, ]+) \| ([\d, ]+) \| `([0-9a-f ]+)` \|$", page, re.MULTILINE)
for given, name, shape, elements, words in rows:
    key = 2**64 - 1 if given == "2^64 - 1" else int(given)
    words = words.split()
    for i, word in zip(elements.split(", "), words, strict=True):
        x = program["value"](key, name, [int(n) for n in shape.split(", ")], int(i))
        expect(f"table, {name} {i}", int(word, 16), bits("F32" if len(word) == 8 else "BF16", x))

checked = 0
for shard in sorted(folder.glob("*.safetensors")):
    data = shard.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    for stored, entry in json.loads(data[8 : 8 + length]).items():
        if stored == "__metadata__":
            continue
        name = stored.removeprefix("model.language_model.")
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        width, form = (4, "<I") if entry["dtype"] == "F32" else (2, "<H")
        count = (end - begin) // width
        for i in sorted({*range(min(count, 9)), *range(max(0, count - 9), count), count // 3, count // 2}):
            (found,) = struct.unpack_from(form, data, begin + i * width)
            x = program["value"](seed, name, entry["shape"], i)
            expect(f"{stored} {i}", found, bits(entry["dtype"], x))
            checked += 1
print(f"{len(rows)} rows of the table, {checked} values: equal")
