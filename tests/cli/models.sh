# zest info, generate and score on models: the tiny ones of the tests, and the real ones where they are.
. tests/cli/lib.sh
shared=${ZEST_SHARED:-/nonexistent}

for model in roberta bert opt opt-350m gpt2 llama qwen2 llama.gguf; do
    run 0 info "tests/data/models/$model" --json
    out_is_json && out_has '"memory": {"weights": '
    for key in hidden_size ffn_size vocab_size; do out_has "\"$key\": "; done
done
run 0 info tests/data/models/llama
out_has " key-value heads)"
run 0 info tests/data/models/roberta --batch 8 --tokens 16 --k 3 --live 1
out_has "batch 8, 128 tokens in all, k = 3, 1 pairs live"

# What cannot be.
mkdir "$work/bin"
cp tests/data/models/roberta/config.json "$work/bin/"
: >"$work/bin/pytorch_model.bin"
run 1 info "$work/bin"
err_has "safetensors"
run 1 generate tests/data/models/llama --prompt hello # there is no tokenizer beside it
err_has "tests/data/models/llama"
run 2 generate tests/data/models/llama --prompt hello --max-tokens 0
run 1 info "$work/nothing"
run 2 bench step --shape no-such-model
err_has "unknown shape"

# One line that the model cannot read: it is named with its number, the others are scored, and the status is 1.
{
    echo "A lovely day."
    i=0
    while [ $i -lt 200 ]; do printf 'very '; i=$((i + 1)); done
    printf 'long\n\nNever again.\n'
} >"$work/lines"
"$ZEST" score examples/roberta-tiny <"$work/lines" >"$work/out" 2>"$work/err"
[ $? -eq 1 ] || fail "a line that is too long: not status 1"
[ "$(wc -l <"$work/out")" -eq 2 ] || fail "the lines beside one that is too long are not scored"
err_has "standard input, line 2: has 2"
err_has "reads at most"
"$ZEST" score examples/roberta-tiny --json <"$work/lines" >"$work/out" 2>"$work/err"
[ $? -eq 1 ] || fail "a line that is too long, with --json: not status 1"
out_is_json && out_has '"line": 2, "text": "very ' && out_has '"error": "has 2' && out_has '"line": 4, "text": "Never again."'
printf 'not \377 UTF-8\n' | "$ZEST" score examples/roberta-tiny --json >"$work/out" 2>"$work/err" || fail "bytes that are not UTF-8"
out_is_json && out_has "\"text\": \"not $(printf '\357\277\275') UTF-8\""
run 1 score examples/roberta-tiny --text ""
"$ZEST" score examples/roberta-tiny <"$work" >"$work/out" 2>"$work/err" && fail "a folder as standard input"
err_has "standard input cannot be read"

# Benchmarks on a small job: their keys are there, and their figures are numbers.
run 0 bench step --shape smollm2-135m --batch 2 --tokens 8 --k 1 --json
out_is_json
for key in seconds_per_step peak_fraction peak_bytes noise gemm attention rest update; do out_has "\"$key\": "; done
run 0 bench gemm --shape roberta-base --batch 1 --tokens 16 --compute bf16 --json
out_is_json && out_has '"pair_peak_fraction": '
run 0 bench attention --shape opt-125m --batch 2 --tokens 16 --lengths sst2 --json
out_is_json && out_has '"peak_fraction": '

if [ -d "$shared/models/stories15M" ]; then
    run 0 generate "$shared/models/stories15M" --prompt "Once upon a time" --max-tokens 12
    out_has "Once upon a time, there was a little girl named"
    run 0 generate "$shared/models/stories15M" --prompt "The dog" --max-tokens 8
    out_has "The dog was very happy" # with the space between prompt and continuation
    printf 'Once upon a time\nThe dog\n' >"$work/prompts"
    "$ZEST" generate "$shared/models/stories15M" --max-tokens 12 --json <"$work/prompts" >"$work/out" || fail "two prompts"
    out_is_json && out_has ", there was a little girl named" # a batch-mate changes nothing
    run 0 score "$shared/models/stories15M" --text "Once upon a time, there was a little girl." --json
    out_is_json && out_has '"log_probability": -7.08'
    run 2 generate "$shared/models/roberta-tiny" --prompt x
    err_has "does not continue text"
    run 0 score "$shared/models/roberta-small" --text "The movie was great."
    out_has "5 tokens"
fi
