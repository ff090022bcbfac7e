# The documentation is true where a program can tell: links and anchors lead somewhere; files, symbols, environment
# variables, make targets, zest commands and their options exist; prose has no line over 120 characters.
set -eu
: "${ZEST:=./zest}" "${BUILD:=build}"
export LC_ALL=C.UTF-8
pages=$(ls README.md CONTRIBUTING.md docs/*.md docs/notes/*.md bench/*.md examples/*/*.md python/*.md)
# Words of an example on the page itself, of other programs, or of data: nothing here has to know them.
foreign='example\.c loss\.py --name --no-name --learning_rate --query-gpu huggingface_hub table\.md phi_2 CUDA_VISIBLE_DEVICES --bind-to --oversubscribe --kill-on-bad-exit --host --mpi=pmix --timeout'
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
trap 'exit 130' INT TERM
complain() { echo "$*" >&2; : >"$temp/bad"; }

# What is said in code: "span PAGE TEXT" for `TEXT`, "code PAGE TEXT" for a line of a code block (continued lines joined).
for page in $pages; do
    awk -v page="$page" '
        function spans(text,   parts, n, i) {
            n = split(text, parts, "`")
            for (i = 2; i <= n; i += 2) print "span\t" page "\t" parts[i]
        }
        function code(line) {
            sub(/^ *(\$ )?/, "", line)
            if (sub(/\\$/, "", line)) { held = held line; return }
            print "code\t" page "\t" held line
            held = ""
        }
        /^ *```/ { fenced = !fenced; next }
        fenced { code($0); next }
        /^    / && blank { code($0); next }
        /^$/ { spans(prose); prose = ""; blank = 1; next }
        { blank = 0; gsub(/\\\|/, "|"); prose = prose " " $0
          if (/^\|/) { spans(prose); prose = "" } }
        END { spans(prose) }' "$page"
done >"$temp/said"
cut -f 2- "$temp/said" | grep -vE "	($(echo "$foreign" | sed 's/ /|/g'))" >"$temp/words"
spans() { sed -n 's/^span	//p' "$temp/said" | grep -vE "	($(echo "$foreign" | sed 's/ /|/g'))"; }

# ---- Lines and links ----
for page in $pages CHANGELOG.md; do
    awk '/^ *```/ { fenced = !fenced } fenced || /^ *\|/ || /^    / || /^!/ || /https?:/ { print ""; next } { print }' "$page" |
        grep -nE '^.{121,}' >"$temp/long" && complain "$page: longer than 120 characters: $(cut -c 1-60 "$temp/long")"
    for link in $(grep -oE '\]\([^)]*\)' "$page" | sed 's/](\(.*\))/\1/' | grep -v '^https*:'); do
        path=${link%%#*} target=$page
        if [ -n "$path" ]; then target=$(dirname "$page")/$path; fi
        if [ ! -e "$target" ]; then
            complain "$page: links to $path, which does not exist"
        elif [ "$link" != "$path" ]; then
            sed -n 's/^##* //p' "$target" | tr 'A-Z' 'a-z' | sed 's/[^a-z0-9 _-]//g; s/ /-/g' | grep -qxF "${link#*#}" ||
                complain "$page: no heading ${link#*#} in $target"
        fi
    done
done
for page in docs/*.md docs/notes/*.md; do
    [ "$page" = docs/README.md ] || grep -qF "(${page#docs/})" docs/README.md || complain "docs/README.md does not list $page"
done

# ---- Files, symbols, variables ----
find . -path ./build -prune -o -path ./.git -prune -o -type f -print | sed 's/^\.//' >"$temp/files"
grep -hoE '[A-Za-z_][A-Za-z0-9_]+' -r src include cli tests tools bench examples $(ls -d python 2>/dev/null) Makefile \
    --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.py' --include='*.sh' --include=Makefile >"$temp/names"
sed 's/.*\///; s/\..*//' "$temp/files" >>"$temp/names" # the names of files, too
spans | grep -E '	[A-Za-z0-9_./*-]+\.(c|h|cu|cuh|sh|py|md|1)$' | sort -u | while IFS='	' read -r page file; do
    pattern=$(echo "$file" | sed 's/\./\\./g; s/\*/[^\/]*/g')
    grep -qE "/$pattern\$" "$temp/files" || complain "$page: names the file $file, which does not exist"
done
spans | grep -E '	(src|cli|tests|tools|bench|docs|examples|include|python)/[a-z0-9_/-]*$' | sort -u | while IFS='	' read -r page file; do
    [ -e "$file" ] || complain "$page: names $file, which does not exist"
done
# identifiers with an underscore: functions, fields, variables (zest_theory_* is a prefix)
{ spans; sed -n 's/^code	//p' "$temp/said" | grep -oE '^[^	]*	|ZEST_[A-Z0-9_]+' | awk '/	$/ { page = $0; next } { print page $0 }'; } |
    grep -oE '^[^	]*	[A-Za-z]+_[A-Za-z0-9_]*[*]?(=[^ ]*)?( |$)' | sed 's/=.*//; s/ $//' | sort -u | while IFS='	' read -r page name; do
    case $name in
    *'*') grep -q "^${name%?}" "$temp/names" ;;
    *) grep -qx "$name" "$temp/names" ;;
    esac || complain "$page: names $name, which does not occur in the sources"
