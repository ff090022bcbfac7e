#!/usr/bin/env python3
"""Log-probabilities of texts beside transformers, from the same file.

    pip install torch transformers gguf accelerate
    python3 bench/transformers_scores.py model.gguf sentences.txt

model.gguf is in f32 (`zest export MODEL --gguf model.gguf --type f32`). Every line of the second file is a text. zest's
are those of `zest score`; of transformers' logits the log-softmax is taken in fp64. The tokens are zest's for both.
"""
import argparse
import json
import os
import subprocess

import torch
import transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--zest", default="./zest")
    parser.add_argument("--count", type=int, default=50)
    args = parser.parse_args()
    texts = [line for line in open(args.texts, encoding="utf-8").read().splitlines() if line.strip()][:args.count]
    folder, name = os.path.split(os.path.abspath(args.model))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    scored = subprocess.run([args.zest, "score", args.model, "--json", "--quiet"], input="\n".join(texts) + "\n",
                            capture_output=True, text=True, check=True)
    worst, relative, tokens = 0.0, 0.0, 0
    for text, own in zip(texts, json.loads(scored.stdout)["results"]):
        ids = subprocess.run([args.zest, "tokenize", args.model, "--ids", "--text", text], capture_output=True,
                             text=True, check=True).stdout.split()
        ids = torch.tensor([[int(i) for i in ids]])
        with torch.no_grad():
            logits = model(ids).logits[0].double().log_softmax(-1)
        expected = logits[:-1].gather(1, ids[0, 1:, None]).sum().item()
        worst = max(worst, abs(own["log_probability"] - expected))
        relative = max(relative, abs(own["log_probability"] - expected) / abs(expected))
        tokens += own["tokens"]
    print(json.dumps({"texts": len(texts), "tokens": tokens, "largest difference": worst, "relative": relative}))


if __name__ == "__main__":
    main()
