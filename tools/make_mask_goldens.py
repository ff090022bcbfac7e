#!/usr/bin/env python3
"""Writes tests/data/chat/masks.jsonl: conversations with their tokens and the loss mask of transformers, for
tests/test_chat_mask.c. Needs PyPI transformers and jinja2. Not needed to build or to test.

The template is tests/data/chat/generation.jinja, the tokenizer tests/data/families/qwen-3.json with <|im_end|> as a special
token. Lines: "messages"; "ids" and "mask" of apply_chat_template(..., return_assistant_tokens_mask=True).
"""
import json
import random

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

WORDS = ["Aye", "ships", " and", "\n", "  two", "é", "12345", "日本語", "😀", "it's", "...", "<|im_start|>", "</think>", "don't", "\t", "Ünï", "—", "x=1;"]


def text(rng):
    return "".join(rng.choice(WORDS) + rng.choice(["", " "]) for _ in range(rng.randint(1, 8)))


def main():
    rng = random.Random(7)
    inner = Tokenizer.from_file("tests/data/families/qwen-3.json")
    inner.add_special_tokens([AddedToken("<|im_end|>")])
    tok = PreTrainedTokenizerFast(tokenizer_object=inner)
    tok.chat_template = open("tests/data/chat/generation.jinja", encoding="utf-8").read()
    with open("tests/data/chat/masks.jsonl", "w", encoding="utf-8") as out:
        for _ in range(120):
            messages = [{"role": "system", "content": text(rng)}] if rng.random() < 0.3 else []
            for _ in range(rng.randint(1, 3)):
                messages += [{"role": "user", "content": text(rng)}, {"role": "assistant", "content": text(rng)}]
            made = tok.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
            line = {"messages": messages, "ids": made["input_ids"], "mask": made["assistant_masks"]}
            out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
