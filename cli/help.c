/* Help texts and the manual page, generated from the option table and the commands. */
#include <string.h>

#include "base/environment.h"
#include "cli/command.h"

/* The sections of options, in the order in which they are shown. */
static const struct {
    const char *name, *title;
} sections[] = {{"Objective", "Objective"},
                {"Model", "Model"},
                {"Sampling", "Choosing the next token"},
                {"Data", "Data"},
                {"Running", "Input, output and running"},
                {"Method", "Method"},
                {"Gradients", "Methods with gradients"},
                {"Stopping", "Stopping and evaluation"}};
enum { SECTIONS = sizeof sections / sizeof sections[0], WIDTH = 100, INDENT = 28 };

#define ZEST_HELP_TITLE "fine-tune language models with forward passes only (MeZO, ZEST)"

/* Appends text wrapped at blanks, indented from the second line on; `column` is the start of the first
 * line. */
static void wrap(zest_buffer *out, const char *text, size_t column, size_t indent) {
    while (*text) {
        size_t space = WIDTH > column ? WIDTH - column : 1, length = strlen(text), cut = length;
        const char *newline = strchr(text, '\n');
        if (newline && (size_t)(newline - text) < cut) cut = (size_t)(newline - text);
        if (cut > space) {
            cut = space;
            while (cut && text[cut] != ' ') cut--;
            if (!cut) cut = space;
        }
        zest_buffer_add(out, text, cut);
        zest_buffer_text(out, "\n");
        text += cut;
        while (*text == ' ' || *text == '\n') text++;
        if (*text) zest_buffer_format(out, "%*s", (int)indent, "");
        column = indent;
    }
}

static void paragraphs(zest_buffer *out, const char *text) {
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t length = end ? (size_t)(end - text) : strlen(text);
        char paragraph[4096];
        if (length >= sizeof paragraph) length = sizeof paragraph - 1;
        memcpy(paragraph, text, length);
        paragraph[length] = '\0';
        if (paragraph[0] == ' ')
            zest_buffer_format(out, "%s\n", paragraph); /* indented text is not wrapped */
        else
            wrap(out, paragraph, 0, 0);
        if (end) zest_buffer_text(out, "\n");
        text = end ? end + 2 : text + length;
    }
}

/* The defaults of this command instead of the table's. */
static const char *fallback(const zest_options *options, zest_option_id id) {
    const char *text = zest_options_text(options, id);
    return zest_option_row_at(id)->kind == ZEST_KIND_FLAG ? "" : text;
}

static void option_text(zest_buffer *out, const zest_command *command, const zest_option_row *row,
                        const char *value) {
    size_t size;
    const char *help = zest_command_option_help(command, row, &size);
    zest_buffer_add(out, help, size);
    char range[256];
    zest_option_range(row, range, sizeof range);
    int obvious = row->kind != ZEST_KIND_CHOICE && !row->open && (row->low == 0 || row->low == 1) &&
                  row->high >= 1 << 20; /* counts and lengths: a limit without practical meaning */
    if (*range && !obvious) zest_buffer_format(out, " (%s)", range);
    if (*value) zest_buffer_format(out, " [default: %s]", value);
}

static void option_line(zest_buffer *out, const zest_command *command, const zest_option_row *row,
                        const char *value) {
    zest_buffer line = {0};
    if (row->letter)
        zest_buffer_format(&line, "  -%c, --%s", row->letter, row->name);
    else
        zest_buffer_format(&line, "      --%s", row->name);
    if (*row->argument) zest_buffer_format(&line, " %s", row->argument);
    if (line.size + 1 >= INDENT) {
        zest_buffer_format(out, "%s\n%*s", line.data ? line.data : "", INDENT, "");
    } else {
        zest_buffer_format(out, "%-*s", INDENT, line.data ? line.data : "");
    }
    line.size = 0;
    option_text(&line, command, row, value);
    wrap(out, line.data ? line.data : "", INDENT, INDENT);
    out->failed |= line.failed;
    zest_buffer_free(&line);
}

static void usage(const zest_command *command, zest_buffer *out) {
    zest_buffer_format(out, "zest %s%s%s [OPTIONS]", command->name, *command->words ? " " : "",
                       command->words);
}

