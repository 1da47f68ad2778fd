"""result.py FILE I FIELD: a field of request I of what `run --json` has printed."""

import json
import sys

file, index, field = sys.argv[1:]
with open(file, encoding="utf-8") as text:
    print(json.load(text)["requests"][int(index)][field])
