#!/usr/bin/env python3
"""Loss and gradient of one batch in PyTorch + transformers and in zest, in one run, and the ratio.

Same shape, batch, objective (two label words at one position of every sequence; causal models: 8 answer tokens, over the
whole vocabulary), number type and threads; eval mode, so no dropout. PyTorch runs the model in that type; its gradients are in
that type too, zest's are float32. Needs torch and transformers; build/bench/grad must be built (make bench).

    python3 bench/torch_grad.py --shape roberta-base --batch 64 --tokens 64 --threads 2
"""
import argparse
import json
import subprocess
import time

import torch

from torch_step import SHAPES


def make_loss(model, batch, tokens, masked):
    ids = torch.randint(10, 50000, (batch, tokens))
    rows, labels = torch.arange(batch), torch.arange(batch) % 2
    words, place = torch.tensor([372, 6587]), tokens // 2
    answers = min(8, tokens - 1)

    def loss():
        if masked:
            hidden = model.roberta(ids).last_hidden_state[rows, place]
            return torch.nn.functional.cross_entropy(model.lm_head(hidden)[:, words].float(), labels)
        hidden = model.model(input_ids=ids)[0][:, -answers - 1:-1]
        logits = model.lm_head(hidden).float()
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), ids[:, -answers:].reshape(-1))
    return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="roberta-base", choices=["roberta-base", "opt-125m"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--type", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--zest", default="build/bench/grad")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model = SHAPES[arguments.shape]().to(torch.bfloat16 if arguments.type == "bf16" else torch.float32).eval()
    loss = make_loss(model, arguments.batch, arguments.tokens, "roberta" in arguments.shape)
    command = [arguments.zest, arguments.shape, str(arguments.batch), str(arguments.tokens), arguments.type,
               str(arguments.threads)]
    torch_best, zest_best, report = float("inf"), float("inf"), {}
    for turn in range(arguments.rounds + 1):
        model.zero_grad()
        began = time.perf_counter()
        loss().backward()
        if not turn:
            continue  # warm up
        torch_best = min(torch_best, time.perf_counter() - began)
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        if answer["seconds"] < zest_best:
            zest_best, report = answer["seconds"], answer
    print(json.dumps({"shape": arguments.shape, "batch": arguments.batch, "tokens": arguments.tokens, "type": arguments.type,
                      "threads": arguments.threads, "torch": torch.__version__, "torch_seconds": round(torch_best, 3),
                      "zest_seconds": round(zest_best, 3), "ratio": round(torch_best / zest_best, 2),
                      "ceiling_fraction": round(report["ceiling_fraction"], 3)}))


if __name__ == "__main__":
    main()
