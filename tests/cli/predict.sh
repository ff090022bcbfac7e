# zest predict: rows from --text, files and standard input; what is printed of them; rows with problems.
. tests/cli/lib.sh
model=examples/roberta-tiny task=examples/reviews/reviews.task
run 0 train --model $model --task $task --shots 8 --batch 8 --k 2 --lr 1e-4 --steps 4 --eval-every 4 --seed 21 --test-size 20 --out "$work/run"
objects() { while read -r line; do echo "$line" | "$BUILD/tests/programs/is_json" || fail "no JSON object: $line"; done <"$work/out"; }
predict() { # STATUS INPUT ARGUMENTS...
    expected=$1 input=$2
    shift 2
    "$ZEST" predict "$work/run" "$@" <"$input" >"$work/out" 2>"$work/err"
    status=$?
    [ "$status" -eq "$expected" ] || fail "zest predict $*: status $status instead of $expected"
}
answers() { sed 's/.*"prediction": \("[a-z]*"\), "probabilities": \(.*\)}$/\1 \2/' "$work/out"; }

# One text, however it comes: the same answer.
run 0 predict "$work/run" --text "A lovely day."
objects
grep -q '^{"row": 1, "sentence": "A lovely day.", "prediction": "[a-z]*", "probabilities": {"bad": 0\.[0-9]*, "good": 0\.[0-9]*}}$' "$work/out" ||
    fail "the answer to a text: $(cat "$work/out")"
answers >"$work/one"
printf 'A lovely day.\n' >"$work/lines"
printf 'sentence\nA lovely day.\n' >"$work/new.tsv"
printf 'note,sentence\nx,"A lovely day."\n' >"$work/new.csv"
printf '{"note": 1, "sentence": "A lovely day."}\n' >"$work/new.jsonl"
cp tests/data/parquet/day-snappy.parquet "$work/new.parquet"
for file in lines new.tsv new.csv new.jsonl new.parquet; do
    predict 0 "$work/$file"
    answers | cmp -s - "$work/one" || fail "$file on standard input has another answer: $(cat "$work/out")"
    predict 0 /dev/null --input "$work/$file"
    answers | cmp -s - "$work/one" || fail "$file has another answer: $(cat "$work/out")"
    predict 0 "$work/$file" --input -
    answers | cmp -s - "$work/one" || fail "--input - with $file has another answer"
done
predict 0 "$work/new.jsonl"
out_has '{"row": 1, "note": 1, "sentence": "A lovely day.", "prediction":' # other columns are kept, and their types
predict 0 "$work/new.parquet"
out_has '{"row": 1, "note": 1, "sentence": "A lovely day.", "prediction":'
predict 0 "$work/new.csv"
out_has '{"row": 1, "note": "x", "sentence": "A lovely day.", "prediction":'
predict 0 "$work/new.tsv" --input-format lines # the header is a text as well, then
[ "$(wc -l <"$work/out")" -eq 2 ] || fail "--input-format lines"
run 0 predict "$work/run" --text '{"sentence": "A lovely day.", "row": 7, "label": "unheard of"}'
out_has '{"row": 1, "sentence": "A lovely day.", "input.row": 7, "label": "unheard of", "prediction":'
run 0 predict "$work/run" --text "$(printf 'A lovely\nday.')"
out_has '"sentence": "A lovely\nday."'

# A table; what would break it is taken out.
printf '{"sentence": "A lovely\\tday\\nout.", "tags": ["a", "b"]}\n{"sentence": "Never again.", "extra": 3}\n' >"$work/two.jsonl"
predict 0 "$work/two.jsonl" --format tsv
printf 'row\tsentence\ttags\tprediction\tprobability\n' >"$work/wanted"
head -n 1 "$work/out" | cmp -s - "$work/wanted" || fail "the header: $(head -n 1 "$work/out")"
out_has "$(printf '1\tA lovely day out.\ta; b\t')"
out_has "$(printf '2\tNever again.\t\t')"
[ "$(awk -F '\t' 'NF != 5' "$work/out" | wc -l)" -eq 0 ] || fail "rows with other columns than the header"

# The examples of a split with their texts: the share that is right is what eval says.
run 0 predict "$work/run" --split test
[ "$(wc -l <"$work/out")" -eq 20 ] || fail "predict does not answer every example"
right=$(sed -n 's/.*"label": "\([a-z]*\)", "prediction": "\([a-z]*\)".*/\1 \2/p' "$work/out" | awk '$1 == $2' | wc -l)
while read -r line; do # the text is that of the row
    row=$(echo "$line" | sed 's/^{"row": \([0-9]*\),.*/\1/')
    text=$(sed -n "$((row + 1))p" examples/reviews/test.tsv | cut -f 1)
    case "$line" in *"\"sentence\": \"$text\", \"label\": "*) ;; *) fail "row $row is not: $line" ;; esac
done <"$work/out"
run 0 eval "$work/run" --json
accuracy=$(sed 's/.*"accuracy": \([0-9.]*\).*/\1/' "$work/out")
[ "$(awk "BEGIN { print ($right / 20 == $accuracy) }")" = 1 ] || fail "predict has $right of 20 right, eval says $accuracy"
predict 0 /dev/null --split test --out "$work/answers.jsonl"
[ ! -s "$work/out" ] && [ "$(wc -l <"$work/answers.jsonl")" -eq 20 ] || fail "--out"

