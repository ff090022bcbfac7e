#!/usr/bin/env python3
"""Reference answers for tests/test_chat_template.c, from the PyPI packages transformers and jinja2. Not needed to build
or to test.

  make_chat_goldens.py small FILE           this is how tests/data/chat/answers.jsonl was made
  make_chat_goldens.py large FILE COUNT [TEMPLATE...]   COUNT random conversations for each of the templates of
                                            tests/data/chat, or for the given files (published templates, say):
                                            ZEST_CHAT_ANSWERS=FILE build/tests/test_chat_template compares

The first line of the small file, {"given": {...}}, has the variables of lines without. Another line is {"template": name of a file in tests/data/chat, or "source": a template; "variables": {...}; "now": seconds of
strftime_now, if it is defined; "text": the answer, or "error": true; "spans": of {% generation %}, in bytes}.
"""
import datetime
import json
import os
import random
import sys

from transformers.utils import chat_template_utils

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "chat")
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

WORDS = ["Hello", "the", "river", "42", "3.5%", "naïve", "Größe", "日本語", "ไทย", "مرحبا", "👍🏽", "\u200bzero", "{{ braces }}", "{% if %}",
         "'quote'", '"double"', "\\n", "<|im_end|>", "</s>", "<think>", "</think>", "a\tb", "<b>&amp;", "[INST]", "x\u00a0y", "\u2028"]
SPACES = [" ", " ", " ", "\n", "\n\n", "  ", "\t"]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather, \"now\" & later <b>",
                                           "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "enum": [1, 2]}},
                                                          "required": ["city"]}, "return": {"type": "number"}}},
         {"type": "function", "function": {"name": "größe", "description": "Größe von 日本", "parameters": {}}}]


def text(rng, least=0):
    parts = []
    for _ in range(rng.randint(least, 12)):
        parts.append(rng.choice(WORDS))
        parts.append(rng.choice(SPACES))
    out = "".join(parts)
    return out if rng.random() < 0.3 else out.strip()


def answer(rng):
    if rng.random() < 0.3:
        return "<think>\n" + text(rng) + "\n</think>\n\n" + text(rng, 1)
    return text(rng, 1)


def call(rng):
    arguments = rng.choice([{"city": "Köln", "days": 2}, {}, {"x": [1, 2.5, None, True], "y": {"z": "<&>"}}, {"a": "1", "b": "2"}])
    made = {"function": {"name": rng.choice(["get_weather", "brave_search"]), "arguments": arguments}, "type": "function"}
    if rng.random() < 0.8:
        made["id"] = "abcdefgh" + str(rng.randrange(10)) if rng.random() < 0.9 else "short"
    return made


def conversation(rng):
    """Mostly turns of user and assistant, as they should be; sometimes tools, sometimes a mess."""
    messages = []
    if rng.random() < 0.4:
        messages.append({"role": "system", "content": text(rng, 1)})
        if rng.random() < 0.05:
            messages[0]["tools"] = rng.choice([None, "[]"])
    for _ in range(rng.randint(0 if messages else 1, 4)):
        user = {"role": "user", "content": text(rng, 1)}
        if rng.random() < 0.08:
            user["content"] = [{"type": "text", "text": text(rng, 1)}, {"type": "image"}]
        messages.append(user)
        if rng.random() < 0.15:
            messages.append({"role": "assistant", "content": rng.choice(["", text(rng)]), "tool_calls": [call(rng) for _ in range(rng.choice([1, 1, 1, 2]))]})
            for _ in range(rng.choice([1, 1, 2])):
                result = rng.choice([text(rng), {"content": 5}, [1, "two", {"three": 3.0}], 7.25])
                messages.append({"role": rng.choice(["tool", "tool", "ipython"]), "content": result, "tool_call_id": "abcdefgh1"})
        reply = {"role": "assistant", "content": answer(rng)}
        if rng.random() < 0.1:
            reply["reasoning_content"] = rng.choice([None, text(rng)])
        messages.append(reply)
    if rng.random() < 0.5:
        messages.pop()
    if rng.random() < 0.05:
        rng.shuffle(messages)
    return messages


