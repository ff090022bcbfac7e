# examples/zest_in_one_file.c compiles alone, without a warning, with every compiler that is here, and prints what the
# build of the Makefile prints. It stays short, and the files of the library that it names exist.
set -eu
file=examples/zest_in_one_file.c
fail() {
    echo "FAILED: $file $*" >&2
    exit 1
}
[ "$(wc -l <$file)" -le 300 ] || fail "has more than 300 lines"
long=$(awk 'length > 110 { print NR }' $file)
[ -z "$long" ] || fail "has lines of more than 110 columns: $long"
for name in $(grep -o '[a-z_]*\.[ch]\b' $file | grep -v -e '^zest_in' -e '^test_' | sort -u); do
    case "$name" in math.h | stdint.h | stdio.h | string.h) continue ;; esac
    [ -n "$(find src -name "$name")" ] || fail "names $name, which src/ does not have"
done

work=$(mktemp -d /tmp/zest-one-file-XXXXXX)
trap 'rm -rf "$work"' EXIT
"$BUILD/examples/zest_in_one_file" >"$work/expected" || fail "of the Makefile's build fails"
grep -c 'same bits' "$work/expected" | grep -qx 3 || fail "does not replay three runs"
for compiler in "${CC:-cc}" gcc clang; do
    command -v ${compiler%% *} >/dev/null || continue
    $compiler -O2 -ffp-contract=off -std=c11 -Wall -Wextra -Wpedantic -Werror $file -lm -o "$work/alone"
    "$work/alone" >"$work/output" || fail "compiled by $compiler fails"
    cmp "$work/expected" "$work/output" || fail "compiled by $compiler prints other numbers"
done
