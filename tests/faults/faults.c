/* To be preloaded: at the n-th file operation of a program and its children the process is killed, or the operation
 * fails. tests/faults/run.sh drives it.
 *
 *   FAULT_STATE  a file of 16 zero bytes, shared by all processes: operations so far; whether the fault has happened
 *   FAULT        kill    SIGKILL instead of the operation, if it changes a file or a folder: a kill before one that does
 *                        not leaves what a kill before the next one leaves
 *                torn    SIGKILL after half of a write
 *                ENOSPC  the operation fails as on a full disk; it is a write, a sync, or makes a name
 *                full    the same, and all such operations after it
 *                EIO     the operation fails; every kind can
 *                EINTR   a read or write is interrupted
 *                short   a read or write moves half of the bytes
 *   FAULT_AT     n, from 1; 0: no fault. Only operations that the fault can happen to are counted
 *   FAULT_LOG    a file to which each operation that is counted is appended, as a line
 *   FAULT_TICK   seconds from one reading of the monotonic clock to the next. Time is then a function of the program,
 *                and so is the sequence of operations that follow the clock (a journal is synced once a second)
 *
 * An operation is a call of one of the functions below on a file or a name outside /proc, /sys and /dev. stdio
 * streams go through the same functions. Linux, glibc. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    atomic_llong operations;
    atomic_llong happened;
} shared_state;

static const char *const names[] = {"kill", "torn", "ENOSPC", "full", "EIO", "EINTR", "short"};
enum { KILL, TORN, DISK_FULL, STAYS_FULL, BROKEN, INTERRUPTED, SHORT, NO_FAULT };

/* What may happen to an operation. */
enum {
    CAN_FAIL = 1,  /* EIO */
    CAN_FILL = 2,  /* ENOSPC */
    CAN_SPLIT = 4, /* EINTR, short */
    IS_WRITE = 8,  /* torn */
    CHANGES = 16,  /* kill */
};

enum { MAX_FILES = 1024 };
static atomic_char is_ours[MAX_FILES]; /* by descriptor: a file that is watched */

static shared_state *state;
static int fault = NO_FAULT;
static long long fault_at;
static const char *log_path;
static double tick;
static atomic_llong clock_readings;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULT_STATE"), *kind = getenv("FAULT"), *at = getenv("FAULT_AT"),
               *seconds = getenv("FAULT_TICK");
    log_path = getenv("FAULT_LOG");
    tick = seconds ? strtod(seconds, NULL) : 0;
    fault_at = at ? atoll(at) : 0;
    for (int i = 0; kind && i < NO_FAULT; i++)
        if (!strcmp(kind, names[i])) fault = i;
    int descriptor = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;
    void *shared = descriptor < 0 ? MAP_FAILED
                                  : (void *)syscall(SYS_mmap, NULL, sizeof *state, PROT_READ | PROT_WRITE,
                                                    MAP_SHARED, descriptor, 0);
    if (descriptor >= 0) syscall(SYS_close, descriptor);
    if (shared != MAP_FAILED) state = shared;
}

/* ---- Which operations ---- */

static int is_watched(const char *path) {
    return state && strncmp(path, "/proc/", 6) && strncmp(path, "/sys/", 5) && strncmp(path, "/dev/null", 9);
}

static int is_watched_file(int descriptor) {
    return descriptor >= 0 && descriptor < MAX_FILES && atomic_load(&is_ours[descriptor]);
}

static void watch(int descriptor, int yes) {
    if (descriptor >= 0 && descriptor < MAX_FILES) atomic_store(&is_ours[descriptor], (char)yes);
}

static int can_happen(int can) {
    switch (fault) {
    case KILL: return can & (CAN_FILL | CHANGES);
    case TORN: return can & IS_WRITE;
    case DISK_FULL:
    case STAYS_FULL: return can & CAN_FILL;
    case BROKEN: return can & CAN_FAIL;
    case INTERRUPTED:
    case SHORT: return can & CAN_SPLIT;
    default: return 0;
    }
}

static void note(long long number, const char *name, const char *path, int descriptor) {
    char line[512], of[256] = "", link[64];
    if (!log_path) return;
    if (!path) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        long size = syscall(SYS_readlinkat, AT_FDCWD, link, of, sizeof of - 1);
        if (size > 0) of[size] = '\0';
    }
    int size = snprintf(line, sizeof line, "%lld %s %.256s\n", number, name, path ? path : of);
    int out = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    (void)!syscall(SYS_write, out, line, size);
    syscall(SYS_close, out);
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* Counts an operation. Returns what happens to it: NO_FAULT, or one of the faults that the caller has to play. */
static int happens(int can, const char *name, const char *path, int descriptor) {
    if (!can_happen(can)) return NO_FAULT;
    long long number = atomic_fetch_add(&state->operations, 1) + 1;
    note(number, name, path, descriptor);
    int now = fault_at && number == fault_at;
    if (now) atomic_store(&state->happened, 1);
    if (fault == STAYS_FULL && fault_at && number > fault_at) now = 1;
    if (now && fault == KILL) die();
    return now ? fault : NO_FAULT;
}

