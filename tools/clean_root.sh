# Clean systems to try things in: sourced by tools/fresh.sh and tools/package_test.sh, as root on Debian or Ubuntu.
# A minimal system of this machine's release (or SUITE) is made from its package sources in a temporary folder.
# Commands run there in a mount and process namespace of their own. Whatever ends the script, the processes in there
# end with it and their mounts are gone before the folder is removed.
# The script sets `name`, its own, for messages.
cannot() {
    echo "$name: cannot run here: $*" >&2
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

work=$(mktemp -d "${TMPDIR:-/tmp}/zest-$name-XXXXXX")
child=
clean_up() {
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        kill -KILL "$child" 2>/dev/null || true # unshare ignores other signals; all processes in there end with it
        wait "$child" 2>/dev/null || true
    fi
    # Mounts were made in the namespace alone; should one be seen here after all, nothing is removed.
    if grep -qF " $work/" /proc/self/mountinfo; then
        echo "$name: $work has mounts, it is left as it is" >&2
    else
        for try in 1 2 3 4 5; do # the last processes may still be writing
            rm -rf --one-file-system "$work" 2>/dev/null && break
            sleep "$try"
        done
        [ ! -e "$work" ] || echo "$name: $work could not be removed" >&2
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

make_root() { # folder, packages separated by commas, release (default: this machine's)
    inside "$work/log" debootstrap --variant=minbase --include="$2" "${3:-$suite}" "$1" "$mirror" || {
        tail -n 20 "$work/log" "$1/debootstrap/debootstrap.log" >&2 2>/dev/null || true
        cannot "debootstrap could not install a minimal ${3:-$suite}"
    }
    cp -L /etc/resolv.conf "$1/etc/resolv.conf" 2>/dev/null || true
    # Every machine knows its own name; without it each start of an MPI program waits for a name server.
    printf '127.0.0.1 localhost %s\n' "$(uname -n)" >"$1/etc/hosts"
    if [ "${3:-$suite}" = "$suite" ]; then
        rm -rf "$1/etc/apt/sources.list" "$1/etc/apt/sources.list.d"
        for file in sources.list sources.list.d preferences.d keyrings trusted.gpg trusted.gpg.d; do
            [ ! -e "/etc/apt/$file" ] || cp -RL "/etc/apt/$file" "$1/etc/apt/"
        done
    fi
    # How this machine downloads (proxies, checks), without the hooks that its own packages have.
    apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets' >"$1/etc/apt/apt.conf.d/99this-machine" || true
}

in_root() { # log, folder, command of the shell: runs in the folder as its root
    inside "$1" sh -c 'mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/dev/shm" &&
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts" && ln -sf pts/ptmx "$1/dev/ptmx" && exec chroot "$1" env -i HOME=/root TERM=dumb LC_ALL=C \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin STEPS="${STEPS:-80}" \
        ${http_proxy:+http_proxy="$http_proxy"} sh -c "$2"' sh "$2" "$3"
}
