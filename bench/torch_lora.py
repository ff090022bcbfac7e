#!/usr/bin/env python3
"""LoRA with AdamW in PyTorch beside a ZEST step, in one run: memory and time of one step on a GPU.

LoRA as in MeZO's comparison: rank 8, alpha 16, on the query and value matrices; the base model is frozen in --type, the
adapters and AdamW's moments are fp32, no dropout, no recomputation of activations. Both sides: the same shape, batch and
lengths. Memory is what each program allocated on the GPU; what the driver keeps for itself is in neither figure.
A ZEST step is 2k forward passes, a LoRA step one forward and one backward pass, so a step is not the same progress:
docs/results.md compares accuracy.

    python3 bench/torch_lora.py --shape roberta-base --batch 64 --tokens 64
    python3 bench/torch_lora.py --shape opt-1.3b --batch 16 --tokens 256
"""
import argparse
import json
import os
import subprocess
import time

import torch
from torch_step import SHAPES, make_loss, sst2_lengths


class Lora(torch.nn.Module):
    """y = W x + (alpha / r) B A x"""

    def __init__(self, base, rank=8, alpha=16):
        super().__init__()
        self.base, self.scale = base, alpha / rank
        device = base.weight.device
        self.a = torch.nn.Parameter(torch.randn(rank, base.in_features, device=device) / rank)
        self.b = torch.nn.Parameter(torch.zeros(base.out_features, rank, device=device))

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.a.to(x.dtype).T) @ self.b.to(x.dtype).T


def add_lora(model):
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for module in list(model.modules()):
        for name in ("query", "value", "q_proj", "v_proj"):
            if isinstance(getattr(module, name, None), torch.nn.Linear):
                setattr(module, name, Lora(getattr(module, name)))
    return [p for p in model.parameters() if p.requires_grad]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="roberta-base", choices=sorted(SHAPES))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--lengths", default="equal", choices=["equal", "sst2"])
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--live", type=int, default=0)
    parser.add_argument("--type", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--zest", default=os.environ.get("ZEST", "./zest"), help="the program")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    dtype = torch.bfloat16 if arguments.type == "bf16" else torch.float32
    model = SHAPES[arguments.shape]().to(dtype).eval().to("cuda")
    lengths = sst2_lengths(arguments.batch) if arguments.lengths == "sst2" else [arguments.tokens] * arguments.batch
    adapters = add_lora(model)
    loss = make_loss(model, lengths, "roberta" in arguments.shape, "cuda")
    optimizer = torch.optim.AdamW(adapters, lr=1e-4)

    def step():
        loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    command = [arguments.zest, "bench", "step", "--shape", arguments.shape, "--batch", str(arguments.batch), "--tokens",
               str(arguments.tokens), "--lengths", arguments.lengths, "-k", str(arguments.k), "--compute", arguments.type,
               "--live", str(arguments.live), "--device", "cuda", "--json"]
    step()
    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    lora, zest = float("inf"), None
    for _ in range(arguments.rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(5):
            step()
        torch.cuda.synchronize()
        lora = min(lora, (time.perf_counter() - began) / 5)
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        if zest is None or answer["seconds_per_step"] < zest["seconds_per_step"]:
            zest = answer
    print(json.dumps({"shape": arguments.shape, "batch": arguments.batch, "tokens": sum(lengths), "type": arguments.type,
                      "torch": torch.__version__, "trained": sum(p.numel() for p in adapters),
                      "lora_seconds": round(lora, 4), "lora_mib": round(torch.cuda.max_memory_allocated() / 2**20),
                      "k": arguments.k, "live_pairs": zest["live_pairs"], "zest_seconds": round(zest["seconds_per_step"], 4),
                      "zest_mib": round(zest["peak_bytes"] / 2**20), "time_ratio": round(zest["seconds_per_step"] / lora, 2),
                      "memory_ratio": round(torch.cuda.max_memory_allocated() / zest["peak_bytes"], 2)}))


if __name__ == "__main__":
    main()
