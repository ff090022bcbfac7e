# The README's C example compiles and prints what the README says; its links lead somewhere.
set -eu
CC=${CC:-cc}
awk '/^```c$/ { f = 1; next } /^```$/ { f = 0 } f' README.md >"$BUILD/readme.c"
$CC -std=c11 -Wall -Wextra -Werror -Iinclude "$BUILD/readme.c" "$BUILD/libzest.a" \
    ${LIBS:-$(pkg-config --libs jansson libxxhash) -lm -fopenmp} -o "$BUILD/readme"
grep -qxF "$("$BUILD/readme")" README.md
for link in $(grep -oh '](\([^)#:]*\))' README.md CONTRIBUTING.md | sed 's/](\(.*\))/\1/'); do
    [ -e "$link" ] || { echo "README links to $link, which is not there" >&2; exit 1; }
done
head -n 20 README.md | grep -q '^make deps demo$'
