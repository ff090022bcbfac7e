/* zest sweep: a grid of training runs, each a process of `zest train`, and the tables of their results. A
 * run in a sweep is the same as one started by hand, and a crash ends one run and not the sweep. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/file.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "lab/sweep/sweep.h"
#include "train/run_folder.h"

/* --keep: the weights of finished runs */
typedef enum { KEEP_ALL, KEEP_BEST, KEEP_NONE } keep_mode;

typedef struct {
    zest_sweep_plan *plan;
    const char *folder;
    size_t jobs;    /* processes at a time */
    size_t threads; /* for all of them together */
    size_t ranks;   /* of a run, which are started by the launcher if there are several */
    const char *launcher;
    keep_mode keep;
    int quiet;
    int interrupted; /* by Ctrl-C: running processes have stopped after their step */
} sweep_jobs;

static volatile sig_atomic_t stop;

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

/* A second signal ends zest, and its children with it. */
static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- Runs as processes ---- */

typedef struct {
    pid_t pid; /* 0: free */
    size_t run;
} slot;

typedef struct {
    sweep_jobs *jobs;
    slot *slots;
    size_t done, all; /* runs of this session */
    zest_progress progress;
    zest_error *error;
} pool;

enum { MAX_ARGS = ZEST_OPTION_COUNT + 40 };

typedef struct {
    char *words[MAX_ARGS + 1]; /* NULL after the last */
    size_t count;
    int failed;
    int launched; /* the first word is a program to be looked for, not zest itself */
} command;

static void add_word(command *c, const char *format, const char *name, const char *value) {
    zest_buffer word = {0};
    zest_buffer_format(&word, format, name, value);
    c->failed |= word.failed || c->count == MAX_ARGS;
    if (c->failed)
        zest_buffer_free(&word);
    else
        c->words[c->count++] = word.data;
}

static void free_command(command *c) {
    for (size_t i = 0; i < c->count; i++) free(c->words[i]);
}

/* In the child: its own process group, so that Ctrl-C reaches only the sweep, which signals its children
 * once; it ends with the sweep, since a run that outlived it could not be resumed. Does not return. */
static void become(const command *c, const char *log, pid_t parent) {
    int null = open("/dev/null", O_RDONLY), out = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0666);
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
#else
    (void)parent;
#endif
    if (null < 0 || out < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(127);
    if (c->launched)
        execvp(c->words[0], c->words);
    else
        execv("/proc/self/exe", c->words);
    if (c->launched)
        dprintf(2, "zest: %s: %s; --ranks needs the launcher of an MPI, see --launcher\n", c->words[0],
                strerror(errno));
    _exit(127);
}

static zest_status spawn(pool *p, slot *s, const command *c, const char *log) {
    pid_t parent = getpid();
    if (c->failed) return zest_error_memory(p->error, "a command line", 0);
    zest_status status = zest_file_refuse_link(log, p->error);
    if (status) return status;
    fflush(stdout);
    s->pid = fork();
    if (s->pid == 0) become(c, log, parent);
    if (s->pid > 0) return ZEST_OK;
    s->pid = 0;
    return zest_error_set_errno(p->error, ZEST_ERROR_FILE, "a run cannot be started");
}

/* ---- End of a process ---- */

/* The error message of a run: the first line of its log in the form of our messages. To be freed; NULL:
 * none. */
static char *message_in(const char *path) {
    zest_buffer text = {0};
    char *found = NULL;
    if (zest_file_read(path, (size_t)64 << 20, &text, NULL)) return NULL;
    for (char *next = text.data, *line; next && !found && (line = strsep(&next, "\n"));)
        if (!strncmp(line, "zest: ", 6)) found = strdup(line + 6);
    zest_buffer_free(&text);
    return found;
}

