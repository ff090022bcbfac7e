#!/usr/bin/env python3
"""Speed of encoding beside Hugging Face tokenizers, or sentencepiece for .model files, on one core in one run.

  bench/tokenizer.py TEXT TOKENIZER...     after `make build/bench/tokenizer`; a TOKENIZER is a tokenizer.json or a .model

MB/s of processor time for the whole text in one call, and line by line. Both libraries get the same text; the answers are
compared by their number of tokens. Needs PyPI tokenizers, and sentencepiece for .model files.
"""
import os
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"


def reference(path):
    if path.endswith(".model"):
        import sentencepiece
        sp = sentencepiece.SentencePieceProcessor(model_file=path)
        return lambda text: len(sp.encode(text))
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(path)
    tok.no_padding()
    tok.no_truncation()
    return lambda text: len(tok.encode(text, add_special_tokens=False).ids)


def measure(encode, parts, size):
    passes, tokens, start = 0, 0, time.thread_time()
    while time.thread_time() - start < 1.0:
        tokens = sum(encode(part) for part in parts)
        passes += 1
    return 1e-6 * size * passes / (time.thread_time() - start), tokens


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    raw = open(sys.argv[1], "rb").read()
    text = raw.decode()
    lines = text.splitlines(keepends=True)
    print("| tokenizer | whole: zest | reference | ratio | lines: zest | reference | ratio |\n|---|---|---|---|---|---|---|")
    for path in sys.argv[2:]:
        encode = reference(path)
        rows = [measure(encode, parts, len(raw)) for parts in ([text], lines)]
        out = subprocess.run(["build/bench/tokenizer", path, sys.argv[1]], check=True, capture_output=True, text=True).stdout
        mine = [line.split()[2:] for line in out.splitlines() if line.startswith("encode")]
        mine = [row[1:] if row[0] == "lines" else row for row in mine]  # "by lines" is two words
        cells = [os.path.basename(path)]
        for ours, (speed, tokens) in zip(mine, rows):
            if int(ours[2]) != tokens:
                print(f"{path}: {ours[2]} tokens, and {tokens} of the reference", file=sys.stderr)
            cells += [f"{float(ours[0]):.1f}", f"{speed:.1f}", f"{float(ours[0]) / speed:.1f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


main()
