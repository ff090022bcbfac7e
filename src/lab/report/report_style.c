/* Style and script of the report, and the formatting of its text and numbers. Colours are those of
 * src/lab/plot. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "lab/report/report_page.h"
#include "tokenizer/unicode.h"

const char zest_report_css[] =
    ":root{color-scheme:light dark;--page:#fff;--ink:#1f2328;--soft:#59636e;--line:#d8dde3;--ground:#f6f8fa;"
    "--link:#0063a0;--good:#116b4f;--warn:#8a5300;--shade:#1f232830}\n"
    "@media (prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#e6edf3;--soft:#9ba5b0;--line:#30363d;"
    "--ground:#161b22;--link:#6cb6ff;--good:#3fd0a4;--warn:#ffb347;--shade:#e6edf328}}\n"
    "*{box-sizing:border-box}html{scroll-padding-top:4rem;-webkit-text-size-adjust:100%}\n"
    "body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',"
    "Roboto,'Helvetica Neue','Noto Sans','Liberation Sans',Arial,sans-serif}\n"
    "header,main,footer{max-width:1080px;margin:0 auto;padding:0 24px}\n"
    "header{padding-top:36px}h1{font-size:1.9rem;line-height:1.2;margin:0 0 .3rem;letter-spacing:-.01em}\n"
    "h2{font-size:1.3rem;margin:3rem 0 .6rem;line-height:1.3}h3,h4{font-size:1.02rem;margin:1.4rem 0 .4rem}\n"
    "p{margin:.4rem 0;max-width:46rem}.lead{font-size:1.18rem;line-height:1.45;margin:.7rem 0}"
    ".conclusions{margin:.3rem 0 .8rem;padding-left:1.2rem;max-width:48rem}.conclusions li{margin:.25rem 0}\n"
    ".facts,footer,.note,figcaption,.interval{color:var(--soft)}\n"
    "a{color:var(--link);text-underline-offset:.15em}code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,"
    "Consolas,'Liberation Mono',monospace;font-size:.86rem}\n"
    ":focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:4px}\n"
    ".skip{position:absolute;left:-999px;top:0;padding:.5rem 1rem;background:var(--page);z-index:9}"
    ".skip:focus{left:8px;top:8px}\n"
    /* tables */
    /* a shade at the right edge while there is more to scroll to */
    ".scroll{background:linear-gradient(90deg,transparent,var(--page) 70%) right/36px 100% no-repeat local,"
    "linear-gradient(270deg,var(--shade),transparent) right/16px 100% no-repeat scroll}\n"
    ".scroll{overflow-x:auto;font-size:.92rem;margin:.8rem 0;border:1px solid "
    "var(--line);border-radius:8px}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "caption{text-align:left;padding:.5rem .8rem;color:var(--soft);font-size:.9rem}\n"
    "th,td{padding:.5rem .8rem;text-align:left;border-top:1px solid var(--line);white-space:nowrap;"
    "vertical-align:baseline}thead th{border-top:0;background:var(--ground);font-size:.85rem;font-weight:600;"
    "color:var(--soft)}tbody th{font-weight:600}\n"
    "th.n,td.n{text-align:right}.interval{display:block;font-size:.8rem;line-height:1.2}"
    ".top{font-weight:700}.top .interval{font-weight:400}\n"
    ".runs th,.runs td{padding:.45rem .62rem}.runs thead th{white-space:normal;"
    "vertical-align:bottom;line-height:1.3}\n"
    ".runs th:first-child{position:sticky;left:0;background:var(--page);max-width:17rem;overflow:hidden;"
    "text-overflow:ellipsis}.runs thead th:first-child{background:var(--ground)}\n"
    ".runs th a{color:inherit;text-decoration:none}.runs th a:hover{text-decoration:underline}\n"
    ".chip{display:inline-block;width:24px;height:12px;margin-right:.5em;vertical-align:-1px;flex:none}\n"
    ".state-finished{color:var(--good)}.state-running{color:var(--link)}"
    ".state-stopped,.state-broken{color:var(--warn)}\n"
    /* legend: a checkbox hides a run without script */
    ".legend{position:sticky;top:0;z-index:5;margin:2rem -12px 0;padding:.5rem 12px;border:0;display:flex;"
    "flex-wrap:wrap;gap:.15rem 1.1rem;background:var(--page);border-bottom:1px solid var(--line);"
    "min-width:0;font-size:.9rem}\n"
    ".legend legend{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}\n"
    ".legend label{display:inline-flex;align-items:center;cursor:pointer;max-width:100%;padding:.15rem 0;"
    "white-space:nowrap;overflow:hidden}.legend .chip{margin-right:.4em}"
    ".legend span{overflow:hidden;text-overflow:ellipsis}\n"
    ".legend input{position:absolute;opacity:0;width:24px;height:12px;margin:0;cursor:pointer}"
    ".legend label:has(input:not(:checked)) span{text-decoration:line-through;color:var(--soft)}"
    ".legend label:has(input:not(:checked)) .chip{opacity:.25}"
    ".legend label:has(:focus-visible){outline:3px solid var(--link);outline-offset:2px;border-radius:4px}\n"
    /* figures: drawn twice, for wide pages and for phones */
    ".figures{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:1.6rem 24px;margin-top:1rem}\n"
    "figure{margin:0;position:relative;min-width:0}figure.wide{grid-column:1/-1}\n"
    "figure h3{margin:0 0 "
    ".1rem}figure>svg{display:block;width:100%;height:auto}figure>.narrow{display:none}\n"
    "figcaption{font-size:.88rem;line-height:1.45;margin:.2rem 0 .3rem;max-width:46rem}\n"
    "details{margin:.3rem 0}summary{cursor:pointer;width:fit-content}figure summary{font-size:.85rem;"
    "color:var(--soft)}figure .scroll{max-height:22rem;overflow:auto;font-size:.85rem}"
    "figure thead th{position:sticky;top:0}figure th,figure td{padding:.25rem .7rem}\n"
    ".reading{position:absolute;z-index:4;pointer-events:none;padding:.4rem .6rem;border-radius:6px;"
    "border:1px solid var(--line);background:var(--page);box-shadow:0 2px 10px #0003;font-size:.82rem;"
    "line-height:1.4;white-space:nowrap;font-variant-numeric:tabular-nums}"
    ".reading b{display:block}.reading div{display:flex;align-items:center}.reading i{font-style:normal;"
    "margin-left:auto;padding-left:1em}.hair{stroke:var(--soft);stroke-dasharray:3 3}\n"
    /* details of a run */
    ".run{border:1px solid var(--line);border-radius:8px;margin:.8rem 0;padding:.2rem 1rem}"
    ".run>summary{padding:.5rem 0;width:auto}.run>summary b{margin-right:.6em}"
    ".run>summary span{color:var(--soft)}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.4rem;margin:.4rem 0 1rem}"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}\n"
    "pre{background:var(--ground);border:1px solid var(--line);border-radius:8px;padding:.7rem .9rem;"
    "white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0 1rem}\n"
    ".copy{float:right;margin:.45rem .5rem 0;padding:.1rem .6rem;font:inherit;font-size:.8rem;cursor:pointer;"
    "color:var(--ink);background:var(--page);border:1px solid "
    "var(--line);border-radius:6px;position:relative}"
    ".copy:hover{border-color:var(--soft)}\n"
    ".options{columns:3 15rem;column-gap:2rem;list-style:none;padding:0;margin:.4rem 0 1rem;font-size:.88rem}"
    ".options li{break-inside:avoid;overflow-wrap:anywhere;padding:.08rem 0;color:var(--soft)}"
    ".options .changed{color:var(--ink);font-weight:600}\n"
    "footer{margin-top:4rem;padding-bottom:2rem;font-size:.85rem}\n"
    "@media (max-width:900px){.figures{grid-template-columns:minmax(0,1fr)}}\n"
    "@media (max-width:560px){header,main,footer{padding-left:16px;padding-right:16px}h1{font-size:1.5rem}"
    "header{padding-top:20px}h2{margin-top:2.2rem}figure>.plot{display:none}figure>.narrow{display:block}"
    "th,td{padding:.45rem .6rem}.runs "
    "th:first-child{min-width:8rem;max-width:9.5rem;white-space:normal;overflow-wrap:break-word;line-height:"
    "1.3}.legend{font-"
    "size:.86rem;position:static}"
    "dl{grid-template-columns:1fr}dd{margin-bottom:.35rem}.run{padding:.2rem .8rem}}\n"
    "@media print{:root{color-scheme:light}body{font-size:10.5pt}header,main,footer{max-width:none;padding:0}"
    ".skip,figure details,.copy{display:none}.legend{position:static}figure,tr,.run{break-inside:avoid}"
    "h2,h3,h4{break-after:avoid}.scroll{overflow:visible;border:0}th,td,.runs th,.runs td{padding:.25rem "
    ".35rem;font-size:8.5pt}"
    ".runs th:first-child{position:static}.interval{font-size:7.5pt}.figures{grid-template-columns:repeat(2,"
    "minmax(0,1fr))}figure>.plot{display:block}figure>.narrow{display:none}h2{margin-top:1.6rem}}\n";

