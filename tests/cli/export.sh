# zest export, perplexity and sampling: a small run becomes a GGUF file that gives the same text and the same numbers.
. tests/cli/lib.sh
mkdir "$work/model"
cp examples/roberta-tiny/vocab.json examples/roberta-tiny/merges.txt examples/roberta-tiny/tokenizer_config.json "$work/model/"
cat >"$work/model/config.json" <<'END'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 4096, "hidden_size": 32, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64, "hidden_act": "silu",
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000, "tie_word_embeddings": true}
END
sed 's/.*/A line of text, and then: &\n/' README.md | head -n 120 >"$work/text"
run 0 pretrain --model "$work/model" --text "$work/text" --steps 2 --batch 2 --length 32 --out "$work/run" --quiet

# A run and its weights are the same file, and that gives the same perplexity and the same texts.
run 0 export "$work/run" --gguf "$work/run.gguf" --type f32
out_has "read back and compared"
run 0 export "$work/run/best" --gguf "$work/best.gguf" --type f32 --json
out_is_json && out_has '"type": "f32"'
same "$work/run.gguf" "$work/best.gguf"
run 0 eval "$work/run/best" --text "$work/text" --window 64 --stride 32 --json
out_is_json && out_has '"perplexity": '
cp "$work/out" "$work/perplexity"
run 0 eval "$work/run.gguf" --text "$work/text" --window 64 --stride 32 --json
same "$work/out" "$work/perplexity"
run 0 eval "$work/run.gguf" --text "$work/text"
out_has "perplexity "
run 0 generate "$work/run/best" --prompt "A line" --temperature 0.9 --top-p 0.9 --seed 4 --max-tokens 20 --threads 1
cp "$work/out" "$work/sampled"
run 0 generate "$work/run.gguf" --prompt "A line" --temperature 0.9 --top-p 0.9 --seed 4 --max-tokens 20 --threads 2
same "$work/out" "$work/sampled"
run 0 generate "$work/run.gguf" --prompt "A line" --temperature 0.9 --top-p 0.9 --seed 5 --max-tokens 20
cmp -s "$work/out" "$work/sampled" && fail "another seed, the same text"

# Every type is a file that loads.
for type in stored f16 bf16 q8_0 q6_k q5_k q5_1 q5_0 q4_k q4_1 q4_0 q3_k q2_k; do
    run 0 export "$work/run/best" --gguf "$work/typed.gguf" --type $type
    run 0 info "$work/typed.gguf"
done

# What cannot be: nothing is left behind.
run 2 export examples/roberta-tiny --gguf "$work/no.gguf"
err_has "a roberta model cannot be a GGUF file"
run 2 export "$work/run.gguf" --gguf "$work/run.gguf"
err_has "is the model that is read"
run 2 export "$work/run.gguf"
err_has "give --gguf FILE"
run 2 export "$work/run.gguf" --gguf "$work"
err_has "is a folder"
run 1 export "$work/run.gguf" --gguf "$work/none/x.gguf"
run 2 export "$work/run.gguf" --gguf "$work/x.gguf" --type q7_k
err_has "option type: 'q7_k' is not allowed"
[ "$(find "$work" -name '*.tmp' -o -name 'no.gguf' -o -name 'x.gguf' | wc -l)" -eq 0 ] || fail "files are left behind"
run 2 eval examples/roberta-tiny --text "$work/text"
err_has "causal"
run 1 eval "$work/run.gguf" --text "$work/none"
run 2 eval "$work/run.gguf" --text "$work/text" --window 65
err_has "2 to 64 tokens"
run 2 generate "$work/run.gguf" --prompt x --top-p 2
