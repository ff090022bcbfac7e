/* zest eval: how good a run or a model is at a task. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/target.h"
#include "cli/output.h"
#include "cli/progress.h"

enum { BATCH_TOKENS = 16384 };

static zest_status evaluate(const zest_target *subject, zest_loaded_data *data, zest_task_part part,
                            zest_metrics *metrics, zest_error *error) {
    zest_predictions predictions = {0};
    zest_progress progress;
    zest_progress_begin(&progress, "eval", "examples",
                        (int)zest_options_whole(&subject->options, ZEST_OPTION_QUIET));
    zest_progress_callback watch = zest_progress_sink(&progress);
    const zest_examples *examples = &data->parts[part];
    data->recorded = &subject->inputs;
    zest_status status = zest_load_data(data, &subject->options, &subject->loaded, 1u << part, error);
    if (!status && !examples->count)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "task %s has no such examples; choose another --split", data->task.name);
    if (!status)
        status =
            zest_metric_predict_watched(subject->loaded.runner, NULL, examples, subject->loaded.tokenizer,
                                        BATCH_TOKENS, &watch, &predictions, error);
    zest_progress_end(&progress);
    if (!status) zest_metric_sum(&data->task, examples, &predictions, metrics);
    zest_predictions_free(&predictions);
    return status;
}

static int report(const zest_options *options, const zest_target *subject, const zest_task *task,
                  const zest_metrics *m, double seconds) {
    const char *split = zest_options_text(options, ZEST_OPTION_SPLIT);
    if (zest_options_whole(options, ZEST_OPTION_JSON)) {
        json_t *object = zest_metrics_json(m);
        zest_output_set(&object, "task", zest_output_string(task->name));
        zest_output_set(&object, "split", json_string(split));
        zest_output_set(&object, "metric", json_string(zest_metric_name(task->metric)));
        if (subject->is_run) zest_output_set(&object, "step", json_integer((json_int_t)subject->step));
        zest_output_set(&object, "seconds", json_real(seconds));
        return zest_output_json(object);
    }
    if (subject->is_run) zest_output_print("%s, step %llu\n", task->name, (unsigned long long)subject->step);
    zest_metrics_print(split, zest_metric_name(task->metric), m, stdout);
    return ZEST_EXIT_OK;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    zest_error error = {0};
    zest_target subject;
    zest_loaded_data data = {0};
    zest_metrics metrics;
    zest_task_part part = (zest_task_part)zest_options_whole(options, ZEST_OPTION_SPLIT);
    zest_status status = zest_target_open(&subject, words[0], options, &error);
    double began = zest_clock_now();
    if (!status) status = evaluate(&subject, &data, part, &metrics, &error);
    int code = status ? zest_output_fail(status, error.message)
                      : report(options, &subject, &data.task, &metrics, zest_clock_now() - began);
    zest_load_free_data(&data);
    zest_target_close(&subject);
    return code;
}

const zest_command zest_command_eval = {
    .name = "eval",
    .words = "RUN|MODEL",
    .least = 1,
    .most = 1,
    .summary = "measure a run or a model on a task",
    .description = "Answers the examples of --split and prints accuracy, F1, exact match and loss, as far as "
                   "the task has them, with a 95 % interval (Wilson's for accuracy, a bootstrap for F1). "
                   "When scores are equal, the first class or option counts as the answer.\n\nA run brings "
                   "its own task, data and split. Its weights are those of --step: best, last, or any "
                   "number, for which they are rebuilt from the journal. A model needs --task and --data; "
                   "its splits are those that training with the same --seed and --shots uses.",
    .examples = "zest eval run1\tthe best weights on the test examples\n"
                "zest eval run1 --step 0 --split dev --json\twhere it started\n"
                "zest eval roberta-base --task SST-2 --data data\tzero-shot",
    .options = "model\tof a run: where its model is now, if it was moved; of weights without a tokenizer: "
               "the model that has it",
    .defaults = "seed=42 step=best",
    .users = ZEST_FOR_EVAL,
    .run = run,
};
