#!/bin/sh
# Static analysis: clang-tidy 14 (.clang-tidy says which checks are left out, and why) and cppcheck
# (tools/cppcheck-suppressions). 77: neither is installed. On Debian: apt-get install clang-tidy cppcheck
#     sh tools/lint.sh [FILE ...]        without FILE: src and cli, but for generated tables and code of instruction sets
set -eu
done_any=0
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(find src cli -name '*.c' | grep -vE '_(avx2|avx512|avx512bf16|amx|tables)\.c$' | sort)
flags="-std=c11 -D_GNU_SOURCE -DZEST_GRAD -DZEST_CURL -DZEST_ZLIB -DZEST_ZSTD -Iinclude -Isrc -I."
if command -v clang-tidy >/dev/null 2>&1 && clang-tidy --version | grep -q 'version 14\.'; then
    done_any=1
    # shellcheck disable=SC2086
    printf '%s\n' "$@" | xargs -P "$(nproc)" -n 4 sh -c 'clang-tidy --quiet "$@" -- '"$flags"' 2>/dev/null' clang-tidy
    echo "clang-tidy: $# files without a finding"
fi
if command -v cppcheck >/dev/null 2>&1; then
    done_any=1
    # shellcheck disable=SC2086
    cppcheck --quiet -j "$(nproc)" --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 --library=posix \
        --suppressions-list=tools/cppcheck-suppressions -D__x86_64__ -DZEST_GRAD -DZEST_CURL -DZEST_ZLIB -DZEST_ZSTD -Iinclude -Isrc -I. \
        --template='{file}:{line}: {severity}: {id}: {message}' "$@"
    echo "cppcheck: $# files without a finding"
fi
if [ $done_any -eq 0 ]; then
    echo "tools/lint.sh: neither clang-tidy 14 nor cppcheck is installed" >&2
    exit 77
fi
