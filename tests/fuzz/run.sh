#!/bin/sh
# Builds fuzz targets with clang's libFuzzer, AddressSanitizer and UBSan, and runs one after the other:
#     sh tests/fuzz/run.sh [SECONDS [NAME ...]]      all targets without NAME; gguf, run, ... are names
# What libFuzzer finds is left in build/fuzz/fuzz_NAME.found; its corpus grows in build/fuzz/fuzz_NAME.corpus. Each
# run adds a line to build/fuzz/minutes: processor minutes, executions, the target.
set -eu
seconds=${1:-30}
[ $# -gt 0 ] && shift
CLANG=${CLANG:-clang}
command -v "$CLANG" >/dev/null 2>&1 || { echo "make fuzz needs clang and its runtime (Debian: apt-get install clang libclang-rt-dev)" >&2; exit 1; }
out=build/fuzz
mkdir -p "$out"
# OpenMP is left out: one thread is what a fuzzer wants
flags="-std=c11 -D_GNU_SOURCE -DZEST_GRAD -g -O1 -ffp-contract=off -fno-math-errno -Iinclude -Isrc -I. -Itests/fuzz/include -Wno-unknown-pragmas $(pkg-config --cflags jansson libxxhash)"
libs="$(pkg-config --libs jansson libxxhash) -lm"
for codec in zlib libzstd; do # of Parquet files
    pkg-config --exists $codec || continue
    flags="$flags -DZEST_$(echo ${codec#lib} | tr a-z A-Z)"
    libs="$libs $(pkg-config --libs $codec)"
done
sanitize="-fsanitize=address,undefined -fno-sanitize-recover=all"
avx512="-mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma -mf16c"
# Headers have no dependencies here: all objects are made again when one has changed.
if [ ! -f "$out/headers" ] || [ -n "$(find src tests/fuzz include -name '*.h' -newer "$out/headers" | head -n 1)" ]; then
    rm -f "$out"/*.o
    touch "$out/headers"
fi
compile() { # flags, source: prints the object
    object="$out/$(echo "$2" | tr / _).o"
    # shellcheck disable=SC2086,SC3013
    if [ ! -f "$object" ] || [ "$2" -nt "$object" ]; then $CLANG $flags $sanitize $1 -c -o "$object" "$2" >&2 || exit 1; fi
    echo "$object"
}
objects=""
for file in $(find src -name '*.c') tests/fuzz/mutate.c tests/fuzz/mutate_binary.c tests/fuzz/mutate_protobuf.c tests/fuzz/seeds.c; do
    target="-fsanitize=fuzzer-no-link"
    case "$file" in
    *_avx2.c) target="$target -mavx2 -mfma -mf16c" ;;
    *_avx512.c) target="$target $avx512" ;;
    *_avx512bf16.c) target="$target $avx512 -mavx512bf16 -mavx512vnni" ;;
    *_amx.c) target="$target $avx512 -mavx512bf16 -mamx-tile -mamx-bf16" ;;
    esac
    objects="$objects $(compile "$target" "$file")"
done
replay=$(compile "" tests/fuzz/replay.c)
[ $# -gt 0 ] || set -- $(for file in tests/fuzz/fuzz_*.c; do basename "$file" .c | sed 's/^fuzz_//'; done)
for name in "$@"; do
    name="fuzz_$name"
    source=$(compile "-fsanitize=fuzzer-no-link" "tests/fuzz/$name.c")
    # shellcheck disable=SC2086,SC3013
    $CLANG $sanitize -fsanitize=fuzzer -o "$out/$name" "$source" $objects $libs
    # shellcheck disable=SC2086,SC3013
    $CLANG $sanitize -o "$out/$name.replay" "$source" "$replay" $objects $libs
    mkdir -p "$out/$name.corpus" "$out/$name.found"
    "$out/$name.replay" -write "$out/$name.corpus"
    known=""
    [ -d "tests/fuzz/corpus/$name" ] && known="tests/fuzz/corpus/$name"
    echo "== $name, $seconds s"
    status=0
    ( # the processor time of this subshell's child
        # shellcheck disable=SC2086,SC3013
        "$out/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -malloc_limit_mb=2000 -max_len=262144 \
            -print_final_stats=1 -verbosity=0 -artifact_prefix="$out/$name.found/" "$out/$name.corpus" $known \
            >"$out/$name.log" 2>&1
        code=$?
        times >"$out/$name.times"
        exit $code
    ) || status=$?
    count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$name.log")
    awk -F '[ms ]+' -v name="$name" -v count="${count:-0}" 'NR == 2 {
        printf "%.1f processor minutes, %d executions: %s\n", $1 + $3 + ($2 + $4) / 60, count, name }' \
        "$out/$name.times" | tee -a "$out/minutes"
    if [ "$status" -ne 0 ]; then
        grep -vE '^stat::' "$out/$name.log" | tail -n 60
        echo "$name: a finding; the input is in $out/$name.found" >&2
        exit 1
    fi
done
echo "no findings"
