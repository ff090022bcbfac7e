/* Training through zest_lm.h: a tuner over a model's weights and its journal, tensors, options of runs, predictions. */
#include <jansson.h>

#include "tests/device.h"
#include "tests/lm.h"

/* ---- Training of one's own ---- */

typedef struct {
    zest_lm *lm;
    zest_lm_batch *batch;
} job;

static int objective(const zest_lanes *lanes, double *losses, void *user) {
    const job *j = user;
    return zest_lm_losses(j->lm, lanes, j->batch, NULL, losses);
}

static zest_tuner *tuner_of(job *j, const char *steps) {
    zest_tuner *tuner = zest_lm_tuner(j->lm);
    assert_non_null(tuner);
    assert_string_equal(zest_tuner_get(tuner, "rho"), "0.002");
    assert_ok(ctx, zest_tuner_set(tuner, "steps", steps));
    assert_ok(ctx, zest_tuner_set(tuner, "k", "4"));
    assert_ok(ctx, zest_tuner_set(tuner, "lr", "1e-3"));
    assert_ok(ctx, zest_tuner_objective_lanes(tuner, objective, j));
    return tuner;
}

static uint64_t fingerprint(zest_lm *lm) {
    uint64_t print;
    assert_ok(ctx, zest_lm_fingerprint(lm, &print));
    return print;
}

/* A tuner over 16-bit weights, some of them frozen: the loss falls; the journal replays to the same bits from a
 * model that is loaded again; a run that stops and goes on ends there, too. */
static void test_tuner(void **state) {
    static const char options[] = "weights=bf16 freeze=*embeddings*";
    (void)state;
    job j = {.lm = load(MASKED, options)}, other = {.lm = load(MASKED, options)};
    uint64_t start = fingerprint(j.lm);
    double before, after;
    zest_result result;
    j.batch = masked_batch(j.lm);
    assert_ok(ctx, zest_lm_losses(j.lm, NULL, j.batch, NULL, &before));
    zest_tuner *tuner = tuner_of(&j, "30");
    assert_ok(ctx, zest_tuner_start_journal(tuner, temp_path("journal")));
    assert_ok(ctx, zest_tuner_run(tuner, &result));
    zest_tuner_free(tuner);
    assert_int_equal(result.steps, 30);
    assert_ok(ctx, zest_lm_losses(j.lm, NULL, j.batch, NULL, &after));
    assert_true(after == result.loss);
    assert_true(after < 0.8 * before);
    assert_true(fingerprint(j.lm) != start);

    zest_journal *journal = zest_journal_open(ctx, temp_path("journal"));
    assert_ok(ctx, zest_lm_replay(other.lm, journal, 30));
    assert_true(fingerprint(other.lm) == fingerprint(j.lm));
    REFUSED(zest_lm_replay(other.lm, journal, 30), "start"); /* it is no longer at the start */
    zest_lm_free(other.lm);
    other.lm = load(MASKED, options);
    REFUSED(zest_lm_replay(other.lm, journal, 31), "30 steps");
    REFUSED(zest_lm_replay(other.lm, NULL, 1), "journal is NULL");
    zest_journal_close(journal);
    assert_true(fingerprint(other.lm) == start);

    other.batch = masked_batch(other.lm);
    tuner = tuner_of(&other, "11");
    assert_ok(ctx, zest_tuner_start_journal(tuner, temp_path("stopped")));
    assert_ok(ctx, zest_tuner_run(tuner, NULL));
    zest_tuner_free(tuner);
    zest_lm_batch_free(other.batch);
    zest_lm_free(other.lm);
    other.lm = load(MASKED, options);
    other.batch = masked_batch(other.lm);
    tuner = tuner_of(&other, "11");
    assert_ok(ctx, zest_tuner_resume_journal(tuner, temp_path("stopped")));
    assert_ok(ctx, zest_tuner_set(tuner, "steps", "30"));
    assert_ok(ctx, zest_tuner_run(tuner, NULL));
    zest_tuner_free(tuner);
    assert_true(fingerprint(other.lm) == fingerprint(j.lm));
    /* an objective that fails ends the run, with its own message; the step leaves no trace */
    zest_lm_batch_clear(other.batch);
    tuner = tuner_of(&other, "1");
    assert_int_equal(zest_tuner_run(tuner, NULL), ZEST_ERROR_OBJECTIVE);
    assert_says(ctx, "gave up in step 1: the batch has no examples");
    zest_tuner_free(tuner);
    assert_true(fingerprint(other.lm) == fingerprint(j.lm));
    zest_lm_batch_free(j.batch);
    zest_lm_batch_free(other.batch);
    zest_lm_free(j.lm);
    zest_lm_free(other.lm);
}

