/* An objective that is a program: processes, pipes and answers. See exec.h for the protocol. */
#include "optim/exec.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "base/memory.h"
#include "base/clock.h"

enum { LONGEST_ANSWER = 4096, NO_LANE = -1 };
static const double flush_hint_seconds = 5; /* without a first answer: on_wait is called */

typedef struct {
    pid_t pid;
    int to, from;    /* its standard input and output */
    long lane;       /* the lane it works on, or NO_LANE */
    zest_buffer out; /* the point to be sent */
    size_t sent;
    char in[LONGEST_ANSWER]; /* what it answered so far */
    size_t got;
    double since; /* when it was given the lane */
} job;

struct zest_exec {
    char *command;
    zest_exec_format format;
    double timeout;
    size_t count;
    job *jobs;
    zest_error error;
    double *point;
    size_t dimension;
    pid_t guard;
    int to_guard;                    /* its pipe */
    void (*on_wait)(double, void *); /* NULL once called or once an answer came */
    void *on_wait_user;
};

/* ---- Starting and stopping ---- */

/* The guard is a process that outlives a kill -9 of zest for a moment. It reads the process groups of the programs from
 * a pipe; when zest is gone the pipe ends, and the guard kills the groups: also what a shell started, which the
 * signal for the death of a parent does not reach. Nothing but async-signal-safe calls. */
static void become_guard(int from, size_t jobs, pid_t *groups) {
    sigset_t all;
    size_t got = 0, size = jobs * sizeof *groups;
    setpgid(0, 0); /* Ctrl-C is not for the guard */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    if (dup2(from, 0) < 0) _exit(1);
    /* what else zest has open, such as the lock of a journal, must not outlive it */
    if (syscall(SYS_close_range, 1U, ~0U, 0U))
        for (int i = 1; i < 4096; i++) close(i);
    for (;;) {
        char rest;
        ssize_t n = got < size ? read(0, (char *)groups + got, size - got) : read(0, &rest, 1);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        if (got < size) got += (size_t)n;
    }
    for (size_t i = 0; i < got / sizeof *groups; i++) kill(-groups[i], SIGKILL);
    _exit(0);
}

static zest_status start_guard(zest_exec *exec, size_t jobs, zest_error *error) {
    int ends[2];
    pid_t *groups = calloc(jobs, sizeof *groups);
    if (!groups) return zest_error_memory(error, "the guard of the programs", jobs * sizeof *groups);
    if (pipe2(ends, O_CLOEXEC)) {
        free(groups);
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "no pipe to the guard of the programs");
    }
    exec->guard = fork();
    if (exec->guard == 0) {
        close(ends[1]);
        become_guard(ends[0], jobs, groups);
    }
    free(groups);
    close(ends[0]);
    exec->to_guard = ends[1];
    if (exec->guard > 0) return ZEST_OK;
    return zest_error_set_errno(error, ZEST_ERROR_FILE, "the guard of the programs cannot be started");
}

/* Before a program is reaped: from then on its group's number may be another's. */
static void stop_guard(zest_exec *exec) {
    if (exec->guard > 0) {
        kill(exec->guard, SIGKILL);
        while (waitpid(exec->guard, NULL, 0) < 0 && errno == EINTR) continue;
    }
    if (exec->to_guard >= 0) close(exec->to_guard);
}

/* In the child: nothing but async-signal-safe calls. Its own process group, so that Ctrl-C reaches zest alone
 * and a kill reaches all that the command started. */
static void become_program(const char *command, int in, int out, pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* when zest is killed, its programs are too */
    if (getppid() != parent) _exit(127);
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0) _exit(126);
    signal(SIGPIPE, SIG_DFL);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static zest_status start_job(zest_exec *exec, job *j, zest_error *error) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC)) return zest_error_set_errno(error, ZEST_ERROR_FILE, "no pipe to the program");
    if (pipe2(out, O_CLOEXEC)) {
        close(in[0]), close(in[1]);
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "no pipe from the program");
    }
    pid_t parent = getpid();
    j->pid = fork();
    if (j->pid == 0) become_program(exec->command, in[0], out[1], parent);
    close(in[0]), close(out[1]);
    j->to = in[1];
    j->from = out[0];
    j->lane = NO_LANE;
    if (j->pid < 0) return zest_error_set_errno(error, ZEST_ERROR_FILE, "the program cannot be started");
    setpgid(j->pid, j->pid); /* as the child does: whichever comes first */
    zest_status status =
        zest_file_write_all(exec->to_guard, &j->pid, sizeof j->pid, "the guard of the programs", error);
    if (status) return status;
    fcntl(j->to, F_SETFL, fcntl(j->to, F_GETFL) | O_NONBLOCK);
    fcntl(j->from, F_SETFL, fcntl(j->from, F_GETFL) | O_NONBLOCK);
    return ZEST_OK;
}