static char *why(int status, const char *log) {
    zest_buffer text = {0};
    char *message = message_in(log);
    if (message) return message;
    if (WIFSIGNALED(status))
        zest_buffer_format(&text, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        zest_buffer_format(&text, "ended with status %d; see %s", WEXITSTATUS(status), log);
    return text.data;
}

static char *path_of(const char *folder, const char *part, const char *name, const char *suffix) {
    zest_buffer path = {0};
    zest_buffer_format(&path, "%s/%s/%s%s", folder, part, name, suffix);
    if (path.failed) zest_buffer_free(&path);
    return path.data;
}

/* ---- Training ---- */

static void fail_run(zest_sweep_run *run, char *message) {
    run->state = ZEST_SWEEP_FAILED;
    free(run->message);
    run->message = message;
}

/* With one seed the best weights are still needed to answer the test examples. */
static void drop(const sweep_jobs *jobs, const zest_sweep_run *run, int at_once) {
    zest_run_folder folder;
    char *path = path_of(jobs->folder, "runs", run->name, "");
    int best = jobs->keep == KEEP_NONE && (!at_once || jobs->plan->varies[ZEST_OPTION_SEED]);
    if (jobs->keep && run->state == ZEST_SWEEP_FINISHED && path && !zest_file_refuse_link(path, NULL) &&
        !zest_run_folder_of(path, &folder, NULL)) {
        zest_file_remove_folder(folder.last, NULL);
        if (best) zest_file_remove_folder(folder.best, NULL);
        zest_run_folder_free(&folder);
    }
    free(path);
}

/* Deletes the weights that --keep does not keep, once no run needs them. */
static void drop_weights(const sweep_jobs *jobs) {
    for (size_t i = 0; i < jobs->plan->count; i++) drop(jobs, &jobs->plan->runs[i], 0);
}

static void end_run(pool *p, zest_sweep_run *run, int status, const char *log) {
    zest_error error = {0};
    if (zest_sweep_result_read(run, p->jobs->folder, &error))
        fail_run(run, strdup(error.message));
    else if (status && !stop && run->state != ZEST_SWEEP_FINISHED) /* a run that diverged has a result, too */
        fail_run(run, why(status, log));
    else if (run->state != ZEST_SWEEP_FINISHED && !stop)
        fail_run(run, strdup("it was stopped from outside; continue with --resume"));
    drop(p->jobs, run, 1);
    if (run->state == ZEST_SWEEP_FAILED) {
        zest_progress_clear(&p->progress);
        zest_output_note("%s failed: %s", run->name, run->message ? run->message : "");
    }
}

/* The program of a run: this one, or the launcher with this one behind it. */
static void add_program(const sweep_jobs *jobs, command *c) {
    char number[32], self[4096];
    if (jobs->ranks == 1) {
        add_word(c, "%s%s", "zest", "");
        return;
    }
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    c->launched = 1;
    for (const char *at = jobs->launcher + strspn(jobs->launcher, " "); *at; at += strspn(at, " ")) {
        char *word = strndup(at, strcspn(at, " "));
        c->failed |= !word;
        if (word) add_word(c, "%s%s", word, "");
        free(word);
        at += strcspn(at, " ");
    }
    snprintf(number, sizeof number, "%zu", jobs->ranks);
    add_word(c, "%s%s", "-n", "");
    add_word(c, "%s%s", number, "");
    add_word(c, "%s%s", length > 0 ? self : "zest", "");
}

static void train_command(const pool *p, const zest_sweep_run *run, const char *folder, command *c) {
    char threads[32];
    size_t each = p->jobs->threads / p->jobs->jobs / p->jobs->ranks;
    snprintf(threads, sizeof threads, "%zu", each ? each : 1);
    add_program(p->jobs, c);
    add_word(c, "%s%s", "train", "");
    add_word(c, "--%s=%s", "threads", threads);
    add_word(c, "--%s%s", "quiet", "");
    if (run->state == ZEST_SWEEP_STARTED) {
        add_word(c, "--%s=%s", "resume", folder);
        return;
    }
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (run->value[id])
            add_word(c, "--%s=%s", zest_option_row_at((zest_option_id)id)->name, run->value[id]);
    add_word(c, "--%s=%s", "out", folder);
}

/* A run of zest 0.1 that was killed before its options were on disk has a journal without a step, which blocks a new
 * one. Later versions write the journal last. */
static void clear_start(const char *folder) {
    char *journal = zest_file_join(folder, "journal"), *options = zest_file_join(folder, "options");
    if (journal && options && access(options, F_OK) && errno == ENOENT) unlink(journal);
    free(journal);
    free(options);
}

static zest_status start_run(pool *p, slot *s, size_t index) {
    zest_sweep_run *run = &p->jobs->plan->runs[index];
    char *folder = path_of(p->jobs->folder, "runs", run->name, ""),
         *log = path_of(p->jobs->folder, "logs", run->name, ".txt");
    command c = {.failed = !folder || !log};
    if (!c.failed && run->state == ZEST_SWEEP_PLANNED) clear_start(folder);
    if (!c.failed) train_command(p, run, folder, &c);
    s->run = index;
    zest_status status = spawn(p, s, &c, log);
    free_command(&c);
    free(folder);
    free(log);
    return status;
}

/* ---- All runs ---- */

static void show(pool *p) {
    const zest_sweep_plan *plan = p->jobs->plan;
    const zest_sweep_run *best = NULL;
    char note[128] = "";
    if (!zest_progress_due(&p->progress)) return;
    for (size_t i = 0; i < plan->count; i++) {
        const zest_sweep_run *run = &plan->runs[i];
        if (run->state != ZEST_SWEEP_FINISHED) continue;
        if (!best || run->worth > best->worth) best = run;
    }
    if (best) snprintf(note, sizeof note, "best dev %.4f (%.60s)", best->dev.value, best->name);
    zest_progress_update(&p->progress, (double)p->done, (double)p->all, note);
}

/* Reaps finished processes. Returns the number that are still running. */
static size_t reap(pool *p) {
    size_t running = 0;
    for (size_t i = 0; i < p->jobs->jobs; i++) {
        slot *s = &p->slots[i];
        int status;
        if (!s->pid) continue;
        pid_t ended = waitpid(s->pid, &status, WNOHANG);
        if (ended == 0 || (ended < 0 && errno == EINTR)) {
            running++;
            continue;
        }
        zest_sweep_run *run = &p->jobs->plan->runs[s->run];
        char *log = path_of(p->jobs->folder, "logs", run->name, ".txt");
        end_run(p, run, ended < 0 ? 1 : status, log ? log : "");
        free(log);
        s->pid = 0;
        p->done++;
    }
    return running;
}

static void signal_children(const pool *p) {
    for (size_t i = 0; i < p->jobs->jobs; i++)
        if (p->slots[i].pid) kill(p->slots[i].pid, SIGINT);
}

static slot *free_slot(const pool *p) {
    for (size_t i = 0; i < p->jobs->jobs; i++)
        if (!p->slots[i].pid) return &p->slots[i];
    return NULL;
}

static void rest(void) {
    struct timespec moment = {.tv_nsec = 20000000};
    nanosleep(&moment, NULL);
}

/* The next run to make, from *at on; ZEST_SWEEP_NONE after the last. */
static size_t next_run(const zest_sweep_plan *plan, size_t *at) {
    while (*at < plan->count && plan->runs[*at].state == ZEST_SWEEP_FINISHED) ++*at;
    return *at < plan->count ? (*at)++ : ZEST_SWEEP_NONE;
}

static zest_status make_all(pool *p) {
    size_t at = 0, running = 0;
    int notified = 0;
    zest_status status = ZEST_OK;
    size_t next = next_run(p->jobs->plan, &at);
    do {
        slot *s;
        while (!status && !stop && next != ZEST_SWEEP_NONE && (s = free_slot(p))) {
            status = start_run(p, s, next);
            next = next_run(p->jobs->plan, &at);
        }
        if ((stop || status) && !notified) signal_children(p), notified = 1;
        show(p);
        rest();
        running = reap(p);
    } while (running || (next != ZEST_SWEEP_NONE && !status && !stop));
    return status;
}

/* Refuses runs behind links before the first run starts. A finished run may be one: it is only read. */
static zest_status check_links(const sweep_jobs *jobs, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < jobs->plan->count && !status; i++) {
        if (jobs->plan->runs[i].state == ZEST_SWEEP_FINISHED) continue;
        char *path = path_of(jobs->folder, "runs", jobs->plan->runs[i].name, "");
        status =
            path ? zest_file_refuse_link(path, error) : zest_error_memory(error, jobs->plan->runs[i].name, 0);
        free(path);
    }
    return status;
}

