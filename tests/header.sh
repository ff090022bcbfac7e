# The public header compiles alone as C11 and as C++, pedantically; the shared library exports just what it declares.
set -eu
CC=${CC:-cc} CXX=${CXX:-c++}
echo '#include "zest.h"
int main(void) { return zest_version()[0] == 0; }' >"$BUILD/header.c"
$CC -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only "$BUILD/header.c"
if command -v "$CXX" >/dev/null 2>&1; then
    cp "$BUILD/header.c" "$BUILD/header.cc"
    $CXX -std=c++11 -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only "$BUILD/header.cc"
fi
[ -e "$BUILD/libzest.so" ] || exit 0
nm -D --defined-only "$BUILD/libzest.so" | sed -n 's/.* [TDBR] //p' | sort >"$BUILD/exported"
tr -c 'a-z0-9_A-Z' '\n' <include/zest.h | grep '^zest_' | sort -u >"$BUILD/declared"
extra=$(comm -23 "$BUILD/exported" "$BUILD/declared")
[ -z "$extra" ] || { echo "exported but not in zest.h: $extra" >&2; exit 1; }
grep -o 'ZEST_API [^;]*;' include/zest.h >/dev/null
for name in $(grep -v '^#define' include/zest.h | tr '\n' ' ' | grep -o 'ZEST_API [^(]*(' | sed 's/($//; s/.*[ *]//'); do
    grep -qx "$name" "$BUILD/exported" || { echo "zest.h declares $name, the library lacks it" >&2; exit 1; }
done