/* Reads the table under a figure and shows the row nearest to the pointer; adds buttons that copy
 * commands. The figure has the range of its axes as attributes. Text is only ever set as text. */
const char zest_report_js[] =
    "'use strict';\n"
    "const el=(name,into,cls)=>{const e=document.createElement(name);if(cls)e.className=cls;"
    "into.append(e);return e};\n"
    "for(const figure of document.querySelectorAll('figure[data-x]')){\n"
    " const [x0,x1]=figure.dataset.x.split(' ').map(Number),head=[...figure.querySelectorAll('thead th')];\n"
    " const rows=[...figure.querySelectorAll('tbody tr')].map(r=>({x:+r.dataset.x,cells:[...r.children]}));\n"
    " if(!rows.length)continue;\n"
    " const box=el('div',figure,'reading');box.hidden=true;box.setAttribute('aria-hidden','true');\n"
    " for(const svg of figure.querySelectorAll(':scope>svg')){\n"
    "  const areas=[...svg.querySelectorAll('svg')],view=svg.viewBox.baseVal;if(!areas.length)continue;\n"
    "  let area=areas[0];const at=n=>area[n].baseVal.value,name=svg.querySelector(':scope>title');\n"
    "  if(name){svg.setAttribute('aria-label',name.textContent);name.remove()}\n"
    "  const hair=document.createElementNS(svg.namespaceURI,'line');hair.setAttribute('class','hair');\n"
    "  svg.append(hair);\n"
    "  const hide=()=>{box.hidden=true;hair.style.display='none'};hide();\n"
    "  svg.addEventListener('pointerleave',hide);\n"
    "  svg.addEventListener('pointermove',e=>{\n"
    "   const r=svg.getBoundingClientRect(),scale=r.width/view.width,px=(e.clientX-r.left)/scale;\n"
    "   const py=(e.clientY-r.top)/scale,within=a=>{area=a;return px>=at('x')&&px<=at('x')+at('width')&&"
    "py>=at('y')&&py<=at('y')+at('height')};\n"
    "   if(!areas.some(within))return hide();\n"
    "   const x=x0+(x1-x0)*(px-at('x'))/at('width');\n"
    "   const row=rows.reduce((a,b)=>Math.abs(b.x-x)<Math.abs(a.x-x)?b:a);\n"
    "   const hx=at('x')+at('width')*(row.x-x0)/(x1-x0);\n"
    "   for(const [n,v] of [['x1',hx],['x2',hx],['y1',at('y')],['y2',at('y')+at('height')]])"
    "hair.setAttribute(n,v);\n"
    "   hair.style.display='';box.replaceChildren();\n"
    "   el('b',box).textContent=head[0].textContent+' '+row.cells[0].textContent;\n"
    "   head.forEach((h,i)=>{const shown=document.getElementById('show-'+h.dataset.series);\n"
    "    if(!i||!row.cells[i].textContent||(shown&&!shown.checked))return;\n"
    "    const line=el('div',box),chip=h.querySelector('svg');if(chip)line.append(chip.cloneNode(true));\n"
    "    line.append(h.textContent);el('i',line).textContent=row.cells[i].textContent});\n"
    "   box.hidden=false;const f=figure.getBoundingClientRect(),left=r.left-f.left+hx*scale;\n"
    "   box.style.left=(left+16+box.offsetWidth>f.width?Math.max(0,left-16-box.offsetWidth):left+16)+'px';\n"
    "   box.style.top=r.top-f.top+at('y')*scale+8+'px'})}}\n"
    "for(const pre of document.querySelectorAll('pre')){const b=document.createElement('button');\n"
    " b.type='button';b.className='copy';b.textContent='Copy';pre.before(b);\n"
    " b.addEventListener('click',()=>navigator.clipboard.writeText(pre.textContent).then("
    "()=>{b.textContent='Copied'},()=>{b.textContent='Select and copy'}))}\n";

