/* Runs a fuzz target without libFuzzer: its seeds, inputs in files, and mutants of both, the same ones every time.
 *
 *     fuzz_NAME [-v] [-n MUTANTS] [-seconds N] [-seed N] [FILE or FOLDER ...]
 *     fuzz_NAME -write FOLDER      only writes the seeds into the folder, for libFuzzer
 *     fuzz_NAME -print -seed N     only prints this mutant
 *
 * It fails as the target does: by a trap, or by a report of a sanitizer. -v tells each input before it is tried. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/fuzz/fuzz.h"

enum { MAX_SIZE = 1 << 18, MAX_INPUTS = 1024 };

typedef struct {
    char *name;
    uint8_t *data;
    size_t size;
} input;

static input inputs[MAX_INPUTS];
static size_t input_count;

static void add(const void *data, size_t size, void *user) {
    const char *name = user;
    char room[32];
    if (input_count == MAX_INPUTS) return;
    input *in = &inputs[input_count];
    snprintf(room, sizeof room, "seed-%zu", input_count);
    *in = (input){strdup(name ? name : room), malloc(size ? size : 1), size};
    if (!in->name || !in->data) abort();
    if (size) memcpy(in->data, data, size);
    input_count++;
}

static void add_file(char *path) {
    zest_buffer file = {0};
    fuzz_read(path, &file);
    add(file.data ? file.data : "", file.size, path);
    zest_buffer_free(&file);
}

/* A file, or all files of a folder; a folder that is not there has none. */
static void add_path(char *path) {
    struct dirent **found;
    struct stat info;
    if (stat(path, &info)) return;
    int count = S_ISDIR(info.st_mode) ? scandir(path, &found, NULL, alphasort) : -1;
    if (count < 0) add_file(path);
    for (int i = 0; i < count; i++) {
        char inner[700];
        snprintf(inner, sizeof inner, "%s/%s", path, found[i]->d_name);
        if (!stat(inner, &info) && S_ISREG(info.st_mode)) add_file(inner);
        free(found[i]);
    }
    if (count >= 0) free(found);
}

static void write_seeds(const char *folder) {
    mkdir(folder, 0777);
    for (size_t i = 0; i < input_count; i++) {
        char path[700];
        snprintf(path, sizeof path, "%s/%s", folder, inputs[i].name);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(inputs[i].data, 1, inputs[i].size, file) != inputs[i].size || fclose(file)) {
            perror(path);
            exit(2);
        }
    }
}

/* In memory that ends where the input ends, for AddressSanitizer. */
static void try(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* A mutant of a mutant, up to four times. */
static size_t make_mutant(unsigned n, uint8_t *room) {
    fuzz_random r = {n};
    const input *in = &inputs[fuzz_below(&r, input_count)];
    size_t size = in->size < MAX_SIZE ? in->size : MAX_SIZE;
    memcpy(room, in->data, size);
    for (size_t times = 1 + fuzz_below(&r, 4); times > 0; times--)
        size = LLVMFuzzerCustomMutator(room, size, MAX_SIZE, (unsigned)fuzz_next(&r));
    return size;
}

int main(int argc, char **argv) {
    unsigned mutants = 0, first = 1;
    int verbose = 0, print = 0;
    double seconds = 0;
    const char *folder = NULL;
    uint8_t *room = malloc(MAX_SIZE);
    if (!room) abort();
    fuzz_seeds(add, NULL);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (!strcmp(argv[i], "-v"))
            verbose = 1;
        else if (!strcmp(argv[i], "-print"))
            print = 1;
        else if (!strcmp(argv[i], "-n"))
            mutants = (unsigned)strtoul(value, NULL, 10), i++;
        else if (!strcmp(argv[i], "-seed"))
            first = (unsigned)strtoul(value, NULL, 10), i++;
        else if (!strcmp(argv[i], "-seconds"))
            seconds = (double)strtoul(value, NULL, 10), i++;
        else if (!strcmp(argv[i], "-write"))
            folder = value, i++;
        else
            add_path(argv[i]);
    }
    if (folder) write_seeds(folder);
    if (print) return fwrite(room, 1, make_mutant(first, room), stdout) == 0;
    for (size_t i = 0; i < input_count && !folder; i++) {
        if (verbose) fprintf(stderr, "%s\n", inputs[i].name);
        try(inputs[i].data, inputs[i].size);
    }
    unsigned done = 0;
    clock_t began = clock();
    for (; !folder && input_count && (done < mutants || (double)(clock() - began) / CLOCKS_PER_SEC < seconds);
         done++) {
        if (verbose) fprintf(stderr, "-seed %u -n 1\n", first + done);
        try(room, make_mutant(first + done, room));
    }
    printf("%zu inputs, %u mutants\n", input_count, done);
    for (size_t i = 0; i < input_count; i++) free(inputs[i].name), free(inputs[i].data);
    free(room);
    return input_count ? 0 : 1;
}
