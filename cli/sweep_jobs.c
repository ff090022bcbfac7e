#include "cli/sweep_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/file.h"
#include "cli/progress.h"
#include "train/run_folder.h"

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

/* ---- One process ---- */

typedef struct {
    pid_t pid; /* 0: free */
    size_t run;
} slot;

typedef struct {
    zest_sweep_jobs *jobs;
    slot *slots;
    size_t done, all; /* runs of this session */
    zest_progress progress;
    zest_error *error;
} pool;

enum { WORDS_MOST = ZEST_OPTION_COUNT + 8 };

typedef struct {
    char *words[WORDS_MOST + 1]; /* NULL behind the last */
    size_t count;
    int failed;
} command;

static void add_word(command *c, const char *format, const char *name, const char *value) {
    zest_buffer word = {0};
    zest_buffer_format(&word, format, name, value);
    c->failed |= word.failed || c->count == WORDS_MOST;
    if (c->failed)
        zest_buffer_free(&word);
    else
        c->words[c->count++] = word.data;
}

static void free_command(command *c) {
    for (size_t i = 0; i < c->count; i++) free(c->words[i]);
}

/* In the child: its own group, so that Ctrl-C reaches only the sweep, which tells its children once; and it
 * does not outlive the sweep, whose runs could otherwise not be resumed. Does not return. */
static void become(const command *c, const char *log, pid_t parent) {
    int null = open("/dev/null", O_RDONLY), out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
#else
    (void)parent;
#endif
    if (null < 0 || out < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(127);
    execv("/proc/self/exe", c->words);
    _exit(127);
}

static zest_status spawn(pool *p, slot *s, const command *c, const char *log) {
    pid_t parent = getpid();
    if (c->failed) return zest_error_memory(p->error, "a command line", 0);
    fflush(stdout);
    s->pid = fork();
    if (s->pid == 0) become(c, log, parent);
    if (s->pid > 0) return ZEST_OK;
    s->pid = 0;
    return zest_error_set_errno(p->error, ZEST_ERROR_FILE, "a run cannot be started");
}

/* ---- How it ended ---- */

/* What the run said: the first line of its log that begins as our messages do. To be freed; NULL: nothing. */
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
    char *said = message_in(log);
    if (said) return said;
    if (WIFSIGNALED(status))
        zest_buffer_format(&text, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        zest_buffer_format(&text, "ended with status %d; see %s", WEXITSTATUS(status), log);
    return text.data;
}

static char *path_of(const char *folder, const char *part, const char *name, const char *ending) {
    zest_buffer path = {0};
    zest_buffer_format(&path, "%s/%s/%s%s", folder, part, name, ending);
    if (path.failed) zest_buffer_free(&path);
    return path.data;
}

/* ---- Training ---- */

static void fail_run(zest_sweep_run *run, char *message) {
    run->state = ZEST_SWEEP_FAILED;
    free(run->message);
    run->message = message;
}

/* With one seed the best weights are still to answer the test examples. */
static void drop(const zest_sweep_jobs *jobs, const zest_sweep_run *run, int at_once) {
    zest_run_folder folder;
    char *path = path_of(jobs->folder, "runs", run->name, "");
    int best = jobs->keep == ZEST_SWEEP_KEEP_NONE && (!at_once || jobs->plan->varies[ZEST_OPTION_SEED]);
    if (jobs->keep && run->state == ZEST_SWEEP_FINISHED && path && !zest_run_folder_of(path, &folder, NULL)) {
        zest_file_remove_folder(folder.last, NULL);
        if (best) zest_file_remove_folder(folder.best, NULL);
        zest_run_folder_free(&folder);
    }
    free(path);
}

void zest_sweep_drop_weights(const zest_sweep_jobs *jobs) {
    for (size_t i = 0; i < jobs->plan->count; i++) drop(jobs, &jobs->plan->runs[i], 0);
}

static void end_run(pool *p, zest_sweep_run *run, int status, const char *log) {
    zest_error error = {0};
    if (zest_sweep_result_read(run, p->jobs->folder, &error))
        fail_run(run, strdup(error.message));
    else if (status && !stop && run->state != ZEST_SWEEP_FINISHED) /* a run that diverged has a result, too */
        fail_run(run, why(status, log));
    else if (run->state != ZEST_SWEEP_FINISHED && !stop)
        fail_run(run, strdup("it was stopped from outside; go on with --resume"));
    drop(p->jobs, run, 1);
    if (run->state == ZEST_SWEEP_FAILED) {
        zest_progress_clear(&p->progress);
        zest_output_note("%s failed: %s", run->name, run->message ? run->message : "");
    }
}

static void train_command(const pool *p, const zest_sweep_run *run, const char *folder, command *c) {
    char threads[32];
    size_t each = p->jobs->threads / p->jobs->jobs;
    snprintf(threads, sizeof threads, "%zu", each ? each : 1);
    add_word(c, "%s%s", "zest", "");
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

/* A run that was killed before its options were on disk has a journal without a step, in the way of a new
 * one. */
static void clear_start(const char *folder) {
    char *journal = zest_file_join(folder, "journal");
    if (journal) unlink(journal);
    free(journal);
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

/* ---- All of them ---- */

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

/* Takes note of what has ended. Returns how many are still running. */
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

static void tell_children(const pool *p) {
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

/* The next run that wants to be made, from *at on; ZEST_SWEEP_NONE behind the last. */
static size_t next_run(const zest_sweep_plan *plan, size_t *at) {
    while (*at < plan->count && plan->runs[*at].state == ZEST_SWEEP_FINISHED) ++*at;
    return *at < plan->count ? (*at)++ : ZEST_SWEEP_NONE;
}

static zest_status make_all(pool *p) {
    size_t at = 0, running = 0;
    int told = 0;
    zest_status status = ZEST_OK;
    size_t next = next_run(p->jobs->plan, &at);
    do {
        slot *s;
        while (!status && !stop && next != ZEST_SWEEP_NONE && (s = free_slot(p))) {
            status = start_run(p, s, next);
            next = next_run(p->jobs->plan, &at);
        }
        if ((stop || status) && !told) tell_children(p), told = 1;
        show(p);
        rest();
        running = reap(p);
    } while (running || (next != ZEST_SWEEP_NONE && !status && !stop));
    return status;
}

zest_status zest_sweep_make_runs(zest_sweep_jobs *jobs, zest_error *error) {
    pool p = {.jobs = jobs, .error = error, .slots = calloc(jobs->jobs, sizeof *p.slots)};
    if (!p.slots) return zest_error_memory(error, "the runs of a sweep", jobs->jobs * sizeof *p.slots);
    for (size_t i = 0; i < jobs->plan->count; i++) p.all += jobs->plan->runs[i].state != ZEST_SWEEP_FINISHED;
    catch_signals();
    zest_progress_begin(&p.progress, "sweep", "runs", jobs->quiet);
    zest_status status = p.all ? make_all(&p) : ZEST_OK;
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

zest_status zest_sweep_make_answers(zest_sweep_jobs *jobs, const size_t *runs, size_t count,
                                    zest_error *error) {
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
