#!/usr/bin/env python3
"""Makes tests/data/models: tiny random models of every family, and what the reference implementation says about them.

    pip install torch transformers safetensors gguf
    python3 tools/make_model_goldens.py tests/data/models

Every folder holds config.json and model.safetensors as a published model would, and golden.safetensors with
  tokens, starts, types     a packed batch
  hidden_0 .. hidden_L      hidden states: embeddings, then behind every layer (the last: what the head sees)
  logits                    of every row
  words, rows, answers      label words, one row a sequence, the right word
  word_logits, word_losses
  targets                   the last tokens of every sequence are the targets: how many
  token_losses              minus their log-likelihood, a sum a sequence (causal models)
  generated                 greedy continuation of the first sequence (causal models)
All arithmetic is float32 on the values as stored. llama.gguf and qwen2.gguf are the models of the same name as llama.cpp's
converter would write them."""

import json
import os
import sys

import numpy
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

VOCABULARY, WIDTH, INNER = 96, 32, 48

BERT_LIKE = dict(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4,
                 intermediate_size=INNER, hidden_act="gelu", max_position_embeddings=34, layer_norm_eps=1e-5)
OPT = dict(model_type="opt", architectures=["OPTForCausalLM"], vocab_size=VOCABULARY, hidden_size=WIDTH,
           num_hidden_layers=2, num_attention_heads=4, ffn_dim=INNER, max_position_embeddings=32,
           activation_function="relu", bos_token_id=2, eos_token_id=2, pad_token_id=1)
LLAMA = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=VOCABULARY, hidden_size=WIDTH,
             num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=INNER,
             hidden_act="silu", max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)
GEMMA = dict(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=INNER, hidden_activation="gelu_pytorch_tanh",
             max_position_embeddings=64, rms_norm_eps=1e-6, sliding_window=5, tie_word_embeddings=True, bos_token_id=2,
             eos_token_id=1, pad_token_id=0)
NEOX = dict(model_type="gpt_neox", architectures=["GPTNeoXForCausalLM"], vocab_size=VOCABULARY, hidden_size=WIDTH,
            num_hidden_layers=2, num_attention_heads=2, intermediate_size=INNER, hidden_act="gelu",
            max_position_embeddings=64, layer_norm_eps=1e-5, rotary_pct=0.25, rotary_emb_base=10000,
            use_parallel_residual=True, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0)
MODERNBERT = dict(model_type="modernbert", architectures=["ModernBertForMaskedLM"], vocab_size=VOCABULARY,
                  hidden_size=WIDTH, num_hidden_layers=3, num_attention_heads=4, intermediate_size=24,
                  hidden_activation="gelu", max_position_embeddings=64, norm_eps=1e-5, norm_bias=False,
                  attention_bias=False, mlp_bias=False, local_attention=6, global_attn_every_n_layers=2,
                  global_rope_theta=160000.0, local_rope_theta=100.0, classifier_bias=False,
                  classifier_activation="gelu", decoder_bias=True, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                  cls_token_id=1, sep_token_id=2, tie_word_embeddings=True)

