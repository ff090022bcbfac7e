# A named pipe, or a link to a device, in place of a file of a run or of a model is refused at once, and not waited for.
# What the user names as input may be a pipe. 2 s of processor time.
. tests/cli/lib.sh
export OMP_NUM_THREADS=1
mkdir "$work/shape"
sed 's/"hidden_size": 128/"hidden_size": 8/; s/"num_hidden_layers": 6/"num_hidden_layers": 1/
     s/"num_attention_heads": 4/"num_attention_heads": 1/; s/"intermediate_size": 512/"intermediate_size": 8/' \
    examples/roberta-tiny/config.json >"$work/shape/config.json"
cp examples/roberta-tiny/vocab.json examples/roberta-tiny/merges.txt examples/roberta-tiny/tokenizer_config.json "$work/shape"
cut -f 1 examples/reviews/train.tsv >"$work/text"
run 0 pretrain --model "$work/shape" --text "$work/text" --length 16 --batch 2 --steps 1 --held-out 0 --quiet --out "$work/made"
model=$work/made/last
run 0 train --model "$model" --task examples/reviews/reviews.task --shots 2 --batch 2 --k 1 --steps 2 --eval-every 1 --test-size 4 \
    --quiet --out "$work/run"

# ends COMMAND...: in a minute on the busiest machine, with a message if it fails
ends() {
    timeout 60 "$ZEST" "$@" >"$work/out" 2>"$work/err" </dev/null
    case $? in
    0) ;;
    1) grep -q '^zest: ' "$work/err" || fail "zest $*: no message" ;;
    *) fail "zest $*: status $?: it waited, or crashed" ;;
    esac
}
# each file of a folder becomes a pipe that nobody writes to, or an endless device
for what in pipe device; do
    for file in $(cd "$work/run" && find . -type f ! -name 'events.*'); do
        rm -rf "$work/copy"
        cp -r "$work/run" "$work/copy"
        rm "$work/copy/$file"
        if [ $what = pipe ]; then mkfifo "$work/copy/$file"; else ln -s /dev/zero "$work/copy/$file"; fi
        ends info "$work/copy"
        ends eval "$work/copy" --quiet
        ends replay "$work/copy" --step best --quiet
        ends train --resume "$work/copy" --steps 3 --quiet
        case $file in
        ./last/*) ends tokenize "$work/copy/last" --text hello ;;
        esac
    done
done
rm -rf "$work/copy"
cp -r "$work/run" "$work/copy"
rm "$work/copy/journal"
mkfifo "$work/copy/journal"
run 1 info "$work/copy"
err_has "copy/journal: is a device or a pipe, not a file"

# a configuration and input may be pipes
mkfifo "$work/input"
echo "a fine film" >"$work/input" &
run 0 predict "$work/run" --input "$work/input" --input-format lines --quiet
wait
[ "$(wc -l <"$work/out")" -ge 1 ] || fail "a pipe is not read"
