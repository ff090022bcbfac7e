#!/bin/sh
# Kills at random moments, and the soak: one run after the other is killed with SIGKILL again and again and resumed, and
# must end with the journal and the weights of a run that was left alone. While a run goes on, its memory, its
# descriptors and the size of its folder are watched.
#
#   sh tests/faults/kills.sh KILLS [STEPS] [SECONDS]
#
# KILLS in all (1000); STEPS of each run (60); SECONDS that a session lives at most (0.4). ZEST: the program; METHODS:
# zest-n, adamw, momentum (zest-n with momentum, --t auto and a schedule), chat (zest-bc on conversations).
. tests/faults/lib.sh
kills=${1:-1000} steps=${2:-60} life=${3:-0.4}
: "${METHODS:=zest-n adamw momentum chat}" "${SEED:=1}"
make_work kills
make_tiny
make_causal
small="--model $work/tiny --task $work/data/tiny.task --shots 4 --batch 2 --k 1 --lr 1e-3 --test-size 4 --quiet"

command_of() { # method, folder
    case $1 in
    momentum) options="$small --method zest-n --k 2 --t auto --momentum 0.9 --momentum-steps 3 --schedule cosine" ;;
    chat) options="--model $work/causal --task $work/data/talk.task --batch 2 --k 2 --lr 1e-3 --quiet --method zest-bc --t auto" ;;
    *) options="$small --method $1" ;;
    esac
    echo "train $options --steps $steps --eval-every $((steps / 3)) --save-every $((steps / 10)) --out $2"
}
same() { cmp "$1" "$2" || fail "$1 and $2 differ"; }

watch() { # process, folder: the most memory (KiB), descriptors and files so far
    rss=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status" 2>/dev/null)
    open=$(ls "/proc/$1/fd" 2>/dev/null | wc -l)
    [ "${rss:-0}" -gt "$most_rss" ] && most_rss=$rss
    [ "$open" -gt "$most_open" ] && most_open=$open
    [ "${first_rss:-0}" -gt 0 ] || first_rss=${rss:-0}
}

random() { # a number of seconds below $life: by the seed and the number of the kill
    awk -v seed="$SEED" -v n="$1" -v life="$life" 'BEGIN { srand(seed * 100003 + n); rand(); printf "%.3f", rand() * life }'
}

done_kills=0 runs=0 sessions=0 most_rss=0 most_open=0 first_rss=0 began=$(date +%s)
for method in $METHODS; do
    # shellcheck disable=SC2046
    "$ZEST" $(command_of "$method" "$work/whole-$method") >"$work/out" || fail "the run that nothing disturbs"
done
while [ "$done_kills" -lt "$kills" ]; do
    for method in $METHODS; do
        run="$work/run" finished=0
        rm -rf "$run"
        while [ $finished -eq 0 ]; do
            if [ -e "$run/journal" ]; then next="train --resume $run --quiet"; else next=$(command_of "$method" "$run"); fi
            # shellcheck disable=SC2086
            "$ZEST" $next >"$work/out" 2>"$work/err" &
            process=$! sessions=$((sessions + 1))
            if [ "$done_kills" -ge "$kills" ]; then
                wait $process || fail "$(cat "$work/err")"
                finished=1
                break
            fi
            sleep "$(random $sessions)"
            watch $process
            if kill -9 $process 2>/dev/null; then
                wait $process 2>/dev/null
                status=$?
                if [ $status -eq 137 ]; then done_kills=$((done_kills + 1)) && continue; fi
            else
                wait $process
                status=$?
            fi
            [ $status -eq 0 ] || fail "status $status: $(cat "$work/err")"
            finished=1
        done
        runs=$((runs + 1))
        same "$run/journal" "$work/whole-$method/journal"
        for file in best/model.safetensors last/model.safetensors; do same "$run/$file" "$work/whole-$method/$file"; done
        [ -z "$(find "$run" -name '*.tmp' -o -name '*.new' -o -name '*.old')" ] || fail "left behind: $(find "$run")"
        [ "$done_kills" -lt "$kills" ] || break
    done
done
echo "$done_kills kills in $runs runs of $steps steps ($sessions sessions), $(($(date +%s) - began)) s: journals and weights" \
    "are those of the runs that nothing disturbed"
echo "memory $first_rss KiB in the first session, at most $most_rss KiB; at most $most_open descriptors"
