# The walk of one step in docs/design.md is true: at most 15 files; each file defines the function of its row, and the
# call that leads there is in the file of the row it is called from. Every file and symbol that the section names exists,
# and the words that the page defines are defined in zest.h too.
set -eu
export LC_ALL=C.UTF-8
page=docs/design.md
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
trap 'exit 130' INT TERM
bad=0
complain() { echo "$page: $*" >&2; bad=1; }

sed -n '/^## The walk of one step/,/^## Layers/p' "$page" >"$temp/walk"
# "NUMBER<tab>FILE<tab>FUNCTION<tab>ROW<tab>CALL": ROW and CALL are empty in the first row
sed -n 's/^| *\([0-9][0-9]*\) *| *`\([^`]*\)` *| *`\([^`]*\)` *| *\([^|]*\)|.*/\1	\2	\3	\4/p' "$temp/walk" |
    sed 's/	\([0-9]*\): *`\([^`]*\)` *$/	\1	\2/' >"$temp/rows"
count=$(wc -l <"$temp/rows")
[ "$count" -ge 10 ] || complain "the walk has $count rows that can be read"
[ "$(cut -f 2 "$temp/rows" | sort -u | wc -l)" -le 15 ] || complain "the walk has more than 15 files"

number=0
while IFS='	' read -r row file function from call; do
    number=$((number + 1))
    [ "$row" = "$number" ] || complain "row $row comes as number $number"
    [ -f "$file" ] || { complain "row $row: no file $file"; continue; }
    grep -qE "^[a-z].*[ *]$function\(" "$file" || complain "row $row: $file does not define $function"
    [ "$row" -gt 1 ] || continue
    [ -n "${call:-}" ] && [ "$from" -lt "$row" ] || { complain "row $row: is called from no earlier row"; continue; }
    caller=$(awk -F '\t' -v n="$from" '$1 == n { print $2 }' "$temp/rows")
    grep -qF -- "$call" "$caller" || complain "row $row: $caller has no $call"
done <"$temp/rows"

# files and symbols in the rest of the section
grep -oE '`[^`]*`' "$temp/walk" | tr -d '`' | sort -u >"$temp/named"
grep -E '^[a-z_]+/[a-z0-9_/.]+\.(c|h|cu|sh)$' "$temp/named" | while read -r file; do
    [ -f "$file" ] || echo "$file"
done >"$temp/missing"
[ ! -s "$temp/missing" ] || complain "names files that do not exist: $(tr '\n' ' ' <"$temp/missing")"
grep -E '^zest_[a-z0-9_]+$' "$temp/named" | while read -r name; do
    grep -rqwF "$name" src include || echo "$name"
done >"$temp/missing"
[ ! -s "$temp/missing" ] || complain "names symbols that do not exist: $(tr '\n' ' ' <"$temp/missing")"

# the words
sed -n '/^## Words/,/^## /s/^| \([a-z][a-z]*\) |.*/\1/p' "$page" | grep -vx word >"$temp/words"
[ "$(wc -l <"$temp/words")" -eq 6 ] || complain "defines other words than six"
while read -r word; do
    grep -qE "^ \*   $word  +[a-z0-9]" include/zest.h || complain "include/zest.h does not define $word"
done <"$temp/words"
exit $bad