# name -> (config.json, stored type)
MODELS = {
    "roberta": (dict(BERT_LIKE, model_type="roberta", architectures=["RobertaForMaskedLM"], type_vocab_size=1,
                     pad_token_id=1, bos_token_id=0, eos_token_id=2), torch.float32),
    "roberta-untied": (dict(BERT_LIKE, model_type="roberta", architectures=["RobertaForMaskedLM"], type_vocab_size=1,
                            pad_token_id=1, tie_word_embeddings=False), torch.bfloat16),
    "bert": (dict(BERT_LIKE, model_type="bert", architectures=["BertForMaskedLM"], type_vocab_size=2, pad_token_id=0,
                  layer_norm_eps=1e-12), torch.bfloat16),
    "opt": (dict(OPT, do_layer_norm_before=True, word_embed_proj_dim=WIDTH), torch.float32),
    "opt-350m": (dict(OPT, do_layer_norm_before=False, word_embed_proj_dim=16), torch.float16),
    "gpt2": (dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=2,
                  n_head=4, n_positions=32, n_inner=None, activation_function="gelu_new", layer_norm_epsilon=1e-5,
                  bos_token_id=95, eos_token_id=95), torch.float16),
    "llama": (dict(LLAMA, rope_theta=10000.0, rope_scaling=None, tie_word_embeddings=False), torch.float32),
    "llama3": (dict(LLAMA, num_key_value_heads=1, head_dim=16, tie_word_embeddings=True,
                    rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0,
                                         high_freq_factor=4.0, original_max_position_embeddings=16)), torch.bfloat16),
    "qwen2": (dict(LLAMA, model_type="qwen2", architectures=["Qwen2ForCausalLM"], rope_theta=1000000.0,
                   rms_norm_eps=1e-6, tie_word_embeddings=True, use_sliding_window=False, sliding_window=16),
              torch.bfloat16),
    "distilbert": (dict(model_type="distilbert", architectures=["DistilBertForMaskedLM"], vocab_size=VOCABULARY, dim=WIDTH,
                        n_layers=2, n_heads=4, hidden_dim=INNER, max_position_embeddings=34, activation="gelu",
                        pad_token_id=0), torch.float32),
    "yarn": (dict(LLAMA, head_dim=16, tie_word_embeddings=True, max_position_embeddings=64,
                  rope_parameters=dict(rope_type="yarn", rope_theta=500.0, factor=4.0, beta_fast=4.0, beta_slow=1.0,
                                       original_max_position_embeddings=16)), torch.float32),
    "qwen3": (dict(LLAMA, model_type="qwen3", architectures=["Qwen3ForCausalLM"], head_dim=12, rope_theta=1000000.0,
                   rms_norm_eps=1e-6, tie_word_embeddings=True, attention_bias=False, use_sliding_window=False),
              torch.float32),
    "phi3": (dict(LLAMA, model_type="phi3", architectures=["Phi3ForCausalLM"], rope_theta=10000.0, pad_token_id=0,
                  sliding_window=31, tie_word_embeddings=False), torch.bfloat16),
    "neox": (dict(NEOX), torch.bfloat16),
    "neox-serial": (dict(NEOX, use_parallel_residual=False, rotary_pct=1.0, rotary_emb_base=500,
                         tie_word_embeddings=True), torch.float16),
    "modernbert": (dict(MODERNBERT), torch.bfloat16),
    "gemma2": (dict(GEMMA, model_type="gemma2", architectures=["Gemma2ForCausalLM"], head_dim=12,
                    query_pre_attn_scalar=20, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
                    rope_theta=10000.0), torch.bfloat16),
    "gemma3": (dict(GEMMA, model_type="gemma3_text", architectures=["Gemma3ForCausalLM"], num_hidden_layers=3,
                    num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16, sliding_window_pattern=3,
                    rope_theta=1000000.0, rope_local_base_freq=100.0,
                    rope_scaling=dict(rope_type="linear", factor=8.0)), torch.bfloat16),
    "mistral": (dict(LLAMA, model_type="mistral", architectures=["MistralForCausalLM"], head_dim=12, rope_theta=10000.0,
                     sliding_window=5, tie_word_embeddings=False), torch.bfloat16),
}
MASKED = {"roberta", "bert", "distilbert", "modernbert"}


def build(config, dtype):
    """A model with every number random: fresh models have zero biases and unit norms, which would hide mistakes."""
    arguments = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    settings = CONFIG_MAPPING[config["model_type"]](**arguments)
    settings._attn_implementation = "eager"
    kind = AutoModelForMaskedLM if config["model_type"] in MASKED else AutoModelForCausalLM
    model = kind.from_config(settings).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale, shift = (0.3, 1.0) if "norm" in name.lower() or "ln_" in name else (0.25, 0.0)
            if "gemma" in config["model_type"]:
                shift = 0.0  # the gain is 1 more than what is stored
            value = torch.randn(parameter.shape) * scale + (shift if name.endswith("weight") else 0.0)
            parameter.copy_(value.to(dtype).float())
    model.tie_weights()
    return model


def file_names(kind, state):
    """Names as published files spell them: GPT-2 without its prefix, old BERTs with gamma and beta and a pooler."""
    out = {}
    for name, value in state.items():
        if kind == "gpt2":
            name = name.removeprefix("transformer.")
        if kind.startswith("neox") and name == "lm_head.weight":
            name = "embed_out.weight"
        if kind == "bert":
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        out[name] = value
    if kind == "bert":
        out["bert.pooler.dense.weight"] = torch.zeros(WIDTH, WIDTH, dtype=torch.bfloat16)
        out["bert.embeddings.position_ids"] = torch.arange(34).unsqueeze(0)
    return out