/* Makes all runs that are not finished; failures are recorded in the plan. */
static zest_status make_runs(sweep_jobs *jobs, zest_error *error) {
    zest_status status = check_links(jobs, error);
    if (status) return status;
    pool p = {.jobs = jobs, .error = error, .slots = calloc(jobs->jobs, sizeof *p.slots)};
    if (!p.slots) return zest_error_memory(error, "the runs of a sweep", jobs->jobs * sizeof *p.slots);
    for (size_t i = 0; i < jobs->plan->count; i++) p.all += jobs->plan->runs[i].state != ZEST_SWEEP_FINISHED;
    catch_signals();
    zest_progress_begin(&p.progress, "sweep", "runs", jobs->quiet);
    if (p.all) status = make_all(&p);
    zest_progress_end(&p.progress);
    jobs->interrupted = stop != 0;
    free(p.slots);
    return status;
}

/* ---- Answers ---- */

static zest_status answer(pool *p, size_t index, const char *path) {
    const zest_sweep_run *run = &p->jobs->plan->runs[index];
    char *folder = path_of(p->jobs->folder, "runs", run->name, ""),
         *log = path_of(p->jobs->folder, "logs", run->name, ".answers.txt");
    command c = {.failed = !folder || !log};
    slot s = {0};
    int ended;
    add_word(&c, "%s%s", "zest", "");
    add_word(&c, "%s%s", "predict", "");
    if (!c.failed) add_word(&c, "%s%s", folder, "");
    add_word(&c, "--%s=%s", "split", "test");
    add_word(&c, "--%s=%s", "out", path);
    zest_status status = spawn(p, &s, &c, log);
    while (!status && waitpid(s.pid, &ended, 0) < 0 && errno == EINTR)
        if (stop) kill(s.pid, SIGINT);
    free_command(&c);
    free(folder);
    free(log);
    return status;
}