# On a terminal there is nothing to read: the test examples.
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    script -qec "'$ZEST' predict '$work/run' --quiet" /dev/null </dev/null | tr -d '\r' >"$work/terminal"
    same "$work/terminal" "$work/answers.jsonl"
fi

# Rows with problems are named with their lines; the others have the answers that they have alone.
i=0
while [ $i -lt 700 ]; do echo "{\"sentence\": \"Number $i is fine.\"}"; i=$((i + 1)); done >"$work/good.jsonl"
predict 0 "$work/good.jsonl" --quiet
cp "$work/out" "$work/whole"
sed -e '5s/.*/nonsense/' -e '300s/sentence/text/' -e '699s/.*/["a"]/' -e '40s/fine/\xff/' "$work/good.jsonl" >"$work/bad.jsonl"
predict 1 "$work/bad.jsonl" --quiet
for line in 5 40 300 699; do
    err_has "standard input, line $line: "
    sed -i "/^{\"row\": $line,/d" "$work/whole"
done
err_has "4 of 700 rows could not be answered"
same "$work/out" "$work/whole"
predict 1 "$work/bad.jsonl" --quiet --format tsv
[ "$(wc -l <"$work/out")" -eq 697 ] || fail "a table with rows left out"
printf 'sentence\tnote\nFine.\tx\nShort\n"Quoted.\ty\n' >"$work/short.tsv"
predict 1 "$work/short.tsv"
[ "$(wc -l <"$work/out")" -eq 2 ] || fail "the rows beside a short one"
err_has "standard input, line 3: has 1 field, but the header has 2"
printf 'sentence,note\nFine.,"two ""of\n"" lines"\nnot "quoted,well\nFine.,x\n"open,y\n' >"$work/quotes.csv"
predict 1 "$work/quotes.csv"
err_has "line 6: "
out_has '"note": "two \"of\n\" lines"'
printf 'Fine.\nnot a \0 text\n' >"$work/zero"
predict 1 "$work/zero"
err_has "standard input, line 2: has a zero byte in a text"
printf '{"sentence": "Fine.", "note": "\\u0000"}\n{"a\\u0000b": 1, "sentence": "Fine."}\n' >"$work/zero.jsonl"
predict 1 "$work/zero.jsonl"
err_has "standard input, line 1: has a zero byte in a text"
err_has "standard input, line 2: has a zero byte in a text"
printf 'Fine.\n\000\nBad.\n' >"$work/zero"
predict 1 "$work/zero"
err_has "standard input, line 2: has a zero byte in a text"
yes '{"text": "no such column"}' | head -n 50 >"$work/none.jsonl"
predict 1 "$work/none.jsonl"
[ "$(wc -l <"$work/err")" -eq 22 ] || fail "every bad row is named, and there are many"

# What is too long is shortened, and says so.
i=0
while [ $i -lt 300 ]; do printf 'very '; i=$((i + 1)); done >"$work/long"
echo "good" >>"$work/long"
predict 0 "$work/long"
out_has '"truncated": true}'
err_has "1 row was longer than the model reads"

# Mistakes.
predict 2 /dev/null
err_has "standard input: has no rows"
predict 2 /dev/null --input "$work/new.tsv" --split dev
predict 2 /dev/null --input "$work/new.tsv" --text x
predict 1 /dev/null --input "$work/nothing.tsv"
printf 'remark\tlabel\nFine.\tgood\nBad.\tbad\n' >"$work/names.tsv"
predict 2 /dev/null --input "$work/names.tsv"
err_has "has no field 'sentence'; it has remark, label"
[ "$(wc -l <"$work/err")" -eq 1 ] || fail "a table without the column is refused more than once"

# Several columns, and options; a label is not needed.
cat >"$work/pair.task" <<END
name = pair
train = pair.jsonl
label = same
words = no:terrible, yes:good
template = {first} {second} It was{mask}.
END
printf '{"first": "a", "second": "b", "same": "yes"}\n{"first": "c", "second": "d", "same": "no"}\n' >"$work/pair.jsonl"
run 2 predict $model --task "$work/pair.task" --text "only one"
err_has "--text: the task pair reads the columns first, second; give them as {\"first\": \"...\", \"second\": \"...\"}"
run 0 predict $model --task "$work/pair.task" --text '{"first": "one", "second": "two"}'
out_has '{"row": 1, "first": "one", "second": "two", "prediction": "'
run 0 predict $model --task "$work/pair.task" --input "$work/pair.jsonl"
out_has '{"row": 2, "first": "c", "second": "d", "same": "no", "label": "no", "prediction": "'
printf 'first\tsecond\nx\ty\n' | "$ZEST" predict $model --task "$work/pair.task" >"$work/out" 2>"$work/err" || fail "a table for a task of JSON lines"
out_has '"first": "x", "second": "y", "prediction"'
printf 'x y\n' | "$ZEST" predict $model --task "$work/pair.task" >"$work/out" 2>"$work/err" && fail "plain lines for two columns"
err_has "or a table whose first line names them"