def variables(rng):
    made = dict(TOKENS, messages=conversation(rng), tools=None, documents=None, add_generation_prompt=rng.random() < 0.5)
    if rng.random() < 0.25:
        made["tools"] = TOOLS[:rng.randint(1, 2)]
    if rng.random() < 0.2:
        made["enable_thinking"] = rng.random() < 0.5
    if rng.random() < 0.1:
        made["tools_in_user_message"] = False
    if rng.random() < 0.1:
        made["builtin_tools"] = rng.sample(["code_interpreter", "brave_search", "wolfram"], rng.randint(1, 3))
    if rng.random() < 0.1:
        made["date_string"] = "1 Apr 2025"
    return made


def environment(source, now):
    template = chat_template_utils._compile_jinja_template(source)
    if now:
        clock = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
        template.environment.globals["strftime_now"] = template.globals["strftime_now"] = lambda form: clock.strftime(form)
    else:
        template.environment.globals.pop("strftime_now", None)
        template.globals.pop("strftime_now", None)
    return template


def render(source, given, now=0):
    """The text and the spans of the assistant, in bytes; None: an error."""
    try:
        template = environment(source, now)
        blocks, spans = [], []
        with template.environment.activate_tracker(blocks, spans):
            for block in template.generate(**given):
                blocks.append(block)
        out = "".join(blocks)
        return out, [[len(out[:a].encode()), len(out[:b].encode())] for a, b in spans]
    except Exception as error:  # whatever Python says about a bad template: zest has to refuse it, too
        return None, str(error)


def line(source, given, now=0, name=None):
    out, spans = render(source, given, now)
    made = {"template": name} if name else {"source": source}
    if given is not GIVEN:
        made["variables"] = given
    if now:
        made["now"] = now
    if out is None:
        made["error"] = True
    else:
        made["text"] = out
        if spans:
            made["spans"] = spans
    return made


# ---- Small programs: one for every part of the language ---------------------------------------------------------------

GIVEN = {"n": 7, "neg": -7, "x": 2.5, "big": 1e16, "small": 0.00001, "t": True, "f": False, "nothing": None, "s": "Hello World",
         "u": "Größe 日本 👍🏽", "ws": " \t\n padded \u00a0\u2003", "empty": "", "l": [3, 1, 2], "names": ["b", "A", "c", "a"], "mixed": [1, "a", None, True, 2.0, [1], {"k": "v"}],
         "d": {"b": 1, "a": "x", "C": None}, "rows": [{"role": "user", "n": 2, "sub": {"k": "z"}}, {"role": "bot", "n": 1, "sub": {"k": "y"}}, {"role": "user", "n": 3}],
         "q": "it's \"so\"\n\t\\", "items": 5, "html": "<a href='x'>&</a>", "lines": "one\ntwo\n\nthree\n", "messages": [], "tools": None}

