#!/bin/sh
# The README's first two commands on a machine that has nothing but make: a minimal Debian or Ubuntu in a temporary
# folder, of this machine's release and from its package sources. `make deps demo` and `make deps check` each get a
# clean system of their own, a copy of the working tree as git sees it, and both must succeed at the first call.
#
#   sudo sh tools/fresh.sh [TREE]        TREE: another working tree than this one
#
# Exit status: 0 both work, 1 one fails, 77 it cannot be tried here (the message says why).
set -eu
tree=$(cd "${1:-$(dirname "$0")/..}" && pwd)
name=fresh
. "$(dirname "$0")/clean_root.sh"

started=$(seconds)
root=$work/clean
make_root "$root" make,ca-certificates

mkdir "$root/zest"
(
    cd "$tree"
    if git -c safe.directory='*' rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git -c safe.directory='*' ls-files -co --exclude-standard -z
    else
        find . -type d \( -path ./build -o -path ./demo-out \) -prune -o -type f ! -path ./zest -print0
    fi | tar --null --ignore-failed-read -T - -cf - 2>/dev/null
) | tar -xf - --no-same-owner -C "$root/zest"
[ -e "$root/zest/Makefile" ] || { echo "fresh: $tree is no working tree of zest" >&2; exit 1; }
cp -a "$root" "$work/second"
echo "fresh: a minimal $suite, $(du -sm "$root" | cut -f 1) MB, in $(($(seconds) - started)) s"

failed=0
try() { # folder, goals of make
    begun=$(seconds)
    if in_root "$work/log" "$1" "exec make -C /zest --no-print-directory $2"; then
        echo "fresh: make $2: ok, $(($(seconds) - begun)) s: $(tail -n 1 "$work/log")"
    else
        echo "fresh: make $2: FAILED after $(($(seconds) - begun)) s, its last lines:"
        grep -A 20 '^FAIL' "$work/log" | head -n 60 || true
        tail -n 30 "$work/log"
        failed=1
    fi
    rm -rf --one-file-system "$1"
}
try "$work/clean" "deps demo"
try "$work/second" "deps check"
exit $failed
