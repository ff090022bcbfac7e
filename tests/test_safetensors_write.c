/* The safetensors writer: files read back, shards, and full disks. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/file.h"
#include "io/safetensors.h"
#include "tests/temp_folder.h"

static int exists(const char *name) { return access(temp_path(name), F_OK) == 0; }

static size_t count_files(void) {
    size_t count = 0;
    DIR *listing = opendir(test_temp_folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) count += entry->d_name[0] != '.';
    closedir(listing);
    return count;
}

/* Byte j of a tensor of this salt. */
static unsigned char pattern(size_t salt, size_t j) {
    return (unsigned char)(salt * 31 + j * 7 + (j >> 8) * 13);
}

/* A tensor that is made while it is written. */
typedef struct {
    size_t salt, element, next, calls, fail_at;
} maker;

static zest_status make(void *user, size_t first, size_t count, void *out, zest_error *error) {
    maker *m = user;
    assert_int_equal(first, m->next);
    m->next += count;
    if (++m->calls == m->fail_at) return zest_error_set(error, ZEST_ERROR_STATE, "the maker gave up");
    for (size_t j = 0; j < count * m->element; j++)
        ((unsigned char *)out)[j] = pattern(m->salt, first * m->element + j);
    return ZEST_OK;
}

/* One tensor of every dtype, of odd sizes, an empty one and a scalar; every second one by callback. */
enum { TENSORS = ZEST_DTYPE_COUNT + 2 };
typedef struct {
    zest_safetensors_source sources[TENSORS];
    maker makers[TENSORS];
    char names[TENSORS][40];
    size_t shapes[TENSORS][2];
    unsigned char *data[TENSORS];
} model;

static void fill_model(model *m, size_t scale, size_t salt) {
    memset(m, 0, sizeof *m);
    for (size_t i = 0; i < TENSORS; i++) {
        zest_safetensors_source *s = &m->sources[i];
        s->dtype = i < ZEST_DTYPE_COUNT ? (zest_dtype)i : ZEST_DTYPE_F32;
        snprintf(m->names[i], sizeof m->names[i], "tensor \"%zu\" \\ ü %s", (i * 7) % TENSORS,
                 zest_dtype_name(s->dtype));
        m->shapes[i][0] = i == ZEST_DTYPE_COUNT ? 0 : 3;
        m->shapes[i][1] = 5 * scale + i;
        s->rank = i == ZEST_DTYPE_COUNT + 1 ? 0 : 2;
        s->name = m->names[i];
        s->shape = m->shapes[i];
        size_t count = s->rank ? m->shapes[i][0] * m->shapes[i][1] : 1,
               size = count * zest_dtype_size(s->dtype);
        m->makers[i] = (maker){.salt = salt + i, .element = zest_dtype_size(s->dtype)};
        m->data[i] = malloc(size + 1);
        assert_non_null(m->data[i]);
        for (size_t j = 0; j < size; j++) m->data[i][j] = pattern(salt + i, j);
        if (i % 2) {
            s->fill = make;
            s->user = &m->makers[i];
        } else {
            s->data = m->data[i];
        }
    }
}

static void rewind_model(model *m) {
    for (size_t i = 0; i < TENSORS; i++) m->makers[i].next = m->makers[i].calls = 0;
}

static void free_model(model *m) {
    for (size_t i = 0; i < TENSORS; i++) free(m->data[i]);
}

static void expect_model(const zest_safetensors *file, const model *m) {
    assert_int_equal(zest_safetensors_count(file), TENSORS);
    for (size_t i = 0; i < TENSORS; i++) {
        const zest_safetensors_source *s = &m->sources[i];
        const zest_safetensors_tensor *t = zest_safetensors_find(file, s->name);
        assert_non_null(t);
        assert_int_equal(t->dtype, s->dtype);
        assert_int_equal(t->rank, s->rank);
        assert_memory_equal(t->shape, s->shape, s->rank * sizeof *s->shape);
        assert_memory_equal(t->data, m->data[i], t->size);
        assert_int_equal((uintptr_t)t->data % zest_dtype_size(t->dtype), 0);
    }
}

static void expect_file(const char *name, const model *m) {
    zest_safetensors *file;
    zest_error error = {0};
    if (zest_safetensors_open(temp_path(name), &file, &error)) fail_msg("%s", error.message);
    expect_model(file, m);
    zest_safetensors_close(file);
}

static void expect_folder(const model *m) {
    zest_safetensors *file;
    zest_error error = {0};
    if (zest_safetensors_open_folder(test_temp_folder, "AutoModel", &file, &error))
        fail_msg("%s", error.message);
    expect_model(file, m);
    assert_string_equal(zest_safetensors_metadata(file, "format"), "pt");
    zest_safetensors_close(file);
}

/* ---- One file ---- */