/* A tuner over weights on a GPU: its journal replays on the CPU to the same bits; what is read back are the new
 * weights. */
static void test_device(void **state) {
    (void)state;
    need_device();
    job j = {.lm = load(MASKED, "weights=bf16 device=cuda")};
    zest_lm *cpu = load(MASKED, "weights=bf16");
    zest_lm_batch *same = masked_batch(cpu);
    zest_lm_info info;
    double losses[2], expected[2];
    float value, before;
    j.batch = masked_batch(j.lm);
    assert_ok(ctx, zest_lm_get_info(j.lm, &info));
    assert_string_equal(info.device, "cuda");
    assert_ok(ctx, zest_lm_losses(j.lm, NULL, j.batch, losses, NULL));
    assert_ok(ctx, zest_lm_losses(cpu, NULL, same, expected, NULL));
    for (int i = 0; i < 2; i++) assert_close(losses[i], expected[i], 1e-3);
    assert_ok(ctx, zest_lm_read_tensor(j.lm, 0, 5, 1, &before));
    zest_tuner *tuner = tuner_of(&j, "10");
    assert_ok(ctx, zest_tuner_start_journal(tuner, temp_path("journal")));
    assert_ok(ctx, zest_tuner_run(tuner, NULL));
    zest_tuner_free(tuner);
    zest_journal *journal = zest_journal_open(ctx, temp_path("journal"));
    assert_ok(ctx, zest_lm_replay(cpu, journal, 10));
    assert_true(fingerprint(cpu) == fingerprint(j.lm));
    assert_ok(ctx, zest_lm_read_tensor(j.lm, 0, 5, 1, &value));
    assert_true(value != before);
    assert_ok(ctx, zest_lm_read_tensor(cpu, 0, 5, 1, &before));
    assert_true(value == before);
    /* a second tuner begins where the first ended, and replays on the GPU, too */
    tuner = tuner_of(&j, "3");
    assert_ok(ctx, zest_tuner_start_journal(tuner, temp_path("second")));
    assert_ok(ctx, zest_tuner_run(tuner, NULL));
    zest_tuner_free(tuner);
    zest_journal_close(journal);
    journal = zest_journal_open(ctx, temp_path("second"));
    assert_ok(ctx, zest_lm_replay(cpu, journal, 3));
    assert_true(fingerprint(cpu) == fingerprint(j.lm));
    zest_journal_close(journal);
    zest_lm_batch_free(j.batch);
    zest_lm_batch_free(same);
    zest_lm_free(j.lm);
    zest_lm_free(cpu);
}

static double vector_objective(const float *x, size_t n, void *user) {
    (void)user;
    return n ? (double)x[0] : 0;
}