static void examples(const zest_command *command, zest_buffer *out, const char *code, const char *text) {
    for (const char *line = command->examples; *line;) {
        const char *tab = strchr(line, '\t'), *end = strchr(line, '\n');
        if (!end) end = line + strlen(line);
        if (!tab || tab > end) tab = end;
        zest_buffer_format(out, code, (int)(tab - line), line);
        if (tab < end) zest_buffer_format(out, text, (int)(end - tab - 1), tab + 1);
        line = *end ? end + 1 : end;
    }
}

void zest_help_command(const zest_command *command, zest_buffer *out) {
    zest_options options;
    zest_options_init(&options);
    if (zest_options_set_default(&options, command->defaults, NULL)) out->failed = 1;
    zest_buffer_text(out, "Usage: ");
    usage(command, out);
    zest_buffer_text(out, "\n\n");
    paragraphs(out, command->description);
    for (int s = 0; s < SECTIONS; s++) {
        int any = 0;
        for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
            const zest_option_row *row = zest_option_row_at((zest_option_id)id);
            if (!(row->users & zest_command_users(command)) || strcmp(row->section, sections[s].name))
                continue;
            if (!any++) zest_buffer_format(out, "\n%s:\n", sections[s].title);
            option_line(out, command, row, fallback(&options, (zest_option_id)id));
        }
    }
    zest_buffer_format(out, "\n  -h, --help%*sshow this help\n      --version%*sshow the version\n",
                       INDENT - 12, "", INDENT - 15, "");
    if (*command->examples) {
        zest_buffer_text(out, "\nExamples:\n");
        examples(command, out, "  %.*s\n", "      %.*s\n");
    }
    zest_options_free(&options);
}

void zest_help_overview(zest_buffer *out) {
    zest_buffer_text(out, "zest " ZEST_VERSION ": " ZEST_HELP_TITLE "\n\nUsage: zest COMMAND [OPTIONS]\n");
    for (const zest_command *const *c = zest_command_all(); *c; c++) {
        const char *heading = zest_command_heading(*c);
        if (heading) zest_buffer_format(out, "\n%s:\n", heading);
        zest_buffer_format(out, "  %-11s %s\n", (*c)->name, (*c)->summary);
    }
    zest_buffer_text(
        out, "\nFirst steps:\n"
             "  zest pull FacebookAI/roberta-base\n"
             "  zest train --model FacebookAI/roberta-base --task SST-2 --data data --out run1\n"
             "  zest predict run1 --text 'A lovely day.'\n"
             "\n"
             "zest COMMAND --help explains a command, zest help environment lists environment variables.\n"
             "Results go to stdout, everything else to stderr. Exit status: 0 done, 1 failed, 2 wrong "
             "usage.\n");
}

/* ---- Environment variables ---- */

static void environment_text(zest_buffer *out, const zest_environment_variable *v) {
    zest_buffer_format(out, "%s%s [default: %s]", strcmp(v->audience, "tests") ? "" : "For tests. ",
                       v->meaning, v->initial);
}

void zest_help_environment(zest_buffer *out) {
    const zest_environment_variable *v;
    zest_buffer_text(
        out, "Environment variables that zest reads. A value that zest does not allow is an error.\n");
    for (int i = 0; (v = zest_environment_at(i)); i++) {
        zest_buffer text = {0};
        if (!i) zest_buffer_text(out, "\nOf zest:\n");
        if (i == ZEST_ENVIRONMENT_OWN) zest_buffer_text(out, "\nShared with other programs:\n");
        zest_buffer_format(out, "  %s=%s\n      ", v->name, v->values);
        environment_text(&text, v);
        wrap(out, text.data ? text.data : "", 6, 6);
        out->failed |= text.failed;
        zest_buffer_free(&text);
    }
}

/* ---- Manual page ---- */

/* Escapes text for roff: backslash, leading dot or quote, minus. */
static void roff(zest_buffer *out, const char *text) {
    int start = 1;
    for (; *text; text++) {
        if (start && (*text == '.' || *text == '\'')) zest_buffer_text(out, "\\&");
        if (*text == '\\')
            zest_buffer_text(out, "\\e");
        else if (*text == '-')
            zest_buffer_text(out, "\\-");
        else
            zest_buffer_add(out, text, 1);
        start = *text == '\n';
    }
}

