#!/usr/bin/env python3
"""zest beside llama.cpp on the same GGUF files: tokens, greedy text, perplexity, and tokens a second.

    pip install cyllama numpy            # llama.cpp as a wheel
    make build/bench/generate
    zest export MODEL --gguf model.gguf --type f32
    python3 bench/llama_cpp.py model.gguf --text some.txt

Both run on --threads threads, one after the other, in alternation. Of all --rounds the fastest prompt and the fastest
time between two tokens count, so that other work on the machine disturbs both alike. "same" is how many of the first
tokens are equal.
"""
import argparse
import json
import math
import subprocess
import time

import numpy as np
from cyllama.llama import llama_cpp


class Model(llama_cpp.LlamaModel):
    """cyllama 0.2.18 asks the model for n_vocab, which it does not have."""

    @property
    def n_vocab(self):
        return self.get_vocab().n_vocab


class Llama:
    def __init__(self, path, context, threads):
        self.model = Model(path_model=path, params=llama_cpp.LlamaModelParams(), verbose=False)
        params = llama_cpp.LlamaContextParams()
        params.n_ctx = params.n_batch = params.n_ubatch = context
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.LlamaContext(model=self.model, params=params, verbose=False)
        self.vocab = self.model.get_vocab()

    def encode(self, text):
        return list(self.vocab.tokenize(text, True, True))

    def run(self, tokens, position, all_logits=False):
        batch = llama_cpp.LlamaBatch(n_tokens=len(tokens), embd=0, n_seq_max=1)
        for i, token in enumerate(tokens):
            batch.add(token, position + i, [0], all_logits or i == len(tokens) - 1)
        self.context.decode(batch)

    def logits(self, i):
        return np.asarray(self.context.get_logits_ith(i), np.float32)

    def timed(self, tokens, position):
        start = time.perf_counter()
        self.run(tokens, position)
        self.context.synchronize()
        return time.perf_counter() - start

    def greedy(self, tokens, count):
        """New tokens, the seconds of the prompt and of the fastest token, in llama.cpp alone (not Python's argmax)."""
        self.context.kv_cache_clear()
        prompt, new, token = self.timed(tokens, 0), [], math.inf
        for i in range(count):
            new.append(int(np.argmax(self.logits(-1))))
            if i + 1 < count:
                token = min(token, self.timed(new[-1:], len(tokens) + i))
        return new, prompt, token

    def perplexity(self, tokens, window, stride):
        total, count, done, begin = 0.0, 0, 0, 0
        while done < len(tokens):
            end, first = min(len(tokens), begin + window), max(done, begin + 1)
            self.context.kv_cache_clear()
            self.run(tokens[begin:end], 0, True)
            for i in range(first, end):
                row = self.logits(i - 1 - begin).astype(np.float64)
                top = row.max()
                total += row[tokens[i]] - top - math.log(np.exp(row - top).sum())
                count += 1
            done, begin = end, begin + stride
        return math.exp(-total / count)


def run(*words):
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def perplexity(args, path):
    return run(args.zest, "eval", path, "--text", args.text, "--window", str(args.window), "--stride", str(args.stride),
               "--compute", args.compute, "--weights", args.weights, "--threads", str(args.threads), "--json",
               "--quiet")["perplexity"]


def zest_tokens(args, path, text):
    result = subprocess.run([args.zest, "tokenize", path, "--ids", "--text", text], capture_output=True, text=True,
                            check=True)
    return [int(id) for id in result.stdout.split()]


def compare(args, path):
    llama = Llama(path, max(args.window, 512), args.threads)
    tokens = llama.encode(args.prompt)
    row = {"file": path, "tokens": tokens == zest_tokens(args, path, args.prompt)}
    if args.text:
        text = open(args.text, encoding="utf-8").read()
        words = llama.encode(text)
        row["tokens"] = row["tokens"] and words == zest_tokens(args, path, text)
        row["perplexity llama.cpp"] = llama.perplexity(words, args.window, args.stride)
        row["perplexity zest"] = perplexity(args, path)
    best = dict.fromkeys(("llama prompt", "llama token", "zest prompt", "zest token"), math.inf)
    for _ in range(args.rounds):
        new, prompt, token = llama.greedy(tokens, args.tokens)
        own = run(args.bench, path, str(args.tokens), "1", args.prompt, f"threads={args.threads}",
                  f"compute={args.compute}", f"weights={args.weights}")
        for name, seconds in (("llama prompt", prompt), ("llama token", token), ("zest prompt", own["prompt_s"]),
                              ("zest token", own["token_s"])):
            best[name] = min(best[name], seconds)
    equal = [a == b for a, b in zip(new, own["ids"])]
    row["same"] = equal.index(False) if False in equal else len(equal)
    for what, count in (("prompt", len(tokens)), ("token", 1)):
        for program in ("llama", "zest"):
            row[f"{program} {what}s/s"] = round(count / best[f"{program} {what}"], 1)
        row[f"{what} ratio"] = round(best[f"llama {what}"] / best[f"zest {what}"], 2)
    print(json.dumps(row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--zest", default="./zest")
    parser.add_argument("--bench", default="build/bench/generate")
    parser.add_argument("--prompt", default="Once upon a time there was a little girl called Lucy. " * 4)
    parser.add_argument("--text", help="text file for the perplexity; a few thousand bytes, since it is slow")
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--stride", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=33)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compute", default="f32")
    parser.add_argument("--weights", default="quantized")
    args = parser.parse_args()
    for path in args.files:
        compare(args, path)


if __name__ == "__main__":
    main()