done

# ---- make ----
grep -E '	make( |$)' "$temp/words" | sed 's/ *&&.*//; s/ *#.*//' | sort -u | while IFS='	' read -r page line; do
    for goal in $(echo "$line" | sed "s/[A-Z_]*=\"[^\"]*\"//g; s/\['\"]//g" | tr ' ' '\n' | grep -E '^[a-z]' | sed 1d | grep -v =); do
        case $goal in build/* | and) continue ;; esac
        grep -qE "^([a-z/.1 -]* )?$goal( [^=]*)?:|^\.PHONY:.* $goal( |\$)" Makefile || complain "$page: make $goal is no target"
    done
done

# ---- zest ----
commands=$("$ZEST" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
for command in $commands manual help; do
    { "$ZEST" "$command" --help 2>/dev/null || :; } | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u | sed "s/^/$command /"
done >"$temp/options"
printf '%s\n' --help --version --json --config | sed 's/^/any /' >>"$temp/options"
known() { # command, option
    plain=$(echo "$2" | sed 's/^--no-/--/')
    grep -qxE -- "($1|any) ($2|$plain)" "$temp/options"
}
sed -n 's/^\([^	]*	\)\(\.\/\)\{0,1\}zest \([a-z]\)/\1\3/p' "$temp/words" | sed 's/ [|<>] .*//; s/ \[--/ --/g' | sort -u |
    while IFS='	' read -r page line; do
        command=${line%% *}
        case " $commands manual help " in
        *[!a-z]"$command"[!a-z]*) ;;
        *) complain "$page: zest $command is no command"; continue ;;
        esac
        for option in $(echo "$line" | sed "s/'[^']*'//g" | grep -oE -- ' --[a-z][a-z0-9_-]*' | grep -v -- --learning_rate); do
            known "$command" "$option" || complain "$page: zest $command has no $option"
        done
    done
# an option by itself belongs to some command, or to one of our scripts
grep -hoE -- '--[a-z][a-z0-9-]*' tools/* bench/* tests/*.sh Makefile | sort -u | sed 's/^/script /' >>"$temp/options"
spans | sed -n 's/^\([^	]*	--[a-z][a-z0-9-]*\).*/\1/p' | sort -u | while IFS='	' read -r page option; do
    known '[a-z]*' "$option" || complain "$page: no command has $option"
done
# an example that is copied works after zest pull: models have the names of the Hub
grep -nE -- '(--model|model ?=) ?(roberta-base|roberta-large|bert-|opt-|gpt2)' $pages >"$temp/models" && complain "$(cat "$temp/models")"
[ ! -e "$temp/bad" ]
