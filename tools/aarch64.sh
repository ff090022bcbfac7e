#!/bin/sh
# AArch64 without such a machine: compiles for it, runs tests under qemu-user, and compares bits with this machine's:
# the noise, a journal that was written here and replayed there, and the one-file program. 77: a tool is missing.
#     sh tools/aarch64.sh [BUILD]        the build of this machine is `make`'s; the other goes to build/aarch64
# On Debian (amd64), as root:
#     dpkg --add-architecture arm64 && apt-get update
#     apt-get install gcc-aarch64-linux-gnu qemu-user libgomp1:arm64 libjansson-dev:arm64 libxxhash-dev:arm64 \
#         libcmocka-dev:arm64
set -eu
here=${1:-build} there=build/aarch64 target=aarch64-linux-gnu
for tool in $target-gcc qemu-aarch64; do
    command -v $tool >/dev/null 2>&1 || { echo "tools/aarch64.sh: $tool is missing" >&2; exit 77; }
done
for library in jansson xxhash cmocka; do
    [ -e /usr/lib/$target/lib$library.so ] || { echo "tools/aarch64.sh: lib$library for arm64 is missing" >&2; exit 77; }
done
[ -x "$here/zest" ] && [ -x "$here/tests/programs/objective" ] || { echo "tools/aarch64.sh: run make check first" >&2; exit 1; }
export PKG_CONFIG_LIBDIR=/usr/lib/$target/pkgconfig
tests="test_tilt test_journal test_one_file test_gguf test_safetensors test_tokenizer_limits test_update test_noise"
bins=""
for test in $tests; do bins="$bins $there/tests/$test"; done
# shellcheck disable=SC2086
make BUILD=$there ARCH=aarch64 CC=$target-gcc CUDA=off CURL=off $there/zest $bins $there/examples/zest_in_one_file
unset PKG_CONFIG_LIBDIR
run() { OMP_NUM_THREADS=2 qemu-aarch64 "$@"; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
same() { cmp "$work/here.$1" "$work/there.$1" && echo "same bits: $1"; }
$here/examples/zest_in_one_file >"$work/here.one-file"
run "$there/examples/zest_in_one_file" >"$work/there.one-file"
same one-file
# A function of a vector: every distribution, replayed from the journal to the last step.
for distribution in gaussian sphere ball rademacher; do
    "$here/zest" minimize --exec "$here/tests/programs/objective text 100" --dim 100 \
        --steps 30 --k 3 --t 2 --lr 0.01 --distribution $distribution --quiet --out "$work/$distribution" >/dev/null
    "$here/zest" replay "$work/$distribution" --out "$work/here.$distribution" >/dev/null
    run "$there/zest" replay "$work/$distribution" --out "$work/there.$distribution" >/dev/null
    same $distribution
done
# A model: weights of bf16 with stochastic rounding.
"$here/zest" train --model examples/roberta-tiny --task examples/reviews/reviews.task --steps 3 --k 2 --batch 4 --eval-every 0 \
    --dev-size 4 --test-size 4 --quiet --out "$work/model" >/dev/null
rm -r "$work/model/best" "$work/model/last" # so that the journal is replayed from the start
"$here/zest" replay "$work/model" --step 3 --out "$work/replayed-here" >/dev/null
run "$there/zest" replay "$work/model" --step 3 --out "$work/replayed-there" >/dev/null
cp "$work/replayed-here/model.safetensors" "$work/here.model"
cp "$work/replayed-there/model.safetensors" "$work/there.model"
same model
echo "AArch64: all bits are the same"
for test in $tests; do
    echo "== $test under qemu"
    run "$there/tests/$test"
done
