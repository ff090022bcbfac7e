# zest report on made-up runs: the page, the figures, the table as JSON, and what is no run.
. tests/cli/lib.sh

# run_log NAME METHOD T SEED STEPS LEVEL [END]: a log as zest train writes it
run_log() {
    mkdir -p "$work/$1"
    awk -v method="$2" -v t="$3" -v seed="$4" -v steps="$5" -v level="$6" -v end="${7:-}" 'BEGIN {
        printf "{\"kind\":\"start\",\"time\":1750000000,\"zest\":\"1\",\"options\":{\"method\":\"%s\",\"t\":\"%s\",\"k\":\"5\",", method, t
        printf "\"lr\":\"1e-6\",\"seed\":\"%s\",\"model\":\"roberta base\"},\"model\":{\"family\":\"roberta\",\"parameters\":1000,", seed
        printf "\"trained\":1000,\"weights\":\"bf16\",\"compute\":\"f32\",\"device\":\"cpu\"},\"task\":{\"name\":\"SST-2\","
        print "\"metric\":\"accuracy\",\"classes\":2},\"train\":1024,\"dev\":1024,\"test\":872}"
        for (i = 1; i <= steps; i++) {
            printf "{\"kind\":\"step\",\"step\":%d,\"loss\":%.4f,\"lr\":1e-6,\"ess\":%.3f,", i, 0.2 + 0.5 * exp(-i / 100), 10 - t / 5
            printf "\"spread\":0.01,\"dropped\":0,\"seconds\":%.2f,\"tokens\":1600}\n", i / 10
            if (i % 50 == 0) {
                value = level - 0.3 * exp(-i / 100)
                eval = sprintf("\"step\":%d,\"loss\":0.3,\"accuracy\":%.4f,\"value\":%.4f,\"low\":%.4f,\"high\":%.4f,\"n\":1024",
                    i, value, value, value - 0.02, value + 0.02)
                printf "{\"kind\":\"eval\",\"part\":\"dev\",%s,\"best\":true,\"seconds\":%.2f}\n", eval, i / 10
            }
        }
        if (end) printf "{\"kind\":\"end\",\"reason\":\"%s\",\"step\":%d,\"best_step\":%d,\"dev\":{\"part\":\"dev\",%s},\"test\":{\"part\":\"test\",%s},\"seconds\":99,\"peak_bytes\":2147483648%s}\n",
            end, steps, steps, eval, eval, t == 1 ? ",\"device_peak_bytes\":3221225472" : ""
    }' >"$work/$1/log.jsonl"
}
run_log mezo mezo 0 1 200 0.90 "steps done"
run_log zest-t1 zest-n 1 1 200 0.92 "steps done"
run_log 'zest <t5> & "co"' zest-n 5 1 150 0.91
# torn, as after a kill
printf '{"kind":"step","step":151,"lo' >>"$work/zest <t5> & \"co\"/log.jsonl"

# One run: the page goes into its folder, whose path is printed.
run 0 report "$work/mezo"
out_has "$work/mezo/report.html"
page="$work/mezo/report.html"
[ -s "$page" ] || fail "no page"
grep -q '<h1>mezo: SST-2</h1>' "$page" || fail "the title is not there"

# Several: --out; every run is there, by its own words and not as markup; nothing is fetched from anywhere.
page="$work/all.html"
run 0 report "$work/mezo" "$work/zest-t1" "$work/zest <t5> & \"co\"" --out "$page" --figures "$work/figures" --json
out_is_json
out_has '"state": "running"'
out_has '"state": "finished"' && out_has '"peak_bytes": 2147483648' && out_has '"device_peak_bytes": 3221225472' && out_has "--model 'roberta base'"
for name in 'mezo</a>' 'zest-t1</a>' 'zest &lt;t5&gt; &amp; &quot;co&quot;</a>' 'the last line is torn' 'Sensitivity to t'; do
    grep -qF -- "$name" "$page" || fail "the page lacks $name"
done
grep -q '<t5>' "$page" && fail "a name became markup"
grep -qE 'https?:|url\(|@import|<link| src=' "$page" && fail "the page asks for something outside"
for figure in loss dev dev-loss t-test t-dev ess spread steps-per-second tokens-per-second; do
    [ -s "$work/figures/$figure.svg" ] || fail "no figure $figure"
done
if command -v xmllint >/dev/null 2>&1; then
    xmllint --noout "$work"/figures/*.svg 2>"$work/err" || fail "a figure is not well-formed"
    # the drawings inside the page, one after the other
    awk '/^<svg class="(plot|narrow)"/ { on = 1 } on { print } /^<\/svg>$/ && --depth < 0 { on = 0; depth = 0 } /^<svg x=/ { depth++ }' "$page" >"$work/inside"
    { echo '<all>'; cat "$work/inside"; echo '</all>'; } | xmllint --noout - 2>"$work/err" || fail "a drawing in the page is not well-formed"
    [ "$(grep -c 'class="narrow"' "$work/inside")" -eq 9 ] || fail "drawings are missing"
fi

# --json alone writes nothing.
rm "$work/mezo/report.html"
run 0 report "$work/mezo" --json
out_is_json && out_has '"out": null'
[ ! -e "$work/mezo/report.html" ] || fail "a page was written"

# What cannot be.
run 2 report
err_has "needs RUN"
run 1 report "$work/nowhere"
err_has "nowhere: cannot be opened"
mkdir "$work/empty"
run 1 report "$work/mezo" "$work/empty"
err_has "there is no log.jsonl in it"
printf 'so not\nJSON\n' >"$work/empty/log.jsonl"
run 1 report "$work/empty"
err_has "not a log of zest train"
run 1 report "$work/mezo" --out "$work/no/such/place.html"
err_has "place.html"
