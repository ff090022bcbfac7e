# zest tokenize: the ids are those of Hugging Face's tokenizers; encoding and decoding are each other's inverse.
. tests/cli/lib.sh
model=examples/roberta-tiny

run 0 tokenize $model --text "A lovely day."
printf '%s\n' '      0  <s>' '     36  A' '   1098  Ġlove' '    304  ly' '   1076  Ġday' '     17  .' '      2  </s>' >"$work/wanted"
same "$work/out" "$work/wanted"
run 0 tokenize $model --text "Naïve café: 3 × 😀!" --ids --no-special
[ "$(cat "$work/out")" = "49 68 131 111 312 1208 73 1987 29 777 224 131 249 224 176 257 250 226 4" ] || fail "the ids are not tokenizers': $(cat "$work/out")"
run 0 tokenize tests/data/tokenizers/llama.json --text "$(printf 'tab\there')" --ids
[ "$(cat "$work/out")" = "1 547 307 308 12 314 602" ] || fail "the ids are not tokenizers': $(cat "$work/out")"
run 0 tokenize tests/data/tokenizers/llama.json --decode --text "[1, 547, 307, 308, 12, 314, 602]"
[ "$(cat "$work/out")" = "$(printf '<s> tab\there')" ] || fail "the text is not tokenizers'"

# lines of standard input, there and back
printf 'A lovely day.\n\nNever \\ again\t<mask> 😀\n' >"$work/lines"
"$ZEST" tokenize $model --ids <"$work/lines" >"$work/ids" 2>"$work/err" || fail "ids of lines"
"$ZEST" tokenize $model --decode --no-special <"$work/ids" >"$work/out" 2>"$work/err" || fail "lines of ids"
[ "$(head -n 1 "$work/out")" = "A lovely day." ] || fail "not the same text again"
"$ZEST" tokenize $model --decode <"$work/ids" >"$work/out" 2>"$work/err" || fail "lines of ids"
sed 's/^<s>//; s/<\/s>$//' "$work/out" >"$work/again"
sed '/^$/d; s/	<mask>/<mask>/' "$work/lines" >"$work/wanted"
sed 's/	<mask>/<mask>/; s/ <mask>/<mask>/' "$work/again" | cmp -s - "$work/wanted" || fail "not the same text again: $(cat "$work/again")"
"$ZEST" tokenize $model --count <"$work/lines" >"$work/out" 2>"$work/err" || fail "counts"
awk '{print NF}' "$work/ids" | cmp -s - "$work/out" || fail "the counts are not those of the ids"
"$ZEST" tokenize $model --json <"$work/lines" >"$work/out" 2>"$work/err" || fail "JSON"
out_is_json && out_has '"line": 3, "text": "Never \\ again\t<mask> 😀"'
out_has '"count": 7, "ids": [0, 36, 1098, 304, 1076, 17, 2], "tokens": ["<s>", "A", "Ġlove", "ly", "Ġday", ".", "</s>"]'
# every token has a line of its own, whatever it holds
"$ZEST" tokenize $model <"$work/lines" >"$work/out" 2>"$work/err" || fail "tokens of lines"
[ "$(grep -c . "$work/out")" -eq "$(wc -w <"$work/ids")" ] || fail "not a line for every token"
out_has '  \\'

# a run has its tokenizer with it
run 0 train --model $model --task examples/reviews/reviews.task --shots 4 --batch 4 --k 1 --steps 1 --test-size 4 --out "$work/run"
run 0 tokenize "$work/run" --text "A lovely day." --count
[ "$(cat "$work/out")" = 7 ] || fail "the tokenizer of a run"

# mistakes
printf '36 17\n36 x\n99999999\n17\n' | "$ZEST" tokenize $model --decode --no-special >"$work/out" 2>"$work/err"
[ $? -eq 1 ] || fail "bad ids: not status 1"
[ "$(cat "$work/out")" = "$(printf 'A.\n.')" ] || fail "the lines beside bad ones are not decoded"
err_has "standard input, line 2: 'x' is not a token id"
err_has "standard input, line 3: the tokenizer has no token 99999999; its ids end at 4095"
run 2 tokenize $model
err_has "give --text TEXT"
run 1 tokenize "$work/nothing" --text x
run 2 tokenize

# Many lines can take long: on a terminal there is a bar.
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    script -qec "'$ZEST' tokenize $model --count <'$work/lines'" /dev/null </dev/null | tr '\r' '\n' >"$work/out"
    grep -q '^tokenize .*/2 texts' "$work/out" || fail "no progress while texts are encoded"
fi
:
