# What the scripts of this folder share: the folder $work, and a model that takes a step in milliseconds.
set -u
: "${ZEST:=./zest}" "${CC:=cc}" "${FAULT_JOBS:=1}"
# OpenMP's spin is set as the program sets it, or it would start itself once more.
export ZEST GOMP_SPINCOUNT=1000 OMP_NUM_THREADS=1

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

make_work() { # name
    work=$(mktemp -d "${TMPDIR:-/tmp}/zest-$1-XXXXXX") || exit 1
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM HUP
}

# $work/tiny: a RoBERTa with some thousand random weights, whose 281 tokens are the first ones of examples/roberta-tiny;
# $work/data/tiny.task: some rows of examples/reviews
make_tiny() {
    from=examples/roberta-tiny
    mkdir "$work/shape" "$work/data"
    { sed 's/, "/,\n"/g' $from/vocab.json | head -n 280 && echo '"<mask>": 280}'; } >"$work/shape/vocab.json"
    head -n 21 $from/merges.txt >"$work/shape/merges.txt"
    cp $from/tokenizer_config.json "$work/shape"
    sed 's/"vocab_size": 4096/"vocab_size": 281/; s/"mask_token_id": 4095/"mask_token_id": 280/
         s/"hidden_size": 128/"hidden_size": 8/; s/"num_hidden_layers": 6/"num_hidden_layers": 1/
         s/"num_attention_heads": 4/"num_attention_heads": 1/; s/"intermediate_size": 512/"intermediate_size": 8/' \
        $from/config.json >"$work/shape/config.json"
    head -n 40 examples/reviews/train.tsv >"$work/data/train.tsv"
    head -n 12 examples/reviews/test.tsv >"$work/data/test.tsv"
    sed 's/^words.*/words = bad:a, good:s/' examples/reviews/reviews.task >"$work/data/tiny.task"
    cut -f 1 examples/reviews/train.tsv >"$work/text"
    "$ZEST" pretrain --model "$work/shape" --text "$work/text" --length 16 --batch 2 --steps 1 --held-out 0 --quiet \
        --out "$work/made" >"$work/out" 2>&1 || fail "no model: $(cat "$work/out")"
    mv "$work/made/last" "$work/tiny"
}

# $work/causal: a Llama with the tokens of examples/roberta-tiny and a chat template, of random weights; $work/data/talk.task: conversations.
# After make_tiny.
make_causal() {
    mkdir "$work/causal-shape"
    cp examples/roberta-tiny/vocab.json examples/roberta-tiny/merges.txt "$work/shape/tokenizer_config.json" "$work/causal-shape"
    cat >"$work/causal-shape/config.json" <<'END'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 4096, "hidden_size": 8, "num_hidden_layers": 1,
 "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 8, "hidden_act": "silu",
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000, "tie_word_embeddings": true}
END
    printf '%s' '{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}' \
        >"$work/causal-shape/chat_template.jinja"
    "$ZEST" pretrain --model "$work/causal-shape" --text "$work/text" --length 16 --batch 2 --steps 1 --held-out 0 --quiet \
        --out "$work/causal-made" >"$work/out" 2>&1 || fail "no model: $(cat "$work/out")"
    mv "$work/causal-made/last" "$work/causal"
    cat >"$work/data/talk.jsonl" <<'END'
{"messages": [{"role": "user", "content": "what?"}, {"role": "assistant", "content": "a mill"}]}
{"instruction": "who?", "output": "a ship"}
{"conversations": [{"from": "human", "value": "where?"}, {"from": "gpt", "value": "a door"}]}
END
    printf 'kind = chat\ntrain = talk.jsonl\ndev = talk.jsonl\ntest = talk.jsonl\n' >"$work/data/talk.task"
}