static void test_round_trip(void **state) {
    (void)state;
    static const char *const metadata[] = {"made by", "zest \"ü\"", NULL};
    model m;
    zest_safetensors *file;
    zest_error error = {0};
    fill_model(&m, 1, 1);
    assert_int_equal(zest_safetensors_write(temp_path("x"), m.sources, TENSORS, metadata, &error), ZEST_OK);
    expect_file("x", &m);
    assert_int_equal(count_files(), 1);
    assert_int_equal(zest_safetensors_open(temp_path("x"), &file, &error), ZEST_OK);
    assert_string_equal(zest_safetensors_metadata(file, "format"), "pt");
    assert_string_equal(zest_safetensors_metadata(file, "made by"), "zest \"ü\"");
    zest_safetensors_close(file);
    free_model(&m);
}

/* Large enough for several chunks of every callback, and not a multiple of them. */
static void test_many_chunks(void **state) {
    (void)state;
    model m;
    zest_error error = {0};
    fill_model(&m, 100001, 2);
    assert_int_equal(zest_safetensors_write(temp_path("x"), m.sources, TENSORS, NULL, &error), ZEST_OK);
    assert_true(m.makers[ZEST_DTYPE_I64].calls > 5);
    expect_file("x", &m);
    free_model(&m);
}

/* Byte for byte what Hugging Face's writer makes of the same tensors. */
static void test_exact_bytes(void **state) {
    (void)state;
    static const char wanted[] =
        "\0\1\0\0\0\0\0\0"
        "{\"__metadata__\":{\"format\":\"pt\"},\"A\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"z\":{\"dtype\":\"F64\",\"shape\":[0,4],\"data_offsets\":[8,8]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
        "\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[32,34]}}      "
        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    static const double zeros[6];
    const zest_safetensors_source sources[] = {
        {.name = "b", .dtype = ZEST_DTYPE_F32, .rank = 2, .shape = (size_t[]){2, 3}, .data = zeros},
        {.name = "a", .dtype = ZEST_DTYPE_F16, .rank = 1, .shape = (size_t[]){1}, .data = zeros},
        {.name = "z", .dtype = ZEST_DTYPE_F64, .rank = 2, .shape = (size_t[]){0, 4}},
        {.name = "A", .dtype = ZEST_DTYPE_F64, .data = zeros},
    };
    zest_error error = {0};
    zest_buffer bytes = {0};
    assert_int_equal(zest_safetensors_write(temp_path("x"), sources, 4, NULL, &error), ZEST_OK);
    assert_int_equal(zest_file_read(temp_path("x"), 10000, &bytes, &error), ZEST_OK);
    assert_int_equal(bytes.size, sizeof wanted);
    assert_memory_equal(bytes.data, wanted, sizeof wanted);
    zest_buffer_free(&bytes);
    assert_int_equal(zest_safetensors_write(temp_path("x"), NULL, 0, NULL, &error), ZEST_OK);
    zest_safetensors *file;
    assert_int_equal(zest_safetensors_open(temp_path("x"), &file, &error), ZEST_OK);
    assert_int_equal(zest_safetensors_count(file), 0);
    zest_safetensors_close(file);
}

