# zest pull against a Hub on this machine that misbehaves (tests/programs/hub_server.c), and models found by name.
# Hashes in the Hub's answers are made by sha256sum and sha1sum.
. tests/cli/lib.sh
export HOME="$work/home" HF_HOME="$work/hf" # and a timeout that a busy machine does not reach
unset HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE HF_HUB_DOWNLOAD_TIMEOUT TRANSFORMERS_OFFLINE XDG_CACHE_HOME \
    http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY SSL_CERT_FILE
mkdir "$work/home"

HF_ENDPOINT=http://127.0.0.1:9 "$ZEST" pull org/name >"$work/out" 2>"$work/err" </dev/null
if grep -q "built without libcurl" "$work/err"; then # the command is there and says what to do
    err_has "libcurl4-openssl-dev"
    exit 0
fi
err_has "127.0.0.1:9/api/models/org/name/revision/main?blobs=true"
err_has "Is there a network?"

root=$work/root hub_log=$work/log rules=$work/rules
mkdir "$root" && : >"$hub_log" && : >"$rules"
start_server() { # NAME LOG RULES: server, port and other_port are set
    "$BUILD/tests/programs/hub_server" "$root" "$work/$1" "$2" "$3" &
    server=$!
    while [ ! -s "$work/$1" ]; do sleep 0.02; done
    read -r port other_port <"$work/$1"
}
start_server silent-ports "$work/silent-log" "$work/silent-rules"
silent=$server silent_endpoint=http://127.0.0.1:$port
start_server ports "$hub_log" "$rules"
trap 'kill $server $silent; rm -rf "$work"' EXIT
export HF_ENDPOINT=http://127.0.0.1:$port
cdn=http://127.0.0.2:$other_port

commit=0123456789abcdef0123456789abcdef01234567
size_of() { stat -c %s "$1"; }
git_hash() { { printf 'blob %d\0' "$(size_of "$1")" && cat "$1"; } | sha1sum | cut -d ' ' -f 1; }
sha256() { sha256sum <"$1" | cut -d ' ' -f 1; }

# publish REPO REVISION [ENTRIES]: the Hub's answer about the files in REPO/resolve/COMMIT; ENTRIES are further ones
publish() {
    mkdir -p "$root/api/models/$1/revision"
    (
        cd "$root/$1/resolve/$commit" || exit 1
        printf '{"id": "%s", "sha": "%s", "pipeline_tag": "fill-mask", "siblings": [%s' "$1" $commit "${3:-}"
        comma=${3:+,}
        find . -type f | cut -c 3- | sort | while read -r file; do
            printf '%s{"rfilename": "%s", "size": %d, ' "$comma" "$file" "$(size_of "$file")"
            case $file in
            *.safetensors | *.gguf) printf '"blobId": "%s", "lfs": {"sha256": "%s", "size": %d, "pointerSize": 134}}' $commit "$(sha256 "$file")" "$(size_of "$file")" ;;
            *) printf '"blobId": "%s"}' "$(git_hash "$file")" ;;
            esac
            comma=,
        done
        printf ']}'
    ) >"$root/api/models/$1/revision/$2"
}
rule() { printf '%s\n' "$@" >"$rules"; }
requests() { grep -c -- "$1" "$hub_log"; }
cache=$HF_HOME/hub
# is_model FOLDER: exactly the files of the model that zest needs
is_model() {
    for file in config.json merges.txt model.safetensors tokenizer_config.json vocab.json; do
        same "$tiny/$file" "$1/$file"
    done
    [ "$(ls -A "$1" | wc -l)" -eq 5 ] || fail "$1 has other files: $(ls -A "$1")"
}
fresh() { rm -rf "$HF_HOME" && : >"$hub_log" && : >"$rules"; }

