#!/usr/bin/env python3
"""The table of GPU steps in RESULTS.md: every shape of it some times, in turns, so that all see the same machine.

    python3 bench/gpu_table.py --rounds 3 > table.md
    python3 bench/gpu_table.py --only roberta-base --zest ./zest --beside ./zest-before

A row has the median step (of two the faster) and the parts of the run that had it; seconds, peak memory in MiB. --beside: a
second program, whose medians stand in a column of their own.
"""
import argparse
import json
import os
import statistics
import subprocess

SHAPES = [
    ("RoBERTa-base 128 × 128", {}, "--shape roberta-base --compute bf16 --batch 128 --tokens 128"),
    ("the same, `ZEST_CUDA_GEMM=cublas`", {"ZEST_CUDA_GEMM": "cublas"}, "--shape roberta-base --compute bf16 --batch 128 --tokens 128"),
    ("RoBERTa-base 64 × 64", {}, "--shape roberta-base --compute bf16 --batch 64 --tokens 64"),
    ("RoBERTa-base 128, SST-2's lengths", {}, "--shape roberta-base --compute bf16 --batch 128 --lengths sst2"),
    ("OPT-1.3B 16 × 256", {}, "--shape opt-1.3b --compute bf16 --batch 16 --tokens 256"),
    ("OPT-1.3B 16 × 64", {}, "--shape opt-1.3b --compute bf16 --batch 16 --tokens 64"),
    ("RoBERTa-base 128 × 128, fp32", {}, "--shape roberta-base --batch 128 --tokens 128"),
]
PARTS = ["noise", "gemm", "attention", "norms", "rows", "update"]
PEAKS = [("products", "peak_flops_per_second", 1e12, "TFLOP/s"), ("copies", "peak_copy_bytes_per_second", 1e12, "TB/s"),
            ("normals", "peak_normals_per_second", 1e9, "G/s")]


def run(program, environment, options):
    command = [program, "bench", "step", "--device", "cuda", "--json"] + options.split()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def middle(runs):
    return sorted(runs, key=lambda r: r["seconds_per_step"])[(len(runs) - 1) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zest", default="./zest")
    parser.add_argument("--beside")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="shapes whose options contain this")
    arguments = parser.parse_args()
    shapes = [s for s in SHAPES if arguments.only in s[2]]
    programs = [arguments.zest] + ([arguments.beside] if arguments.beside else [])
    runs = {(name, program): [] for name, _, _ in shapes for program in programs}
    for _ in range(arguments.rounds):
        for name, environment, options in shapes:
            for program in programs:
                runs[name, program].append(run(program, environment, options))
    print("| | zest |" + (" beside |" if arguments.beside else "") + " " + " | ".join(PARTS) + " | peak memory |")
    print("|---" * (3 + len(PARTS) + bool(arguments.beside)) + "|")
    for name, _, _ in shapes:
        own = middle(runs[name, arguments.zest])
        beside = [f"{middle(runs[name, arguments.beside])['seconds_per_step']:.4f} s"] if arguments.beside else []
        cells = [f"{own['seconds_per_step']:.4f} s"] + beside + [f"{own['seconds'][p]:.4f}" for p in PARTS]
        print(f"| {name} | " + " | ".join(cells) + f" | {own['peak_bytes'] / 2**20:.0f} MiB |")
    every = [r for some in runs.values() for r in some]
    every = [r for r in every if r["compute"] == every[0]["compute"] and PEAKS[0][1] in r]  # older programs have none
    for what, key, unit, text in PEAKS:
        print(f"\n{what}: {min(r[key] for r in every) / unit:.2f} to {max(r[key] for r in every) / unit:.2f} {text}, "
              f"median {statistics.median(r[key] for r in every) / unit:.2f}", end="")
    print(f"; {every[0]['device']}")


if __name__ == "__main__":
    main()
