#!/bin/sh
# Packages of the CPU program, in build/packages:
#   sh tools/package.sh deb        zest_VERSION_ARCH.deb: program, libraries, headers, manual (needs dpkg-deb)
#   sh tools/package.sh portable   zest-VERSION-linux-ARCH.tar.gz: the program, static but for libc; needs glibc 2.34
#   sh tools/package.sh wheel      a Python wheel that carries the shared library and what it needs (needs pip)
# `make package` makes the first two, `make wheel` the third; tools/package_test.sh tries them in clean systems.
# Everything is built from a copy of the working tree in build/package-tree: ./zest and build stay as they are.
set -eu
cd "$(dirname "$0")/.."
top=$(pwd) out=$(pwd)/build/packages tree=$(pwd)/build/package-tree
fail() {
    echo "package: $*" >&2
    exit 1
}
version=$(sed -n 's/^#define ZEST_VERSION "\(.*\)"/\1/p' include/zest.h)
machine=$(uname -m)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH
mkdir -p "$out" "$tree"
# Files keep their times, so that a second call builds only what changed; files that are gone go here, too.
(cd "$tree" && find . -path './build*' -prune -o -type f -print | while read -r file; do
    [ -e "$top/$file" ] || rm -f "$file"
done)
{ git ls-files -co --exclude-standard -z 2>/dev/null || find . -path './build*' -prune -o -type f ! -path ./zest -print0; } |
    tar --null --ignore-failed-read -T - -cf - 2>/dev/null | tar -xf - -C "$tree"
cd "$tree"

build() { # build folder, further arguments of make: quiet unless it fails
    folder=$1
    shift
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make --no-print-directory CUDA=off ZLIB=on ZSTD=on BUILD="$folder" "$@" >"$tree/make.log" 2>&1 ||
        { tail -n 20 "$tree/make.log" >&2 && fail "the build failed: $tree/make.log"; }
}
portable() { # arguments of make: libcurl is loaded when it is needed, so that the program starts without it
    build build-portable CURL=dlopen CFLAGS="-g -include tools/portable.h" "$@"
}
documents() { # folder: what every package says about itself
    cp LICENSE NOTICE README.md CHANGELOG.md "$1/"
    cp -R docs "$1/"
    rm "$1/docs/zest.1"
}
licences() { # folder: the terms of the libraries that the package contains
    mkdir -p "$1"
    for package in libjansson-dev libxxhash-dev libgomp1 zlib1g-dev libzstd-dev; do
        [ ! -e "/usr/share/doc/$package/copyright" ] || cp -L "/usr/share/doc/$package/copyright" "$1/$package.txt"
    done
}

make_deb() {
    command -v dpkg-deb >/dev/null 2>&1 || fail "a .deb needs dpkg-deb, which Debian and Ubuntu have"
    arch=$(dpkg --print-architecture) root=$tree/build-root/deb
    rm -rf "$root"
    build build-deb CURL=on PREFIX=/usr DESTDIR="$root" install
    strip --strip-unneeded "$root/usr/bin/zest" "$root/usr/lib"/libzest.so.*
    strip --strip-debug "$root/usr/lib/libzest.a"
    gzip -9n "$root/usr/share/man/man1/zest.1"
    mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
    doc=$root/usr/share/doc/zest
    mkdir -p "$doc" "$root/DEBIAN" "$tree/debian"
    documents "$doc"
    cp -R examples "$doc/"
    { printf 'zest %s\n\n' "$version" && cat NOTICE && printf '\n' && cat LICENSE; } >"$doc/copyright"
    rm "$doc/LICENSE" "$doc/NOTICE"
    gzip -9n "$doc/CHANGELOG.md" && mv "$doc/CHANGELOG.md.gz" "$doc/changelog.gz"
    depends="libc6, libcurl4, libgomp1, libjansson4, libxxhash0, libzstd1, zlib1g"
    if command -v dpkg-shlibdeps >/dev/null 2>&1; then # names and versions as this system has them
        printf 'Source: zest\n\nPackage: zest\nArchitecture: any\n' >debian/control
        depends=$(dpkg-shlibdeps -O "$root/usr/bin/zest" "$root/usr/lib"/libzest.so.? 2>/dev/null |
            sed -n 's/^shlibs:Depends=//p')
    fi
    cat >"$root/DEBIAN/control" <<CONTROL
Package: zest
Version: $version
Architecture: $arch
Maintainer: the zest authors <zest@localhost>
Section: science
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f 1)
Depends: $depends
Suggests: libjansson-dev, libxxhash-dev, libcurl4-openssl-dev, libzstd-dev, zlib1g-dev
Description: fine-tune language models with forward passes only (MeZO, ZEST)
 The program zest fine-tunes, evaluates and runs language models on the CPU
 without gradients. libzest does the same for C programs, and minimises
 functions from their values alone.
