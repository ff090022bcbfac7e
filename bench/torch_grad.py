#!/usr/bin/env python3
"""Loss and gradient of one batch in PyTorch + transformers and in zest, in one run, and the ratio.

Same shape, batch, objective (two label words at one position of every sequence; causal models: 8 answer tokens, over the
whole vocabulary), number type and threads; eval mode, so no dropout; PyTorch's own fused attention. PyTorch runs the model in
that type; its gradients are in that type too, zest's are float32. Needs torch and transformers; build/bench/grad must be
built (make bench). On a GPU some steps are timed in a row, the best of some rounds counts; fp32 means fp32 (no tf32) for both.

    python3 bench/torch_grad.py --shape roberta-base --batch 64 --tokens 64 --threads 2
    python3 bench/torch_grad.py --shape roberta-base --batch 64 --tokens 64 --device cuda
"""
import argparse
import json
import subprocess
import time

import torch

from torch_step import SHAPES


def make_loss(model, batch, tokens, masked, device):
    ids = torch.randint(10, 50000, (batch, tokens)).to(device)
    rows = torch.arange(batch).to(device)
    labels, words, place = rows % 2, torch.tensor([372, 6587]).to(device), tokens // 2
    answers = min(8, tokens - 1)

    def loss():
        if masked:
            hidden = model.roberta(ids).last_hidden_state[rows, place]
            return torch.nn.functional.cross_entropy(model.lm_head(hidden)[:, words].float(), labels)
        hidden = model.model(input_ids=ids)[0][:, -answers - 1:-1]
        logits = model.lm_head(hidden).float()
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), ids[:, -answers:].reshape(-1))
    return loss


def time_torch(model, loss, cuda):
    """Seconds of one step."""
    passes = 10 if cuda else 1
    wait = torch.cuda.synchronize if cuda else lambda: None
    wait()
    began = time.perf_counter()
    for _ in range(passes):
        model.zero_grad()
        loss().backward()
    wait()
    return (time.perf_counter() - began) / passes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="roberta-base", choices=["roberta-base", "opt-125m"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--type", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--zest", default="build/bench/grad")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    model = SHAPES[arguments.shape]().to(torch.bfloat16 if arguments.type == "bf16" else torch.float32).eval().to(arguments.device)
    loss = make_loss(model, arguments.batch, arguments.tokens, "roberta" in arguments.shape, arguments.device)
    cuda = arguments.device == "cuda"
    command = [arguments.zest, arguments.shape, str(arguments.batch), str(arguments.tokens), arguments.type,
               str(arguments.threads), "--device", arguments.device]
    torch_best, zest_best, report = float("inf"), float("inf"), {}
    for turn in range(arguments.rounds + 1):
        seconds = time_torch(model, loss, cuda)
        if not turn:
            continue  # warm up
        torch_best = min([torch_best, seconds] + [time_torch(model, loss, cuda) for _ in range(4 if cuda else 0)])
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        if answer["seconds"] < zest_best:
            zest_best, report = answer["seconds"], answer
    print(json.dumps({"shape": arguments.shape, "batch": arguments.batch, "tokens": arguments.tokens, "type": arguments.type,
                      "threads": arguments.threads, "torch": torch.__version__, "device": arguments.device,
                      "attention": model.config._attn_implementation, "torch_seconds": round(torch_best, 5),
                      "zest_seconds": round(zest_best, 5), "ratio": round(torch_best / zest_best, 2),
                      "peak_fraction": round(report["peak_fraction"], 3)}))


if __name__ == "__main__":
    main()