EXPRESSIONS = r"""
n + 2 | n - 2 | n * 2 | n / 2 | n // 2 | n % 3 | neg // 2 | neg % 3 | n // -2 | n % -3 | n ** 2 | 2 ** -1 | x * 2 | x // 1 | x % 1 | neg % 2.5
-n | +n | --n | -x | 1 + 2 * 3 - 4 / 2 | (1 + 2) * 3 | 2 ** 3 ** 2 | -2 ** 2 | 10 - 3 - 2 | 7 // 2 * 2 | 1e3 | 1_000 | 1.5e-3 | 0.1 + 0.2 | 1/3 | 100000000000000000.0
s + '!' | s * 2 | 3 * 'ab' | l * 2 | l + [4] | (1, 2) + (3,) | s ~ n ~ x ~ nothing ~ t | 'a' 'b' "c" | n ~ missing | '%' | "\x41\u00e9\t|\\|\'|\"" | 'a\
b'
n == 7 | n == 7.0 | t == 1 | f == 0 | s == 'Hello World' | l == [3, 1, 2] | d == {'a': 'x', 'b': 1, 'C': none} | n != 7 | 1 < 2 < 3 | 1 < 2 > 3 | 'a' < 'b' | 'é' > 'z' | [1, 2] < [1, 3] | n >= 7 | n <= 6 | missing == missing2 | missing == '' | nothing == none | (1, 2) == [1, 2]
'a' < 1 | missing < 1 | missing + 'a' | nothing + 1 | s + 1 | l + (1,) | 1 // 0 | 1 % 0 | 1.0 / 0 | missing.x | missing['x'] | nothing.x | nothing['x'] | n.x | s.nope | d.nope | d['nope'] | l[10] | l['a'] | l[-1] | l[-10] | l[0] | s[0] | s[-1] | u[1] | u[-1] | u[7]
l[1:] | l[:-1] | l[::-1] | l[::2] | l[5:] | l[-2:] | l[2:0:-1] | s[1:4] | s[::-1] | u[5:8] | u[::-1] | u[:3] | s[:-1] | (1, 2, 3)[1:] | l[None:None] | s[100:] | l[0:3:0] | missing[1:] | n[1:]
'o' in s | 'xyz' in s | 'xyz' not in s | '' in s | 3 in l | 4 not in l | 'a' in d | 'z' in d | 'role' in rows[0] | 1 in missing | none in mixed | 2 in mixed | 'k' in mixed[6] | 1 in s | 1 in n | missing in l
t and n | f and n | f or n | nothing or 'x' | not t | not missing | not l | t and not f or f | n if t else x | n if f else x | n if f | (n if f) is defined | 'a' if n > 5 and x < 3 else 'b' | not n == 7 | not (n == 7 and f) | 1 if 0 else 2 if 0 else 3
d.a | d['a'] | d.items | d.b + 1 | d.items() | d.keys() | d.values() | d.get('a') | d.get('zz') | d.get('zz', 5) | d.items()|list | d|items|list | rows[0].role | rows[0]['sub'].k | rows[2].sub | rows[2].sub.k | rows|length | d|length | d.copy() | d.pop('a') | l.append(4) | d.update({'x': 1})
s.content is defined | s.upper is defined | s.content.content is defined | s.upper() | s.lower() | s.title() | 'ab-cd ef'.title() | "it's 2nd".title() | s.capitalize() | s.strip('Hd') | ws.strip() | ws.lstrip() | ws.rstrip() | 'xxaxx'.strip('x') | 'xxaxx'.lstrip('x') | 'xxaxx'.rstrip('x') | s.split() | s.split('o') | s.split('o', 1) | s.rsplit('o', 1) | s.rsplit('o') | ' a  b '.split() | ' a  b '.split(' ') | 'a b  c '.split(none, 1) | 'a,b,c'.split(',', 2) | s.split('') | ''.split() | ''.split(',') | s.replace('l', 'L') | s.replace('l', 'L', 1) | s.replace('', '-') | s.startswith('He') | s.startswith(('x', 'H')) | s.endswith('ld') | s.endswith('') | s.find('o') | s.rfind('o') | s.find('z') | u.find('日') | s.count('l') | s.count('') | ', '.join(names) | ','.join(l) | lines.splitlines() | s.isdigit() | '12'.isdigit() | ''.isdigit() | s.isalpha() | 'abc'.isalpha() | 'a1'.isalnum() | ' '.isspace() | s.removeprefix('Hello ') | s.removesuffix('World') | s.removesuffix('x') | s.format() | s.encode() | s.__class__ | u.lower() | 'ÄÖ'.lower()
s|upper | s|lower | s|title | "foo (bar) [baz] it's"|title | 'ABC DEF'|capitalize | ws|trim | 'xax'|trim('x') | n|trim | s|length | u|length | u|count | l|first | l|last | empty|first | empty|last | missing|first | s|first | u|last | l|join | l|join(', ') | names|join('-') | mixed|join('|') | rows|join(',', attribute='role') | s|join('.') | l|sort | l|sort(reverse=true) | names|sort | names|sort(case_sensitive=true) | rows|sort(attribute='n')|map(attribute='n')|list | rows|sort(attribute='role')|map(attribute='n')|list | mixed|sort | l|reverse|list | s|reverse | l|list | s|list | d|list | l|sum | rows|sum(attribute='n') | l|max | l|min | names|max | names|min | []|max | names|unique|list | ['a','A','b']|unique|list | [1,1,2]|unique|list | missing|list | missing|length | nothing|list | n|list | n|length
s|replace('o', '0') | s|replace('o', '0', 1) | s|string | n|string + '!' | x|string | l|string | mixed|string | d|string | q|string | [q]|string | [ws]|string | [u]|string | (1,)|string | ()|string | []|string | {}|string | [nothing, t]|string | '12'|int | 'x'|int | 'x'|int(5) | '3.9'|int | ' 42 '|int | x|int | neg|int | nothing|int | '2.5'|float | 'x'|float | n|float | 'x'|float(1.5) | neg|abs | x|abs | 2.5|round | 3.5|round | 2.4|round | n|round | n|default(3) | missing|default(3) | missing|default('a') | missing|d('b') | empty|default('c', true) | empty|default('c') | f|default('z', boolean=true) | nothing|default('n') | missing|default
rows|map(attribute='role')|list | rows|map(attribute='sub.k', default='-')|list | rows|map(attribute='zz')|list | names|map('upper')|list | names|map('upper')|join | l|map('string')|join('+') | l|select('odd')|list | l|reject('odd')|list | mixed|select('string')|list | mixed|select|list | mixed|reject('none')|list | rows|selectattr('role', 'equalto', 'user')|list|length | rows|selectattr('sub')|list|length | rows|selectattr('sub', 'defined')|list|length | rows|rejectattr('role', 'eq', 'user')|map(attribute='n')|first | rows|selectattr('n', '>', 1)|map(attribute='n')|list | rows|selectattr('n', 'in', [1, 3])|map(attribute='n')|list | l|select('>', 1)|list | l|select('divisibleby', 2)|list | d|dictsort | d|dictsort(by='value') | {'b': 1, 'A': 3}|dictsort(true) | {'b': 1, 'A': 3}|dictsort(false, 'value', true)
d|tojson | mixed|tojson | rows|tojson(indent=2) | l|tojson(indent=0) | []|tojson(indent=2) | {}|tojson(indent=2) | u|tojson | u|tojson(ensure_ascii=true) | q|tojson | html|tojson | x|tojson | big|tojson | small|tojson | n|tojson | nothing|tojson | t|tojson | d|tojson(sort_keys=true) | {'b': 1, 'a': 2}|tojson(sort_keys=true) | l|tojson(separators=(',', ':')) | d|tojson(separators=(',', ':')) | {1: 2, none: 3, true: 4}|tojson | missing|tojson | (1, 2)|tojson | "\u0001\u007f"|tojson | d|tojson(indent='--')
n is number | x is number | t is number | s is number | n is integer | t is integer | x is float | t is boolean | n is boolean | t is true | n is true | f is false | nothing is none | missing is none | missing is defined | n is defined | missing is undefined | s is string | l is string | l is sequence | s is sequence | d is sequence | n is sequence | d is mapping | l is mapping | l is iterable | n is iterable | missing is iterable | d is iterable | n is odd | n is even | n is divisibleby 7 | n is divisibleby(2) | n is eq 7 | n is equalto 7 | n is ne 7 | n is lt 8 | n is gt(8) | n is ge 7 | n is le 6 | 1 is in l | n is in [7] | nothing is sameas none | t is sameas true | n is not none | n is not defined | not n is defined | n is defined and x is defined | 'ABC' is upper | 'aBC' is upper | 'abc' is lower | '12' is lower | d.a is string and d.b is not string | missing is string | n is mapping or l is iterable
l|map('string')|first | (l|map('string')) is iterable | 'y' if l|select('>', 100) else 'n' | l|select('odd')|length | l|map('string') | (l|select('odd'))[0] | range(3)[0] | range(3)|length | 2 in range(3) | d.keys() is sequence | d.keys()|length | 'a' in d.keys() | d.keys()[0] | d.values()|first | l|reverse|first | l|map('string')|last | l|unique|join | n[:1] | d[1:]
s|safe | html|safe | s|indent | lines|indent | lines|indent(2) | lines|indent(2, true) | lines|indent(2, blank=true) | lines|indent('>> ') | lines|indent(width=1, first=true) | 'x'|indent(3, true) | ''|indent
range(3) | range(3)|list | range(1, 4)|list | range(5, 0, -2)|list | range(0)|list | range(2, 2)|list | dict(a=1, b='c') | dict(a=1).a | dict({'x': 1}, y=2) | namespace(a=1).a | namespace({'z': 1}).z | raise_exception('no') | nope() | nope(1) | s() | range(0, 10, 0) | range(200000)|length
[1, 2, 3] | [1, 'a', none] | (1, 2) | {'a': 1, "b": [2]} | {'a': {}} | [] | {} | () | [[1], [2, [3]]] | (1) | (1,) | [1,] | {'a': 1,} | true | True | none | None | false | 1.0 | 1e100 | 123456789012345 | 1.5 | -0.0 | big | small | 1e15 | 12345678.9 | 5e-324 | 1.7976931348623157e308 | 0.1 | 100.0 | 1e22 | 123456789.123456789
n.items | items | d['items'] | d.keys | 1 | 'x' | n | x | t | nothing | missing | s | u | l | d | mixed | rows | q
s.split('o')[1:] | s.split(' ')[0][::-1].upper() | (s ~ '!')|upper | s|upper|lower|title | (n, x)|first | -n|abs | (-n)|abs | n|string|length | not s|length == 0 | s|length + 1 | 'a' ~ 1 + 2 | 1 + 2 ~ 'a' | l|first + 1 | l[l|length - 1] | rows[0].role if rows else 'none' | (rows|first).role | rows|map(attribute='role')|unique|join('/') | [x for x in l] | lambda: 1 | s == 'x' == f | n is 7 | {n: 1}[7] | {1: 'a'}[1] | {'a': 1}.a
"""