/* Answers the test examples with these runs, unless done already: folder/answers/NAME.jsonl, read into the plan.
 * A run that fails has no answers. */
static zest_status make_answers(sweep_jobs *jobs, const size_t *runs, size_t count, zest_error *error) {
    pool p = {.jobs = jobs, .error = error};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < count && !status && !stop; i++) {
        zest_sweep_run *run = &jobs->plan->runs[runs[i]];
        char *path = path_of(jobs->folder, "answers", run->name, ".jsonl");
        if (!path) status = zest_error_memory(error, run->name, 0);
        if (!status && access(path, F_OK)) status = answer(&p, runs[i], path);
        if (!status) status = zest_sweep_answers_read(run, path, error);
        free(path);
    }
    return status;
}

enum { GRID_LIMIT = 1 << 20 };

typedef struct {
    const zest_options *options;
    const char *folder; /* "": none, for a dry run */
    zest_sweep_grid grid;
    zest_sweep_plan plan;
    int lock;
    zest_error error;
} sweep;

/* ---- Grid ---- */

static zest_status read_grid_file(sweep *s, const char *path) {
    zest_buffer text = {0};
    zest_status status = zest_file_read(path, GRID_LIMIT, &text, &s->error);
    if (!status) status = zest_sweep_grid_read(&s->grid, text.data ? text.data : "", path, &s->error);
    zest_buffer_free(&text);
    return status;
}

static zest_status resume_grid(sweep *s) {
    char *path = zest_file_join(s->folder, "grid");
    if (!path) return zest_error_memory(&s->error, s->folder, 0);
    zest_status status =
        access(path, F_OK)
            ? zest_error_set(&s->error, ZEST_ERROR_FILE, "%s: not a sweep (a folder with a grid)", s->folder)
            : read_grid_file(s, path);
    free(path);
    return status;
}

static zest_status check_grid(sweep *s) {
    for (size_t b = 0; b < s->grid.count; b++) {
        const zest_sweep_block *block = &s->grid.blocks[b];
        if (!block->text[ZEST_OPTION_MODEL])
            return zest_error_set(&s->error, ZEST_ERROR_ARGUMENT, "no model to train: set --model DIR");
        if (!block->text[ZEST_OPTION_TASK])
            return zest_error_set(&s->error, ZEST_ERROR_ARGUMENT,
                                  "no tasks: set --task NAME,NAME --data DIR, or --task FILE");
    }
    return ZEST_OK;
}

