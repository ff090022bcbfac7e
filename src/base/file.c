/* Files: reading, atomic replacement, folders, lists of numbers, memory maps. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

/* Preserves errno for the caller's message. */
static void close_quietly(int descriptor) {
    int number = errno;
    close(descriptor);
    errno = number;
}

/* O_NONBLOCK: a pipe that nobody writes to is refused instead of waited for; files know no such waiting. */
zest_status zest_file_open(const char *path, int *descriptor, zest_error *error) {
    struct stat info;
    *descriptor = -1;
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0) return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", path);
    int known = fstat(opened, &info) == 0;
    if (known && S_ISREG(info.st_mode)) return *descriptor = opened, ZEST_OK;
    close_quietly(opened);
    if (!known) return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be read", path);
    return zest_error_set(error, ZEST_ERROR_FILE, "%s: is %s, not a file", path,
                          S_ISDIR(info.st_mode) ? "a folder" : "a device or a pipe");
}

/* Reads to the end and closes. */
static zest_status read_all(int descriptor, const char *path, size_t limit, zest_buffer *out,
                            zest_error *error) {
    char block[65536];
    size_t total = 0;
    for (;;) {
        ssize_t got = read(descriptor, block, sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            zest_status status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be read", path);
            close(descriptor);
            return status;
        }
        if (got == 0) break;
        total += (size_t)got;
        if (total > limit) {
            close(descriptor);
            return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: larger than the %zu bytes allowed here",
                                  path, limit);
        }
        zest_buffer_add(out, block, (size_t)got);
    }
    close(descriptor);
    return out->failed ? zest_error_memory(error, path, total) : ZEST_OK;
}

zest_status zest_file_read(const char *path, size_t limit, zest_buffer *out, zest_error *error) {
    int descriptor;
    zest_status status = zest_file_open(path, &descriptor, error);
    return status ? status : read_all(descriptor, path, limit, out, error);
}

zest_status zest_file_read_stream(const char *path, size_t limit, zest_buffer *out, zest_error *error) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", path);
    return read_all(descriptor, path, limit, out, error);
}

zest_status zest_file_write_all(int descriptor, const void *bytes, size_t size, const char *path,
                                zest_error *error) {
    const char *next = bytes;
    while (size) {
        ssize_t written = write(descriptor, next, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", path);
        next += written;
        size -= (size_t)written;
    }
    return ZEST_OK;
}

/* A rename is durable only once the folder itself is on disk. */
void zest_file_sync_folder_of(const char *path) {
    char *folder = strdup(path);
    if (!folder) return;
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    int descriptor = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
    free(folder);
}

/* ---- Replacing a file ---- */

static char *temporary_name(const char *path) {
    size_t capacity = strlen(path) + 40;
    char *name = malloc(capacity);
    if (name) snprintf(name, capacity, "%s.%ld.tmp", path, (long)getpid());
    return name;
}

/* The lock says that the file has a living owner: zest_file_remove_temporaries spares it. Returns 0 when the file was
 * taken for debris before it was locked. A file system without locks is fine: nothing is removed there. */
static int lock_temporary(int descriptor) {
    struct stat info;
    if (flock(descriptor, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) return 0;
    return fstat(descriptor, &info) != 0 || info.st_nlink > 0;
}

zest_status zest_file_open_temporary(const char *path, char **name, int *descriptor, zest_error *error) {
    enum { TRIES = 8 };
    *descriptor = -1;
    *name = temporary_name(path);
    if (!*name) return zest_error_memory(error, path, strlen(path));
    for (int i = 0; i < TRIES; i++) {
        *descriptor = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (*descriptor >= 0 && lock_temporary(*descriptor)) return ZEST_OK;
        if (*descriptor >= 0)
            close(*descriptor);
        else if (errno != EEXIST || unlink(*name)) /* left by a process that had this number, or a link */
            break;
    }
    zest_status status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", path);
    free(*name);
    *name = NULL;
    *descriptor = -1;
    return status;
}

/* Whether the name is one that temporary_name makes: NAME.DIGITS.tmp */
static int is_temporary(const char *name) {
    static const char ending[] = ".tmp";
    size_t size = strlen(name), digits = 0;
    if (size < sizeof ending || strcmp(name + size - (sizeof ending - 1), ending)) return 0;
    size -= sizeof ending - 1;
    while (digits < size && isdigit((unsigned char)name[size - 1 - digits])) digits++;
    return digits && size - digits > 1 && name[size - digits - 1] == '.';
}

/* A file that nobody has locked. */
static int is_abandoned(int folder, const char *name) {
    struct stat info;
    int descriptor = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return 0;
    int abandoned =
        !fstat(descriptor, &info) && S_ISREG(info.st_mode) && !flock(descriptor, LOCK_EX | LOCK_NB);
    close(descriptor);
    return abandoned;
}

/* Takes the descriptor over. of: only temporaries of the file with this name; NULL: of any. */
static void remove_temporaries(int descriptor, const char *of) {
    DIR *folder = descriptor < 0 ? NULL : fdopendir(descriptor);
    size_t length = of ? strlen(of) : 0;
    if (!folder && descriptor >= 0) close(descriptor);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const char *name = entry->d_name;
        int wanted = !of || (!strncmp(name, of, length) && name[length] == '.' &&
                             strspn(name + length + 1, "0123456789") + length + 5 == strlen(name));
        if (wanted && is_temporary(name) && is_abandoned(descriptor, name)) unlinkat(descriptor, name, 0);
    }
    if (folder) closedir(folder);
}

void zest_file_remove_temporaries(const char *path) {
    remove_temporaries(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), NULL);
}