PROGRAMS = [
    "{% if t %}a{% endif %}b", "{% if f %}a{% elif n > 5 %}b{% else %}c{% endif %}", "{% if f %}a{% elif f %}b{% else %}c{% endif %}", "{% if missing %}a{% endif %}|",
    "{% for i in l %}{{ i }},{% endfor %}", "{% for i in [] %}x{% else %}none{% endfor %}", "{% for i in missing %}x{% else %}none{% endfor %}", "{% for i in n %}{% endfor %}",
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}",
    "{% for i in l %}{{ loop.previtem }}-{{ loop.nextitem }};{% endfor %}", "{% for i in l %}{{ loop.previtem is defined }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in u %}{{ c }}.{% endfor %}",
    "{% for r in rows if r.role == 'user' %}{{ loop.index }}{{ r.n }}{{ loop.last }};{% endfor %}", "{% for r in rows if r.n > 10 %}x{% else %}nothing{% endfor %}",
    "{% for i in l %}{% for j in l %}{{ loop.depth }}{{ i * j }} {% endfor %}{{ loop.index }}{% endfor %}", "{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "{% for i in l %}{% set last = i %}{% endfor %}{{ last is defined }}", "{% set a = 1 %}{% for i in l %}{{ a }}{% set a = a + i %}{{ a }};{% endfor %}{{ a }}",
    "{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}", "{% set ns = namespace(a=1) %}{% set ns.b = ns.a ~ 'x' %}{{ ns.b }}{{ ns.c is defined }}", "{% set ns = namespace() %}{{ ns.x }}|", "{% set d.x = 1 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = l %}{{ a }}", "{% set a = (1, 2) %}{{ a[1] }}", "{% set a = 1, 2 %}{{ a }}", "{% set a %}x{{ n }}y{% endset %}{{ a|upper }}{{ a|length }}", "{% set a | upper %}x{{ s }}{% endset %}{{ a }}", "{% set a | trim | upper %} x {% endset %}{{ a }}|",
    "{% if t %}{% set a = 5 %}{% endif %}{{ a }}", "{% if f %}{% set a = 5 %}{% endif %}{{ a is defined }}", "{% for i in l %}{% if loop.first %}{% set a = i %}{% endif %}{{ a is defined }}{% endfor %}",
    "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m() }}", "{% macro m() %}{{ n }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}", "{% macro f(k) %}{{ k }}{% if k > 0 %}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro m(a) %}{% set a = a + 1 %}{{ a }}{% endmacro %}{{ m(1) }}{{ m(1)|length }}{{ m(2) ~ 'x' }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=1) }}", "{% macro m(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ m(3) }}",
    "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z }}|",
    "{% raw %}{{ x }} {% if %}{% endraw %}", "a {%- raw -%}  {{ x }}  {%- endraw -%}  b", "{# comment #}x{# {{ n }} #}", "a\n{# c #}\nb", "a {#- c -#} b", "{{ '{{' }}{{ '}}' }}{{ \"{% x %}\" }}",
    "a\n{% if t %}\nb\n{% endif %}\nc\n", "a\n  {% if t %}\n  b\n  {% endif %}\n  c\n\n", "a {% if t %} b {% endif %} c", "a {%- if t -%} b {%- endif -%} c", "a\n{%+ if t %}\nb{%+ endif %}", "  {%+ if t %}x{% endif %}", "x {% if t +%}\ny{% endif %}",
    "{{ n }}\n{{ x }}\n", "{{ n -}}\n{{- x }}", "  {{ n }}  ", "\n\n{{ n }}\n\n", "{% if t -%}\n\n  x\n{%- endif %}\n\n\ny", "a\r\nb\r{{ n }}\r\n", "{% for i in l %}\n  {{ i }}\n{% endfor %}\n", "{% for i in l -%}\n  {{ i }}\n{%- endfor %}", "\t{% if t %}\tx\t{% endif %}\t\n",
    "{% set x = 1 %}   {% set y = 2 %}\n{{ x }}{{ y }}", "{{ n }}{% if t %}\n{% endif %}x", "line\n    {% if t %}{{ n }}{% endif %}\n", "line\n    {{ n }}    {% if t %}x{% endif %}", "{#- a -#}\n x", "x\n  {# a #}  \ny", "{% raw %}\nx\n{% endraw %}\ny",
    "{% generation %}a{{ n }}{% endgeneration %}b{% generation %}é{% endgeneration %}", "ü{% for i in l %}{% generation %}{{ i }}{% set q = 3 %}{% endgeneration %},{% endfor %}", "{%- generation -%} {{ s }} {%- endgeneration -%} x", "{{ strftime_now('%Y') }}", "{{ strftime_now is defined }}",
    "{% if n %}", "{% endif %}", "{% for %}{% endfor %}", "{{ n", "{{ }}", "{% if %}x{% endif %}", "{{ n n }}", "{{ 'a }}", "{% set %}", "{{ n | }}", "{{ n is }}", "{{ (1 }}", "{{ 1) }}", "{{ [1 }}", "{# x", "{% raw %}x", "{% set 1 = 2 %}", "{{ n + }}", "{{ * }}", "{% for a in l %}", "{% else %}", "{% break %}",
    "{% macro %}{% endmacro %}", "{{ l[ }}", "{{ a. }}", "{% if t %}a{% else %}b{% else %}c{% endif %}", "{{ $ }}", "{% set a b %}", "", " ", "\n", "plain", "{", "{ {", "}}", "%}", "{{'a'}}{{'b'}}", "{{n}}{%if t%}x{%endif%}", "{{ n|string|upper }}", "{{ {'a': {'b': [1, {'c': 2}]}}['a'].b[1]['c'] }}",
    "{{ messages }}", "{{ loop }}", "{% for i in l %}{% set loop = 5 %}{{ loop }}{% endfor %}", "{% set range = 3 %}{{ range }}", "{% set s = s.split() %}{{ s }}", "{{ (l, s)[0] }}", "{% set g = l|map('string') %}{% for x in g %}{{ x }}{% endfor %}|{% for x in g %}{{ x }}{% endfor %}", "{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% if 'a' in d and d.a is string and d['a']|length > 0 %}y{% endif %}",
]

