#!/usr/bin/env python3
"""Markdown tables from the runs of tools/results.sh:  tools/results_table.py OUT

Test accuracy in percent, mean and standard error over seeds; the difference from MeZO of the same seed (and so of the
same data, batches and directions), with its standard error where there are several seeds."""
import collections
import glob
import json
import math
import os
import re
import sys


def mean_and_error(values):
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, float("nan")
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))


def show(values):
    mean, error = mean_and_error(values)
    return f"{mean:.1f}" if math.isnan(error) else f"{mean:.1f} ± {error:.1f}"


def main(out):
    runs = collections.defaultdict(dict)  # (task, noise, method) -> seed -> result
    types = collections.defaultdict(dict)
    for path in sorted(glob.glob(os.path.join(out, "*", "result.json"))):
        name = os.path.basename(os.path.dirname(path))
        result = json.load(open(path))
        match = re.fullmatch(r"(.*)-noise([0-9.]+)-seed(\d+)-(.*-t\d+)", name)
        if match:
            task, noise, seed, method = match.groups()
            runs[task, noise, method][seed] = result
        match = re.fullmatch(r"types-seed(\d+)-(.*)", name)
        if match:
            types[match.group(2)][match.group(1)] = result
    for task, noise in sorted({key[:2] for key in runs}):
        print(f"\n**{task}, {'clean' if noise == '0' else f'{float(noise):.0%} of the labels switched'}**\n")
        print("| method | dev | test | test − MeZO | best step | seconds |\n|---|---|---|---|---|---|")
        base = runs[task, noise, "mezo-t0"]
        for method in ["mezo-t0", "zest-n-t1", "zest-n-t5", "zest-bc-t1", "zest-bc-t5"]:
            cell = runs[task, noise, method]
            if not cell:
                continue
            test = {seed: 100 * r["test"]["accuracy"] for seed, r in cell.items()}
            dev = [100 * r["dev"]["accuracy"] for r in cell.values()]
            paired = [test[s] - 100 * base[s]["test"]["accuracy"] for s in test if s in base]
            steps = ", ".join(str(cell[s]["best_step"]) for s in sorted(cell, key=int))
            seconds = sum(r["seconds"] for r in cell.values()) / len(cell)
            difference = "" if method == "mezo-t0" or not paired else show(paired).replace("-", "−")
            print(f"| {method} | {show(dev)} | {show(list(test.values()))} | {difference} | {steps} | {seconds:.0f} |")
    if types:
        print("\n**Types of the weights (SST-2, MeZO)**\n\n| weights | dev loss | dev | test |\n|---|---|---|---|")
        for name, cell in types.items():
            rows = [[r["dev"]["loss"] for r in cell.values()], [100 * r["dev"]["accuracy"] for r in cell.values()],
                    [100 * r["test"]["accuracy"] for r in cell.values()]]
            mean, error = mean_and_error(rows[0])
            print(f"| {name} | {mean:.3f} ± {error:.3f} | {show(rows[1])} | {show(rows[2])} |")


if __name__ == "__main__":
    main(sys.argv[1])
