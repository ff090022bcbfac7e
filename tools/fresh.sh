#!/bin/sh
# The README's first two commands on a machine that has nothing but make: a minimal Debian or Ubuntu in a temporary
# folder, of this machine's release and from its package sources. `make deps demo` and `make deps check` each get a
# clean system of their own, a copy of the working tree as git sees it, and both must succeed at the first call.
#
#   sudo tools/fresh.sh [TREE]        TREE: another working tree than this one
#
# Exit status: 0 both work, 1 one fails, 77 it cannot be tried here (the message says why).
# Everything runs in a mount and process namespace of its own. Whatever ends this script, the processes in there end
# with it and their mounts are gone before the folder is removed.
set -eu
tree=$(cd "${1:-$(dirname "$0")/..}" && pwd)
cannot() {
    echo "fresh: cannot run here: $*" >&2
    exit 77
}
[ "$(id -u)" -eq 0 ] || cannot "not root"
command -v debootstrap >/dev/null 2>&1 || cannot "debootstrap is missing (apt-get install debootstrap)"
for tool in unshare chroot apt-get apt-config tar; do
    command -v $tool >/dev/null 2>&1 || cannot "$tool is missing"
done
unshare --mount --pid --fork --kill-child --mount-proc true 2>/dev/null || cannot "no namespaces (unshare fails)"
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' | sed -n "s/^$suite //p" | head -n 1)
[ -n "$suite" ] && [ -n "$mirror" ] || cannot "the package sources of this machine name no archive of its release"
if [ -z "${http_proxy:-}" ]; then # debootstrap does not read apt's settings
    eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
    if [ -n "${http_proxy:-}" ]; then export http_proxy; fi
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/zest-fresh-XXXXXX")
child=
clean_up() {
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        kill -KILL "$child" 2>/dev/null || true # unshare ignores other signals; all processes in there end with it
        wait "$child" 2>/dev/null || true
    fi
    # Mounts were made in the namespace alone; should one be seen here after all, nothing is removed.
    if grep -qF " $work/" /proc/self/mountinfo; then
        echo "fresh: $work has mounts, it is left as it is" >&2
    else
        for try in 1 2 3 4 5; do # the last processes may still be writing
            rm -rf --one-file-system "$work" 2>/dev/null && break
            sleep "$try"
        done
        [ ! -e "$work" ] || echo "fresh: $work could not be removed" >&2
    fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# In the background, so that a signal is answered at once.
inside() { # log, command...
    log=$1
    shift
    unshare --mount --pid --fork --kill-child --mount-proc "$@" >"$log" 2>&1 </dev/null &
    child=$!
    status=0
    wait "$child" || status=$?
    child=
    return $status
}
seconds() { date +%s; }

started=$(seconds)
root=$work/clean
inside "$work/log" debootstrap --variant=minbase --include=make,ca-certificates "$suite" "$root" "$mirror" || {
    tail -n 20 "$work/log" "$root/debootstrap/debootstrap.log" >&2 2>/dev/null || true
    cannot "debootstrap could not install a minimal $suite"
}
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
rm -rf "$root/etc/apt/sources.list" "$root/etc/apt/sources.list.d"
for file in sources.list sources.list.d preferences.d keyrings trusted.gpg trusted.gpg.d; do
    [ ! -e "/etc/apt/$file" ] || cp -RL "/etc/apt/$file" "$root/etc/apt/"
done
# How this machine downloads (proxies, checks), without the hooks that its own packages have.
apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets' >"$root/etc/apt/apt.conf.d/99this-machine" || true

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
    if inside "$work/log" sh -c 'mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/dev/shm" &&
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts" && ln -sf pts/ptmx "$1/dev/ptmx" && exec chroot "$1" env -i HOME=/root TERM=dumb LC_ALL=C \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin STEPS="${STEPS:-80}" \
        ${http_proxy:+http_proxy="$http_proxy"} make -C /zest --no-print-directory $2' sh "$1" "$2"; then
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
