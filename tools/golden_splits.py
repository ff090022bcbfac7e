#!/usr/bin/env python3
"""Reference splits for tests/test_split.c, drawn by NumPy and pandas. Not needed to build or to test.

  golden_splits.py DATA > tests/data/tasks/splits.txt     DATA: the folder of the task data (../shared/data)

The procedures are written down here once more, as the publications' scripts have them: LM-BFF's and MeZO's
generate_k_shot_data (raw lines shuffled, grouped by the label that stands in the line), their k-shot-1k-test subsets,
and MeZO's sample_train_sets. Lines: task kind seed part count hash first-rows...; rows count from 0 in the file's data,
hash is FNV-1a (64 bits) over the row numbers as 4 bytes each, lowest first. Needs numpy and pandas.
"""
import csv
import json
import os
import sys

import numpy as np
import pandas as pd

DATA = sys.argv[1] if len(sys.argv) > 1 else "../shared/data"
SHOTS = 512
SEEDS = (13, 42, 100)
TSV = {"SST-2": ("dev.tsv", -1), "MRPC": ("dev.tsv", 0), "RTE": ("dev.tsv", -1), "QQP": ("dev.tsv", -1),
       "MNLI": ("dev_matched.tsv", -1), "SNLI": ("dev.tsv", -1)}


def fnv(rows):
    h = 0xCBF29CE484222325
    for r in rows:
        for b in int(r).to_bytes(4, "little"):
            h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def put(task, kind, seed, part, rows):
    rows = [int(r) for r in rows]
    print(task, kind, seed, part, len(rows), f"{fnv(rows):016x}", *rows[:5])


def group(labelled, seed, name):
    """labelled: (label, row) pairs in the shuffled order."""
    groups = {}
    for label, row in labelled:
        groups.setdefault(label, []).append(row)
    put(name, "shots", seed, "train", [r for g in groups.values() for r in g[:SHOTS]])
    put(name, "shots", seed, "dev", [r for g in groups.values() for r in g[SHOTS:2 * SHOTS]])


def tsv_tasks():
    for name, (test, column) in TSV.items():
        with open(os.path.join(DATA, name, "train.tsv"), encoding="utf-8-sig") as f:
            lines = f.readlines()[1:]
        numbered = {id(line): i for i, line in enumerate(lines)}
        for seed in SEEDS:
            np.random.seed(seed)
            shuffled = list(lines)
            np.random.shuffle(shuffled)
            pairs = [(line.strip().split("\t")[column], numbered[id(line)]) for line in shuffled]
            group(pairs, seed, name)
        with open(os.path.join(DATA, name, test), encoding="utf-8-sig") as f:
            lines = f.readlines()[1:]
        rows = list(range(len(lines)))
        if len(lines) > 1000:
            numbered = {id(line): i for i, line in enumerate(lines)}
            np.random.seed(42)
            np.random.shuffle(lines)
            rows = [numbered[id(line)] for line in lines[:1000]]
        put(name, "shots", 42, "test", rows)


def csv_tasks():
    for name, folder in (("sst-5", "sst-5"), ("TREC", "trec")):
        path = os.path.join(DATA, folder, "train.csv")
        frame = pd.read_csv(path, header=None)
        with open(path, newline="", encoding="utf-8") as f:
            own = list(csv.reader(f))
        # pandas and the csv module must see the same rows, or row numbers would mean nothing
        assert len(own) == len(frame) and all(a[1] == b for a, b in zip(own, frame[1]) if isinstance(b, str))
        for seed in SEEDS:
            np.random.seed(seed)
            data = [(label, i) for i, label in enumerate(frame[0].tolist())]
            np.random.shuffle(data)
            group([(int(a), int(b)) for a, b in data], seed, name)
        test = pd.read_csv(os.path.join(DATA, folder, "test.csv"), header=None)
        rows = list(range(len(test)))
        if len(test) > 1000:
            rows = test.sample(n=1000, random_state=42).index.tolist()
        put(name, "shots", 42, "test", rows)


def sampled():
    for name, folder, dev in (("COPA", "superglue/COPA", 100), ("CB", "superglue/CB", 100),
                              ("BoolQ", "superglue/BoolQ", 500), ("SST-2", "SST-2", 500)):
        counts = []
        for part in ("train", "val") if "superglue" in folder else ("train", "dev"):
            ending = "jsonl" if "superglue" in folder else "tsv"
            with open(os.path.join(DATA, folder, f"{part}.{ending}"), encoding="utf-8") as f:
                lines = f.readlines()
            if ending == "jsonl":
                assert all(isinstance(json.loads(line), dict) for line in lines)
            counts.append(len(lines) - (ending == "tsv"))
        for seed in (0, *SEEDS):
            np.random.seed(seed)
            taken = np.random.permutation(counts[0]).tolist()[:1000 + dev]
            put(name, "sampled", seed, "train", taken[:-dev])
            put(name, "sampled", seed, "dev", taken[-dev:])
            np.random.seed(seed)
            put(name, "sampled", seed, "test", np.random.permutation(counts[1]).tolist()[:1000])


print("# by tools/golden_splits.py: task kind seed part count hash first-rows")
tsv_tasks()
csv_tasks()
sampled()
