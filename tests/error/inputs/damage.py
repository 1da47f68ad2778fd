#!/usr/bin/env python3
"""Makes wrong files out of right ones.

    damage.py copy FOLDER TO             a checkpoint's files (and its goldens), to be changed
    damage.py flip FILE OFFSET           one bit of a byte; a negative offset counts from the end
    damage.py cut FILE BYTES             keeps the first BYTES; negative: drops as many
    damage.py set FILE.json a.b.c VALUE  VALUE as JSON; 'delete' removes the key
    damage.py tensor FILE NAME KEY VALUE a field of an entry of a safetensors header; KEY may be rename, or delete
    damage.py length FILE N              the length that a safetensors file states for its header
"""

import json
import os
import shutil
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        return bytearray(file.read())


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def copy(folder, to):
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)
    for name in os.listdir(to):
        os.chmod(os.path.join(to, name), 0o644)


def flip(path, offset):
    data = read(path)
    data[int(offset)] ^= 1
    write(path, data)


def cut(path, size):
    write(path, read(path)[: int(size)])


def set_json(path, keys, value):
    with open(path, encoding="utf-8") as file:
        root = json.load(file)
    *way, last = keys.split(".")
    node = root
    for key in way:
        node = node[int(key)] if isinstance(node, list) else node[key]
    if isinstance(node, list):
        last = int(last)
    if value == "delete":
        del node[last]
    else:
        node[last] = json.loads(value)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(root, file)


def tensor(path, name, key, value):
    data = read(path)
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    if key == "delete":
        del header[name]
    elif key == "rename":
        header[value] = header.pop(name)
    else:
        header[name][key] = json.loads(value)
    text = json.dumps(header).encode()
    write(path, struct.pack("<Q", len(text)) + text + data[8 + length :])


def length(path, number):
    data = read(path)
    struct.pack_into("<Q", data, 0, int(number))
    write(path, data)


COMMANDS = {"copy": copy, "flip": flip, "cut": cut, "set": set_json, "tensor": tensor, "length": length}
COMMANDS[sys.argv[1]](*sys.argv[2:])
