# A BERT as it is published, with vocab.txt beside it: info, score, train, eval and predict; and what a run saves of it.
. tests/cli/lib.sh
model=$work/bert
mkdir "$model"
cp tests/data/models/bert/config.json tests/data/models/bert/model.safetensors "$model/"
{ # 96 tokens, as many as the model has
    printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' good bad film the a was it . , '##s' '##ed'
    for i in $(seq 80); do echo "word$i"; done
} >"$model/vocab.txt"
echo '{"do_lower_case": true, "model_max_length": 1000000000000000019884624838656}' >"$model/tokenizer_config.json"
cat >"$work/films.task" <<'TASK'
name = films
train = films.tsv
test = films.tsv
label = label
words = 0:bad, 1:good
masked-template = {sentence} It was {mask}.
metric = accuracy
TASK
{ printf 'sentence\tlabel\n'; for i in 1 2 3 4 5 6; do printf 'The films, a FILM.\t1\nA film was the bad.\t0\n'; done; } >"$work/films.tsv"

run 0 info "$model"
out_has "bert, "
run 0 score "$model" --text "The film was goods." # the film was good ##s .
out_has "6 tokens"
run 1 score tests/data/models/bert --text "good"
err_has "or vocab.txt"
run 0 train --model "$model" --task "$work/films.task" --shots 2 --batch 2 --k 1 --steps 2 --eval-every 1 --seed 1 --out "$work/run"
out_has "steps done after 2 steps"
for folder in best last; do
    for file in config.json model.safetensors vocab.txt tokenizer_config.json; do
        [ -s "$work/run/$folder/$file" ] || fail "$folder lacks $file"
    done
    same "$work/run/$folder/vocab.txt" "$model/vocab.txt"
    run 0 score "$work/run/$folder" --text "The film was goods."
    out_has "6 tokens"
done
run 0 eval "$work/run" --split test
out_has "n = 12"
run 0 predict "$work/run" --split test
[ "$(wc -l <"$work/out")" -eq 12 ] || fail "predict does not answer every example"
sed -i 's/1:good/1:excellent/' "$work/films.task"
run 2 train --model "$model" --task "$work/films.task" --shots 2 --batch 2 --k 1 --steps 2
err_has "'excellent' of class '1' is not in the tokenizer's vocabulary"
