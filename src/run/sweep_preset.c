/* The grids of the paper's tables and of its figure 3 (section 5 and appendix C of the paper): texts in the
 * form of a grid file. The paper has one seed, 42 here: its numbers are shares of one test set each.
 *
 * The paper gives no schedule, clipping or dropout for the methods with gradients, but says that its code is
 * adopted from MeZO's. That trains first-order methods with the defaults of Hugging Face's Trainer, which
 * decay lr linearly to 0 without a warm-up and clip gradients to norm 1, and with the dropout of the models'
 * configurations, 0.1. Zeroth-order methods have a constant lr and no dropout there. */
#include <string.h>

#include "run/sweep.h"

/* SAM and its kin take k neighbours on the sphere of a radius; ZEST and TSAM a t. */
#define METHODS                                                                                             \
    "method = sgd, esam, sam, tsam, mezo, zest-n, zest-bc\nt = 1, 5, 20\nk = 5\nrho = 0.002\nseed = 42\n"   \
    "radius = 0.003, 0.005, 0.01, 0.03, 0.05\nschedule = first: linear\nclip = first: 1\ndropout = first: " \
    "0.1\n"
/* RoBERTa-base, 512 shots a class, at most 700 epochs, or 200 with gradients */
#define MASKED                                                                                        \
    METHODS "lr = 2e-5, 1e-5, 5e-6, first: 2e-3, 1e-3, 5e-4, 2e-4, 1e-4\nbatch = 128, first: 8, 32\n" \
            "shots = 512\nepochs = 700, first: 200\n"
#define MASKED_TASKS "task = SST-2, sst-5, QQP, MRPC, TREC, MNLI, SNLI, RTE\n"
/* OPT-1.3B, 1000 rows, at most 20000 steps, or 3750 with gradients */
#define CAUSAL                                                                                              \
    METHODS "lr = 5e-6, 2e-6, 1e-6, first: 5e-2, 1e-2, 1e-3, sgd: 5e-5, 1e-5, 5e-6\nbatch = 16, first: 8\n" \
            "train-size = 1000\nsteps = 20000, first: 3750\neval-every = 500\n"

static const struct {
    const char *name, *text;
} presets[] = {
    {"paper-table-2", MASKED_TASKS MASKED "label-noise = 0\n"},
    {"paper-table-3", MASKED_TASKS MASKED "label-noise = 0.3\n"},
    {"paper-table-4", "task = COPA, ReCoRD, SQuAD, DROP\n" CAUSAL},
    {"paper-figure-3", MASKED_TASKS MASKED "label-noise = 0, 0.3\nmethod = mezo, zest-n\n"},
};

zest_status zest_sweep_grid_preset(zest_sweep_grid *grid, const char *name, zest_error *error) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (!strcmp(presets[i].name, name)) return zest_sweep_grid_read(grid, presets[i].text, name, error);
    *grid = (zest_sweep_grid){0};
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "no preset is called '%s'; a sweep has paper-table-2, paper-table-3, paper-table-4 "
                          "and paper-figure-3",
                          name);
}