CONTROL
    echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    chmod -R u=rwX,go=rX "$root"
    dpkg-deb --root-owner-group --build "$root" "$out/zest_${version}_$arch.deb" >/dev/null
    echo "package: $out/zest_${version}_$arch.deb"
}

make_portable() {
    # libgomp.a comes with gcc, the others with the -dev packages; --as-needed leaves libgomp.so out, which -fopenmp adds
    portable LDFLAGS="-Wl,--as-needed -static-libgcc" \
        LIBS="-l:libjansson.a -l:libxxhash.a -l:libz.a -l:libzstd.a -l:libgomp.a -lm -ldl -lpthread" build-portable/zest
    others=$(ldd build-portable/zest | grep -vE 'linux-vdso|lib(m|c)\.so\.6|ld-linux|libdl|libpthread' || true)
    [ -z "$others" ] || fail "the portable program needs more than libc: $others"
    name=zest-$version-linux-$machine root=$tree/build-root/portable/zest-$version-linux-$machine
    rm -rf "$tree/build-root/portable"
    mkdir -p "$root/bin" "$root/share/man/man1" "$root/share/bash-completion/completions" "$root/share/zsh/site-functions"
    cp build-portable/zest "$root/bin/"
    strip --strip-unneeded "$root/bin/zest"
    cp docs/zest.1 "$root/share/man/man1/"
    build-portable/zest completion bash >"$root/share/bash-completion/completions/zest"
    build-portable/zest completion zsh >"$root/share/zsh/site-functions/_zest"
    documents "$root"
    cp -R examples "$root/"
    licences "$root/licences"
    cat >"$root/INSTALL.txt" <<TEXT
zest $version for Linux on $machine, with glibc 2.34 or later (Debian 12, Ubuntu 22.04, Fedora 35, RHEL 9 and later).
CPU only: for NVIDIA GPUs build from source.

Nothing needs to be installed. Try it in this folder:

    bin/zest train --model examples/roberta-tiny --task examples/reviews/reviews.task --steps 20

To have it everywhere, add bin to PATH, or copy bin and share to /usr/local.
zest pull loads libcurl.so.4 when it runs; every other command works without it (Debian, Ubuntu: apt-get install libcurl4).
licences has the terms of the libraries that are linked in: jansson, xxHash, zlib, zstd, libgomp.
TEXT
    chmod -R u=rwX,go=rX "$root"
    tar -C "$tree/build-root/portable" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" |
        gzip -9n >"$out/$name.tar.gz"
    echo "package: $out/$name.tar.gz"
}

make_wheel() {
    python=${PYTHON:-python3}
    "$python" -m pip --version >/dev/null 2>&1 || fail "a wheel needs $python with pip"
    # Debian's static libraries cannot go into a shared one, so the shared ones travel along, in the same folder.
    portable LDFLAGS="-Wl,--as-needed -Wl,-rpath,'\$\$ORIGIN'" build-portable/libzest.so
    strip --strip-unneeded build-portable/libzest.so.?
    rm -rf python/build python/*.egg-info build-root/wheel build-root/bundle
    mkdir -p build-root/bundle
    bundle=$(ldd build-portable/libzest.so | awk '$1 ~ /^lib(jansson|xxhash|gomp|z|zstd)\.so/ { print $3 }' | while read -r file; do
        cp -L "$file" build-root/bundle/ && echo "$tree/build-root/bundle/$(basename "$file")"
    done)
    licences python/zest/licences
    cp LICENSE python/zest/licences/zest.txt
    isolation=
    if "$python" -Ic 'import setuptools, wheel.bdist_wheel' 2>/dev/null; then isolation=--no-build-isolation; fi
    ZEST_LIBRARY="$tree/build-portable/libzest.so" ZEST_BUNDLE="$bundle" \
        "$python" -m pip wheel --quiet --no-deps $isolation -w build-root/wheel ./python || fail "pip could not build the wheel"
    cp build-root/wheel/*.whl "$out/"
    for file in build-root/wheel/*.whl; do echo "package: $out/$(basename "$file")"; done
}

[ $# -gt 0 ] || set -- deb portable
for kind in "$@"; do
    case $kind in
    deb | portable | wheel) "make_$kind" ;;
    *) fail "there is no package called '$kind': deb, portable or wheel" ;;
    esac
done