void zest_file_remove_temporaries_of(const char *path) {
    char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (!folder) return;
    if (slash) slash[slash == folder] = '\0';
    remove_temporaries(open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                       slash ? path + (slash - folder) + 1 : path);
    free(folder);
}

zest_status zest_file_close_temporary(const char *path, char *temporary, int descriptor, zest_status status,
                                      zest_error *error) {
    if (close(descriptor) && !status)
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", path);
    if (!status && rename(temporary, path))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be replaced", path);
    if (status)
        unlink(temporary);
    else
        zest_file_sync_folder_of(path);
    free(temporary);
    return status;
}

zest_status zest_file_write(const char *path, const void *bytes, size_t size, zest_error *error) {
    char *temporary;
    int descriptor;
    zest_status status = zest_file_open_temporary(path, &temporary, &descriptor, error);
    if (status) return status;
    status = zest_file_write_all(descriptor, bytes, size, path, error);
    if (!status && fsync(descriptor))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", path);
    return zest_file_close_temporary(path, temporary, descriptor, status, error);
}

/* ---- Folders ---- */

zest_status zest_file_make_folder(const char *path, zest_error *error) {
    struct stat info;
    if (mkdir(path, 0777) == 0) return ZEST_OK;
    if (errno == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return ZEST_OK;
    return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot create the folder", path);
}

zest_status zest_file_refuse_link(const char *path, zest_error *error) {
    struct stat info;
    if (lstat(path, &info) || !S_ISLNK(info.st_mode)) return ZEST_OK;
    return zest_error_set(
        error, ZEST_ERROR_FILE,
        "%s: is a symbolic link, and zest changes nothing behind a link; remove the link, or "
        "replace it by what it points to",
        path);
}

zest_status zest_file_remove_folder(const char *path, zest_error *error) {
    zest_status status = zest_file_refuse_link(path, error);
    if (status) return status;
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0 && errno == ENOENT) return ZEST_OK;
    DIR *folder = descriptor < 0 ? NULL : fdopendir(descriptor);
    if (!folder) {
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be removed", path);
        if (descriptor >= 0) close(descriptor);
        return status;
    }
    int failed = 0;
    for (struct dirent *entry; !failed && (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            failed = unlinkat(dirfd(folder), entry->d_name, 0); /* of a link, the link itself */
    if (failed || rmdir(path))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be removed", path);
    closedir(folder);
    return status;
}

char *zest_file_join(const char *folder, const char *name) {
    size_t capacity = strlen(folder) + strlen(name) + 2;
    char *path = malloc(capacity);
    if (path) snprintf(path, capacity, "%s/%s", folder, name);
    return path;
}

/* ---- Lists of numbers ---- */

static const size_t max_number_file = (size_t)1 << 36;

/* Skips white space, commas and comments; counts the lines. */
static char *skip_separators(char *at, size_t *line) {
    for (;; at++) {
        if (*at == '#')
            while (at[1] && at[1] != '\n') at++;
        else if (*at == '\n')
            ++*line;
        else if (!isspace((unsigned char)*at) && *at != ',')
            return at;
    }
}

zest_status zest_file_read_numbers(const char *path, double **values, size_t *count, zest_error *error) {
    zest_buffer text = {0};
    size_t capacity = 0, line = 1;
    *values = NULL;
    *count = 0;
    zest_status status = zest_file_read(path, max_number_file, &text, error);
    char *at = !status && text.data ? skip_separators(text.data, &line) : NULL;
    while (at && *at && !status) {
        char *end;
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            double *grown = realloc(*values, capacity * sizeof *grown);
            if (!grown) {
                status = zest_error_memory(error, path, capacity * sizeof *grown);
                break;
            }
            *values = grown;
        }
        (*values)[*count] = zest_number_parse(at, &end);
        if (end == at || (*end && !isspace((unsigned char)*end) && *end != ',' && *end != '#'))
            status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s, line %zu: expected a number at '%.20s'",
                                    path, line, at);
        else if (!isfinite((*values)[(*count)++]))
            status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s, line %zu: a starting point must be finite",
                                    path, line);
        at = skip_separators(end, &line);
    }
    if (!status && *count == 0)
        status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: contains no number", path);
    if (status) {
        free(*values);
        *values = NULL;
    }
    zest_buffer_free(&text);
    return status;
}

zest_status zest_file_write_numbers(const char *path, const double *values, size_t count, zest_error *error) {
    zest_buffer text = {0};
    for (size_t i = 0; i < count; i++) zest_buffer_format(&text, "%.17g\n", values[i]);
    zest_status status = text.failed ? zest_error_memory(error, path, text.size)
                                     : zest_file_write(path, text.data, text.size, error);
    zest_buffer_free(&text);
    return status;
}

/* ---- Mapped files ---- */

zest_status zest_mapped_file_open(const char *path, zest_mapped_file *map, zest_error *error) {
    int descriptor;
    struct stat info;
    *map = (zest_mapped_file){0};
    zest_status status = zest_file_open(path, &descriptor, error);
    if (status) return status;
    if (fstat(descriptor, &info)) {
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be read", path);
        close(descriptor);
        return status;
    }
    if ((uintmax_t)info.st_size > SIZE_MAX) {
        close(descriptor);
        return zest_error_set(error, ZEST_ERROR_FILE, "%s: too large for this machine's addresses", path);
    }
    size_t size = (size_t)info.st_size;
    void *bytes = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0) : NULL;
    close_quietly(descriptor);
    if (bytes == MAP_FAILED)
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be mapped", path);
    *map = (zest_mapped_file){bytes, size};
    return ZEST_OK;
}

void zest_mapped_file_close(zest_mapped_file *map) {
    if (map->bytes) munmap((void *)(uintptr_t)map->bytes, map->size);
    *map = (zest_mapped_file){0};
}