/* From the resumed sweep, a preset or a file, overridden by the command line. */
static zest_status make_grid(sweep *s, const char *file) {
    int resumed = *zest_options_text(s->options, ZEST_OPTION_RESUME) != '\0',
        preset = zest_options_given(s->options, ZEST_OPTION_PRESET);
    if ((file != NULL) + preset + resumed > 1)
        return zest_error_set(&s->error, ZEST_ERROR_ARGUMENT,
                              "a grid file, --preset and --resume exclude each other");
    zest_status status = ZEST_OK;
    if (resumed)
        status = resume_grid(s);
    else if (preset)
        status =
            zest_sweep_grid_preset(&s->grid, zest_options_text(s->options, ZEST_OPTION_PRESET), &s->error);
    else if (file)
        status = read_grid_file(s, file);
    if (!status) status = zest_sweep_grid_override(&s->grid, s->options, &s->error);
    if (!status)
        status =
            zest_sweep_grid_scale(&s->grid, zest_options_number(s->options, ZEST_OPTION_SCALE), &s->error);
    if (!status) status = check_grid(s);
    if (!status) status = zest_sweep_grid_absolute(&s->grid, &s->error);
    return status ? status : zest_sweep_plan_make(&s->grid, &s->plan, &s->error);
}

/* ---- Folder ---- */

static zest_status make_part(sweep *s, const char *name) {
    char *path = zest_file_join(s->folder, name);
    zest_status status =
        path ? zest_file_refuse_link(path, &s->error) : zest_error_memory(&s->error, s->folder, 0);
    if (!status) status = zest_file_make_folder(path, &s->error);
    if (!status) zest_file_remove_temporaries(path);
    free(path);
    return status;
}

static zest_status write_part(sweep *s, const char *name, const zest_buffer *text) {
    char *path = zest_file_join(s->folder, name);
    zest_status status = path && !text->failed
                             ? zest_file_write(path, text->data ? text->data : "", text->size, &s->error)
                             : zest_error_memory(&s->error, s->folder, text->size);
    free(path);
    return status;
}

/* One sweep at a time in a folder. */
static zest_status lock_folder(sweep *s) {
    s->lock = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock >= 0 && !flock(s->lock, LOCK_EX | LOCK_NB)) return ZEST_OK;
    return zest_error_set_errno(&s->error, ZEST_ERROR_FILE,
                                "%s: cannot be locked; is another zest sweep running there?", s->folder);
}

static zest_status make_folder(sweep *s) {
    static const char *const parts[] = {"runs", "logs", "answers"};
    zest_buffer text = {0};
    char *path = zest_file_join(s->folder, "grid");
    zest_status status = path ? ZEST_OK : zest_error_memory(&s->error, s->folder, 0);
    int resumed = *zest_options_text(s->options, ZEST_OPTION_RESUME) != '\0';
    if (!status) status = zest_file_make_folder(s->folder, &s->error);
    if (!status) status = lock_folder(s);
    if (!status && !resumed && access(path, F_OK) == 0)
        status = zest_error_set(
            &s->error, ZEST_ERROR_FILE,
            "%s: contains a sweep already; continue with zest sweep --resume %s, or choose another --out",
            s->folder, s->folder);
    free(path);
    if (!status) zest_file_remove_temporaries(s->folder);
    for (size_t i = 0; i < 3 && !status; i++) status = make_part(s, parts[i]);
    zest_sweep_grid_print(&s->grid, &text);
    if (!status) status = zest_sweep_results_read(&s->plan, s->folder, &s->error);
    if (!status) status = write_part(s, "grid", &text);
    zest_buffer_free(&text);
    return status;
}

/* ---- Results ---- */

/* With one seed the only error estimate is in the answers: those of the runs that are compared. */
static zest_status read_answers(sweep *s, sweep_jobs *jobs, const zest_sweep_summary *summary) {
    size_t *selected = malloc((2 * summary->entry_count + 1) * sizeof *selected), count = 0;
    if (!selected) return zest_error_memory(&s->error, "the answers of runs", summary->entry_count);
    for (size_t i = 0; i < summary->entry_count; i++) {
        const zest_sweep_entry *e = &summary->entries[i];
        if (e->base == ZEST_SWEEP_NONE || e->difference.n != 1) continue;
        for (size_t j = 0; j < summary->seed_count; j++) {
            size_t one = e->chosen[j], other = summary->entries[e->base].chosen[j];
            if (one == ZEST_SWEEP_NONE || other == ZEST_SWEEP_NONE ||
                strcmp(s->plan.runs[one].metric, "accuracy"))
                continue;
            selected[count++] = one;
            selected[count++] = other;
        }
    }
    zest_status status = make_answers(jobs, selected, count, &s->error);
    free(selected);
    return status;
}

