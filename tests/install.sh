# What `make install` leaves can be used: the header, both libraries, pkg-config, the manual page.
set -eu
CC=${CC:-cc}
root=$(mktemp -d "${TMPDIR:-/tmp}"/zest-install-XXXXXX)
trap 'rm -rf "$root"' EXIT
make --no-print-directory install DESTDIR="$root" PREFIX=/opt/zest >/dev/null
at="$root/opt/zest"
[ -x "$at/bin/zest" ] && [ -s "$at/share/man/man1/zest.1" ]
[ -s "$at/share/bash-completion/completions/zest" ] && [ -s "$at/share/zsh/site-functions/_zest" ]
"$at/bin/zest" --version | grep -q '^zest '
[ "$(ls "$at/include" | tr "\n" " ")" = "zest.h zest_lm.h zest_theory.h " ]
export PKG_CONFIG_PATH="$at/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
$CC -std=c11 examples/minimise.c -o "$root/shared" $(pkg-config --cflags zest) $(pkg-config --libs zest) -lm
LD_LIBRARY_PATH="$at/lib" "$root/shared"
$CC -std=c11 examples/finetune.c -o "$root/finetune" $(pkg-config --cflags zest) $(pkg-config --libs zest)
LD_LIBRARY_PATH="$at/lib" "$root/finetune"
unset PKG_CONFIG_SYSROOT_DIR
$CC -std=c11 examples/minimise.c -o "$root/static" -I"$at/include" "$at/lib/libzest.a" \
    $(pkg-config --static --libs zest | sed 's/-lzest//')
"$root/static"
make --no-print-directory uninstall DESTDIR="$root" PREFIX=/opt/zest >/dev/null
[ -z "$(find "$at" -type f)" ]
