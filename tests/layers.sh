# The architecture: an include never goes up, the library neither prints nor exits, files stay readable.
set -eu
layers="base comm rng io kernels tokenizer chat optim model grad baselines task train lm lab" # from the lowest
bad=0
complain() { echo "$*" >&2; bad=1; }
rank() { n=0; for l in $layers; do n=$((n + 1)); [ "$l" = "$1" ] && { echo $n; return; }; done; echo 0; }
for file in $(find src -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh'); do
    here=$(echo "$file" | cut -d/ -f2)
    own=$(rank "$here")
    [ "$own" -gt 0 ] || complain "$file: the folder $here has no place in tests/layers.sh"
    for included in $(sed -n 's/^#include "\([a-z]*\)\/.*/\1/p' "$file"); do
        [ "$(rank "$included")" -le "$own" ] || complain "$file includes upwards from $included"
    done
    # a library: no printing, no exiting, no ambient randomness
    if grep -nE '\b(printf|puts|putchar|perror|exit|abort|rand|srand|random|drand48)\(' "$file" | grep -vE 'snprintf|_exit|format\(printf'; then
        complain "$file: a library does not print, exit or draw unseeded numbers"
    fi
done
for file in $(find src cli include tests examples bench -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | grep -v _tables.c); do
    [ "$(wc -l <"$file")" -le 800 ] || complain "$file: longer than 800 lines"
done
# commands that are written on the public interface see the library through include/ alone
for file in cli/lm.[ch] cli/train.c cli/eval.c cli/predict.c cli/generate.c cli/score.c cli/tokenize.c; do
    if grep -nE '^#include "[a-z]+/' "$file" | grep -vE '"(base|cli)/'; then
        complain "$file: includes more of the library than zest.h, zest_lm.h and base/"
    fi
done
# numbers have a decimal point in every locale: base/text.h
grep -rnE '\b(strtod|strtof|atof)\(' src cli --include='*.[ch]' --include='*.cu' | grep -v '^src/base/text\.c' &&
    complain "use zest_number_parse: strtod follows the locale"
# a file that a comment names exists
known=$(find src cli include tests bench examples tools -type f | sed 's|.*/||' | sort -u)
for name in $(grep -rhoE '(/\*|^ *\*|//).*' src cli include tests bench examples --include='*.[ch]' --include='*.cu' --include='*.cuh' |
    grep -oE '[a-z_0-9*]+\.(c|h|cu|cuh)\b' | grep -v '\*' | sort -u); do
    echo "$known" | grep -qxF "$name" && continue
    where=$(grep -rnE "(/\*|^ *\*|//).*\b$name\b" src cli include tests bench examples --include='*.[ch]' --include='*.cu' --include='*.cuh' | cut -d: -f1,2 | tr '\n' ' ')
    complain "a comment names $name, which does not exist: $where"
done
grep -rnE 'ffast-math|Ofast|funsafe' Makefile && complain "no fast-math"
exit $bad
