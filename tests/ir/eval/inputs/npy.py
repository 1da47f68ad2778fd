#!/usr/bin/env python3
"""npy.py write FILE TYPE SHAPE VALUES | print FILE: .npy files without NumPy. TYPE is f4, f8, i4 or i8; SHAPE and
VALUES are separated by commas."""

import ast
import struct
import sys

LETTERS = {"f4": "f", "f8": "d", "i4": "i", "i8": "q"}


def write(path, kind, shape, values):
    parse = float if kind[0] == "f" else int
    values = [parse(value) for value in values.split(",")]
    extents = "".join(f"{extent}, " for extent in shape.split(","))
    header = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': ({extents}), }}\n".encode()
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        file.write(struct.pack(f"<{len(values)}{LETTERS[kind]}", *values))


def show(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10 : 10 + length].decode())
    kind = header["descr"][1:]
    body = data[10 + length :]
    values = struct.unpack(f"<{len(body) // int(kind[1])}{LETTERS[kind]}", body)
    print(kind, list(header["shape"]), *values)


{"write": write, "print": show}[sys.argv[1]](*sys.argv[2:])
