/* zest pretrain: makes a language model out of text. */
#include "cli/command.h"
#include "cli/output.h"
#include "cli/training.h"

static int run(const zest_options *given, char **words, int count) {
    (void)words, (void)count;
    if (!*zest_options_text(given, ZEST_OPTION_CORPUS) && !*zest_options_text(given, ZEST_OPTION_RESUME))
        return zest_output_fail(ZEST_ERROR_ARGUMENT, "say what to train on: --text FILE");
    return zest_training_run(given);
}

const zest_command zest_command_pretrain = {
    .name = "pretrain",
    .words = "",
    .summary = "train a language model from scratch, with gradients",
    .description =
        "Trains MODEL on the text of a file by AdamW: a masked model is to tell hidden tokens, a "
        "causal one every next token. MODEL is a Hugging Face folder with config.json and a tokenizer; where "
        "it "
        "has no weights, random ones are made from the seed.\n\n"
        "The text is cut into documents at blank lines; these are packed behind each other into sequences of "
        "--length tokens. The loss on documents that are held out, and its exponential, the perplexity, are "
        "printed and logged every --eval-every steps; the weights with the lowest are kept in best/.\n\n"
        "The run's folder is that of `zest train`: options, log.jsonl, TensorBoard events, best/ and last/ "
        "as "
        "Hugging Face folders. After Ctrl-C or a kill `zest pretrain --resume RUN` goes on from the last "
        "checkpoint (--save-every) and ends with the same bits. `zest train --model RUN/best` fine-tunes "
        "what "
        "came out.",
    .examples =
        "zest pretrain --model shape --text books.txt --steps 20000 --schedule linear --warmup 1000 --out "
        "made\ta new model\n"
        "zest pretrain --model roberta-base --text mine.txt --lr 1e-4 --out adapted\tone that is used to "
        "other texts\n"
        "zest pretrain --resume made\tgo on",
    .options = "model\tHugging Face folder with config.json and a tokenizer; without weights, random ones "
               "are made from the seed\n"
               "out\trun folder to create: options, log, best and last weights\n"
               "resume\tcontinue the run in this folder, with its options\n"
               "seed\trandom seed\n"
               "batch\tbatch size\n"
               "train-only\ttrain only the tensors whose names match; several patterns separated by commas, "
               "* matches any characters\n"
               "patience\tearly stopping: stop after this many steps without a lower held-out loss; 0: off\n"
               "eval-every\tsteps between evaluations of the held-out documents",
    .defaults = "lr=1e-3 batch=32 steps=1000 eval-every=100 seed=42",
    .users = ZEST_FOR_PRETRAIN,
    .run = run,
};
