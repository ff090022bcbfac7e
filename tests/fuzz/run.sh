#!/bin/sh
# Builds every fuzz target with clang's libFuzzer, AddressSanitizer and UBSan, and runs each for some seconds.
set -eu
seconds=${1:-30}
CLANG=${CLANG:-clang}
command -v "$CLANG" >/dev/null 2>&1 || { echo "make fuzz needs clang and its runtime (Debian: apt-get install clang libclang-rt-dev)" >&2; exit 1; }
out=build/fuzz
mkdir -p "$out"
flags="-std=c11 -D_GNU_SOURCE -g -O1 -ffp-contract=off -fno-math-errno -Iinclude -Isrc -I. $(pkg-config --cflags jansson libxxhash libpcre2-8)"
sanitize="-fsanitize=address,undefined -fno-sanitize-recover=all"
avx512="-mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma -mf16c"
objects=""
for file in $(find src -name '*.c'); do # OpenMP is left out: one thread is what a fuzzer wants
    target=""
    case "$file" in
    *_avx2.c) target="-mavx2 -mfma -mf16c" ;;
    *_avx512.c) target="$avx512" ;;
    *_avx512bf16.c) target="$avx512 -mavx512bf16" ;;
    *_amx.c) target="$avx512 -mavx512bf16 -mamx-tile -mamx-bf16" ;;
    esac
    object="$out/$(echo "$file" | tr / _).o"
    if [ ! -f "$object" ] || [ "$file" -nt "$object" ]; then
        # shellcheck disable=SC2086
        $CLANG $flags $sanitize -fsanitize=fuzzer-no-link $target -Itests/fuzz/include -Wno-unknown-pragmas -c -o "$object" "$file"
    fi
    objects="$objects $object"
done
for target in tests/fuzz/fuzz_*.c; do
    name=$(basename "$target" .c)
    mkdir -p "$out/$name.corpus"
    [ -f "tests/data/gguf/goldens.gguf" ] && [ "$name" = fuzz_gguf ] && cp tests/data/gguf/goldens.gguf "$out/$name.corpus/"
    [ "$name" = fuzz_tokenizer ] && cp tests/data/tokenizers/*.json "$out/$name.corpus/"
    [ "$name" = fuzz_chat_template ] && cp tests/data/chat/*.jinja "$out/$name.corpus/"
    # shellcheck disable=SC2086
    $CLANG $flags $sanitize -fsanitize=fuzzer -o "$out/$name" "$target" $objects $(pkg-config --libs jansson libxxhash libpcre2-8) -lm
    echo "== $name, $seconds s"
    "$out/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=0 -verbosity=0 -close_fd_mask=0 "$out/$name.corpus"
done
echo "no findings"