/* The tables as text, and where the files are; or everything as JSON. */
static zest_status print_results(sweep *s, const zest_sweep_summary *summary, const zest_buffer *json) {
    zest_buffer text = {0};
    zest_sweep_plain(summary, &text);
    if (text.failed) {
        zest_status status = zest_error_memory(&s->error, "the tables", text.size);
        zest_buffer_free(&text);
        return status;
    }
    if (zest_options_whole(s->options, ZEST_OPTION_JSON))
        zest_output_print("%s\n", json->data);
    else
        zest_output_print("%s\nAll tables: %s/table.md. One page with figures: zest report %s\n", text.data,
                          s->folder, s->folder);
    zest_buffer_free(&text);
    return ZEST_OK;
}

static zest_status write_tables(sweep *s, const zest_sweep_summary *summary) {
    zest_buffer table = {0}, csv = {0}, by_t = {0}, latex = {0}, json = {0};
    zest_sweep_markdown(summary, &table);
    zest_sweep_csv(summary, &csv);
    zest_sweep_csv_by_t(summary, &by_t);
    zest_sweep_latex(summary, &latex);
    zest_status status = zest_sweep_json(summary, &json, &s->error);
    if (!status) status = write_part(s, "table.md", &table);
    if (!status) status = write_part(s, "table.csv", &csv);
    if (!status) status = write_part(s, "by-t.csv", &by_t);
    if (!status) status = write_part(s, "table.tex", &latex);
    if (!status) status = write_part(s, "results.json", &json);
    if (!status) status = print_results(s, summary, &json);
    zest_buffer_free(&table);
    zest_buffer_free(&csv);
    zest_buffer_free(&by_t);
    zest_buffer_free(&latex);
    zest_buffer_free(&json);
    return status;
}

/* Figures, if there are several methods or several t. */
static zest_status draw(sweep *s, const zest_sweep_summary *summary) {
    static const struct {
        const char *name, *title;
        zest_sweep_figure_of make;
        int test;
    } figures[] = {{"methods-test.svg", "Test results by method", zest_sweep_methods, 1},
                   {"by-t-dev.svg", "Dev results against t", zest_sweep_figure, 0},
                   {"by-t-test.svg", "Test results against t", zest_sweep_figure, 1}};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < sizeof figures / sizeof *figures && !status; i++) {
        zest_plot *plot =
            figures[i].make(summary, figures[i].test, (zest_sensitivity_style){.title = figures[i].title});
        char *path = zest_file_join(s->folder, figures[i].name);
        if (plot && path) status = zest_plot_write(plot, path, &s->error);
        zest_plot_free(plot);
        free(path);
    }
    return status;
}

static zest_status conclude(sweep *s, sweep_jobs *jobs) {
    zest_sweep_summary summary;
    zest_status status = zest_sweep_summarise(&s->plan, &summary, &s->error);
    if (status) return status;
    status = read_answers(s, jobs, &summary);
    zest_sweep_summary_free(&summary);
    if (!status) status = zest_sweep_summarise(&s->plan, &summary, &s->error);
    if (status) return status;
    status = write_tables(s, &summary);
    if (!status) status = draw(s, &summary);
    zest_sweep_summary_free(&summary);
    return status;
}

/* ---- Command ---- */

static int list_runs_json(const sweep *s) {
    static const char *const states[] = {"planned", "started", "finished", "failed"};
    json_t *runs = json_array();
    for (size_t i = 0; i < s->plan.count; i++) {
        const zest_sweep_run *run = &s->plan.runs[i];
        json_t *one =
            json_pack("{s:o, s:s}", "name", zest_output_string(run->name), "state", states[run->state]);
        if (run->state == ZEST_SWEEP_FINISHED)
            zest_output_set(&one, "seconds", zest_output_real(run->seconds));
        zest_output_append(&runs, one);
    }
    return zest_output_json(json_pack("{s:o}", "runs", runs));
}

