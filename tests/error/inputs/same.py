#!/usr/bin/env python3
"""Compares results: same.py requests A.json B.json | npy FILE ROWS COLUMNS | schema FILE"""

import ast
import json
import struct
import sys


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def requests(a, b):
    if load(a)["requests"] != load(b)["requests"]:
        raise SystemExit(f"{a} and {b} differ")


def npy(path, rows, columns):
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != b"\x93NUMPY":
        raise SystemExit(f"{path} is no .npy file")
    (length,) = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10 : 10 + length].decode())
    if header["shape"] != (int(rows), int(columns)) or header["descr"] != "<f4" or header["fortran_order"]:
        raise SystemExit(str(header))
    if len(data) != 10 + length + 4 * int(rows) * int(columns):
        raise SystemExit(f"{len(data)} bytes")


def schema(path):
    if load(path)["schema"] != 1:
        raise SystemExit(f"{path} has another schema")


{"requests": requests, "npy": npy, "schema": schema}[sys.argv[1]](*sys.argv[2:])
