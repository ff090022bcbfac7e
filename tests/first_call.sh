# The first `make` on a machine that has neither a compiler nor the libraries: `make deps demo` must ask for them after
# it installed them. The Makefile builds a tiny tree here, and a stub of tools/deps.sh "installs" stubs of cc and
# pkg-config. tools/fresh.sh does the same with a real system, as root. Then: a changed option leaves no stale object.
set -eu
work=$(mktemp -d "${TMPDIR:-/tmp}"/zest-first-XXXXXX)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*" >&2
    cat "$work/log" >&2
    exit 1
}
compiler=$(command -v "${CC:-cc}")
mkdir -p "$work/empty"
for tool in sh make sed uname head mkdir cat cmp rm cp ar ln; do ln -s "$(command -v $tool)" "$work/empty/$tool"; done

# One source file in each place that the options decide about.
plant() { # folder
    mkdir -p "$1/include" "$1/src/base" "$1/src/grad" "$1/cli" "$1/tools" "$1/tests"
    cp Makefile "$1/"
    echo '#define ZEST_VERSION "9.8.7"' >"$1/include/zest.h"
    cat >"$1/src/base/forward.c" <<'C'
#ifndef FOUND
#error "compiled without the flags of pkg-config"
#endif
int zest_forward(void);
int zest_forward(void) { return 1; }
C
    cat >"$1/src/grad/backward.c" <<'C'
int zest_backward(void);
int zest_backward(void) { return 2; }
C
    cat >"$1/cli/main.c" <<'C'
#include <math.h>
#include <stdio.h>
int zest_forward(void);
int zest_backward(void);
int main(int argc, char **argv) {
    (void)argv;
    int sum = zest_forward() + (argc > 99 ? (int)sinh(argc) : 0);
#ifdef ZEST_GRAD
    sum += zest_backward();
#endif
#ifdef ZEST_CURL
    sum += 4;
#endif
    printf("the program says %d\n", sum);
    return 0;
}
C
    echo './zest' >"$1/tools/demo.sh"
    # The libraries' names are given to the linker by pkg-config alone: here the name is a file that deps writes.
    cat >"$1/tools/deps.sh" <<SH
mkdir -p bin
printf '#!/bin/sh\nPATH=%s exec %s "\$@"\n' '$PATH' '$compiler' >bin/cc
printf '#!/bin/sh\ncase "\$*" in *--cflags*) echo -DFOUND ;; *--modversion*) echo 1.0 ;; esac\n' >bin/pkg-config
PATH=$PATH chmod +x bin/cc bin/pkg-config
SH
}
first() { # arguments of make, on a fresh machine
    rm -rf "$work/tree"
    plant "$work/tree"
    again "$@"
}
again() { (cd "$work/tree" && env -i PATH="$work/tree/bin:$work/empty" make "$@") >"$work/log" 2>&1; }
says() { grep -qxF "the program says $1" "$work/log" || fail "the program does not say $1"; }

first && fail "plain make without a compiler succeeds"
grep -q "Run 'make deps'" "$work/log" || fail "plain make does not say what to do"
first -j4 all && fail "make -j4 without a compiler succeeds"
first help || fail "make help needs a compiler"
first clean || fail "make clean needs a compiler"
first deps || fail "make deps"
for jobs in -j1 -j4; do
    first $jobs CUDA=off deps demo || fail "make $jobs deps demo"
    says 7
    first $jobs CUDA=off GRAD=off CURL=off demo deps || fail "make $jobs GRAD=off CURL=off demo deps"
    says 1
done
first CUDA=sometimes deps all && fail "CUDA=sometimes is accepted"
grep -q "CUDA may be auto on off" "$work/log" || fail "CUDA=sometimes: the allowed values are not named"

# One folder, other options: what depends on them is made again, the rest is not.
first CUDA=off deps demo && says 7 || fail "first build"
again CUDA=off GRAD=off demo && says 5 || fail "GRAD=off after GRAD=on"
ar t "$work/tree/build/libzest.a" | grep -q backward && fail "GRAD=off leaves an old object in the library"
again CUDA=off CURL=off demo && says 3 || fail "CURL=off after CURL=auto"
again CUDA=off CURL=off demo && says 3 || fail "the same again"
grep -E '^  (CC|AR|LINK) ' "$work/log" && fail "nothing changed, and something was made again"
again -j4 CUDA=off clean all || fail "make -j4 clean all: it builds what is being removed"
[ -x "$work/tree/zest" ] || fail "make -j4 clean all leaves no program"
exit 0