static void test_tensors(void **state) {
    (void)state;
    zest_lm *lm = load(MASKED, "weights=bf16 freeze=*embeddings*");
    zest_lm_info info;
    zest_lm_tensor tensor;
    float values[8], back[8];
    size_t all = 0, trained = 0, i = 0;
    assert_ok(ctx, zest_lm_get_info(lm, &info));
    for (; zest_lm_get_tensor(lm, i, &tensor); i++) {
        const zest_tensor *own = &lm->loaded.model->tensors[i];
        assert_string_equal(tensor.name, own->name);
        assert_string_equal(tensor.dtype, "BF16");
        assert_int_equal(tensor.count, tensor.shape[0] * tensor.shape[1]);
        assert_int_equal(tensor.trained, !strstr(tensor.name, "embeddings"));
        all += tensor.count;
        trained += tensor.trained ? tensor.count : 0;
        assert_ok(ctx, zest_lm_read_tensor(lm, i, tensor.count - 1, 1, values));
        assert_true(values[0] == zest_dtype_from_bf16(((const uint16_t *)own->data)[tensor.count - 1]));
    }
    assert_int_equal(all, info.parameters);
    assert_int_equal(trained, info.trained);
    for (int v = 0; v < 8; v++) values[v] = 0.125f * (float)v;
    uint64_t before = fingerprint(lm);
    zest_lm_get_tensor(lm, i - 1, &tensor);
    assert_ok(ctx, zest_lm_write_tensor(lm, i - 1, 3, 8, values));
    assert_ok(ctx, zest_lm_read_tensor(lm, i - 1, 3, 8, back));
    assert_memory_equal(values, back, sizeof values);
    assert_true(fingerprint(lm) != before);
    REFUSED(zest_lm_read_tensor(lm, i, 0, 1, back), "no number");
    REFUSED(zest_lm_read_tensor(lm, 0, (size_t)-1, 2, back), "do not lie within");
    REFUSED(zest_lm_read_tensor(lm, 0, 0, 1, NULL), "values is NULL");
    REFUSED(zest_lm_write_tensor(lm, 0, 0, 1, NULL), "values is NULL");
    REFUSED(zest_lm_fingerprint(lm, NULL), "fingerprint is NULL");
    zest_tuner *tuner = zest_lm_tuner(lm);
    REFUSED(zest_tuner_objective_f32(tuner, vector_objective, NULL), "lanes");
    zest_tuner_free(tuner);
    zest_lm_free(lm);
    lm = zest_lm_load_tokenizer(ctx, MASKED);
    assert_null(zest_lm_tuner(lm));
    assert_says(ctx, "without a model");
    assert_null(zest_lm_tuner(NULL));
    assert_false(zest_lm_get_tensor(lm, 0, &tensor));
    zest_lm_free(lm);
}

/* ---- Options of runs, and tasks ---- */

static void test_options(void **state) {
    (void)state;
    zest_lm_options *options = zest_lm_options_new(ctx, "train");
    zest_option option;
    zest_lm_task_info task;
    int found = 0;
    assert_string_equal(zest_lm_options_get(options, "rho"), "0.002"); /* the command's, not the table's */
    assert_ok(ctx, zest_lm_options_set(options, "rho", "0.5"));
    assert_ok(ctx, zest_lm_options_set_all(options, "k = 7\nout = a folder with blanks\n"));
    assert_string_equal(zest_lm_options_get(options, "rho"), "0.5");
    assert_string_equal(zest_lm_options_get(options, "k"), "7");
    assert_string_equal(zest_lm_options_get(options, "out"), "a folder with blanks");
    assert_null(zest_lm_options_get(options, "prompt"));
    REFUSED(zest_lm_options_set(options, "prompt", "x"), "prompt");
    REFUSED(zest_lm_options_set(options, "k", "0"), "k");
    assert_string_equal(zest_lm_options_get(options, "k"), "7");
    for (size_t i = 0; zest_lm_options_list(options, i, &option); i++)
        if (!strcmp(option.name, "rho")) {
            assert_string_equal(option.fallback, "0.002");
            found = 1;
        }
    assert_true(found);
    zest_lm_options_free(options);
    assert_null(zest_lm_options_new(ctx, "no-such-command"));
    assert_says(ctx, "no-such-command");
    assert_null(zest_lm_options_new(ctx, NULL));
    assert_int_equal(zest_lm_train(ctx, NULL, NULL, NULL), ZEST_ERROR_ARGUMENT);
    options = zest_lm_options_new(ctx, "train");
    REFUSED(zest_lm_train(ctx, options, NULL, NULL), "--model");
    zest_lm_train_result result;
    REFUSED(zest_lm_resume(ctx, MASKED, NULL, NULL, &result), "no run of zest train");
    assert_int_equal(result.step, 0);
    assert_true(result.dev.n == 0 && isnan(result.dev.loss) && isnan(result.dev.accuracy));
    zest_lm_options_free(options);
    found = 0;
    for (size_t i = 0; zest_lm_task(i, &task); i++) found += !strcmp(task.name, "SST-2");
    assert_int_equal(found, 1);
}