zest_exec *zest_exec_start(const char *command, size_t jobs, zest_exec_format format, double timeout,
                           zest_error *error) {
    zest_exec *exec = calloc(1, sizeof *exec);
    if (exec) {
        exec->command = strdup(command);
        exec->jobs = calloc(jobs, sizeof *exec->jobs);
        exec->format = format;
        exec->timeout = timeout;
    }
    zest_status status = ZEST_OK;
    if (!exec || !exec->command || !exec->jobs)
        status = zest_error_memory(error, "the program's jobs", jobs * sizeof(job));
    if (exec) exec->to_guard = -1;
    if (!status) status = start_guard(exec, jobs, error);
    for (size_t i = 0; i < jobs && !status; i++) {
        exec->jobs[i].to = exec->jobs[i].from = -1;
        exec->count = i + 1;
        status = start_job(exec, &exec->jobs[i], error);
    }
    if (!status) return exec;
    zest_exec_stop(exec);
    return NULL;
}

void zest_exec_on_wait(zest_exec *exec, void (*on_wait)(double seconds, void *user), void *user) {
    exec->on_wait = on_wait;
    exec->on_wait_user = user;
}

/* Waits for a child for at most `seconds`. Returns 1 when it has ended. It is not reaped: its number stays that of
 * the group. */
static int wait_for(const job *j, double seconds, siginfo_t *how) {
    double until = zest_clock_now() + seconds;
    do {
        how->si_pid = 0;
        if (!waitid(P_PID, (id_t)j->pid, how, WEXITED | WNOHANG | WNOWAIT) && how->si_pid == j->pid) return 1;
        poll(NULL, 0, 5);
    } while (zest_clock_now() < until);
    return 0;
}

static void stop_job(job *j) {
    siginfo_t how;
    if (j->to >= 0) close(j->to);
    if (j->from >= 0) close(j->from);
    zest_buffer_free(&j->out);
    if (j->pid <= 0) return;
    (void)wait_for(j, 0.5, &how);
    kill(-j->pid, SIGKILL); /* also what an ended shell left behind */
    if (wait_for(j, 5, &how)) waitpid(j->pid, NULL, 0);
}

void zest_exec_stop(zest_exec *exec) {
    if (!exec) return;
    stop_guard(exec);
    for (size_t i = 0; i < exec->count; i++) {
        if (exec->jobs[i].to >= 0) close(exec->jobs[i].to); /* all at once, so that they end side by side */
        exec->jobs[i].to = -1;
    }
    for (size_t i = 0; i < exec->count; i++) stop_job(&exec->jobs[i]);
    free(exec->jobs);
    free(exec->command);
    free(exec->point);
    free(exec);
}

const char *zest_exec_error(const zest_exec *exec) { return exec->error.message; }

/* ---- Failures ---- */

/* The signal that ended a command, whether the shell was replaced by it or gives it in its exit status;
 * else 0. */
static int signal_of(const siginfo_t *how) {
    int status = how->si_status;
    if (how->si_code != CLD_EXITED) return status;
    return status > 128 && status <= 128 + 64 ? status - 128 : 0;
}

static int fail_exit(zest_exec *exec, job *j) {
    siginfo_t how;
    const char *command = exec->command;
    if (!wait_for(j, 1, &how))
        zest_error_set(&exec->error, ZEST_ERROR_OBJECTIVE, "'%s' closed its output without an answer",
                       command);
    else if (signal_of(&how))
        zest_error_set(&exec->error, ZEST_ERROR_OBJECTIVE, "'%s' was killed by signal %d (%s)", command,
                       signal_of(&how), strsignal(signal_of(&how)));
    else if (how.si_status == 127)
        zest_error_set(&exec->error, ZEST_ERROR_OBJECTIVE, "'%s' was not found by the shell", command);
    else
        zest_error_set(&exec->error, ZEST_ERROR_OBJECTIVE,
                       "'%s' ended with exit status %d before it answered", command, how.si_status);
    return 1;
}

static int fail_timeout(zest_exec *exec) {
    zest_error_set(&exec->error, ZEST_ERROR_OBJECTIVE,
                   "'%s' gave no answer within %g seconds (option timeout)", exec->command, exec->timeout);
    return 1;
}

/* Control characters shown as dots. */
static int fail_answer(zest_exec *exec, const char *answer, size_t length) {
    char shown[81];
    size_t n = length < sizeof shown - 1 ? length : sizeof shown - 1;
    for (size_t i = 0; i < n; i++) shown[i] = (char)(isprint((unsigned char)answer[i]) ? answer[i] : '.');
    shown[n] = '\0';
    zest_error_set(&exec->error, ZEST_ERROR_OBJECTIVE,
                   "'%s' answered '%s'%s, which is not one number on a line; text for people belongs on its "
                   "standard error",
                   exec->command, shown, n < length ? "..." : "");
    return 1;
}

/* ---- Points and answers ---- */

static void encode(const zest_exec *exec, zest_buffer *out) {
    out->size = 0;
    for (size_t i = 0; i < exec->dimension; i++) {
        double value = exec->point[i];
        float narrow = (float)value;
        if (exec->format == ZEST_EXEC_TEXT)
            zest_buffer_format(out, "%.17g%c", value, i + 1 < exec->dimension ? ' ' : '\n');
        else if (exec->format == ZEST_EXEC_F64)
            zest_buffer_add(out, &value, sizeof value);
        else
            zest_buffer_add(out, &narrow, sizeof narrow);
    }
}

