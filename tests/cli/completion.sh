# Completion for bash and zsh: the scripts are sound, and offer what the program has.
. tests/cli/lib.sh
export LC_ALL=C # the order of sort
run 0 completion bash
cp "$work/out" "$work/zest.bash"
run 0 completion zsh
cp "$work/out" "$work/_zest"
run 2 completion tcsh
err_has "the shells are bash and zsh"
run 2 completion

"$ZEST" --help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' | grep -v '^zest$' >"$work/commands"
[ "$(wc -l <"$work/commands")" -gt 15 ] || fail "which commands are there?"

if command -v bash >/dev/null 2>&1; then
    bash -n "$work/zest.bash" || fail "bash does not accept its script"
    # offers WORDS...: what is offered for the last word, sorted, on one line
    cat >"$work/offers" <<'END'
. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_zest
printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ' | sed 's/ *$//'
END
    offers() { bash "$work/offers" "$work/zest.bash" "$@"; }
    is() { # WANTED WORDS...
        wanted=$1
        shift
        got=$(offers "$@")
        [ "$got" = "$wanted" ] || fail "bash offers '$got' instead of '$wanted' for: $*"
    }
    is train zest tra
    is "predict pretrain" zest pre
    is "$(sort "$work/commands" | tr '\n' ' ' | sed 's/ *$//')" zest help ""
    is "zest-bc zest-n" zest train --method zest
    is "zest-bc zest-n" zest train -m zest
    is "zest-bc zest-n" zest train --method = zest # as bash cuts --method=zest
    is "dev test train" zest eval run1 --split ""
    is "dev test train" zest eval run1 --split =
    is "SNLI SQuAD SST-2" zest train --task S
    is "jsonl tsv" zest predict run1 --format ""
    is "f32 f64 text" zest minimize --format ""
    is "linear stationary valley" zest toy ""
    is "bash zsh" zest completion ""
    is "best" zest eval run1 --step b
    is "--batch --beta1 --beta2 --broadcast" zest train --b
    is "" zest train --lr ""      # a number: nothing, and the shell offers files
    is "" zest eval ""            # a path
    is "" zest train --no-such-op
    is "" zest nothing --b
    # every command: exactly the options that its help shows
    while read -r command; do
        "$ZEST" "$command" --help | sed -n 's/^ \{2,6\}\(-[a-zA-Z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p' >"$work/shown"
        { cat "$work/shown"; echo --help; echo --version; } | sort -u | tr '\n' ' ' | sed 's/ *$//' >"$work/wanted"
        is "$(cat "$work/wanted")" zest "$command" --
    done <"$work/commands"
fi

if command -v zsh >/dev/null 2>&1; then
    zsh -n "$work/_zest" || fail "zsh does not accept its script"
    zsh -fc 'autoload -U compinit; compinit -u -d "$2/dump"; source "$1"; [[ $_comps[zest] = _zest ]]' zsh "$work/_zest" "$work" ||
        fail "zsh does not know the completion"
fi
:
