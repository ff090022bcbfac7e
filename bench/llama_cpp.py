#!/usr/bin/env python3
"""zest beside llama.cpp on the same GGUF files: tokens, greedy text, perplexity, and tokens a second.

    pip install cyllama numpy            # llama.cpp as a wheel
    zest export MODEL --gguf model.gguf --type f32
    python3 bench/llama_cpp.py model.gguf --text some.txt

Both run on --threads threads, one after the other, in alternation; the fastest of --rounds counts. Times are those of
new tokens alone: the time for --tokens new tokens minus that for one, so that loading and the prompt do not count.
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

    def greedy(self, tokens, count):
        """New tokens, and the seconds that all but the first took in llama.cpp (not in Python's argmax)."""
        self.context.kv_cache_clear()
        self.run(tokens, 0)
        new, seconds = [], 0.0
        while len(new) < count:
            new.append(int(np.argmax(self.logits(-1))))
            if self.vocab.is_eog(new[-1]) or len(new) == count:
                break
            start = time.perf_counter()
            self.run(new[-1:], len(tokens) + len(new) - 1)
            self.context.synchronize()
            seconds += time.perf_counter() - start
        return new, seconds

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


def zest(args, *words):
    start = time.perf_counter()
    result = subprocess.run([args.zest, *words, "--threads", str(args.threads), "--json", "--quiet"],
                            capture_output=True, text=True, check=True)
    return json.loads(result.stdout), time.perf_counter() - start


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
        row["perplexity zest"] = zest(args, "eval", path, "--text", args.text, "--window", str(args.window), "--stride",
                                      str(args.stride), "--compute", args.compute)[0]["perplexity"]
    best = {"llama": math.inf, "zest": math.inf}
    words = ("generate", path, "--prompt", args.prompt, "--compute", args.compute, "--max-tokens")
    for _ in range(args.rounds):
        new, seconds = llama.greedy(tokens, args.tokens)
        best["llama"] = min(best["llama"], seconds / (len(new) - 1))
        one, few = zest(args, *words, "1")
        many, all = zest(args, *words, str(len(new)))
        best["zest"] = min(best["zest"], (all - few) / (len(new) - 1))
    text = "".join(llama.vocab.token_to_piece(token, 0, False) for token in new)
    row["same text"] = text.strip() == many["results"][0]["text"].strip()
    row["llama.cpp tokens/s"], row["zest tokens/s"] = 1 / best["llama"], 1 / best["zest"]
    row["zest / llama.cpp"] = best["llama"] / best["zest"]
    print(json.dumps(row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--zest", default="./zest")
    parser.add_argument("--prompt", default="Once upon a time")
    parser.add_argument("--text", help="text file for the perplexity; a few thousand bytes, since it is slow")
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--stride", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=65)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compute", default="f32")
    args = parser.parse_args()
    for path in args.files:
        compare(args, path)


if __name__ == "__main__":
    main()
