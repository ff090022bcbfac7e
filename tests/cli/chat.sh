# Conversations from the command line: a tiny Llama with a tokenizer of letters and a chat template.
. tests/cli/lib.sh
model=$work/model
cp -r tests/data/models/llama "$model" && rm "$model"/golden.safetensors "$model"/grad.safetensors
letters=$(id=3; for c in a b c d e f g h i j k l m n o p q r s t u v w x y z : . ▁ '\n' '?'; do printf ', "%s": %d' "$c" $id; id=$((id + 1)); done)
cat >"$model/tokenizer.json" <<END
{"version": "1.0", "added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "<s>", "special": true},
 {"id": 2, "content": "</s>", "special": true}], "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
 "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
 "model": {"type": "BPE", "unk_token": "<unk>", "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2$letters}, "merges": []}}
END
cat >"$work/talk.jsonl" <<'END'
{"messages": [{"role": "user", "content": "what?"}, {"role": "assistant", "content": "a mill"}]}
{"instruction": "who?", "output": "a ship"}

{"conversations": [{"from": "human", "value": "where?"}, {"from": "gpt", "value": "a door"}, {"from": "human", "value": "so?"}]}
{"instruction": "this one is much longer than the model reads, so that it has to be cut somewhere", "output": "no"}
END
printf 'kind = chat\ntrain = talk.jsonl\ndev = talk.jsonl\ntest = talk.jsonl\n' >"$work/chat.task"
train="train --model $model --task $work/chat.task --steps 2 --eval-every 1 --batch 2 --compute f32"

# without a template, and with one that needs what zest does not have
run 2 $train && err_has "the model has no chat template"
printf '%s' '{% for m in messages %}{{ m.role | xmlattr }}{% endfor %}' >"$model/chat_template.jinja"
run 1 $train && err_has "talk.jsonl:1" && err_has "the filter 'xmlattr' is not supported"

printf '%s' '{{ bos_token }}{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}' >"$model/chat_template.jinja"
run 0 $train --out "$work/run"
out_has "dev  loss" && out_has "test  loss" && err_has "4 examples to train on" && err_has "3 texts are too long"
[ -f "$work/run/best/chat_template.jinja" ] || fail "the saved model has lost its chat template"
run 0 eval "$work/run" --split dev && out_has "loss"
run 2 predict "$work/run" --text '{"messages": []}' && err_has "a chat has no label to predict"

# rows and task files that are wrong
printf '{"text": "a"}\n' >"$work/talk.jsonl"
run 1 $train && err_has "talk.jsonl, line 1" && err_has "is no conversation"
printf 'kind = chat\ntrain = talk.jsonl\nlabel = x\n' >"$work/chat.task"
run 2 $train && err_has "a task of kind = chat has none"
