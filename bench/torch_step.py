#!/usr/bin/env python3
"""The same ZEST step in PyTorch + transformers and in zest, in one run, and the ratio.

PyTorch does it as MeZO's trainer does: parameters perturbed in place from a reset seed (+rho, -2 rho, +rho), one forward
pass a sign, k directions, then one more sweep a direction for the update; batches padded to their longest sequence. Same
shape, batch, lengths, k, number type of the weights and threads. Needs torch and transformers; zest itself needs neither.

    python3 bench/torch_step.py --shape roberta-base --batch 64 --tokens 64 --threads 2
    python3 bench/torch_step.py --shape roberta-base --batch 64 --lengths sst2
    python3 bench/torch_step.py --shape opt-1.3b --batch 16 --tokens 256 --device cuda

On a GPU fp32 means fp32 (no tf32) for both.
"""
import argparse
import json
import os
import re
import subprocess
import time

import torch
from transformers import OPTConfig, OPTForCausalLM, RobertaConfig, RobertaForMaskedLM

SHAPES = {
    "roberta-base": lambda: RobertaForMaskedLM(RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1,
                                                             layer_norm_eps=1e-5)),
    "opt-125m": lambda: OPTForCausalLM(OPTConfig(vocab_size=50272, hidden_size=768, num_hidden_layers=12, ffn_dim=3072,
                                                 num_attention_heads=12, max_position_embeddings=2048, word_embed_proj_dim=768)),
    "opt-1.3b": lambda: OPTForCausalLM(OPTConfig(vocab_size=50272, hidden_size=2048, num_hidden_layers=24, ffn_dim=8192,
                                                 num_attention_heads=32, max_position_embeddings=2048,
                                                 word_embed_proj_dim=2048)),
}


def sst2_lengths(batch):
    """The table that `zest bench` uses, from its source."""
    source = open("cli/bench.c").read()
    table = [int(n) for n in re.findall(r"\d+", re.search(r"sst2\[64\] = \{(.*?)\}", source, re.S).group(1))]
    return [table[37 * i % 64] for i in range(batch)]


def perturb(parameters, seed, scale):
    torch.manual_seed(seed)
    for p in parameters:
        p.data.add_(torch.normal(0, 1, size=p.size(), dtype=p.dtype, device=p.device), alpha=scale)


def step(loss, parameters, k, rho, t, lr):
    seeds = torch.randint(0, 1 << 30, (k,)).tolist()
    plus, minus = [], []
    for seed in seeds:
        perturb(parameters, seed, rho)
        plus.append(loss().item())
        perturb(parameters, seed, -2 * rho)
        minus.append(loss().item())
        perturb(parameters, seed, rho)
    weights = torch.softmax(t * torch.tensor(plus + minus, dtype=torch.float64), 0)
    for seed, w in zip(seeds, (weights[:k] - weights[k:]).tolist()):
        perturb(parameters, seed, -lr * w / (t * rho))


def make_loss(model, lengths, masked, device):
    longest = max(lengths)
    ids = torch.randint(10, 50000, (len(lengths), longest)).to(device)
    mask = torch.tensor([[1] * n + [0] * (longest - n) for n in lengths]).to(device)
    rows = torch.arange(len(lengths)).to(device)
    if masked:
        places, words = torch.tensor([n // 2 for n in lengths]).to(device), torch.tensor([372, 6587]).to(device)
        labels = rows % 2

        def loss():
            hidden = model.roberta(ids, attention_mask=mask).last_hidden_state[rows, places]
            return torch.nn.functional.cross_entropy(model.lm_head(hidden)[:, words].float(), labels)
    else:
        labels = ids.clone()
        for row, n in enumerate(lengths):
            labels[row, : max(1, n - 8)] = -100
            labels[row, n:] = -100

        def loss():
            logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
            return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1),
                                                     ignore_index=-100)
    return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="roberta-base", choices=sorted(SHAPES))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--lengths", default="equal", choices=["equal", "sst2"])
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--type", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--zest", default=os.environ.get("ZEST", "./zest"), help="the program")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    model = SHAPES[arguments.shape]().to(torch.bfloat16 if arguments.type == "bf16" else torch.float32).eval().to(arguments.device)
    lengths = sst2_lengths(arguments.batch) if arguments.lengths == "sst2" else [arguments.tokens] * arguments.batch
    loss = make_loss(model, lengths, "roberta" in arguments.shape, arguments.device)
    parameters = list(model.parameters())
    command = [arguments.zest, "bench", "step", "--shape", arguments.shape, "--batch", str(arguments.batch), "--tokens",
               str(arguments.tokens), "--lengths", arguments.lengths, "-k", str(arguments.k), "--compute", arguments.type,
               "--threads", str(arguments.threads), "--device", arguments.device, "--json"]
    wait = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None
    step(loss, parameters, 1, 1e-3, 1.0, 1e-9)  # warm up
    torch_best, zest_best, report = float("inf"), float("inf"), {}
    for _ in range(arguments.rounds):
        wait()
        began = time.perf_counter()
        step(loss, parameters, arguments.k, 1e-3, 1.0, 1e-9)
        wait()
        torch_best = min(torch_best, time.perf_counter() - began)
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        if answer["seconds_per_step"] < zest_best:
            zest_best, report = answer["seconds_per_step"], answer
    print(json.dumps({"shape": arguments.shape, "batch": arguments.batch, "tokens": sum(lengths), "padded": max(lengths) * len(lengths),
                      "k": arguments.k, "type": arguments.type, "threads": arguments.threads, "device": arguments.device, "torch": torch.__version__,
                      "torch_seconds": round(torch_best, 4), "zest_seconds": round(zest_best, 4),
                      "ratio": round(torch_best / zest_best, 2), "peak_fraction": round(report["peak_fraction"], 3)}))


if __name__ == "__main__":
    main()
