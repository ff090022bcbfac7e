#!/usr/bin/env python3
"""Makes tests/data/gguf/: a small GGUF file with every kind of value and every tensor type that zest reads, and
the floats that the format's reference implementation (the Python package gguf) makes of those tensors.

    pip install gguf numpy
    python3 tools/make_gguf_goldens.py tests/data/gguf

goldens.gguf   blocks of random bytes, with sane scales (some zero, some subnormal), and rotary matrices
goldens.f32    the tensors as floats, one after the other, in the order of the file
rotary.f32     attn_q, attn_k and the bias of attn_q as they were before the converter's permutation
blocks.gguf    floats (also with rows of zeros, of one value, and of tiny and large values), and the same as blocks of
               the types that the package can quantise
Neither building nor testing zest needs this script.
"""
import os
import sys

import gguf
import numpy as np

Q = gguf.GGMLQuantizationType
ROWS, COLUMNS = 3, 512
# Where the f16 scales lie in a block.
SCALES = {Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q8_0: [0],
          Q.Q2_K: [80, 82], Q.Q3_K: [108], Q.Q4_K: [0, 2], Q.Q5_K: [0, 2], Q.Q6_K: [208]}
QUANTISED = [Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0]


def scales(rng, count):
    values = rng.normal(0, 0.02, count).astype(np.float16)
    values[::7] = np.float16(3e-7)  # subnormal
    values[3::11] = np.float16(-0.0)
    values[5::13] = np.float16(65504)
    return values


def random_blocks(rng, kind):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (ROWS * COLUMNS // elements, size), dtype=np.uint8)
    for at in SCALES[kind]:
        blocks[:, at:at + 2] = scales(rng, len(blocks)).view(np.uint8).reshape(-1, 2)
    return blocks.reshape(ROWS, -1)


def permute(weights, heads):
    """Half-split rotary layout of Hugging Face -> interleaved pairs, as GGUF converters for "llama" do."""
    half = weights.shape[0] // heads // 2
    return weights.reshape(heads, 2, half, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def add_values(writer):
    writer.add_uint8("test.u8", 200)
    writer.add_int8("test.i8", -100)
    writer.add_uint16("test.u16", 60000)
    writer.add_int16("test.i16", -30000)
    writer.add_uint32("test.u32", 4000000000)
    writer.add_int32("test.i32", -2000000000)
    writer.add_uint64("test.u64", 2**64 - 1)
    writer.add_int64("test.i64", -2**63)
    writer.add_float32("test.f32", 0.1)
    writer.add_float64("test.f64", 0.1)
    writer.add_bool("test.yes", True)
    writer.add_bool("test.no", False)
    writer.add_string("test.string", "grüße")
    writer.add_array("test.strings", ["", "a", "▁the", "x" * 300])
    writer.add_array("test.numbers", [1, -2, 3])
    writer.add_array("test.reals", [0.5, -1.5])
    writer.add_array("test.flags", [True, False, True])
    writer.add_array("test.nested", [[1, 2], [3], [4, 5, 6]])


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_blocks(folder, rng):
    writer = gguf.GGUFWriter(os.path.join(folder, "blocks.gguf"), "llama")
    floats = rng.normal(0, 0.05, (8, 256)).astype(np.float32)
    floats[1] = 0
    floats[2] = 0.37
    floats[3] *= 1e-6
    floats[4] *= 1e4
    floats[5] = np.round(floats[5] * 40) / 8  # ties
    floats[6, ::3] = 0
    floats[7, 17] = -3
    writer.add_tensor("f32", floats)
    for kind in QUANTISED:
        writer.add_tensor(kind.name.lower(), gguf.quantize(floats, kind), raw_dtype=kind)
    finish(writer)


def main(folder):
    rng = np.random.default_rng(20260101)
    os.makedirs(folder, exist_ok=True)
    writer = gguf.GGUFWriter(os.path.join(folder, "goldens.gguf"), "llama")
    add_values(writer)
    floats = []
    plain = rng.normal(0, 1, (ROWS, 37)).astype(np.float32)
    writer.add_tensor("f32", plain)
    floats.append(plain)
    halves = np.concatenate([rng.normal(0, 1, 61), [1e-7, -6e-8, 65504]]).astype(np.float16).reshape(2, 2, 16)
    writer.add_tensor("f16", halves)
    floats.append(halves.astype(np.float32))
    brains = gguf.quantize(rng.normal(0, 1, (ROWS, 33)).astype(np.float32), Q.BF16)
    writer.add_tensor("bf16", brains, raw_dtype=Q.BF16)
    floats.append(gguf.dequantize(brains, Q.BF16))
    for kind in SCALES:
        blocks = random_blocks(rng, kind)
        writer.add_tensor(kind.name.lower(), blocks, raw_dtype=kind)
        floats.append(gguf.dequantize(blocks, kind))
    real = gguf.quantize(rng.normal(0, 0.02, (ROWS, 64)).astype(np.float32), Q.Q8_0)
    writer.add_tensor("quantised", real, raw_dtype=Q.Q8_0)
    floats.append(gguf.dequantize(real, Q.Q8_0))
    query, key, bias = (rng.normal(0, 1, shape).astype(np.float32) for shape in [(24, 5), (12, 5), (24,)])
    for name, weights, heads in [("blk.0.attn_q.weight", query, 4), ("blk.0.attn_k.weight", key, 2),
                                 ("blk.0.attn_q.bias", bias, 4)]:
        writer.add_tensor(name, permute(weights, heads))
        floats.append(permute(weights, heads))
    finish(writer)
    make_blocks(folder, rng)
    flat = np.concatenate([f.astype(np.float32).ravel() for f in floats])
    assert np.isfinite(flat).all()
    flat.tofile(os.path.join(folder, "goldens.f32"))
    np.concatenate([query.ravel(), key.ravel(), bias.ravel()]).tofile(os.path.join(folder, "rotary.f32"))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tests/data/gguf")