static int list_runs(const sweep *s) {
    static const char *const states[] = {"to make", "broken off", "finished", "failed"};
    size_t counts[4] = {0};
    double seconds = 0;
    for (size_t i = 0; i < s->plan.count; i++) {
        const zest_sweep_run *run = &s->plan.runs[i];
        counts[run->state]++;
        if (run->state == ZEST_SWEEP_FINISHED) seconds += run->seconds;
        zest_output_print("%-10s  %s\n", states[run->state], run->name);
    }
    size_t done = counts[ZEST_SWEEP_FINISHED], jobs = zest_options_whole(s->options, ZEST_OPTION_JOBS);
    printf("%zu runs: %zu finished, %zu interrupted, %zu to run", s->plan.count, done,
           counts[ZEST_SWEEP_STARTED], counts[ZEST_SWEEP_PLANNED]);
    if (done) {
        double each = seconds / (double)done;
        printf("; at %.0f s each, %zu at a time, about %.0f s are left", each, jobs,
               each * (double)(s->plan.count - done) / (double)jobs);
    }
    printf("\n");
    return ZEST_EXIT_OK;
}

/* ---- Several runs on one GPU ---- */

/* Whether an unfinished run uses a GPU. */
static int uses_gpu(const zest_sweep_plan *plan) {
    for (size_t i = 0; i < plan->count; i++) {
        const char *device = plan->runs[i].value[ZEST_OPTION_DEVICE];
        if (plan->runs[i].state != ZEST_SWEEP_FINISHED && device && !strcmp(device, "cuda")) return 1;
    }
    return 0;
}

/* Its control daemon has a pipe there. */
static int mps_is_on(void) {
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char *control = zest_file_join(folder && *folder ? folder : "/tmp/nvidia-mps", "control");
    int daemon_found = control && !access(control, F_OK);
    free(control);
    return daemon_found;
}

static void hint_at_mps(const sweep_jobs *jobs) {
    if (jobs->quiet || jobs->jobs < 2 || !uses_gpu(jobs->plan) || mps_is_on()) return;
    zest_output_note("processes run alternately on a GPU; after `nvidia-cuda-mps-control -d` they share it, "
                     "which is about twice as fast for small models");
}

static int make(sweep *s) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = (size_t)zest_options_whole(s->options, ZEST_OPTION_THREADS);
    sweep_jobs jobs = {.plan = &s->plan,
                       .folder = s->folder,
                       .jobs = (size_t)zest_options_whole(s->options, ZEST_OPTION_JOBS),
                       .threads = threads     ? threads
                                  : cores > 0 ? (size_t)cores
                                              : 1,
                       .ranks = (size_t)zest_options_whole(s->options, ZEST_OPTION_RANKS),
                       .launcher = zest_options_text(s->options, ZEST_OPTION_LAUNCHER),
                       .keep = (keep_mode)zest_options_whole(s->options, ZEST_OPTION_KEEP),
                       .quiet = (int)zest_options_whole(s->options, ZEST_OPTION_QUIET)};
    zest_status status = make_folder(s);
    if (!status) hint_at_mps(&jobs);
    if (!status) status = make_runs(&jobs, &s->error);
    if (!status) status = conclude(s, &jobs);
    if (!status) drop_weights(&jobs);
    if (status) return zest_output_fail(status, s->error.message);
    if (jobs.interrupted) zest_output_note("stopped; continue with: zest sweep --resume %s", s->folder);
    for (size_t i = 0; i < s->plan.count; i++)
        if (s->plan.runs[i].state == ZEST_SWEEP_FAILED) return ZEST_EXIT_FAILURE;
    return ZEST_EXIT_OK;
}

static int go(sweep *s, const char *file) {
    int dry = (int)zest_options_whole(s->options, ZEST_OPTION_DRY_RUN);
    zest_status status = make_grid(s, file);
    if (!status && !dry && !*s->folder)
        status = zest_error_set(&s->error, ZEST_ERROR_ARGUMENT, "no folder for the runs: set --out DIR");
    if (!status && dry && *s->folder) status = zest_sweep_results_read(&s->plan, s->folder, &s->error);
    if (status) return zest_output_fail(status, s->error.message);
    if (!dry) return make(s);
    return zest_options_whole(s->options, ZEST_OPTION_JSON) ? list_runs_json(s) : list_runs(s);
}

