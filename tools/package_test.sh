#!/bin/sh
# The packages of `make package wheel`, each in a clean minimal Debian or Ubuntu of its own:
#   the .deb is installed by apt, which finds what it depends on, used (by `pip install ./python`, too), and removed;
#   the portable archive is unpacked where nothing is installed, and used;
#   the wheel is installed by pip beside Debian's python3-numpy, and used.
# Used means: training on examples/roberta-tiny gives the weights that the build here gives, bit for bit.
#
#   sudo sh tools/package_test.sh [deb|portable|wheel ...]      SUITE=trixie: another release, for portable and wheel
#
# Exit status: 0 all work, 1 one fails, 77 it cannot be tried here (the message says why).
set -eu
tree=$(cd "$(dirname "$0")/.." && pwd)
name=package
. "$(dirname "$0")/clean_root.sh"
[ $# -gt 0 ] || set -- deb portable wheel
packages=$tree/build/packages
if ! "${PYTHON:-python3}" -m pip --version >/dev/null 2>&1; then
    echo "package: no pip here (apt-get install python3-pip python3-setuptools python3-wheel): the wheel is left out" >&2
    set -- $(printf '%s\n' "$@" | grep -v wheel)
fi
sh "$tree/tools/package.sh" "$@"

train='train --model examples/roberta-tiny --task examples/reviews/reviews.task --steps 3 --k 2 --quiet --out'
here=$(ls -d "$tree"/build/package-tree/build-portable/zest "$tree"/build/package-tree/build-deb/zest 2>/dev/null | head -n 1)
weights=
if [ -n "$here" ]; then
    # shellcheck disable=SC2086
    (cd "$tree" && "$here" $train "$work/run" >/dev/null)
    weights=$(sha256sum <"$work/run/last/model.safetensors")
fi

started=$(seconds)
make_root "$work/clean" ca-certificates "${SUITE:-}"
cp -R "$tree/examples" "$work/clean/root/"
echo "package: a minimal ${SUITE:-$suite}, $(du -sm "$work/clean" | cut -f 1) MB, in $(($(seconds) - started)) s"

failed=0
try() { # label, commands, in a copy of the clean system; the package is in /root
    begun=$(seconds)
    cp -a "$work/clean" "$work/root"
    cp "$packages"/* "$work/root/root/"
    mkdir "$work/root/root/source"
    (cd "$tree" && tar -cf - --exclude=build --exclude='*.egg-info' python include) | tar -xf - -C "$work/root/root/source"
    cp "$tree/python/tests/smoke.py" "$work/root/root/"
    if in_root "$work/log" "$work/root" "set -e; cd /root; $2"; then
        echo "package: $1: ok, $(($(seconds) - begun)) s: $(tail -n 1 "$work/log")"
    else
        echo "package: $1: FAILED after $(($(seconds) - begun)) s, its last lines:"
        tail -n 30 "$work/log"
        failed=1
    fi
    rm -rf --one-file-system "$work/root"
}
apt='export DEBIAN_FRONTEND=noninteractive; apt-get update -qq; apt-get install -y -qq --no-install-recommends'
check="[ \"\$(sha256sum <run/last/model.safetensors)\" = '$weights' ]"

# The portable program loads libcurl when it runs: with one, the test of zest pull passes.
pull_with_libcurl() {
    mkdir -p "$work/bin/tests/programs"
    for program in hub_server is_json; do
        cc -std=c11 -D_GNU_SOURCE -I"$tree/src" -I"$tree/include" "$tree/tests/programs/$program.c" -ljansson \
            -o "$work/bin/tests/programs/$program" || return 1
    done
    (cd "$tree" && BUILD="$work/bin" ZEST="$here" sh tests/cli/pull.sh) >"$work/log" 2>&1
}

for kind in "$@"; do
    case $kind in
    deb) try "the .deb, by apt" "$apt ./zest_*.deb; zest --version; zest $train run; $check; ldconfig -p | grep -q libzest.so.0
        zest pull no/such-model 2>&1 | grep -v 'without libcurl'; test -s /usr/include/zest.h; test -s /usr/include/zest_lm.h
        $apt python3-numpy python3-pip python3-setuptools python3-wheel; rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
        pip install --no-index --no-deps --no-build-isolation ./source/python; python3 smoke.py examples
        apt-get remove -y -qq zest; test ! -e /usr/bin/zest; test ! -e /usr/lib/libzest.so.0; echo 'same weights as here; removed'" ;;
    portable) try "the portable archive" "tar xzf zest-*-linux-*.tar.gz; PATH=\$PATH:\$(echo /root/zest-*/bin); zest --version
        if ldconfig -p | grep -E 'jansson|gomp|curl'; then exit 1; fi; zest $train run; $check
        zest pull no/such-model 2>&1 | grep -q 'apt-get install libcurl4'; echo same weights as here, with \$(ldd --version | head -n 1)" ;;
    wheel)
        mine=$(cd "$tree" && ZEST_LIBRARY=$tree/build/package-tree/build-portable/libzest.so PYTHONPATH=python \
            "$(command -v /usr/bin/python3 || command -v python3)" python/tests/smoke.py examples) || mine=
        try "the wheel, by pip" "$apt python3-numpy python3-pip; rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
        pip install --no-index --no-deps ./zest-*.whl; python3 smoke.py examples | tee out; test -z '$mine' || [ \"\$(cat out)\" = '$mine' ]" ;;
    esac
done
case " $* " in *" portable "*)
    if pull_with_libcurl; then echo "package: zest pull of the portable program, with the libcurl of this machine: ok"; else
        echo "package: zest pull of the portable program: FAILED, its last lines:" && tail -n 20 "$work/log" && failed=1
    fi
    ;;
esac
exit $failed
