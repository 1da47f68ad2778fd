#!/usr/bin/env python3
"""Counts a step's work from a checkpoint alone, and compares what `bench --json` (stdin) says.

    bench_work.py FOLDER MAX_TOKENS      MAX_TOKENS: what the plan was compiled with
"""

import glob
import json
import math
import struct
import sys

folder, max_tokens = sys.argv[1], int(sys.argv[2])
header = {}
for shard in glob.glob(f"{folder}/model*.safetensors"):
    with open(shard, "rb") as file:
        header |= json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
with open(f"{folder}/config.json", encoding="utf-8") as file:
    config = json.load(file)
config = config.get("text_config", config)
tensors = {}
for name, value in header.items():
    if name != "__metadata__" and not name.startswith(("mtp.", "model.visual.")):
        tensors[name.removeprefix("model.language_model.").removeprefix("model.")] = value["dtype"], value["shape"]

size = {"BF16": 2, "F32": 4}
vocab, hidden = tensors["embed_tokens.weight"][1]
tied = "lm_head.weight" not in tensors
full = sum(kind == "full_attention" for kind in config["layer_types"])
linear = len(config["layer_types"]) - full
chosen = config.get("num_experts_per_tok", 0)


def weights(tokens):
    rotary = int(config["head_dim"] * config["rope_parameters"]["partial_rotary_factor"])
    total = rotary // 2 * 4  # the frequencies
    for name, (dtype, shape) in tensors.items():
        count = math.prod(shape)
        if name == "embed_tokens.weight" and not tied:
            count = hidden * tokens
        if ".experts." in name:
            count = count // shape[0] * min(shape[0], chosen * tokens)
        total += count * size[dtype]
    return total


def multiply_adds(tokens):
    pieces = -(-tokens // max_tokens)
    total = vocab * hidden * pieces  # one row of logits a piece
    for name, (_, shape) in tensors.items():
        if name in ("embed_tokens.weight", "lm_head.weight") or len(shape) == 1:
            continue
        total += math.prod(shape) * tokens // (shape[0] if ".experts." in name else 1) * (
            chosen if ".experts." in name else 1)
    heads = config["num_attention_heads"] * config["head_dim"]
    total += full * 2 * heads * (tokens * (tokens + 1) // 2)
    state = config["linear_num_value_heads"] * config["linear_key_head_dim"] * config["linear_value_head_dim"]
    return total + linear * state * 3.5 * tokens


def states(batch, context):
    key, value = (config[f"linear_num_{k}_heads"] * config[f"linear_{k}_head_dim"] for k in ("key", "value"))
    conv = (config["linear_conv_kernel_dim"] - 1) * (2 * key + value) * 2
    recurrent = value * config["linear_key_head_dim"] * 4
    token = full * 2 * config["num_key_value_heads"] * config["head_dim"] * 2
    return 2 * batch * linear * (conv + recurrent), token * batch * (context + 2)


said = json.load(sys.stdin)
part = said[said["mode"]]
ok = True


def compare(what, got, want):
    global ok
    ok = ok and got == want
    print(f"{what}: {'equal' if got == want else f'{got}, but should be {want}'}")


if said["mode"] == "decode":
    state, kv = states(part["batch"], part["context"] + 2 + (part["steps"] - 1) // 2)
    compare("weights", part["bytes"]["weights"], weights(part["batch"]))
    compare("state", part["bytes"]["state"], state)
    compare("kv", part["bytes"]["kv"], kv)
if said["mode"] == "prefill":
    compare("multiply-adds", part["multiply_adds"], multiply_adds(part["tokens"]))
for name in ("bytes_per_second", "multiply_adds_per_second"):
    if not said["limits"][name] > 1e6:
        ok = False
        print(f"limits.{name}: {said['limits'][name]}")
times = [value for key, value in part.items() if key.endswith("_ms") and isinstance(value, dict)]
for t in times:
    if not 0 < t["best"] <= t["median"] <= t["p95"]:
        ok = False
        print(f"times out of order: {t}")
sys.exit(0 if ok else 1)