/* Sets errno and returns 1 when the operation fails. */
static int fails(int can, const char *name, const char *path, int descriptor) {
    switch (happens(can, name, path, descriptor)) {
    case DISK_FULL:
    case STAYS_FULL: return errno = ENOSPC, 1;
    case BROKEN: return errno = EIO, 1;
    case INTERRUPTED: return errno = EINTR, 1;
    default: return 0;
    }
}

static int fails_at(int can, const char *name, const char *path) {
    return is_watched(path) && fails(can, name, path, -1);
}

static int fails_on(int can, const char *name, int descriptor) {
    return is_watched_file(descriptor) && fails(can, name, NULL, descriptor);
}

/* ---- Opening ---- */

static int open_it(int folder, const char *path, int flags, mode_t mode) {
    int can = flags & O_CREAT ? CAN_FAIL | CAN_FILL : CAN_FAIL;
    if (fails_at(can, flags & O_CREAT ? "create" : "open", path)) return -1;
    int descriptor = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (is_watched(path)) watch(descriptor, 1);
    return descriptor;
}

static mode_t mode_of(int flags, va_list more) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return open_it(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return open_it(folder, path, flags, mode);
}

int close(int descriptor) {
    int failed = fails_on(CAN_FAIL, "close", descriptor);
    watch(descriptor, 0);
    int result = (int)syscall(SYS_close, descriptor); /* also when it fails: Linux closes it all the same */
    return failed ? errno = EIO, -1 : result;
}

int dup2(int from, int to) {
    int result = (int)syscall(SYS_dup3, from, to, 0);
    if (result >= 0) watch(to, 0); /* of a child: its standard streams */
    return result;
}

/* ---- Reading and writing ---- */

ssize_t read(int descriptor, void *bytes, size_t size) {
    if (is_watched_file(descriptor)) switch (happens(CAN_FAIL | CAN_SPLIT, "read", NULL, descriptor)) {
        case BROKEN: return errno = EIO, -1;
        case INTERRUPTED: return errno = EINTR, -1;
        case SHORT: size = (size + 1) / 2; break;
        default: break;
        }
    return syscall(SYS_read, descriptor, bytes, size);
}

ssize_t pread(int descriptor, void *bytes, size_t size, off_t at) {
    if (fails_on(CAN_FAIL, "pread", descriptor)) return -1;
    return syscall(SYS_pread64, descriptor, bytes, size, at);
}

ssize_t pread64(int descriptor, void *bytes, size_t size, off_t at) __attribute__((alias("pread")));

static atomic_int is_full; /* after a write that was cut short by a full disk */

ssize_t write(int descriptor, const void *bytes, size_t size) {
    if (is_watched_file(descriptor) && fault == DISK_FULL && atomic_exchange(&is_full, 0))
        return errno = ENOSPC, -1;
    if (is_watched_file(descriptor))
        switch (happens(CAN_FAIL | CAN_FILL | CAN_SPLIT | IS_WRITE, "write", NULL, descriptor)) {
        case DISK_FULL: /* it fills up in the middle of a write: that one is short, the next one fails */
        case STAYS_FULL:
            if (size < 2 || atomic_exchange(&is_full, 1)) return errno = ENOSPC, -1;
            size /= 2;
            break;
        case BROKEN: return errno = EIO, -1;
        case INTERRUPTED: return errno = EINTR, -1;
        case SHORT: size = (size + 1) / 2; break;
        case TORN:
            (void)!syscall(SYS_write, descriptor, bytes, size / 2);
            die();
            break;
        default: break;
        }
    return syscall(SYS_write, descriptor, bytes, size);
}

int fsync(int descriptor) {
    return fails_on(CAN_FAIL | CAN_FILL, "fsync", descriptor) ? -1 : (int)syscall(SYS_fsync, descriptor);
}

int fdatasync(int descriptor) {
    return fails_on(CAN_FAIL | CAN_FILL, "fdatasync", descriptor) ? -1
                                                                  : (int)syscall(SYS_fdatasync, descriptor);
}

int ftruncate(int descriptor, off_t size) {
    return fails_on(CAN_FAIL | CHANGES, "ftruncate", descriptor)
               ? -1
               : (int)syscall(SYS_ftruncate, descriptor, size);
}

int ftruncate64(int descriptor, off_t size) __attribute__((alias("ftruncate")));

off_t lseek(int descriptor, off_t offset, int from) {
    return fails_on(CAN_FAIL, "lseek", descriptor) ? -1 : syscall(SYS_lseek, descriptor, offset, from);
}

off_t lseek64(int descriptor, off_t offset, int from) __attribute__((alias("lseek")));