/* ---- Text and numbers ---- */

#define THIN_SPACE "\xe2\x80\xaf" /* narrow no-break space */
#define EN_DASH "\xe2\x80\x93"

char *zest_report_clean(const char *text) {
    zest_buffer valid = {0};
    zest_unicode_repair(text, strlen(text), &valid);
    if (valid.failed) return zest_buffer_free(&valid), NULL;
    if (!valid.data) return strdup("");
    size_t used = 0;
    for (const char *c = valid.data; *c; c++) {
        const unsigned char *u = (const unsigned char *)c;
        if (*u < 0x20 || *u == 0x7f) continue;
        if (u[0] == 0xef && u[1] == 0xbf && u[2] >= 0xbe) { /* U+FFFE, U+FFFF are not allowed in XML */
            c += 2;
            continue;
        }
        valid.data[used++] = *c;
    }
    valid.data[used] = '\0';
    return valid.data;
}

void zest_report_escape(zest_buffer *out, const char *text) {
    char *clean = zest_report_clean(text);
    if (!clean) out->failed = 1;
    for (const char *c = clean ? clean : ""; *c; c++) {
        switch (*c) {
        case '&': zest_buffer_text(out, "&amp;"); break;
        case '<': zest_buffer_text(out, "&lt;"); break;
        case '>': zest_buffer_text(out, "&gt;"); break;
        case '"': zest_buffer_text(out, "&quot;"); break;
        case '\'': zest_buffer_text(out, "&#39;"); break;
        default: zest_buffer_add(out, c, 1);
        }
    }
    free(clean);
}