static int run(const zest_options *options, char **words, int count) {
    const char *resume = zest_options_text(options, ZEST_OPTION_RESUME);
    sweep s = {.options = options,
               .folder = *resume ? resume : zest_options_text(options, ZEST_OPTION_OUT),
               .lock = -1};
    int code = go(&s, count ? words[0] : NULL);
    if (s.lock >= 0) close(s.lock);
    zest_sweep_plan_free(&s.plan);
    zest_sweep_grid_free(&s.grid);
    return code;
}

const zest_command zest_command_sweep = {
    .name = "sweep",
    .words = "[GRID]",
    .min_words = 0,
    .max_words = 1,
    .summary = "train with all combinations of some options and tabulate the results",
    .description =
        "Every option of `zest train` may have several values, separated by commas, on the command line or "
        "in a file GRID of lines `name = value, value`; each combination is a run of `zest train` in "
        "OUT/runs/NAME. Equal runs are made once: MeZO ignores t, and ZEST with t = 0 is MeZO. Values that "
        "contain commas are separated by semicolons instead (always for --train-only and --freeze); a "
        "single one ends with a semicolon. A label restricts the values after it: --lr "
        "1e-5,2e-5,first:1e-3,TREC:5e-5 has values for first-order methods and for a task; a method, first "
        "or zeroth, and a task have precedence over values without a label, in this order.\n\n"
        "For each task, level of label noise, method and seed, the run with the best dev value is chosen, "
        "and its test value is reported: mean and standard error over seeds, and differences from MeZO (in "
        "a sweep without it, from SGD) of the same seed with a 95 % interval. A verdict needs 3 seeds: "
        "better or worse when the interval excludes 0. The tables are printed; OUT/table.md, table.csv, "
        "by-t.csv, table.tex and results.json contain them. methods-test.svg shows them, by-t-test.svg and "
        "by-t-dev.svg results against t.\n\n"
        "A failed run is reported, and the others continue; the exit status is then 1. After Ctrl-C, a "
        "kill or a power failure `zest sweep --resume OUT` continues; with other values of options it "
        "extends the sweep.",
    .examples =
        "zest sweep --model FacebookAI/roberta-base --data data --task SST-2,TREC --method "
        "mezo,zest-n,zest-bc --t 1,5,20 --lr 1e-5,2e-5 --seed 42,13,21 --steps 1500 --out sweep1\tseveral "
        "methods, tilts and seeds\n"
        "zest sweep --model FacebookAI/roberta-base --data data --task SST-2 --method mezo,zest-n,sgd,sam "
        "--lr 1e-5,first:1e-3 --batch 128,first:32 --device cuda --jobs 5 --keep none --out "
        "sweep2\tmethods with values of their own, five runs at a time\n"
        "zest sweep --preset paper-table-2 --model FacebookAI/roberta-base --data data --scale 0.1 --out "
        "table2\tthe paper's table, with a tenth of the steps\n"
        "zest sweep --resume sweep1 --jobs 4\tgo on, four runs at a time\n"
        "zest sweep my.sweep --dry-run\tlist the runs",
    .options = "dry-run\tlist the runs and their states, and train nothing\n"
               "out\tsweep folder to create\n"
               "resume\tcontinue the sweep in this folder, with its options\n"
               "jobs\truns in parallel; results do not depend on it\n"
               "preset\tvalues of options that are not given: paper-table-2, paper-table-3, paper-table-4, "
               "paper-figure-3, forward-budget or forward-budget-cpu\n"
               "model\tmodels to fine-tune: Hugging Face folders, GGUF files, or ORG/NAME after `zest pull "
               "ORG/NAME`\n"
               "patience\tearly stopping: stop after this many steps without a better dev value; 0: off\n"
               "eval-every\tsteps between evaluations of the dev examples\n"
               "batch\tbatch size",
    .defaults = "rho=0.002 lr=1e-5 batch=128 steps=5600 eval-every=100 seed=42 preset=", /* as in train */
    .users = ZEST_FOR_SWEEP,
    .lists = ZEST_FOR_TRAIN,
    .run = run,
};
