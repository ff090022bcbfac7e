#!/usr/bin/env python3
"""Makes grad.safetensors beside every tiny model of tests/data/models: gradients by the reference implementation.

    pip install torch transformers safetensors
    python3 tools/golden_grad.py tests/data/models

For each objective (words, tokens, options; causal models have the last two) on the batch of golden.safetensors:
  OBJECTIVE            the mean loss
  OBJECTIVE/TENSOR     norm and sum of the gradient, then its elements number j·2654435761 mod count, j = 0 .. 15
The weights are the stored ones, the arithmetic is float64 (norms of the Llama family: float32 inside). For options the two
sequences with targets are the options of one example, and the second is right."""

import os
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

SAMPLES = 16


def load(folder, name):
    masked = name.startswith(("roberta", "bert", "distilbert", "modernbert"))
    kind = transformers.AutoModelForMaskedLM if masked else transformers.AutoModelForCausalLM
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").double().eval(), masked


def losses(model, golden, masked, types):
    """Mean losses as functions of the weights, by the objective's name."""
    starts = golden["starts"].tolist()
    sequences = [golden["tokens"][a:b].long() for a, b in zip(starts, starts[1:])]
    kinds = [golden["types"][a:b].long() for a, b in zip(starts, starts[1:])]
    extra = [dict(token_type_ids=k[None]) if types else {} for k in kinds]
    logits = [model(input_ids=s[None], **e).logits[0] for s, e in zip(sequences, extra)]
    words, rows, answers = golden["words"].long(), golden["rows"].tolist(), golden["answers"].long()
    picked = torch.stack([l[r, words] for l, r in zip(logits, rows)])
    out = {"words": torch.nn.functional.cross_entropy(picked, answers)}
    if masked:
        return out
    logs, lengths = [], []
    for l, s, n in zip(logits, sequences, golden["targets"].tolist()):
        if n:
            place = torch.arange(len(s) - n - 1, len(s) - 1)
            logs.append(torch.log_softmax(l, 1)[place, s[len(s) - n:]])
            lengths.append(n)
    out["tokens"] = -torch.cat(logs).sum() / sum(lengths)
    scores = torch.stack([log.mean() for log in logs])
    out["options"] = torch.nn.functional.cross_entropy(scores[None], torch.tensor([1]))
    return out


def summary(gradient):
    flat = gradient.reshape(-1)
    picked = [flat[j * 2654435761 % len(flat)] for j in range(SAMPLES)]
    return torch.stack([flat.norm(), flat.sum(), *picked])


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "tests/data/models"
    for name in sorted(os.listdir(root)):
        folder = os.path.join(root, name)
        if not os.path.isfile(os.path.join(folder, "golden.safetensors")):
            continue
        model, masked = load(folder, name)
        golden = load_file(os.path.join(folder, "golden.safetensors"))
        out = {}
        for objective, loss in losses(model, golden, masked, name == "bert").items():
            model.zero_grad()
            loss.backward(retain_graph=True)
            out[objective] = loss.detach().reshape(1)
            for tensor, parameter in model.named_parameters():
                if parameter.grad is None:
                    continue
                if name.startswith("neox"):
                    tensor = tensor.replace("lm_head.", "embed_out.")  # as published files call it
                out[f"{objective}/{tensor}"] = summary(parameter.grad)
        path = os.path.join(folder, "grad.safetensors")
        save_file({key: value.contiguous() for key, value in out.items()}, path)
        os.chmod(path, 0o644)


if __name__ == "__main__":
    main()
