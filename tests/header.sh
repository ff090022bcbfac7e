# The public interface. Each header compiles alone as C11 and as C++, pedantically; the shared library exports
# just what they declare, and that is what tests/data/exported_symbols.txt lists. After a change that is meant:
#     nm -D --defined-only build/libzest.so | sed -n 's/.* [TDBR] //p' | sort > tests/data/exported_symbols.txt
set -eu
CC=${CC:-cc} CXX=${CXX:-c++} list=tests/data/exported_symbols.txt
export LC_ALL=C
for header in include/*.h; do
    name=$(basename "$header")
    printf '#include "%s"\nint main(void) { return zest_version()[0] == 0; }\n' "$name" >"$BUILD/header.c"
    $CC -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only "$BUILD/header.c"
    if command -v "$CXX" >/dev/null 2>&1; then
        cp "$BUILD/header.c" "$BUILD/header.cc"
        $CXX -std=c++11 -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only "$BUILD/header.cc"
    fi
    # nothing of the library's insides
    if grep -n '#include "' "$header" | grep -v '"zest\.h"'; then
        echo "$header includes more than zest.h" >&2
        exit 1
    fi
done
[ -e "$BUILD/libzest.so" ] || exit 0
nm -D --defined-only "$BUILD/libzest.so" | sed -n 's/.* [TDBR] //p' | sort >"$BUILD/exported"
# the names of what is declared ZEST_API: the last word before the first parenthesis
cat include/*.h | grep -v '^#define' | tr '\n' ' ' | grep -o 'ZEST_API [^(]*(' | sed 's/($//; s/.*[ *]//' | sort >"$BUILD/declared"
fail() {
    echo "$1:" $2 >&2
    exit 1
}
extra=$(comm -23 "$BUILD/exported" "$BUILD/declared")
[ -z "$extra" ] || fail "exported, but declared in no header of include/" "$extra"
missing=$(comm -13 "$BUILD/exported" "$BUILD/declared")
[ -z "$missing" ] || fail "declared in include/, but not exported by libzest.so" "$missing"
gone=$(comm -23 "$list" "$BUILD/exported")
[ -z "$gone" ] || fail "in $list, but no longer exported; programs that use them would not start" "$gone"
new=$(comm -13 "$list" "$BUILD/exported")
[ -z "$new" ] || fail "exported, but not in $list; add them there" "$new"