/* ---- Predictions ---- */

enum { ROWS = 400 };

typedef struct {
    zest_lm_predictor *predictor;
    char labels[ROWS][16];
    size_t rows, right, labelled, told, most, refused_line;
    char message[300];
    double first[2]; /* probabilities of the first row */
} told;

static int on_prediction(const zest_lm_prediction *p, void *user) {
    told *t = user;
    assert_int_equal(p->row, t->told);
    assert_int_equal(p->probability_count, 2);
    assert_close(p->probabilities[0] + p->probabilities[1], 1, 1e-12);
    assert_true(p->probabilities[p->choice] >= 0.5);
    assert_string_equal(p->text, zest_lm_predictor_class(t->predictor, (size_t)p->choice));
    if (!p->row) memcpy(t->first, p->probabilities, sizeof t->first);
    assert_string_equal(p->fields[0].name, "sentence");
    assert_int_equal(p->fields[0].count, 1);
    if (p->record) assert_non_null(strstr(p->record, "\"sentence\""));
    t->right += !strcmp(p->text, t->labels[p->row]);
    t->labelled +=
        p->label >= 0 && !strcmp(zest_lm_predictor_class(t->predictor, (size_t)p->label), t->labels[p->row]);
    t->told++;
    return t->most && t->told == t->most;
}

static void on_refused(size_t line, const char *message, void *user) {
    told *t = user;
    t->refused_line = line;
    snprintf(t->message, sizeof t->message, "%s", message);
}

/* The rows of a table as JSON lines, and their labels. */
static char *read_table(const char *path, told *t) {
    zest_buffer lines = {0};
    char *text = test_get(path), *next = strchr(text, '\n') + 1; /* the first line names the columns */
    for (char *line; (line = strsep(&next, "\n")) && *line && t->rows < ROWS; t->rows++) {
        char *sentence = strsep(&line, "\t");
        snprintf(t->labels[t->rows], sizeof *t->labels, "%s", line);
        json_t *object = json_pack("{s:s}", "sentence", sentence);
        char *dump = json_dumps(object, 0);
        zest_buffer_format(&lines, "%s\n", dump);
        free(dump);
        json_decref(object);
    }
    free(text);
    return lines.data;
}

/* Predictions against labels give the accuracy of zest_lm_evaluate, and the probabilities are those of the same
 * sentence put into a batch by hand. */
