#!/bin/sh
# The program and tests with musl in place of glibc, linked statically. Debian has no libraries for musl, so the four
# that zest needs are made from Debian's sources. Without OpenMP, whose library needs glibc: one thread.
#     sh tools/musl.sh [TEST ...]        test programs to run, such as test_json (default: the list below)
# Needs the network once; everything goes to build/musl. 77: a tool is missing. On Debian: apt-get install musl-tools cmake
set -eu
for tool in musl-gcc cmake curl apt-get; do
    command -v $tool >/dev/null 2>&1 || { echo "tools/musl.sh: $tool is missing (Debian: apt-get install musl-tools cmake curl)" >&2; exit 77; }
done
out=build/musl
mkdir -p $out/sources
here=$(pwd) prefix=$(pwd)/$out/prefix
unpack() { # path in the pool, SHA-256
    file=$out/sources/$(basename "$1")
    [ -s "$file" ] || curl -fsS -m 120 -o "$file" "$pool/$1"
    echo "$2  $file" | sha256sum -c --quiet
    tar -xf "$file" -C $out/sources
}
library() { # folder, options of cmake
    folder=$out/sources/$1
    shift
    cmake -S "$folder" -B "$folder/musl" -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
        -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF "$@" >"$out/cmake.log" 2>&1 &&
        cmake --build "$folder/musl" -j 2 --target install >>"$out/cmake.log" 2>&1 || { tail -n 20 "$out/cmake.log" >&2; exit 1; }
}
if [ ! -e "$prefix/done" ]; then
    # the pool of the mirror that apt uses on this machine, with the sources beside the packages
    pool=$(apt-get download --print-uris libjansson-dev | sed -n "s|^'\(.*/pool/main\)/.*|\1|p")
    [ -n "$pool" ] || { echo "tools/musl.sh: apt-get does not know libjansson-dev (apt-get update)" >&2; exit 77; }
    unpack j/jansson/jansson_2.14.orig.tar.gz c739578bf6b764aa0752db9a2fdadcfe921c78f1228c7ec0bb47fa804c55d17b
    unpack p/pcre2/pcre2_10.42.orig.tar.gz c33b418e3b936ee3153de2c61cc638e7e4fe3156022a5c77d0711bcbb9d64f1f
    unpack x/xxhash/xxhash_0.8.1.orig.tar.gz 3bb6b7d6f30c591dd65aaaff1c8b7a5b94d81687998ca9400082c739a690436c
    unpack c/cmocka/cmocka_1.1.7.orig.tar.xz 810570eb0b8d64804331f82b29ff47c790ce9cd6b163e98d47a4807047ecad82
    library jansson-2.14 -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON
    library pcre2-10.42 -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF
    library cmocka-1.1.7 -DWITH_EXAMPLES=OFF -DCMAKE_POLICY_DEFAULT_CMP0077=NEW
    xxhash=$out/sources/xxHash-0.8.1
    (cd "$xxhash" && musl-gcc -O2 -c xxhash.c && ar rcs "$prefix/lib/libxxhash.a" xxhash.o && cp xxhash.h "$prefix/include")
    printf 'Name: xxhash\nDescription: xxHash\nVersion: 0.8.1\nLibs: -L%s/lib -lxxhash\nCflags: -I%s/include\n' "$prefix" "$prefix" \
        >"$prefix/lib/pkgconfig/libxxhash.pc"
    touch "$prefix/done"
fi
[ $# -gt 0 ] || set -- test_batch test_dtype test_environment test_gguf test_gguf_hostile test_gguf_write test_hostile_classes \
    test_journal test_json test_load test_log test_metric test_model test_model_load test_noise test_number test_one_file \
    test_options test_progress test_rows test_run_inputs test_safetensors test_sampler test_stats test_task test_task_file \
    test_template test_tokenizer test_tokenizer_hostile test_tokenizer_limits test_trainer test_tuner test_update test_wordpiece
bins=""
for test in "$@"; do bins="$bins $out/tests/$test"; done
export PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig"
# shellcheck disable=SC2086
make BUILD=$out CC=musl-gcc CUDA=off CURL=off MPI=off CFLAGS="-g -fno-openmp -I$here/tests/fuzz/include -Wno-unknown-pragmas -Wno-unused-parameter" \
    LIBS="-L$prefix/lib -ljansson -lxxhash -lpcre2-8 -lm" LDFLAGS=-static $out/zest $out/examples/zest_in_one_file $bins
failed=0
for test in "$@"; do
    "$out/tests/$test" >"$out/test.log" 2>&1 || { failed=$((failed + 1)) && echo "FAILED $test:" && grep -v 'RUN\|  OK ' "$out/test.log"; }
done
echo "$# test programs with musl, $failed failed"
# a run has the same bits as with glibc, if that build is there
if [ -x build/examples/zest_in_one_file ]; then
    build/examples/zest_in_one_file >"$out/glibc" && $out/examples/zest_in_one_file >"$out/musl" && cmp "$out/glibc" "$out/musl" &&
        echo "examples/zest_in_one_file: the same output with glibc" || failed=1
fi
[ $failed -eq 0 ]
