#!/usr/bin/env python3
"""Compares traces of the mock CUDA run-time library (mock.h): which calls two versions of zest make, and with what.

    python3 tests/cuda/mock/compare.py OLD.trace NEW.trace

Kernels may have other names, one for one. Allocations may have other numbers: they are matched by the calls that use
them. Structures may have further fields that are 0. Padding (PADDING) is not compared. Prints how many calls are the same, the names that changed, and the first differences of each kind; exit status
1 if there are differences.
"""
import collections
import difflib
import re
import sys

POINTER = re.compile(r"\b([DH])(\d+)\b")


def read(path):
    return [without_padding(line.rstrip("\n")) for line in open(path) if not line.startswith("calls ")]


def kind(line):
    """What must agree before arguments are looked at: the call, of a launch without its kernel's name."""
    head = line.split(" |")[0].split()
    if head[0] == "cudaMemcpyAsync" and head[1] == "kind=1":
        return " ".join([head[0]] + [w for w in head if "=" in w])  # without the words of the table
    if head[0] == "launch":
        return " ".join(["launch"] + head[2:])
    return " ".join(w for w in head if not POINTER.match(w) and not w.startswith("_Z"))


# Where structures end with four bytes of padding: (argument, word) by the type that a kernel's name has.
PADDING = {"zest_head_rows": (2, 7), "sweep_job": (0, 3), "tensor_loop_params": (0, 3), "attention_params": (0, 15),
           "attention_job": (0, 15), "scaling": (0, 1), "scale_op": (0, 1), "drawing": (0, 2), "noise_op": (0, 2)}
TENSOR_WORDS = 5  # of an entry of the table that tensor_loop_kernel reads; the last has a 32-bit dtype and padding


def expand(part):
    """0*3 is three words."""
    words = []
    for word in part.split():
        words += ["0"] * int(word[2:]) if word.startswith("0*") else [word]
    return words


def lower(word):
    return word if POINTER.match(word) else f"{int(word, 16) & 0xffffffff:x}"


def without_padding(line):
    parts = line.split(" |")
    for name, (argument, word) in PADDING.items():
        if parts[0].startswith("launch ") and name in parts[0]:
            words = expand(parts[argument + 1])
            if word < len(words):
                words[word] = lower(words[word])
            parts[argument + 1] = " " + " ".join(words)
    if line.startswith("cudaMemcpyAsync kind=1 "):
        head, words, tail = re.match(r"(\S+ \S+ \S+ )(.*?)( bytes=.*)", line).groups()
        words = [] if "hash" in words else expand(words)
        if words and len(words) % TENSOR_WORDS == 0 and POINTER.match(words[0]):
            words = [lower(w) if i % TENSOR_WORDS == TENSOR_WORDS - 1 else w for i, w in enumerate(words)]
        return head + " ".join(words) + tail if words else line
    return " |".join(parts)


def without_zeros(line):
    """Of each argument the words up to the last that is not 0: a structure may have got fields, which are 0 here."""
    return " |".join(re.sub(r"( 0\*\d+| 0)+$", "", part) for part in line.split(" |"))


class Renames(dict):
    """Old name to new name, one for one."""

    def __init__(self):
        self.back = {}

    def agree(self, old, new):
        return self.setdefault(old, new) == new and self.back.setdefault(new, old) == old


def main():
    old, new = read(sys.argv[1]), read(sys.argv[2])
    kernels, pointers = Renames(), Renames()
    same, longer, different = 0, 0, collections.OrderedDict()
    matcher = difflib.SequenceMatcher(None, [kind(l) for l in old], [kind(l) for l in new], autojunk=False) \
        if [kind(l) for l in old] != [kind(l) for l in new] else None
    blocks = matcher.get_opcodes() if matcher else [("equal", 0, len(old), 0, len(new))]
    for tag, a, b, c, d in blocks:
        if tag != "equal":
            for line in old[a:b]:
                different.setdefault("only in the old one: " + line[:160], []).append("")
            for line in new[c:d]:
                different.setdefault("only in the new one: " + line[:160], []).append("")
            continue
        for x, y in zip(old[a:b], new[c:d]):
            longer += len(x.split()) != len(y.split()) and len(without_zeros(x).split()) == len(without_zeros(y).split())
            xs, ys = without_zeros(x).split(), without_zeros(y).split()
            bad = len(xs) != len(ys)
            for u, v in zip(xs, ys):
                if u == v and not POINTER.match(u):
                    continue
                pu, pv = POINTER.match(u), POINTER.match(v)
                if pu and pv:
                    bad |= not pointers.agree(pu.group(), pv.group()) or u[pu.end():] != v[pv.end():]
                elif u.startswith("_Z") and v.startswith("_Z"):
                    bad |= not kernels.agree(u, v)
                else:
                    bad = True
            same += not bad
            if bad:
                different.setdefault("arguments differ: " + " ".join(xs[:2])[:100], []).append((x, y))
    print(f"{len(old)} and {len(new)} calls, {same} the same, {sum(map(len, different.values()))} different"
          + (f"; {longer} of the same have further fields of 0" if longer else ""))
    for u, v in kernels.items():
        if u != v and "-v" in sys.argv:
            print(f"  renamed: {u} -> {v}")
    for what, which in list(different.items())[:20]:
        print(f"  {len(which)} x {what}")
        if which[0]:
            print(f"    - {which[0][0]}\n    + {which[0][1]}")
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
