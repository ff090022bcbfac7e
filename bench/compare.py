#!/usr/bin/env python3
"""Two builds of zest on the same work, one after the other, several times: processor seconds, smallest and median.

    python3 bench/compare.py OLD NEW [ROUNDS]      OLD, NEW: programs; run it in the repository

Work is a fixed number of steps in one thread. Processor time does not count the time in which other programs run, so the
ratio means something on a busy machine, too.
"""

import os
import statistics
import subprocess
import sys

TRAIN = ("train --model examples/roberta-tiny --task examples/reviews/reviews.task --shots 16 --batch 16 --seed 21 "
         "--test-size 20 --eval-every 0 --threads 1 --quiet ")
DESCENT = "bench descent --k 1 --threads 1 "
WORK = {
    "train, MeZO, fp32": TRAIN + "--method mezo --k 5 --steps 20 --lr 3e-4 --weights f32",
    "train, ZEST-N, bf16": TRAIN + "--method zest-n --t 5 --k 5 --steps 20 --lr 3e-4 --compute bf16 --weights bf16",
    "train, SGD, fp32": TRAIN + "--method sgd --steps 40 --lr 1e-2 --weights f32",
    "6 layers of 512, fp32": DESCENT + "--shape roberta-6x512 --batch 4 --tokens 32 --steps 4",
    "6 layers of 512, bf16": DESCENT + "--shape roberta-6x512 --batch 4 --tokens 32 --steps 8 --compute bf16",
    "SmolLM2-135M, bf16": DESCENT + "--shape smollm2-135m --batch 1 --tokens 32 --steps 4 --compute bf16",
}


def seconds(program, arguments):
    process = subprocess.Popen([program] + arguments.split(), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{program} {arguments}: status {status}")
    return usage.ru_utime + usage.ru_stime


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    programs, rounds = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 9
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    times = {(name, which): [] for name in WORK for which in (0, 1)}
    for i in range(rounds):
        for name, arguments in WORK.items():
            for which in (i % 2, 1 - i % 2):
                times[name, which].append(seconds(programs[which], arguments))
    print(f"| {rounds} rounds | old | new | ratio of the smallest | of the medians |\n|---|---|---|---|---|")
    for name in WORK:
        old, new = times[name, 0], times[name, 1]
        print(f"| {name} | {min(old):.2f} s | {min(new):.2f} s | {min(new) / min(old):.2f} | "
              f"{statistics.median(new) / statistics.median(old):.2f} |")


if __name__ == "__main__":
    main()