static void test_bad_sources(void **state) {
    (void)state;
    static const float one[4];
    static const size_t four[] = {4}, huge[] = {SIZE_MAX / 2, 3};
    const struct {
        zest_safetensors_source source;
        const char *fragment;
    } cases[] = {
        {{.name = NULL, .dtype = ZEST_DTYPE_F32, .data = one}, "no name"},
        {{.name = "", .dtype = ZEST_DTYPE_F32, .data = one}, "no name"},
        {{.name = "__metadata__", .dtype = ZEST_DTYPE_F32, .data = one}, "not allowed"},
        {{.name = "a\nb", .dtype = ZEST_DTYPE_F32, .data = one}, "not allowed"},
        {{.name = "\xff", .dtype = ZEST_DTYPE_F32, .data = one}, "not UTF-8"},
        {{.name = "a", .dtype = ZEST_DTYPE_COUNT, .data = one}, "unknown dtype"},
        {{.name = "a", .dtype = ZEST_DTYPE_F32, .rank = 2, .shape = huge, .data = one}, "too large"},
        {{.name = "a", .dtype = ZEST_DTYPE_F32, .rank = 1, .shape = four}, "neither data nor fill"},
        {{.name = "twin", .dtype = ZEST_DTYPE_F16, .data = one}, "appears twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        zest_error error = {0};
        zest_safetensors_source both[] = {{.name = "twin", .dtype = ZEST_DTYPE_F32, .data = one},
                                          cases[i].source};
        assert_int_equal(zest_safetensors_write(temp_path("x"), both, 2, NULL, &error), ZEST_ERROR_ARGUMENT);
        if (!strstr(error.message, cases[i].fragment))
            fail_msg("%s\nwanted: %s", error.message, cases[i].fragment);
        assert_int_equal(zest_safetensors_write_folder(test_temp_folder, both, 2, 4, &error),
                         ZEST_ERROR_ARGUMENT);
        assert_int_equal(count_files(), 0);
    }
}

/* ---- Whole or not at all ---- */

/* Limits the size of files to `bytes`: simulates a full disk. */
static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_full_disk(void **state) {
    (void)state;
    model old, new;
    fill_model(&old, 1, 1);
    fill_model(&new, 50, 9);
    zest_error error = {0};
    assert_int_equal(
        zest_safetensors_write(temp_path("model.safetensors"), old.sources, TENSORS, NULL, &error), ZEST_OK);
    struct stat info;
    assert_int_equal(stat(temp_path("model.safetensors"), &info), 0);
    for (rlim_t room = 0; room < 30000; room += 1777) {
        limit_files(room);
        zest_status one =
            zest_safetensors_write(temp_path("model.safetensors"), new.sources, TENSORS, NULL, &error);
        rewind_model(&new);
        zest_error folder_error = {0};
        zest_status many =
            zest_safetensors_write_folder(test_temp_folder, new.sources, TENSORS, 0, &folder_error);
        rewind_model(&new);
        limit_files(RLIM_INFINITY);
        assert_int_equal(one, ZEST_ERROR_FILE);
        assert_int_equal(many, ZEST_ERROR_FILE);
        assert_non_null(strstr(error.message, "model.safetensors: cannot be written: "));
        assert_int_equal(count_files(), 1);
        expect_file("model.safetensors", &old);
    }
    free_model(&old);
    free_model(&new);
}

/* The last shards do not fit: the old shards, of the same names, are untouched. */
static void test_full_disk_in_shards(void **state) {
    (void)state;
    model old, new;
    zest_error error = {0};
    fill_model(&old, 50, 1);
    fill_model(&new, 50, 9);
    assert_int_equal(zest_safetensors_write_folder(test_temp_folder, old.sources, TENSORS, 8000, &error),
                     ZEST_OK);
    size_t files = count_files();
    assert_true(files > 4);
    limit_files(7000);
    assert_int_equal(zest_safetensors_write_folder(test_temp_folder, new.sources, TENSORS, 8000, &error),
                     ZEST_ERROR_FILE);
    limit_files(RLIM_INFINITY);
    assert_true(new.makers[1].calls > 0); /* some shards had been written */
    assert_int_equal(count_files(), files);
    expect_folder(&old);
    free_model(&old);
    free_model(&new);
}

static void test_maker_gives_up(void **state) {
    (void)state;
    model m;
    zest_error error = {0};
    fill_model(&m, 100001, 2);
    m.makers[ZEST_DTYPE_I64].fail_at = 3;
    assert_int_equal(zest_safetensors_write(temp_path("x"), m.sources, TENSORS, NULL, &error),
                     ZEST_ERROR_STATE);
    assert_string_equal(error.message, "the maker gave up");
    assert_int_equal(count_files(), 0);
    assert_int_equal(zest_safetensors_write(temp_path("no/x"), m.sources, TENSORS, NULL, &error),
                     ZEST_ERROR_FILE);
    assert_int_equal(zest_safetensors_write(temp_path("x"), m.sources, 1, NULL, NULL), ZEST_OK);
    free_model(&m);
}

/* ---- Folders ---- */

static void write_folder(model *m, uint64_t shard_size) {
    zest_error error = {0};
    rewind_model(m);
    if (zest_safetensors_write_folder(test_temp_folder, m->sources, TENSORS, shard_size, &error))
        fail_msg("%s", error.message);
}

static void test_folders(void **state) {
    (void)state;
    model a, b;
    fill_model(&a, 20, 1);
    fill_model(&b, 20, 5);
    write_folder(&a, 0);
    assert_int_equal(count_files(), 1);
    expect_folder(&a);
    write_folder(&b, 3000); /* over a single file: which must go, or it would be read instead */
    assert_false(exists("model.safetensors"));
    assert_true(exists("model.safetensors.index.json"));
    expect_folder(&b);
    size_t many = count_files();
    write_folder(&a, 6000); /* fewer shards: the old ones must go */
    assert_true(count_files() < many);
    expect_folder(&a);
    FILE *other =
        fopen(temp_path("model-00001-of-0002.safetensors"), "w"); /* not a shard's name: not ours to remove */
    assert_non_null(other);
    fclose(other);
    write_folder(&b, UINT64_MAX);
    assert_int_equal(count_files(), 2);
    assert_true(exists("model.safetensors") && exists("model-00001-of-0002.safetensors"));
    expect_folder(&b);
    write_folder(&a, 1); /* a shard for every tensor */
    assert_true(exists("model-00001-of-00017.safetensors") && exists("model-00017-of-00017.safetensors"));
    expect_folder(&a);
    free_model(&a);
    free_model(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TEMP_FOLDER(test_round_trip),     IN_TEMP_FOLDER(test_many_chunks),
        IN_TEMP_FOLDER(test_exact_bytes),    IN_TEMP_FOLDER(test_bad_sources),
        IN_TEMP_FOLDER(test_full_disk),      IN_TEMP_FOLDER(test_full_disk_in_shards),
        IN_TEMP_FOLDER(test_maker_gives_up), IN_TEMP_FOLDER(test_folders),
    };
    return cmocka_run_group_tests_name("safetensors_write", tests, NULL, NULL);
}
