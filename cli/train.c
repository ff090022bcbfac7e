/* zest train: fine-tunes a language model on a task. */
#include <stdio.h>
#include <string.h>

#include "cli/output.h"
#include "cli/training.h"
#include "data/task.h"

static int list_tasks(const zest_options *options) {
    int json = (int)zest_options_whole(options, ZEST_OPTION_JSON);
    json_t *tasks = json_array();
    for (size_t i = 0; zest_task_at(i); i++) {
        const zest_task *task = zest_task_at(i);
        const char *models = task->masked && task->causal ? "masked, causal"
                             : task->masked               ? "masked"
                                                          : "causal";
        zest_output_append(
            &tasks, json_pack("{s:s, s:s, s:s}", "name", task->name, "models", models, "about", task->about));
        if (!json) printf("%-8s  %-14s  %s\n", task->name, models, task->about);
    }
    if (json) return zest_output_json(json_pack("{s:o}", "tasks", tasks));
    json_decref(tasks);
    return ZEST_EXIT_OK;
}

static int run(const zest_options *given, char **words, int count) {
    (void)words, (void)count;
    if (!strcmp(zest_options_text(given, ZEST_OPTION_TASK), "list")) return list_tasks(given);
    return zest_training_run(given);
}

const zest_command zest_command_train = {
    .name = "train",
    .words = "",
    .summary = "fine-tune a language model with forward passes",
    .description =
        "Trains MODEL on TASK in the memory of inference: every step evaluates the loss of the batch at x + "
        "rho v_i and x - rho v_i for k random directions v_i and moves along them (ZEST; MeZO with --method "
        "mezo). The weights that do best on the dev examples are kept and evaluated on the test examples.\n\n"
        "A masked model answers with label words at the mask, a causal one by the likelihood of its answers. "
        "What is not given depends on the model, as in the paper: masked models take 512 shots a class, "
        "batch 128, lr 1e-5 and 700 epochs (5600 steps for two classes, 8400 for three; with other splits "
        "5600 "
        "steps); causal ones 1000 rows, batch 16, lr 2e-6, 20000 steps.\n\n"
        "For comparison there are methods with gradients: --method sgd, adamw, sam, esam "
        "and tsam. There masked models take batch 32, lr 1e-3 and 200 epochs, causal ones batch 8, lr 1e-5 "
        "and 3750 steps. They need memory for activations, gradient and state, and a resumed run starts from "
        "the last checkpoint (--save-every) instead of the last step.\n\n"
        "With --out RUN everything is kept in a folder: options, the task, journal, log.jsonl, TensorBoard "
        "events, and best/ and last/, which are Hugging Face folders. Every step is written to the "
        "journal before it is taken, and the journal is synced to disk once a second. After Ctrl-C, a kill "
        "or "
        "a power failure `zest train --resume RUN` goes on from the last step on record; on the CPU it ends "
        "with the same bits as a run that was not stopped. `zest eval RUN`, "
        "`zest predict RUN`, `zest replay RUN`, `zest info RUN` and `zest report RUN` take it from there.",
    .examples =
        "zest train --model roberta-base --task SST-2 --data data --out run1\tthe paper's settings\n"
        "zest train --model roberta-base --task reviews.task --method zest-bc --t 5 --out run2\tdata of your "
        "own\n"
        "zest train --model smollm2.gguf --task COPA --data data --weights bf16 --steps 2000 --out run3\ta "
        "causal model\n"
        "zest train --model roberta-base --task SST-2 --data data --method tsam --t 5 --recompute --out "
        "run4\ta first-order method\n"
        "zest train --resume run1 --steps 8000\tgo on, and further than planned\n"
        "zest train --task list\tthe tasks that are known by name",
    .options =
        "model\tmodel to fine-tune: a Hugging Face folder, a GGUF file, or ORG/NAME after `zest pull "
        "ORG/NAME`\n"
        "dry-run\tload and check everything, take one or two steps, print the plan of the run with its time "
        "and memory, and write nothing\n"
        "out\trun folder to create: options, journal, log, best and last weights\n"
        "resume\tcontinue the run in this folder, with its options\n"
        "seed\trandom seed of the run and of its train/dev split\n"
        "train-only\ttrain only the tensors whose names match; several patterns separated by commas, "
        "* matches any characters\n"
        "batch\tbatch size\n"
        "patience\tearly stopping: stop after this many steps without a better dev value; 0: off\n"
        "eval-every\tsteps between evaluations of the dev examples",
    .defaults = "rho=0.002 lr=1e-5 batch=128 steps=5600 eval-every=100 seed=42",
    .users = ZEST_FOR_TRAIN,
    .run = run,
};
