# The same set-up as tests/ir, over the cases of this folder.
import os

shared = os.path.join(os.path.dirname(__file__), "..", "ir", "lit.cfg.py")
with open(shared, encoding="utf-8") as text:
    exec(compile(text.read(), shared, "exec"))
