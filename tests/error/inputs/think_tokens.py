"""think_tokens.py FROM TO: a copy of the folder of a small model whose tokenizer has <think> and </think> in the
place of its last two words."""

import json
import pathlib
import shutil
import sys

source, target = map(pathlib.Path, sys.argv[1:])
shutil.rmtree(target, ignore_errors=True)
target.mkdir()
for name in ("config.json", "model.safetensors"):
    (target / name).symlink_to(source / name)
tokenizer = json.loads((source / "tokenizer.json").read_text())
vocab = tokenizer["model"]["vocab"]
last = sorted(vocab.items(), key=lambda entry: entry[1])[-2:]
words = {word for word, _ in last}
for (word, number), content in zip(last, ("<think>", "</think>")):
    del vocab[word]
    tokenizer["added_tokens"].append(dict(tokenizer["added_tokens"][0], id=number, content=content, special=False))
tokenizer["model"]["merges"] = [
    merge
    for merge in tokenizer["model"]["merges"]
    if not words & ({"".join(merge), *merge} if isinstance(merge, list) else {merge.replace(" ", ""), *merge.split()})
]
(target / "tokenizer.json").write_text(json.dumps(tokenizer))
