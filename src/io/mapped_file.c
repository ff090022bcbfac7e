#include "io/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Leaves errno alone for the caller's message. */
static void close_quietly(int descriptor) {
    int number = errno;
    close(descriptor);
    errno = number;
}

zest_status zest_mapped_file_open(const char *path, zest_mapped_file *map, zest_error *error) {
    *map = (zest_mapped_file){0};
    int descriptor =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused below, not waited for */
    if (descriptor < 0) return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", path);
    struct stat info;
    int known = fstat(descriptor, &info) == 0;
    if (!known || !S_ISREG(info.st_mode)) {
        close_quietly(descriptor);
        if (!known) return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be read", path);
        return zest_error_set(error, ZEST_ERROR_FILE, "%s: is %s, not a file", path,
                              S_ISDIR(info.st_mode) ? "a folder" : "a device or a pipe");
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

int zest_map_printable(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 32 || c == 127) return 0;
    }
    return 1;
}