# ---- A good pull ----
tiny=$root/org/tiny/resolve/$commit
mkdir -p "$tiny/onnx"
cp examples/roberta-tiny/* "$tiny/"
cp examples/roberta-tiny/config.json "$tiny/onnx/"
publish org/tiny main
publish org/tiny v1.0
weights=/org/tiny/resolve/$commit/model.safetensors
size=$(size_of "$tiny/model.safetensors")
# one server stays silent at first, then in the middle: that takes some seconds, beside all else
printf '1 /api hang\n1 %s stall 1000000\n' $weights >"$work/silent-rules"
HF_HUB_DOWNLOAD_TIMEOUT=1 HF_HOME="$work/silent-hf" HF_ENDPOINT=$silent_endpoint "$ZEST" pull org/tiny >"$work/silent-out" 2>&1 &
silent_pull=$!

run 1 info org/tiny
err_has "zest pull org/tiny"
run 0 pull org/tiny --json
out_is_json && out_has "\"commit\": \"$commit\"" && out_has "\"folder\": \"$cache/models--org--tiny/snapshots/$commit\""
is_model "$cache/models--org--tiny/snapshots/$commit"
[ "$(cat "$cache/models--org--tiny/refs/main")" = $commit ] || fail "refs/main"
[ "$(readlink "$cache/models--org--tiny/snapshots/$commit/model.safetensors")" = "../../blobs/$(sha256 "$tiny/model.safetensors")" ] || fail "not a link to a blob"
grep -q "auth=[^ ]" "$hub_log" && fail "a token came from nowhere"
# once more: nothing is downloaded
: >"$hub_log"
run 0 pull org/tiny
out_has "(0.0 MiB downloaded)"
"$ZEST" pull org/tiny >/dev/full 2>"$work/err" && fail "a full disk behind stdout"
[ "$(requests resolve)" -eq 0 ] || fail "downloads what is there"

# ---- Models by name ----
run 0 info org/tiny
out_has "org/tiny, commit 0123456: roberta, 1751808 parameters"
run 0 score org/tiny --text "a good film" && run 1 info org/tiny@v1.0
err_has "zest pull org/tiny --revision v1.0"
run 0 pull org/tiny --revision v1.0 && out_has "org/tiny@v1.0" && run 0 info org/tiny@v1.0 && run 0 info org/tiny@$commit
mkdir -p "$work/here/org" && cp -r tests/data/models/roberta "$work/here/org/tiny" && program=$(realpath "$ZEST")
(cd "$work/here" && "$program" info org/tiny | grep -q "20480 parameters") || fail "a folder of the name has precedence"
run 0 train --model org/tiny --task examples/reviews/reviews.task --steps 1 --eval-every 0 --shots 4 --batch 4 --k 1 --out "$work/run"
err_has "model   org/tiny, commit 0123456 (roberta): 1751808 parameters"
grep -qxF "model=$cache/models--org--tiny/snapshots/$commit" "$work/run/options" || fail "a run notes the snapshot"
run 0 info "$work/run" && out_has "model      org/tiny, commit 0123456 (roberta): 1751808 parameters"
mv "$cache" "$work/away" && rm -rf "$work/run/best" "$work/run/last" && run 1 replay "$work/run" --step 0 && err_has "zest pull org/tiny --revision $commit" && mv "$work/away" "$cache"
run 1 info roberta-base && err_has "zest pull FacebookAI/roberta-base"
run 1 info no-such-model && err_has "zest pull ORG/no-such-model"
run 1 eval org/missing --task SST-2 --data . && err_has "zest pull org/missing"
run 1 train --model org/missing --task SST-2 --data . && err_has "zest pull org/missing"
run 1 info "$cache/models--org--gone/snapshots/$commit" && err_has "zest pull org/gone --revision $commit"
HF_HUB_OFFLINE=1 run 0 pull org/tiny && HF_HUB_OFFLINE=1 run 1 pull org/missing && err_has "HF_HUB_OFFLINE"
mv "$HF_HOME/hub" "$work/moved" && HF_HUB_CACHE=$work/moved run 0 info org/tiny
XDG_CACHE_HOME="$work/xdg" HF_HOME='' run 0 pull org/tiny && is_model "$work/xdg/huggingface/hub/models--org--tiny/snapshots/$commit"

# ---- Into a folder ----
fresh
run 0 pull org/tiny --out "$work/plain/tiny" && is_model "$work/plain/tiny" && run 0 info "$work/plain/tiny"
[ ! -e "$HF_HOME" ] || fail "--out writes into the cache"
printf x | dd of="$work/plain/tiny/vocab.json" conv=notrunc status=none # spoilt: of the same size
: >"$hub_log"
run 0 pull org/tiny --out "$work/plain/tiny" && is_model "$work/plain/tiny"
[ "$(requests resolve)" -eq 1 ] || fail "--out downloads what is there"

# ---- Cut off: the rest comes with Range ----
fresh
rule "1 $weights cut 1000000" "* $weights status 403"
run 1 pull org/tiny
[ "$(size_of "$cache"/models--org--tiny/blobs/*.incomplete)" -eq 1000000 ] || fail "what has arrived is not kept"
run 1 info org/tiny # a part is no model
: >"$hub_log" && : >"$rules"
run 0 pull org/tiny && is_model "$cache/models--org--tiny/snapshots/$commit"
grep -q "GET $weights range=1000000 .* sent=$((size - 1000000))$" "$hub_log" || fail "more than the rest was sent"
# within one pull too
fresh
rule "1 $weights cut 1000000"
run 0 pull org/tiny && grep -q "GET $weights range=1000000 " "$hub_log" || fail "the lost connection"
# a server without Range, one that answers with another part, one that says that the rest does not exist
for how in whole elsewhere "status 416"; do
    fresh
    rule "1 $weights cut 1000000" "1 $weights $how"
    run 0 pull org/tiny && is_model "$cache/models--org--tiny/snapshots/$commit"
done
# a part that is not of this file is found out, and the file downloaded from the start
fresh
mkdir -p "$cache/models--org--tiny/blobs"
head -c 1000 /dev/zero >"$cache/models--org--tiny/blobs/$(sha256 "$tiny/model.safetensors").incomplete"
run 0 pull org/tiny && is_model "$cache/models--org--tiny/snapshots/$commit"

# a disk that is full: what has arrived is kept, and the rest comes when there is room
fresh
(ulimit -f 2000 && exec "$ZEST" pull org/tiny >/dev/null 2>"$work/err") && fail "a full disk is no failure"
err_has "cannot be written"
kept=$(size_of "$cache"/models--org--tiny/blobs/*.incomplete) # ulimit counts blocks, whose size is the shell's
[ "$kept" -gt 1000000 ] && [ "$kept" -lt "$size" ] || fail "what fitted the disk is not kept"
run 0 pull org/tiny && is_model "$cache/models--org--tiny/snapshots/$commit"
grep -q "GET $weights range=$kept " "$hub_log" || fail "the rest after a full disk"

# ---- Bytes that are not the file ----
for how in corrupt "short 1000" long; do
    fresh
    rule "* $weights $how"
    run 1 pull org/tiny
    err_has "model.safetensors"
    ls "$cache"/models--org--tiny/blobs/*.incomplete 2>/dev/null && fail "$how: wrong bytes are kept"
    [ ! -e "$cache/models--org--tiny/refs/main" ] && [ ! -e "$cache/models--org--tiny/snapshots/$commit/config.json" ] || fail "$how: looks complete"
done
fresh && rule "* /org/tiny/resolve/$commit/vocab.json corrupt" && run 1 pull org/tiny && err_has "vocab.json" && err_has "hash"

# ---- Refusals ----
refused() { # RULE TEXT...
    rule "$1" && shift
    run 1 pull org/tiny
    for text in "$@"; do err_has "$text"; done
}
fresh
refused "* /api status 404 X-Error-Code: RepoNotFound" "was not found" "HF_TOKEN"
refused "* /api status 401" "was not found" "HF_TOKEN"
refused "* /api status 404 X-Error-Code: RevisionNotFound" "no branch, tag or commit 'main'"
refused "* $weights status 403 X-Error-Code: GatedRepo" "gated" "$HF_ENDPOINT/org/tiny" "HF_TOKEN"
HF_TOKEN=hf_wrong refused "* /api status 401" "token"
refused "* /api status 418 X-Error-Message: tea$(printf '\033')[31m" "418" "tea."
grep -q "$(printf '\033')" "$work/err" && fail "control characters reach the terminal"
: >"$hub_log"
refused "* /api status 503 Retry-After: 0" "503" "5 tries"
[ "$(requests status=503)" -eq 5 ] || fail "tries"
: >"$hub_log"
refused "* /api status 429 Retry-After: 9999" "429" "9999"
[ "$(requests status=429)" -eq 1 ] || fail "waits too long, or does not"
fresh
rule "1 /api status 429 Retry-After: 1" "1 $weights status 500 Retry-After: 0"
run 0 pull org/tiny && is_model "$cache/models--org--tiny/snapshots/$commit"

# ---- Redirects, and where the token goes ----
fresh
mkdir -p "$root/cdn" && cp "$tiny/model.safetensors" "$root/cdn/blob" && cp "$tiny/vocab.json" "$root/cdn/"
rule "* $weights redirect $cdn/cdn/blob?signature=1" "* /org/tiny/resolve/$commit/vocab.json redirect /cdn/vocab.json"
HF_TOKEN=hf_secret run 0 pull org/tiny && is_model "$cache/models--org--tiny/snapshots/$commit"
grep -q "^1 GET $weights .*auth=hf_secret status=302" "$hub_log" || fail "the Hub does not get the token"
grep -q "^1 GET /cdn/vocab.json range=-1 auth=hf_secret status=200" "$hub_log" || fail "nor after a redirect to itself"
grep -q "^2 GET /cdn/blob?signature=1 range=-1 auth= status=200" "$hub_log" || fail "another host gets the token, or nothing"
mkdir -p "$HF_HOME" && printf ' hf_file\n' >"$HF_HOME/token" && : >"$hub_log"
run 0 pull org/tiny && grep -q "auth=hf_file" "$hub_log" || fail "the token's file"
rm "$HF_HOME/token"
HF_TOKEN="$(printf 'a\r\nX: y')" run 2 pull org/tiny
fresh
refused "* $weights redirect $weights" "redirects"
[ "$(requests status=302)" -le 11 ] || fail "a loop"
refused "* $weights redirect file:///etc/passwd" "protocol"
refused "* $weights redirect ftp://127.0.0.1/x" "protocol"

# ---- Answers that are no list of files ----
nonsense=$root/api/models/org/tiny/revision/nonsense
for text in '' 'garbage' '[]' '{"sha": 1}' '{"sha": "../../../../etc"}' "{\"sha\": \"$commit\"}" "{\"sha\": \"$commit\", \"siblings\": 3}" \
    "{\"sha\": \"$commit\", \"siblings\": [{\"rfilename\": 1}, 2, {\"rfilename\": \"model.safetensors\"}, {\"rfilename\": \"config.json\", \"size\": -1}]}"; do
    printf '%s' "$text" >"$nonsense"
    run 1 pull org/tiny --revision nonsense
done
rule "* /api endless" && run 1 pull org/tiny && err_has "larger than"
# names that would leave the folder, and shards that do
fresh
bad='{"rfilename": "../x", "size": 1, "blobId": "'$commit'"}, {"rfilename": "/tmp/x", "size": 1, "blobId": "'$commit'"}, {"rfilename": "a\\b", "size": 1, "blobId": "'$commit'"}, {"rfilename": "a\u001bb", "size": 1, "blobId": "'$commit'"}'
publish org/tiny names "$bad"
run 0 pull org/tiny --revision names && is_model "$cache/models--org--tiny/snapshots/$commit"
for name in ../x /etc/x 'a\b' a//b . ''; do
    [ -z "$name" ] || run 2 pull org/tiny --file "$name"
done
for name in ../tiny org/../x org/.. a/b/c 'org/na me' org/name.git --; do run 2 pull -- "$name"; done
for name in ../main /main 'a\b' 'a b'; do run 2 pull org/tiny --revision "$name"; done

# ---- Shards, GGUF, pickles ----
sharded=$root/org/sharded/resolve/$commit
mkdir -p "$sharded"
head -c 70000 /dev/urandom >"$sharded/model-00001-of-00002.safetensors" && head -c 90000 /dev/urandom >"$sharded/model-00002-of-00002.safetensors"
head -c 100 /dev/urandom >"$sharded/other.safetensors"
cp "$tiny/config.json" "$sharded/"
index() { printf '{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "%s", "c": "model-00001-of-00002.safetensors"}}' "$1" >"$sharded/model.safetensors.index.json" && publish org/sharded main; }
index model-00002-of-00002.safetensors
fresh
run 0 pull org/sharded --out "$work/sharded"
[ "$(ls -A "$work/sharded" | tr '\n' ' ')" = "config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json " ] || fail "shards: $(ls -A "$work/sharded")"
for file in "$work/sharded"/*; do same "$file" "$sharded/$(basename "$file")"; done
index ../tiny/model.safetensors && run 1 pull org/sharded && err_has "plain names"
index missing.safetensors && run 1 pull org/sharded && err_has "missing.safetensors"
gguf=$root/org/gguf/resolve/$commit
mkdir -p "$gguf" && cp tests/data/models/llama.gguf "$gguf/tiny-Q8_0.gguf" && cp tests/data/models/qwen2.gguf "$gguf/tiny-Q4_0.gguf"
publish org/gguf main
fresh
run 1 pull org/gguf && err_has "--file" && err_has "tiny-Q4_0.gguf, tiny-Q8_0.gguf"
run 1 pull org/gguf --file tiny-Q5_0.gguf && err_has "tiny-Q8_0.gguf"
run 0 pull org/gguf --file tiny-Q8_0.gguf && run 0 info org/gguf && out_has "org/gguf, commit 0123456, tiny-Q8_0.gguf: llama" && run 0 pull org/gguf --file tiny-Q4_0.gguf && run 1 info org/gguf && err_has "several"
pickle=$root/org/pickle/resolve/$commit
mkdir -p "$pickle" && : >"$pickle/pytorch_model.bin" && cp "$tiny/config.json" "$pickle/" && publish org/pickle main
run 1 pull org/pickle && err_has "AutoModelForMaskedLM" && err_has "org/pickle pickle"

# ---- Silence, kill -9, two at once ----
wait $silent_pull || fail "silence: $(cat "$work/silent-out")"
is_model "$work/silent-hf/hub/models--org--tiny/snapshots/$commit"
grep -q "GET $weights range=1000000 " "$work/silent-log" || fail "after silence the pull does not go on"
fresh
rule "* $weights slow 200" # ten seconds in all: a busy machine, too, kills it in the middle
"$ZEST" pull org/tiny >/dev/null 2>&1 &
victim=$!
until [ "$(size_of "$cache"/models--org--tiny/blobs/*.incomplete 2>/dev/null || echo 0)" -gt 300000 ]; do sleep 0.02; done
kill -9 $victim && wait $victim 2>/dev/null
: >"$rules"
run 1 info org/tiny
run 0 pull org/tiny && is_model "$cache/models--org--tiny/snapshots/$commit"
grep "GET $weights " "$hub_log" | grep -qv "range=-1" || fail "the rest after a kill"
fresh
rule "* $weights slow 10"
for i in 1 2 3; do "$ZEST" pull org/tiny >"$work/out$i" 2>&1 & eval "pull$i=$!"; done
"$ZEST" pull org/tiny --out "$work/both" >/dev/null 2>&1 & both1=$!
"$ZEST" pull org/tiny --out "$work/both" >/dev/null 2>&1 & both2=$!
wait $pull1 && wait $pull2 && wait $pull3 && wait $both1 && wait $both2 || fail "pulls at once"
is_model "$cache/models--org--tiny/snapshots/$commit" && is_model "$work/both"
[ "$(requests "GET $weights ")" -eq 2 ] || fail "the same file was downloaded more than once: $(cat "$hub_log")"
# Ctrl-C
fresh
rule "* $weights slow 200"
"$ZEST" pull org/tiny >/dev/null 2>"$work/err" &
victim=$!
until [ "$(size_of "$cache"/models--org--tiny/blobs/*.incomplete 2>/dev/null || echo 0)" -gt 300000 ]; do sleep 0.02; done
kill -TERM $victim && wait $victim && fail "a pull that was stopped has succeeded"
err_has "resumes the download"
