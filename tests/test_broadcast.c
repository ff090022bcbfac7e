/* Files and weights from rank 0 to another rank, on a line that is recorded and played: what arrives is what was sent, and
 * a bit that arrives as another one is noticed. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "train/broadcast.h"
#include "tests/temp_folder.h"

/* All that rank 0 says, in order. Rank 1 reads it. */
typedef struct {
    zest_comm comm;
    zest_buffer *line;
    size_t at;
} played;

static void say(played *p, void *data, size_t size) {
    if (!p->comm.rank) {
        zest_buffer_add(p->line, data, size);
        return;
    }
    assert_true(p->at + size <= p->line->size);
    memcpy(data, p->line->data + p->at, size);
    p->at += size;
}

static zest_status gather(zest_comm *comm, const void *own, const size_t *sizes, void *all,
                          zest_error *error) {
    (void)error;
    if (!comm->rank) memcpy(all, own, sizes[0]);
    say((played *)comm, all, sizes[0]);
    memcpy((char *)all + sizes[0], own, sizes[1]);
    return ZEST_OK;
}

static zest_status broadcast(zest_comm *comm, void *data, size_t size, int root, zest_error *error) {
    (void)error;
    if (!root) say((played *)comm, data, size);
    return ZEST_OK;
}

static const zest_comm_table table = {gather, NULL, broadcast, NULL, NULL};

static played play(zest_buffer *line, int rank) {
    return (played){.comm = {.table = &table, .rank = rank, .ranks = 2}, .line = line};
}

static void make_options(zest_options *options) {
    zest_error error = {0};
    zest_options_init(options);
    assert_int_equal(zest_options_set_id(options, ZEST_OPTION_MODEL, "examples/roberta-tiny", &error),
                     ZEST_OK);
    assert_int_equal(zest_options_set_id(options, ZEST_OPTION_TASK, "examples/reviews/reviews.task", &error),
                     ZEST_OK);
    assert_int_equal(zest_options_set_id(options, ZEST_OPTION_BROADCAST, "yes", &error), ZEST_OK);
}

static void send_files(zest_buffer *line, const zest_options *options) {
    zest_error error = {0};
    zest_broadcast sent;
    played p = play(line, 0);
    assert_int_equal(zest_broadcast_files(&p.comm, NULL, options, &sent, &error), ZEST_OK);
    assert_true(sent.used);
    assert_null(sent.folder);
    zest_broadcast_free(&sent);
}

static void same_file(const char *a, const char *b) {
    zest_buffer one = {0}, two = {0};
    assert_int_equal(zest_file_read(a, 1 << 24, &one, NULL), ZEST_OK);
    assert_int_equal(zest_file_read(b, 1 << 24, &two, NULL), ZEST_OK);
    assert_true(one.size == two.size && !memcmp(one.data, two.data, one.size));
    zest_buffer_free(&one);
    zest_buffer_free(&two);
}

/* Whole files, but of the weights the header alone; nothing is left when they are not needed any more. */
static void files_arrive(void **state) {
    (void)state;
    zest_error error = {0};
    zest_options options;
    zest_buffer line = {0};
    zest_broadcast got;
    setenv("TMPDIR", test_temp_folder, 1);
    make_options(&options);
    send_files(&line, &options);
    assert_true(line.size < 600000); /* the weights are 3.5 MB */
    played p = play(&line, 1);
    assert_int_equal(zest_broadcast_files(&p.comm, NULL, &options, &got, &error), ZEST_OK);
    assert_true(p.at == line.size);
    same_file(got.places[ZEST_PART_TRAIN].path, "examples/reviews/train.tsv");
    same_file(got.places[ZEST_PART_TEST].path, "examples/reviews/test.tsv");
    same_file(got.task, "examples/reviews/reviews.task");
    char *config = zest_file_join(got.model, "config.json"),
         *weights = zest_file_join(got.model, "model.safetensors");
    same_file(config, "examples/roberta-tiny/config.json");
    struct stat here, there, inside;
    assert_true(!stat("examples/roberta-tiny/model.safetensors", &here) && !stat(weights, &there));
    assert_true(here.st_size == there.st_size);
    assert_true(!stat(got.folder, &inside) && (inside.st_mode & 0777) == 0700);
    assert_int_equal(zest_broadcast_redirect(&got, &options, &error), ZEST_OK);
    assert_string_equal(zest_options_text(&options, ZEST_OPTION_MODEL), got.model);
    zest_broadcast_free(&got);
    assert_int_equal(rmdir(test_temp_folder), 0); /* it is empty */
    free(config);
    free(weights);
    zest_buffer_free(&line);
    zest_options_free(&options);
    unsetenv("TMPDIR");
}