static int send_lane(zest_exec *exec, job *j, const zest_lanes *lanes, size_t lane) {
    zest_lanes_read_f64(lanes, lane, 0, exec->dimension, exec->point);
    encode(exec, &j->out);
    if (j->out.failed) return zest_error_memory(&exec->error, "a point to send", j->out.size), 1;
    j->lane = (long)lane;
    j->sent = j->got = 0;
    j->since = zest_clock_now();
    return 0;
}

static int write_point(zest_exec *exec, job *j) {
    ssize_t n = write(j->to, j->out.data + j->sent, j->out.size - j->sent);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n < 0) return fail_exit(exec, j);
    j->sent += (size_t)n;
    return 0;
}

/* Reads what there is; *answered when a whole line came. */
static int read_loss(zest_exec *exec, job *j, double *loss, int *answered) {
    ssize_t n = read(j->from, j->in + j->got, sizeof j->in - 1 - j->got);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n <= 0) return fail_exit(exec, j);
    j->got += (size_t)n;
    j->in[j->got] = '\0';
    char *newline = memchr(j->in, '\n', j->got), *end;
    if (!newline) return j->got == sizeof j->in - 1 ? fail_answer(exec, j->in, j->got) : 0;
    *loss = zest_number_parse(j->in, &end);
    int empty = end == j->in;
    while (end < newline && isspace((unsigned char)*end)) end++;
    /* one number a point: anything after it answers nothing */
    if (empty || end != newline || newline + 1 != j->in + j->got || j->sent < j->out.size)
        return fail_answer(exec, j->in, j->got);
    *answered = 1;
    exec->on_wait = NULL;
    return 0;
}

static double sooner(double a, double b) { return a < 0 || b < a ? b : a; }

/* Waits until some job can be written to or read from. */
static int wait_for_jobs(zest_exec *exec, struct pollfd *fds) {
    double now = zest_clock_now(), wait = -1; /* seconds until something is due; negative: nothing is */
    for (size_t i = 0; i < exec->count; i++) {
        job *j = &exec->jobs[i];
        int busy = j->lane != NO_LANE;
        fds[2 * i] = (struct pollfd){.fd = busy && j->sent < j->out.size ? j->to : -1, .events = POLLOUT};
        fds[2 * i + 1] = (struct pollfd){.fd = busy ? j->from : -1, .events = POLLIN};
        if (!busy) continue;
        if (exec->timeout > 0) {
            if (now - j->since >= exec->timeout) return fail_timeout(exec);
            wait = sooner(wait, j->since + exec->timeout - now);
        }
        if (exec->on_wait && now - j->since >= flush_hint_seconds) {
            exec->on_wait(flush_hint_seconds, exec->on_wait_user);
            exec->on_wait = NULL;
        }
        if (exec->on_wait) wait = sooner(wait, j->since + flush_hint_seconds - now);
    }
    int ready = poll(fds, 2 * exec->count, wait < 0 ? -1 : (int)(fmin(wait, 1e6) * 1000) + 1);
    if (ready < 0 && errno != EINTR) {
        zest_error_set_errno(&exec->error, ZEST_ERROR_FILE, "waiting for '%s' failed", exec->command);
        return 1;
    }
    return 0;
}

/* Gives every lane to a free job until all are answered. Which job gets which lane does not matter: a loss is stored
 * under its lane. */
static int evaluate(zest_exec *exec, const zest_lanes *lanes, double *losses, struct pollfd *fds) {
    size_t next = 0, done = 0, count = zest_lanes_count(lanes);
    while (done < count) {
        for (size_t i = 0; i < exec->count && next < count; i++)
            if (exec->jobs[i].lane == NO_LANE && send_lane(exec, &exec->jobs[i], lanes, next++)) return 1;
        if (wait_for_jobs(exec, fds)) return 1;
        for (size_t i = 0; i < exec->count; i++) {
            job *j = &exec->jobs[i];
            int answered = 0;
            if (fds[2 * i].revents && write_point(exec, j)) return 1;
            if (fds[2 * i + 1].revents && read_loss(exec, j, &losses[j->lane], &answered)) return 1;
            if (answered) j->lane = NO_LANE, done++;
        }
    }
    return 0;
}

int zest_exec_objective(const zest_lanes *lanes, double *losses, void *user) {
    zest_exec *exec = user;
    size_t n = zest_lanes_dimension(lanes);
    if (!exec->point) {
        exec->point = malloc(n * sizeof *exec->point);
        exec->dimension = n;
    }
    struct pollfd *fds = calloc(2 * exec->count, sizeof *fds);
    int failed = 1;
    if (exec->point && fds)
        failed = evaluate(exec, lanes, losses, fds);
    else
        zest_error_memory(&exec->error, "a point to send", n * sizeof *exec->point);
    free(fds);
    return failed;
}