NOW = 1722021234


def small():
    yield {"given": GIVEN}
    programs = ["{{ %s }}" % e for row in EXPRESSIONS.strip().replace("\\\nb'", "\\NEWLINEb'").split("\n")
                for e in (part.replace("\\NEWLINE", "\\\n") for part in split(row))] + PROGRAMS
    for program in programs:
        yield line(program, GIVEN)
    for form in ["%d %b %Y", "%A, %B %d %Y %H:%M:%S", "%j %p %I %y %a %m %%"]:
        yield line("{{ strftime_now('%s') }}" % form, GIVEN, NOW)
    for name in names():
        rng = random.Random(name)
        for i in range(8):
            yield line(open(f"{FOLDER}/{name}", encoding="utf-8").read(), variables(rng), NOW * (i % 2), name)


def split(row):
    """At " | ", where no filter is meant: filters are written without blanks."""
    return row.split(" | ")


def names():
    return sorted(name for name in os.listdir(FOLDER) if name.endswith(".jinja"))


def large(count, files):
    for path in files or [f"{FOLDER}/{name}" for name in names()]:
        source = open(path, encoding="utf-8").read()
        rng = random.Random(os.path.basename(path) + " large")
        for i in range(count):
            yield line(source, variables(rng), NOW * (i % 2))


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("small", "large"):
        sys.exit(__doc__)
    lines = small() if sys.argv[1] == "small" else large(int(sys.argv[3]), sys.argv[4:])
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for made in lines:
            out.write(json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
