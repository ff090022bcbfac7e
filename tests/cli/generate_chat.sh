# zest generate --chat and texts shown token by token, on a small model with random bytes to say.
. tests/cli/lib.sh
mkdir "$work/model"
cp examples/roberta-tiny/vocab.json examples/roberta-tiny/merges.txt examples/roberta-tiny/tokenizer_config.json "$work/model/"
cat >"$work/model/config.json" <<'END'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 4096, "hidden_size": 32, "num_hidden_layers": 1,
 "num_attention_heads": 2, "intermediate_size": 32, "hidden_act": "silu", "max_position_embeddings": 160,
 "rms_norm_eps": 1e-5, "tie_word_embeddings": false}
END
sed 's/.*/A line of text, and then: &\n/' README.md | head -n 120 >"$work/text"
run 0 pretrain --model "$work/model" --text "$work/text" --steps 1 --batch 2 --length 32 --out "$work/run" --quiet
model=$work/run/best

# A text that is shown as it comes is the text that is shown at the end: also where tokens end within characters.
for seed in 1 2 3 4 5 6; do
    run 0 generate "$model" --prompt "A line" --temperature 5 --seed $seed --max-tokens 100
    cp "$work/out" "$work/streamed"
    printf 'A line\nA line\n' | "$ZEST" generate "$model" --temperature 5 --seed $seed --max-tokens 100 >"$work/batch" 2>"$work/err" ||
        fail "two prompts"
    head -c "$(stat -c %s "$work/streamed")" "$work/batch" >"$work/first"
    same "$work/streamed" "$work/first"
done
grep -q "$(printf '\357\277\275')" "$work/streamed" || fail "the random bytes have nothing to repair: this tests nothing"

# Without a template there is no conversation, and the message says so.
"$ZEST" generate "$model" --chat --prompt hello >"$work/out" 2>"$work/err" && fail "a chat without a template"
err_has "template"

cat >"$model/chat_template.jinja" <<'END'
{% for m in messages %}{% if m['role'] == 'system' %}{{ 'S:' + m['content'] }}{% else %}{{ '<s>' + m['role'] + ': ' + m['content'] + '</s>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<s>assistant:' }}{% endif %}
END
# A turn is the prompt that the template makes, continued.
run 0 generate "$model" --chat --prompt "Who are you?" --max-tokens 8 --json
out_is_json && out_has '"prompt": "Who are you?"'
sed 's/.*"text": \("[^"]*"\).*/\1/' "$work/out" >"$work/reply"
run 0 generate "$model" --chat --prompt "Who are you?" --max-tokens 8
[ "\"$(cat "$work/out")\"" = "$(cat "$work/reply")" ] || [ "$(grep -c '\\' "$work/reply")" -gt 0 ] || fail "the reply as text differs from that as JSON"
# Later turns see those before: the same question gets another answer behind another conversation.
printf 'Who are you?\nWho are you?\n' | "$ZEST" generate "$model" --chat --max-tokens 8 --json >"$work/two" 2>"$work/err" || fail "two turns"
"$BUILD/tests/programs/is_json" <"$work/two" || fail "two turns are not one JSON object"
[ "$(grep -o '"prompt"' "$work/two" | wc -l)" -eq 2 ] || fail "not two turns"
run 0 generate "$model" --chat --system "Be brief." --prompt "Who are you?" --max-tokens 8 --json
out_is_json
# A conversation that has become too long ends with a message.
i=0
while [ $i -lt 40 ]; do echo "Tell me more, please"; i=$((i + 1)); done >"$work/long"
"$ZEST" generate "$model" --chat --max-tokens 8 <"$work/long" >"$work/out" 2>"$work/err" && fail "an endless conversation"
err_has "the conversation has"
# The template goes with the file.
run 0 export "$model" --gguf "$work/chat.gguf" --type f32
run 0 generate "$work/chat.gguf" --chat --prompt "Who are you?" --max-tokens 8 --json
sed 's/.*"text": \("[^"]*"\).*/\1/' "$work/out" >"$work/again"
same "$work/again" "$work/reply"