static void test_predict(void **state) {
    (void)state;
    told t = {0};
    zest_lm_evaluation evaluation;
    zest_lm_options *options = zest_lm_options_new(ctx, "predict"), *eval = zest_lm_options_new(ctx, "eval");
    assert_ok(ctx, zest_lm_options_set(options, "task", "examples/reviews/reviews.task"));
    assert_ok(ctx, zest_lm_options_set(eval, "task", "examples/reviews/reviews.task"));
    assert_ok(ctx, zest_lm_evaluate(ctx, MASKED, eval, NULL, &evaluation));
    assert_false(evaluation.is_run);
    assert_string_equal(evaluation.task, "reviews");
    t.predictor = zest_lm_predictor_new(ctx, MASKED, options, NULL);
    if (!t.predictor) fail_msg("%s", zest_ctx_error(ctx));
    assert_string_equal(zest_lm_predictor_column(t.predictor, 0), "sentence");
    assert_null(zest_lm_predictor_column(t.predictor, 1));
    assert_string_equal(zest_lm_predictor_class(t.predictor, 1), "good");
    assert_null(zest_lm_predictor_class(t.predictor, 2));
    char *rows = read_table("examples/reviews/test.tsv", &t);
    zest_lm_predict_callbacks callbacks = {.on_prediction = on_prediction, .user = &t};
    assert_ok(ctx, zest_lm_predict(t.predictor, rows, ZEST_LM_WHOLE, NULL, &callbacks));
    assert_int_equal(t.labelled, 0); /* the rows have none */
    assert_int_equal(t.told, t.rows);
    assert_int_equal(evaluation.metrics.n, t.rows);
    assert_close((double)t.right / (double)t.rows, evaluation.metrics.accuracy, 1e-12);

    zest_lm *lm = load(MASKED, NULL);
    zest_lm_batch *batch = zest_lm_batch_new(lm);
    int32_t words[2] = {one_token(lm, " bad"), one_token(lm, " good")}, ids[128];
    json_t *first = json_loads(rows, JSON_DISABLE_EOF_CHECK, NULL);
    char text[512];
    size_t count, at = 0;
    double loss;
    snprintf(text, sizeof text, "%s It was<mask>.", json_string_value(json_object_get(first, "sentence")));
    assert_ok(ctx, zest_lm_encode(lm, text, ZEST_LM_WHOLE, ZEST_LM_ADD_SPECIAL, ids, 128, &count));
    while (ids[at] != zest_lm_special_token(lm, ZEST_LM_MASK)) at++;
    assert_ok(ctx, zest_lm_batch_set_label_words(batch, words, 2));
    assert_ok(ctx, zest_lm_batch_add_masked(batch, ids, count, at, 1));
    assert_ok(ctx, zest_lm_losses(lm, NULL, batch, &loss, NULL));
    assert_close(t.first[1], exp(-loss), 1e-6);

    /* the table itself: the same answers, and the labels are seen; so of the split */
    char *table = test_get("examples/reviews/test.tsv");
    for (int split = 0; split < 2; split++) {
        size_t right = t.right;
        t.right = t.told = t.labelled = 0;
        assert_ok(ctx, split ? zest_lm_predict_split(t.predictor, "test", &callbacks)
                             : zest_lm_predict(t.predictor, table, ZEST_LM_WHOLE, NULL, &callbacks));
        assert_int_equal(t.told, t.rows);
        assert_int_equal(t.labelled, t.rows);
        assert_int_equal(t.right, right);
    }
    /* a callback can end it; a bad row is an error, or is told and left out */
    t.told = 0;
    t.most = 3;
    assert_ok(ctx, zest_lm_predict(t.predictor, rows, ZEST_LM_WHOLE, NULL, &callbacks));
    assert_int_equal(t.told, 3);
    t.told = t.most = 0;
    static const char mixed[] = "{\"sentence\": \"a\"}\n{\"other\": 1}\n";
    REFUSED(zest_lm_predict(t.predictor, mixed, ZEST_LM_WHOLE, NULL, &callbacks), "sentence");
    assert_int_equal(t.told, 0);
    callbacks.on_refused = on_refused;
    assert_ok(ctx, zest_lm_predict(t.predictor, mixed, ZEST_LM_WHOLE, NULL, &callbacks));
    assert_int_equal(t.told, 1);
    assert_int_equal(t.refused_line, 2);
    assert_non_null(strstr(t.message, "sentence"));
    zest_lm_rows_format odd = {.format = "xml"};
    REFUSED(zest_lm_predict(t.predictor, rows, ZEST_LM_WHOLE, &odd, &callbacks), "'xml' is no format");
    REFUSED(zest_lm_predict(t.predictor, "", 0, NULL, &callbacks), "no rows");
    REFUSED(zest_lm_predict_split(t.predictor, "all", &callbacks), "not 'all'");
    callbacks.on_prediction = NULL;
    REFUSED(zest_lm_predict(t.predictor, rows, ZEST_LM_WHOLE, NULL, &callbacks), "callback");
    free(table);
    assert_null(zest_lm_predictor_new(ctx, MASKED, NULL, NULL));
    assert_says(ctx, "which task");
    json_decref(first);
    free(rows);
    zest_lm_batch_free(batch);
    zest_lm_free(lm);
    zest_lm_predictor_free(t.predictor);
    zest_lm_options_free(options);
    zest_lm_options_free(eval);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TEMP_FOLDER(test_tuner),     IN_TEMP_FOLDER(test_device),    cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_options), cmocka_unit_test(test_predict),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