static void roff_paragraphs(zest_buffer *out, const char *text) {
    while (*text) {
        const char *end = strstr(text, "\n\n");
        zest_buffer paragraph = {0};
        zest_buffer_add(&paragraph, text, end ? (size_t)(end - text) : strlen(text));
        int verbatim = text[0] == ' ';
        zest_buffer_text(out, verbatim ? ".PP\n.nf\n" : ".PP\n");
        roff(out, paragraph.data ? paragraph.data : "");
        zest_buffer_text(out, verbatim ? "\n.fi\n" : "\n");
        out->failed |= paragraph.failed;
        zest_buffer_free(&paragraph);
        text = end ? end + 2 : text + strlen(text);
    }
}

static void roff_command(zest_buffer *out, const zest_command *command) {
    zest_options options;
    zest_options_init(&options);
    if (zest_options_set_default(&options, command->defaults, NULL)) out->failed = 1;
    zest_buffer line = {0};
    usage(command, &line);
    zest_buffer_text(out, ".SS ");
    roff(out, line.data ? line.data : "");
    zest_buffer_text(out, "\n");
    out->failed |= line.failed;
    zest_buffer_free(&line);
    roff_paragraphs(out, command->description);
    for (int s = 0; s < SECTIONS; s++)
        for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
            const zest_option_row *row = zest_option_row_at((zest_option_id)id);
            if (!(row->users & zest_command_users(command)) || strcmp(row->section, sections[s].name))
                continue;
            zest_buffer_text(out, ".TP\n\\fB");
            if (row->letter) zest_buffer_format(out, "\\-%c\\fR, \\fB", row->letter);
            roff(out, "--");
            roff(out, row->name);
            zest_buffer_format(out, "\\fR %s%s%s\n", *row->argument ? "\\fI" : "", row->argument,
                               *row->argument ? "\\fR" : "");
            zest_buffer tail = {0};
            option_text(&tail, command, row, fallback(&options, (zest_option_id)id));
            roff(out, tail.data ? tail.data : "");
            zest_buffer_text(out, "\n");
            out->failed |= tail.failed;
            zest_buffer_free(&tail);
        }
    if (*command->examples) {
        zest_buffer_text(out, ".PP\nExamples:\n");
        zest_buffer shown = {0};
        examples(command, &shown, "    %.*s\n", "        %.*s\n");
        zest_buffer_text(out, ".PP\n.nf\n");
        roff(out, shown.data ? shown.data : "");
        zest_buffer_text(out, ".fi\n");
        out->failed |= shown.failed;
        zest_buffer_free(&shown);
    }
    zest_options_free(&options);
}

static void roff_environment(zest_buffer *out) {
    const zest_environment_variable *v;
    for (int i = 0; (v = zest_environment_at(i)); i++) {
        zest_buffer text = {0};
        environment_text(&text, v);
        zest_buffer_format(out, ".TP\n\\fB%s\\fR=\\fI%s\\fR\n", v->name, v->values);
        roff(out, text.data ? text.data : "");
        zest_buffer_text(out, "\n");
        out->failed |= text.failed;
        zest_buffer_free(&text);
    }
}

void zest_help_manual(zest_buffer *out) {
    zest_buffer_text(
        out, ".\\\" Made from the option table by `zest manual`; do not edit.\n"
             ".TH ZEST 1 \"\" \"zest " ZEST_VERSION "\" \"User Commands\"\n"
             ".SH NAME\nzest \\- " ZEST_HELP_TITLE "\n"
             ".SH SYNOPSIS\n.B zest\n.I COMMAND\n[\\fIOPTIONS\\fR]\n"
             ".SH DESCRIPTION\nzest implements ZEST, zeroth-order sharpness-aware training by exponential "
             "tilting, and its special case MeZO. A command reads its options from one table; the same "
             "names serve the C library (\\fBzest.h\\fR).\n"
             ".SH OPTIONS\nOf every command:\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nshow the help of a "
             "command\n.TP\n\\fB\\-\\-version\\fR\nshow the version\n"
             ".SH COMMANDS\n");
    for (const zest_command *const *c = zest_command_all(); *c; c++) roff_command(out, *c);
    zest_buffer_text(out,
                     ".SH EXIT STATUS\n0: done. 1: failed; the message says what to do. 2: wrong usage.\n"
                     ".SH ENVIRONMENT\n");
    roff_environment(out);
}
