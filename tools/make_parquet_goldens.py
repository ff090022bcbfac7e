#!/usr/bin/env python3
"""Writes tests/data/parquet: small Parquet files by pyarrow (Arrow's C++), polars (Rust) and DuckDB, and the same rows
as lines of JSON. tests/test_parquet.c reads both.

    pip install pyarrow polars duckdb numpy
    python3 tools/make_parquet_goldens.py tests/data/parquet

FOLDER/NAME-VARIANT.parquet has the rows of FOLDER/NAME.jsonl.
"""

import datetime
import decimal
import json
import math
import random
import sys
from pathlib import Path

import duckdb
import numpy
import polars
import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/parquet")
folder.mkdir(parents=True, exist_ok=True)
draw = random.Random(20)
WORDS = "fine dull film — naïve 日本語 😀 don't x=1; \"quoted\" \\ \t tab".split(" ")


def text(most):
    return " ".join(draw.choice(WORDS) for _ in range(draw.randrange(most + 1)))


def json_value(value):
    """As zest gives it: NaN and infinities are null, integers beyond 63 bits are texts."""
    if isinstance(value, dict):
        return {key: json_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [json_value(inner) for inner in value]
    if isinstance(value, (float, numpy.floating)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 2**63:
        return str(value)
    return value


def write_lines(name, table, columns=None):
    rows = (table.select(columns) if columns else table).to_pylist()
    lines = [json.dumps(json_value(row), ensure_ascii=False) for row in rows]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write(name, variant, table, **options):
    options.setdefault("compression", "none")
    options.setdefault("store_schema", False)
    pq.write_table(table, folder / f"{name}-{variant}.parquet", **options)


# ---- Flat rows: every type that is read ----

count = 60
flat = pa.table({
    "text": pa.array([text(6) for _ in range(count)]),
    "label": pa.array([draw.randrange(3) for _ in range(count)], pa.int64()),
    "kind": pa.array([draw.choice(["a", "bb", "", None]) for _ in range(count)]),
    "score": pa.array([draw.choice([draw.gauss(0, 1), None, math.nan, math.inf, -0.5, 1e300]) for _ in range(count)]),
    "single": pa.array(numpy.array([draw.gauss(0, 1) for _ in range(count)], numpy.float32)),
    "flag": pa.array([draw.choice([True, False, None]) for _ in range(count)]),
    "small": pa.array([draw.randrange(-128, 128) for _ in range(count)], pa.int8()),
    "big": pa.array([draw.choice([-2**63, 2**63 - 1, 0, None, draw.randrange(-10**12, 10**12)]) for _ in range(count)]),
    "huge": pa.array([draw.choice([2**64 - 1, 2**63, 5]) for _ in range(count)], pa.uint64()),
    "u32": pa.array([draw.choice([2**32 - 1, 0, 7]) for _ in range(count)], pa.uint32()),
    "constant": pa.array(["You are a helpful assistant."] * count),
    "nothing": pa.array([None] * count, pa.string()),
})
write_lines("flat", flat)
for codec in ["none", "snappy", "gzip", "zstd", "lz4"]:
    write("flat", codec, flat, compression=codec)
for version in ["1.0", "2.0"]:
    write("flat", f"page{version[0]}", flat, data_page_version=version, use_dictionary=False, compression="snappy")
write("flat", "groups", flat, row_group_size=13, data_page_size=64, write_batch_size=3, compression="snappy")
write("flat", "pages", flat, data_page_size=32, write_batch_size=4, data_page_version="2.0", compression="zstd",
      write_statistics=False)
write("flat", "schema", flat, store_schema=True, compression="zstd", write_page_checksum=True, write_page_index=True)
encodings = {"text": "DELTA_BYTE_ARRAY", "label": "DELTA_BINARY_PACKED", "kind": "DELTA_LENGTH_BYTE_ARRAY",
             "score": "BYTE_STREAM_SPLIT", "single": "BYTE_STREAM_SPLIT", "flag": "RLE", "small": "DELTA_BINARY_PACKED",
             "big": "DELTA_BINARY_PACKED", "huge": "DELTA_BINARY_PACKED", "u32": "BYTE_STREAM_SPLIT",
             "constant": "DELTA_BYTE_ARRAY", "nothing": "DELTA_LENGTH_BYTE_ARRAY"}
for version in ["1.0", "2.0"]:
    write("flat", f"delta{version[0]}", flat, use_dictionary=False, column_encoding=encodings, data_page_version=version)
polars.from_arrow(flat).write_parquet(folder / "flat-polars.parquet", compression="zstd")
connection = duckdb.connect()
connection.register("flat", flat)
for version in ["v1", "v2"]:
    connection.execute(f"COPY flat TO '{folder}/flat-duckdb{version[1]}.parquet' (FORMAT parquet, COMPRESSION snappy, "
                       f"PARQUET_VERSION {version})")

# ---- Rows of lists and structs ----

def maybe(make, odds=0.2):
    return None if draw.random() < odds else make()


def several(make, most=3):
    return [make() for _ in range(draw.randrange(most + 1))]


point = pa.struct([("x", pa.int32()), ("inner", pa.struct([("name", pa.string()), ("tags", pa.list_(pa.string()))]))])
nested = pa.table({
    "id": pa.array(range(40), pa.int32()),
    "words": pa.array([maybe(lambda: several(lambda: maybe(lambda: text(2)))) for _ in range(40)], pa.list_(pa.string())),
    "grid": pa.array([maybe(lambda: several(lambda: maybe(lambda: several(lambda: draw.randrange(100)))))
                      for _ in range(40)], pa.list_(pa.list_(pa.int64()))),
    "point": pa.array([maybe(lambda: {"x": maybe(lambda: draw.randrange(9)), "inner": maybe(
        lambda: {"name": maybe(lambda: text(1)), "tags": maybe(lambda: several(lambda: text(1)))})})
        for _ in range(40)], point),
    "points": pa.array([maybe(lambda: several(lambda: maybe(lambda: {"x": draw.randrange(9), "inner": maybe(
        lambda: {"name": text(1), "tags": several(lambda: maybe(lambda: text(1)))})})))
        for _ in range(40)], pa.list_(point)),
})
write_lines("nested", nested)
write("nested", "v1", nested, compression="snappy")
write("nested", "v2", nested, compression="zstd", data_page_version="2.0", row_group_size=17)
write("nested", "pages", nested, data_page_size=16, write_batch_size=2, use_compliant_nested_type=False)
polars.from_arrow(nested).write_parquet(folder / "nested-polars.parquet", compression="snappy")
connection.register("nested", nested)
connection.execute(f"COPY nested TO '{folder}/nested-duckdb.parquet' (FORMAT parquet, COMPRESSION zstd)")

# ---- Conversations, as chat data sets of the Hugging Face Hub have them ----

def turns(first, second):
    return [{first: speaker, second: f"{text(4)} {number}"}
            for number in range(draw.randrange(1, 3)) for speaker in (["user", "assistant"] if first == "role"
                                                                      else ["human", "gpt"])]


message = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
turn = pa.list_(pa.struct([("from", pa.string()), ("value", pa.string())]))
times = pa.array([datetime.datetime(2026, 11, 1 + i % 28) for i in range(25)], pa.timestamp("us"))
chat = pa.table({"messages": pa.array([turns("role", "content") for _ in range(25)], message), "time": times,
                 "source": pa.array(["web"] * 25)})
write_lines("chat", chat, ["messages"])
write("chat", "snappy", chat, compression="snappy", store_schema=True)
sharegpt = pa.table({"conversations": pa.array([turns("from", "value") for _ in range(25)], turn),
                     "system": pa.array([draw.choice(["Be brief.", None]) for _ in range(25)])})
write_lines("sharegpt", sharegpt)
write("sharegpt", "zstd", sharegpt, compression="zstd")

# ---- A row for zest predict ----

day = pa.table({"note": [1], "sentence": ["A lovely day."]})
write_lines("day", day)
write("day", "snappy", day, compression="snappy")

# ---- Types that are not read stand beside one that is ----

other = pa.table({
    "text": pa.array(["one", "two"]),
    "when": pa.array([datetime.datetime(2026, 11, 1)] * 2, pa.timestamp("ms")),
    "day": pa.array([datetime.date(2026, 11, 1)] * 2),
    "price": pa.array([decimal.Decimal("1.50")] * 2, pa.decimal128(10, 2)),
    "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())),
    "image": pa.array([{"bytes": b"\xff\xd8\xff\xe0", "path": f"{i}.jpg"} for i in range(2)]),
    "half": pa.array(numpy.array([0.5, -2.0], numpy.float16)),
})
write_lines("other", other, ["text", "half"])
write("other", "types", other)