def stored(model, name, config, dtype):
    tied = config.get("tie_word_embeddings", config["model_type"] not in ("llama", "qwen2", "qwen3", "phi3", "mistral",
                                                                 "gpt_neox"))
    state = {}
    for key, value in model.state_dict().items():
        if tied and key in ("lm_head.weight", "lm_head.decoder.weight", "cls.predictions.decoder.weight",
                            "vocab_projector.weight", "decoder.weight"):
            continue
        if tied and key in ("lm_head.decoder.bias", "cls.predictions.decoder.bias"):
            continue
        state[key] = value.to(dtype).contiguous().clone()
    return file_names(name, state)


def golden(model, config, generator):
    lengths = [7, 1, 12]
    tokens = [torch.randint(3, VOCABULARY, (n,), generator=generator) for n in lengths]
    types = [torch.randint(0, 2, (n,), generator=generator) for n in lengths]
    rows = torch.tensor([5, 0, 3])
    words, answers = torch.tensor([17, 5, 40]), torch.tensor([2, 0, 1])
    starts = numpy.cumsum([0] + lengths)
    logits, hidden, out = [], [], {}
    for sequence, kinds in zip(tokens, types):
        extra = dict(token_type_ids=kinds[None]) if config["model_type"] == "bert" else {}
        with torch.no_grad():
            answer = model(input_ids=sequence[None], output_hidden_states=True, **extra)
        logits.append(answer.logits[0])
        hidden.append([h[0] for h in answer.hidden_states])
    for i in range(len(hidden[0])):
        out[f"hidden_{i}"] = torch.cat([h[i] for h in hidden])
    out["logits"] = torch.cat(logits)
    picked = torch.stack([l[r, words] for l, r in zip(logits, rows)]).double()
    out["word_logits"] = picked
    out["word_losses"] = -torch.log_softmax(picked, 1)[torch.arange(3), answers]
    targets = [3, 0, 5]
    if config["model_type"] not in MASKED:
        out["token_losses"] = torch.tensor(
            [-sum(torch.log_softmax(l.double(), 1)[len(t) - n - 1 + i, t[len(t) - n + i]] for i in range(n))
             for l, t, n in zip(logits, tokens, targets)], dtype=torch.float64)
        text = tokens[0][None]
        for _ in range(10):
            with torch.no_grad():
                text = torch.cat([text, model(input_ids=text).logits[:, -1].argmax(-1, keepdim=True)], 1)
        out["generated"] = text[0, lengths[0]:].int()
    for key, value in dict(tokens=torch.cat(tokens), types=torch.cat(types), starts=torch.tensor(starts), words=words,
                           rows=rows, answers=answers, targets=torch.tensor(targets)).items():
        out[key] = value.int()
    return {key: value.contiguous() for key, value in out.items()}


GGUF_NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
              "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
              "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write_gguf(path, config, state, matrices):
    """matrices: numpy type of the matrices; vectors are float32, as the converter has them."""
    import gguf
    kind = config["model_type"]
    writer = gguf.GGUFWriter(path, kind)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    for name, value in state.items():
        array = value.float().numpy()
        heads = dict(q=config["num_attention_heads"], k=config["num_key_value_heads"])
        for letter, count in heads.items():
            if kind == "llama" and f"self_attn.{letter}_proj" in name:
                array = array.reshape(count, 2, -1, array.shape[-1]).swapaxes(1, 2).reshape(array.shape)
        stem, end = name.rsplit(".", 1)
        if stem.startswith("model.layers."):
            _, _, layer, stem = stem.split(".", 3)
            short = f"blk.{layer}.{GGUF_NAMES[stem]}"
        else:
            short = GGUF_NAMES[stem]
        writer.add_tensor(f"{short}.{end}", array.astype(matrices if array.ndim == 2 else numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write(path, tensors):
    save_file(tensors, path, metadata={"format": "pt"})
    os.chmod(path, 0o644)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "tests/data/models"
    for name, (config, dtype) in MODELS.items():
        torch.manual_seed(sum(map(ord, name)))
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        model = build(config, dtype)
        state = stored(model, name, config, dtype)
        published = dict(config, torch_dtype=str(dtype).removeprefix("torch."))
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(published, file, indent=2)
            file.write("\n")
        write(os.path.join(folder, "model.safetensors"), state)
        answers = golden(model, config, torch.Generator().manual_seed(7))
        write(os.path.join(folder, "golden.safetensors"), answers)
        if name == "llama":
            write_gguf(os.path.join(out, "llama.gguf"), config, state, numpy.float32)
        if name == "qwen2":
            write_gguf(os.path.join(out, "qwen2.gguf"), config, state, numpy.float16)


if __name__ == "__main__":
    main()