void *mmap(void *at, size_t size, int protection, int flags, int descriptor, off_t offset) {
    if (fails_on(CAN_FAIL, "mmap", descriptor)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, descriptor, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int descriptor, off_t offset)
    __attribute__((alias("mmap")));

int flock(int descriptor, int operation) {
    return fails_on(CAN_FAIL, "flock", descriptor) ? -1 : (int)syscall(SYS_flock, descriptor, operation);
}

/* ---- Names ---- */

int rename(const char *from, const char *to) {
    if (fails_at(CAN_FAIL | CAN_FILL, "rename", to)) return -1;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    if (fails_at(CAN_FAIL | CAN_FILL, "renameat2", to)) return -1;
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int link(const char *from, const char *to) {
    if (fails_at(CAN_FAIL | CAN_FILL, "link", to)) return -1;
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int symlink(const char *target, const char *path) {
    if (fails_at(CAN_FAIL | CAN_FILL, "symlink", path)) return -1;
    return (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
}

int unlink(const char *path) {
    return fails_at(CAN_FAIL | CHANGES, "unlink", path) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int folder, const char *path, int flags) {
    return fails_at(CAN_FAIL | CHANGES, "unlinkat", path) ? -1
                                                          : (int)syscall(SYS_unlinkat, folder, path, flags);
}

int rmdir(const char *path) {
    return fails_at(CAN_FAIL | CHANGES, "rmdir", path)
               ? -1
               : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdir(const char *path, mode_t mode) {
    return fails_at(CAN_FAIL | CAN_FILL, "mkdir", path) ? -1
                                                        : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int access(const char *path, int mode) {
    return fails_at(CAN_FAIL, "access", path) ? -1 : (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

#define NEXT(type, name)      \
    static type *next_##name; \
    if (!next_##name) *(void **)&next_##name = dlsym(RTLD_NEXT, #name)

typedef int stat_function(const char *, struct stat *);
typedef int fstat_function(int, struct stat *);
typedef DIR *opendir_function(const char *);
typedef FILE *fopen_function(const char *, const char *);
typedef int scandir_function(const char *, struct dirent ***, int (*)(const struct dirent *),
                             int (*)(const struct dirent **, const struct dirent **));
typedef char *realpath_function(const char *, char *);

int stat(const char *restrict path, struct stat *restrict info) {
    NEXT(stat_function, stat);
    return fails_at(CAN_FAIL, "stat", path) ? -1 : next_stat(path, info);
}

int lstat(const char *restrict path, struct stat *restrict info) {
    NEXT(stat_function, lstat);
    return fails_at(CAN_FAIL, "lstat", path) ? -1 : next_lstat(path, info);
}

int fstat(int descriptor, struct stat *info) {
    NEXT(fstat_function, fstat);
    return fails_on(CAN_FAIL, "fstat", descriptor) ? -1 : next_fstat(descriptor, info);
}

DIR *opendir(const char *path) {
    NEXT(opendir_function, opendir);
    return fails_at(CAN_FAIL, "opendir", path) ? NULL : next_opendir(path);
}

int scandir(const char *restrict path, struct dirent ***restrict list, int (*filter)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **)) {
    NEXT(scandir_function, scandir);
    return fails_at(CAN_FAIL, "scandir", path) ? -1 : next_scandir(path, list, filter, compare);
}

/* ---- stdio: a stream whose bytes go through the functions above ---- */

static ssize_t cookie_read(void *cookie, char *bytes, size_t size) {
    return read((int)(intptr_t)cookie, bytes, size);
}

static ssize_t cookie_write(void *cookie, const char *bytes, size_t size) {
    ssize_t written = write((int)(intptr_t)cookie, bytes, size);
    return written < 0 ? 0 : written;
}

static int cookie_seek(void *cookie, off64_t *offset, int from) {
    *offset = lseek((int)(intptr_t)cookie, *offset, from);
    return *offset < 0 ? -1 : 0;
}

static int cookie_close(void *cookie) { return close((int)(intptr_t)cookie); }

FILE *fopen(const char *restrict path, const char *restrict mode) {
    NEXT(fopen_function, fopen);
    if (!is_watched(path)) return next_fopen(path, mode);
    int plus = strchr(mode, '+') != NULL,
        flags = mode[0] == 'r' ? (plus ? O_RDWR : O_RDONLY) : (plus ? O_RDWR : O_WRONLY) | O_CREAT;
    if (mode[0] == 'w') flags |= O_TRUNC;
    if (mode[0] == 'a') flags |= O_APPEND;
    int descriptor = open(path, flags | O_CLOEXEC, 0666);
    if (descriptor < 0) return NULL;
    FILE *file = fopencookie((void *)(intptr_t)descriptor, mode,
                             (cookie_io_functions_t){cookie_read, cookie_write, cookie_seek, cookie_close});
    if (!file) close(descriptor);
    return file;
}

FILE *fopen64(const char *restrict path, const char *restrict mode) __attribute__((alias("fopen")));

/* ---- Time ---- */

int clock_gettime(clockid_t which, struct timespec *now) {
    if (which != CLOCK_MONOTONIC || !(tick > 0)) return (int)syscall(SYS_clock_gettime, which, now);
    double seconds = 1e6 + tick * (double)(atomic_fetch_add(&clock_readings, 1) + 1);
    *now = (struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    return 0;
}