/* ---- Numbers ---- */

int zest_report_is_share(const char *metric) {
    return !strcmp(metric, "accuracy") || !strcmp(metric, "f1") || !strcmp(metric, "em");
}

void zest_report_value(zest_buffer *out, const char *metric, double value) {
    char buffer[64];
    if (!isfinite(value)) {
        zest_buffer_text(out, EN_DASH);
        return;
    }
    if (zest_report_is_share(metric))
        zest_number_format(buffer, sizeof buffer, "%.1f", zest_conclusion_per_cent(value));
    else if (value != 0 && (fabs(value) < 1e-4 || fabs(value) >= 1e6))
        zest_number_format(buffer, sizeof buffer, "%.3g", value);
    else /* four digits including trailing zeros, so that columns align */
        zest_number_format(buffer, sizeof buffer, "%.*f",
                           value == 0 ? 0 : (int)fmax(0, 3 - floor(log10(fabs(value)))), value);
    zest_buffer_text(out, buffer);
}

void zest_report_interval(zest_buffer *out, const char *metric, zest_log_eval eval) {
    if (!isfinite(eval.low) || !isfinite(eval.high)) return;
    zest_buffer_text(out, "<span class=\"interval\">");
    zest_report_value(out, metric, eval.low);
    zest_buffer_text(out, EN_DASH);
    zest_report_value(out, metric, eval.high);
    zest_buffer_text(out, "</span>");
}

void zest_report_count(zest_buffer *out, uint64_t count) {
    char digits[24];
    int const length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0 && length > 4) zest_buffer_text(out, THIN_SPACE);
        zest_buffer_add(out, digits + i, 1);
    }
}

void zest_report_duration(zest_buffer *out, double seconds) {
    if (!(seconds >= 0 && seconds < 1e12)) {
        zest_buffer_text(out, EN_DASH);
        return;
    }
    long long const s = llround(seconds);
    if (s >= 86400)
        zest_buffer_format(out, "%lld" THIN_SPACE "d %lld" THIN_SPACE "h", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        zest_buffer_format(out, "%lld" THIN_SPACE "h %lld" THIN_SPACE "min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        zest_buffer_format(out, "%lld" THIN_SPACE "min %lld" THIN_SPACE "s", s / 60, s % 60);
    else
        zest_buffer_format(out, "%.3g" THIN_SPACE "s", seconds);
}

void zest_report_bytes(zest_buffer *out, uint64_t bytes) {
    if (!bytes)
        zest_buffer_text(out, EN_DASH);
    else if (bytes >= (uint64_t)1 << 30)
        zest_buffer_format(out, "%.1f" THIN_SPACE "GiB", (double)bytes / 1073741824.0);
    else
        zest_buffer_format(out, "%.0f" THIN_SPACE "MiB", (double)bytes / 1048576.0);
}

void zest_report_time(zest_buffer *out, double seconds) {
    char buffer[64];
    struct tm parts;
    time_t const when = seconds >= 0 && seconds < 2e11 ? (time_t)seconds : 0;
    if (!when || !gmtime_r(&when, &parts) || !strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M UTC", &parts)) {
        zest_buffer_text(out, EN_DASH);
        return;
    }
    zest_buffer_text(out, buffer);
}

void zest_report_chip(zest_buffer *out, const zest_plot_style *style) {
    static const char *const dashes[] = {"", "7 3", "1.5 3.5", "7 3 1.5 3", ""};
    zest_buffer_format(out,
                       "<svg class=\"chip\" width=\"24\" height=\"12\" aria-hidden=\"true\">"
                       "<line class=\"s%d\" x1=\"2\" y1=\"6\" x2=\"22\" y2=\"6\" stroke-width=\"3.5\"",
                       style->colour);
    if (*dashes[style->dash]) zest_buffer_format(out, " stroke-dasharray=\"%s\"", dashes[style->dash]);
    zest_buffer_text(out, "/></svg>");
}