static size_t find_in(const zest_buffer *line, const char *text) {
    for (size_t i = 0; i + strlen(text) < line->size; i++)
        if (!memcmp(line->data + i, text, strlen(text))) return i;
    fail_msg("the line has no '%s'", text);
    return 0;
}

/* The first bit of `text` on the line is another one. */
static void damaged_arrives(const char *text, const char *message) {
    zest_error error = {0};
    zest_options options;
    zest_buffer line = {0};
    zest_broadcast got;
    make_options(&options);
    send_files(&line, &options);
    line.data[find_in(&line, text)] ^= 1;
    played p = play(&line, 1);
    assert_int_equal(zest_broadcast_files(&p.comm, NULL, &options, &got, &error), ZEST_ERROR_STATE);
    assert_non_null(strstr(error.message, message));
    zest_broadcast_free(&got);
    assert_int_equal(rmdir(test_temp_folder), 0);
    mkdir(test_temp_folder, 0700);
    zest_buffer_free(&line);
    zest_options_free(&options);
}

static void damage_is_noticed(void **state) {
    (void)state;
    setenv("TMPDIR", test_temp_folder, 1);
    damaged_arrives("\"hidden_size\"", "config.json: did not arrive as rank 0 sent it");
    damaged_arrives("sentence\tlabel", "train.tsv: did not arrive as rank 0 sent it");
    unsetenv("TMPDIR");
}

/* A name that leads out of the folder is refused, whoever sent it. */
static void names_stay_inside(void **state) {
    (void)state;
    zest_error error = {0};
    zest_options options;
    zest_buffer line = {0};
    zest_broadcast got;
    setenv("TMPDIR", test_temp_folder, 1);
    make_options(&options);
    send_files(&line, &options);
    memcpy(line.data + find_in(&line, "config.json"), "../fig.json", 11);
    played p = play(&line, 1);
    assert_int_equal(zest_broadcast_files(&p.comm, NULL, &options, &got, &error), ZEST_ERROR_STATE);
    assert_non_null(strstr(error.message, "'../fig.json'"));
    zest_broadcast_free(&got);
    zest_buffer_free(&line);
    zest_options_free(&options);
    unsetenv("TMPDIR");
}

static void send_loaded(zest_buffer *line, const zest_options *options) {
    zest_error error = {0};
    zest_loaded loaded;
    played p = play(line, 0);
    assert_int_equal(zest_load_start(&loaded, options, &error), ZEST_OK);
    assert_int_equal(zest_broadcast_weights(&p.comm, &loaded, 1, &error), ZEST_OK);
    zest_load_free(&loaded);
}

/* Weights that arrive are those that were sent; one bit of them, and their rank is named. */
static void weights_arrive(void **state) {
    (void)state;
    zest_error error = {0};
    zest_options options;
    zest_buffer line = {0};
    zest_loaded start, blank;
    make_options(&options);
    send_loaded(&line, &options);
    assert_int_equal(zest_load_start(&start, &options, &error), ZEST_OK);
    for (int damaged = 0; damaged < 2; damaged++) {
        played p = play(&line, 1);
        if (damaged) line.data[line.size / 2] ^= 1;
        assert_int_equal(zest_load_blank(&blank, NULL, &options, &error), ZEST_OK);
        assert_int_equal(zest_broadcast_weights(&p.comm, &blank, 1, &error),
                         damaged ? ZEST_ERROR_STATE : ZEST_OK);
        assert_true((zest_params_fingerprint(&blank.model->params) ==
                     zest_params_fingerprint(&start.model->params)) == !damaged);
        zest_load_free(&blank);
    }
    assert_string_equal(error.message, "step 0: the weights of rank 1 differ from those of the other 1");
    zest_load_free(&start);
    zest_buffer_free(&line);
    zest_options_free(&options);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TEMP_FOLDER(files_arrive),
        IN_TEMP_FOLDER(damage_is_noticed),
        IN_TEMP_FOLDER(names_stay_inside),
        cmocka_unit_test(weights_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
