/* The one table of options. It feeds the library (zest_tuner_set), the command line, its help, the manual
 * page, the options file of a run and the journal's header. Add an option here and it exists everywhere.
 *
 * X(ID, name, letter, kind, default, range, argument, section, users, run, help)
 *   range    numbers: NONE, POSITIVE, AT_LEAST(low), AT_LEAST_OR(low, "word") or WITHIN(low, high); choices:
 *            CHOICES("a|b|c"); text: NONE
 *   users    who takes it: a sum of ZEST_FOR_*
 *   run      what it is in a run: RUN(methods, changes, sweep), or NO_RUN where it is no part of one
 *     methods  that take it, by the names of --method: ANY, FORWARD (those that need forward passes only),
 *              GRADIENT (the others), ZEST (zest-n and zest-bc), or a sum of single ones. An option that is off
 *              by default is refused where it is switched on for another method
 *     changes  when it may change: FIXED (never), RUNNING (zest_tuner_set may, after the first step), RESUME
 *              (zest train --resume may). SESSION: it belongs to one session and is not kept with the run
 *     sweep    in a sweep: NEVER (its runs cannot vary it), TABLE (runs that differ in it belong to other parts
 *              of the table: task, label noise, seed), ROW (they are other rows), DATA (they see other examples:
 *              other rows, and not compared seed by seed), TUNED (a hyper-parameter: its value is chosen by dev)
 *
 * A command may start from other defaults (see cli/command.h); its help then shows those. */
#ifndef ZEST_BASE_OPTION_TABLE_H
#define ZEST_BASE_OPTION_TABLE_H

enum {
    ZEST_FOR_TUNER = 1,
    ZEST_FOR_MINIMIZE = 2,
    ZEST_FOR_TOY = 4,
    ZEST_FOR_THEORY = 8,
    ZEST_FOR_BENCH = 16,
    ZEST_FOR_REPLAY = 32,
    ZEST_FOR_INFO = 64,
    ZEST_FOR_GENERATE = 128,
    ZEST_FOR_SCORE = 256,
    ZEST_FOR_TRAIN = 512,
    ZEST_FOR_EVAL = 1024,
    ZEST_FOR_PREDICT = 2048,
    ZEST_FOR_REPORT = 4096,
    ZEST_FOR_SWEEP = 8192, /* its own; those of train it takes as lists of values, too */
    ZEST_FOR_PRETRAIN = 16384,
    ZEST_FOR_SHARPNESS = 32768,
    ZEST_FOR_PULL = 65536,
    ZEST_FOR_TOKENIZE = 1 << 20,
    ZEST_FOR_LM = 1 << 21, /* zest_lm_load of zest_lm.h; no command */
    ZEST_FOR_EXPORT = 1 << 22,
    ZEST_FOR_SAMPLING = 1 << 23, /* zest_lm_generate of zest_lm.h; no command */
    ZEST_FOR_SHELL = 1 << 30,    /* every command, but no part of a run: never kept in its options */
};

/* those that minimise a function of a vector, and all that take steps */
#define ZEST_FOR_VECTORS (ZEST_FOR_TUNER | ZEST_FOR_MINIMIZE)
#define ZEST_FOR_RUNS (ZEST_FOR_VECTORS | ZEST_FOR_TRAIN)
/* those that train a model, and all that follow a schedule */
#define ZEST_FOR_TRAINING (ZEST_FOR_TRAIN | ZEST_FOR_PRETRAIN)
#define ZEST_FOR_STEPS (ZEST_FOR_RUNS | ZEST_FOR_PRETRAIN)
/* those whose options are kept in a file */
#define ZEST_FOR_KEPT (ZEST_FOR_STEPS | ZEST_FOR_SWEEP)
/* those that know tasks */
#define ZEST_FOR_TASKS (ZEST_FOR_TRAIN | ZEST_FOR_EVAL | ZEST_FOR_PREDICT | ZEST_FOR_SHARPNESS)
/* those that divide their work over ranks */
#define ZEST_FOR_RANKED (ZEST_FOR_TRAINING | ZEST_FOR_EVAL | ZEST_FOR_PREDICT | ZEST_FOR_SHARPNESS)
/* those that know language models */
#define ZEST_FOR_MODELS                                                                     \
    (ZEST_FOR_GENERATE | ZEST_FOR_SCORE | ZEST_FOR_BENCH | ZEST_FOR_INFO | ZEST_FOR_TASKS | \
     ZEST_FOR_PRETRAIN | ZEST_FOR_LM)
#define ZEST_FOR_ALL_COMMANDS                                                                 \
    (ZEST_FOR_MINIMIZE | ZEST_FOR_TOY | ZEST_FOR_THEORY | ZEST_FOR_REPLAY | ZEST_FOR_MODELS | \
     ZEST_FOR_REPORT | ZEST_FOR_SWEEP | ZEST_FOR_PULL | ZEST_FOR_TOKENIZE | ZEST_FOR_EXPORT)

/* When an option of a run may change: see RUN above. */
enum { ZEST_CHANGES_RUNNING = 1, ZEST_CHANGES_ON_RESUME = 2, ZEST_CHANGES_BY_SESSION = 4 };

/* What an option is in a sweep: see RUN above. */
typedef enum {
    ZEST_SWEEP_NEVER,
    ZEST_SWEEP_TABLE,
    ZEST_SWEEP_ROW,
    ZEST_SWEEP_DATA,
    ZEST_SWEEP_TUNED
} zest_sweep_role;

/* --method, in the order of its choices: from the first that takes gradients on, all do. */
enum {
    ZEST_CHOICE_ZEST_N,
    ZEST_CHOICE_ZEST_BC,
    ZEST_CHOICE_MEZO,
    ZEST_CHOICE_SGD,
    ZEST_CHOICE_ADAMW,
    ZEST_CHOICE_SAM,
    ZEST_CHOICE_ESAM,
    ZEST_CHOICE_TSAM,
    ZEST_CHOICE_COUNT
};

/* Choices of other options that the code asks for, in the order of the table. */
enum { ZEST_CHOICE_SHARED, ZEST_CHOICE_BALL };                         /* --denominator */
enum { ZEST_CHOICE_CONSTANT, ZEST_CHOICE_LINEAR, ZEST_CHOICE_COSINE }; /* --schedule */
enum { ZEST_CHOICE_STOCHASTIC, ZEST_CHOICE_NEAREST };                  /* --rounding */
enum { ZEST_CHOICE_STOP, ZEST_CHOICE_CONTINUE };                       /* --on-divergence */
enum { ZEST_CHOICE_LOSS, ZEST_CHOICE_ACCURACY, ZEST_CHOICE_F1 };       /* --objective */
enum { ZEST_CHOICE_ASCENT, ZEST_CHOICE_RANDOM };                       /* --sam-search */

/* What commands, and zest_lm_options_new, start from where it differs from the table's defaults. */
#define ZEST_TRAIN_DEFAULTS "rho=0.002 lr=1e-5 batch=128 steps=5600 eval-every=100 seed=42"
#define ZEST_PRETRAIN_DEFAULTS "lr=1e-3 batch=32 steps=1000 eval-every=100 seed=42"
#define ZEST_EVAL_DEFAULTS "seed=42 step=best"

/* clang-format off */
#define ZEST_OPTION_TABLE(X)                                                                                           \
  X(METHOD, "method", 'm', CHOICE, "zest-n", CHOICES("zest-n|zest-bc|mezo|sgd|adamw|sam|esam|tsam"), "NAME", "Method", \
    ZEST_FOR_RUNS, RUN(ANY, FIXED, ROW),                                                                               \
    "optimizer: zest-n and zest-bc (naive and bias-corrected estimate of the tilted gradient) and mezo (which is t ="  \
    " 0) need forward passes only; the others need gradients (zest train only)")                                       \
  X(T, "t", 't', REAL, "1", AT_LEAST_OR(0, "auto"), "NUMBER", "Method",                                                \
    ZEST_FOR_RUNS | ZEST_FOR_TOY | ZEST_FOR_BENCH | ZEST_FOR_SHARPNESS, RUN(ZEST | TSAM, FIXED, TUNED),                \
    "tilt: 0 averages the losses of the perturbed points, larger values weight the highest ones; its effect depends "  \
    "on the scale of the loss. auto: zest-n and zest-bc choose it in every step, from the losses of the last 64")      \
  X(RHO, "rho", 'r', REAL, "0.001", POSITIVE, "NUMBER", "Method",                                                      \
    ZEST_FOR_RUNS | ZEST_FOR_TOY | ZEST_FOR_THEORY | ZEST_FOR_BENCH, RUN(FORWARD, FIXED, TUNED),                       \
    "scale of the perturbations")                                                                                      \
  X(K, "k", 'k', COUNT, "5", WITHIN(1, 1048576), "COUNT", "Method",                                                    \
    ZEST_FOR_RUNS | ZEST_FOR_TOY | ZEST_FOR_BENCH | ZEST_FOR_INFO, RUN(FORWARD | SAM | ESAM | TSAM, FIXED, TUNED),     \
    "random directions per step; each costs two evaluations of the loss")                                              \
  X(DISTRIBUTION, "distribution", 0, CHOICE, "gaussian", CHOICES("gaussian|sphere|ball|rademacher"), "NAME", "Method", \
    ZEST_FOR_RUNS | ZEST_FOR_TOY | ZEST_FOR_SHARPNESS, RUN(FORWARD, FIXED, TUNED),                                     \
    "distribution of the directions: N(0,I), uniform on the sphere or in the ball of radius sqrt(d), or random signs") \
  X(DENOMINATOR, "denominator", 0, CHOICE, "shared", CHOICES("shared|ball"), "NAME", "Method",                         \
    ZEST_FOR_RUNS | ZEST_FOR_TOY, RUN(ZEST, FIXED, TUNED),                                                             \
    "losses in the denominator of the estimator: those of the same k pairs, or of k further pairs drawn in the ball,"  \
    " as in Theorem 3.1 (needs --distribution sphere and twice the evaluations)")                                      \
  X(LR, "lr", 0, REAL, "0.01", AT_LEAST(0), "NUMBER", "Method",                                                        \
    ZEST_FOR_STEPS | ZEST_FOR_TOY | ZEST_FOR_BENCH, RUN(ANY, RUNNING, TUNED),                                          \
    "learning rate")                                                                                                   \
  X(STEP_LENGTH, "step-length", 0, CHOICE, "estimate", CHOICES("estimate|mezo|spread"), "NAME", "Method",              \
    ZEST_FOR_RUNS, RUN(FORWARD, FIXED, TUNED),                                                                         \
    "length of a step: that of the estimated gradient; rescaled to MeZO's on the same losses, so that a tilt turns "   \
    "the step and does not shorten it; or times rho over the standard deviation of the losses, as in FZOO")            \
  X(DIRECTIONS, "directions", 0, TEXT, "", NONE, "LAW", "Method",                                                      \
    ZEST_FOR_TUNER | ZEST_FOR_TRAIN, RUN(FORWARD, FIXED, ROW),                                                         \
    "dense: an independent number for every weight; lowrank:R: matrices are perturbed by sums of R products of two "   \
    "random vectors, vectors as with dense; example:R: the same, with k directions for every example of the batch, "   \
    "for the same forward passes. Empty: dense")                                                                       \
  X(COVARIANCE, "covariance", 0, TEXT, "", NONE, "LAW", "Method",                                                      \
    ZEST_FOR_TUNER | ZEST_FOR_TRAIN, RUN(FORWARD, FIXED, ROW),                                                         \
    "of low-rank directions, on the side of a layer's inputs. identity: independent numbers; inputs:S: random sums of " \
    "S of its inputs, sampled from the training examples at the start and kept in the run's folder (inputs: 64). "     \
    "Empty: identity")                                                                                                 \
  X(TILT_SCOPE, "tilt-scope", 0, CHOICE, "step", CHOICES("step|example"), "NAME", "Method",                            \
    ZEST_FOR_TUNER | ZEST_FOR_TRAIN, RUN(ZEST, FIXED, TUNED),                                                          \
    "with --directions example: what the tilt compares: all pairs of the step, or the k pairs of each example")        \
  X(SCALES, "scales", 0, TEXT, "", NONE, "PATTERN=NUMBER|FILE", "Method",                                              \
    ZEST_FOR_TUNER | ZEST_FOR_TRAIN, RUN(FORWARD, FIXED, ROW),                                                         \
    "multiply the perturbations of the tensors whose names match, and their updates, by a number; several separated "  \
    "by commas, of which the last that matches counts; * matches any characters. Or a file with a line for each")    \
  X(MAX_STEP, "max-step", 0, REAL, "0", AT_LEAST(0), "FACTOR", "Method", ZEST_FOR_RUNS, RUN(FORWARD, FIXED, TUNED),    \
    "longest step, in lengths of a perturbation, rho * sqrt(d): longer ones are scaled down to it; 0: no limit")       \
  X(MOMENTUM, "momentum", 0, REAL, "0", WITHIN(0, 0.9999), "NUMBER", "Method",                                         \
    ZEST_FOR_RUNS, RUN(FORWARD | SGD | SAM | ESAM | TSAM, FIXED, TUNED),                                               \
    "momentum; without gradients it is summed from the seeds and coefficients of the last --momentum-steps steps")     \
  X(MOMENTUM_STEPS, "momentum-steps", 0, COUNT, "10", WITHIN(1, 1000), "STEPS", "Method",                              \
    ZEST_FOR_RUNS, RUN(FORWARD, FIXED, TUNED),                                                                         \
    "steps that the momentum of zest-n, zest-bc and mezo sums up; an update costs as many times k directions")         \
  X(SCHEDULE, "schedule", 0, CHOICE, "constant", CHOICES("constant|linear|cosine"), "NAME", "Method",                  \
    ZEST_FOR_STEPS, RUN(ANY, RUNNING, TUNED),                                                                          \
    "learning-rate schedule after the warm-up")                                                                        \
  X(WARMUP, "warmup", 0, COUNT, "0", AT_LEAST(0), "STEPS", "Method", ZEST_FOR_STEPS, RUN(ANY, RUNNING, TUNED),         \
    "steps of linear warm-up of the learning rate")                                                                    \
  X(FINAL_LR, "final-lr", 0, REAL, "0", WITHIN(0, 1), "FRACTION", "Method", ZEST_FOR_STEPS, RUN(ANY, RUNNING, TUNED),  \
    "learning rate at the end of the linear and cosine schedules, as a fraction of --lr")                              \
  X(WEIGHT_DECAY, "weight-decay", 0, REAL, "0", AT_LEAST(0), "NUMBER", "Method",                                       \
    ZEST_FOR_STEPS, RUN(ANY, FIXED, TUNED),                                                                            \
    "decoupled weight decay: every step multiplies the weights by 1 - lr * weight-decay")                              \
  X(ROUNDING, "rounding", 0, CHOICE, "stochastic", CHOICES("stochastic|nearest"), "NAME", "Method",                    \
    ZEST_FOR_STEPS, RUN(ANY, FIXED, ROW),                                                                              \
    "rounding of 16-bit weights after an update; with nearest, most small updates are lost")                           \
  X(SEED, "seed", 's', SEED, "1", NONE, "NUMBER", "Method",                                                            \
    ZEST_FOR_RUNS | ZEST_FOR_TOY | ZEST_FOR_THEORY | ZEST_FOR_BENCH | ZEST_FOR_TASKS | ZEST_FOR_PRETRAIN |             \
    ZEST_FOR_GENERATE | ZEST_FOR_SAMPLING, RUN(ANY, FIXED, TABLE),                                                     \
    "random seed; of a training run also the seed of its train/dev split")                                             \
  X(STEPS, "steps", 'n', COUNT, "1000", AT_LEAST(0), "COUNT", "Stopping",                                              \
    ZEST_FOR_STEPS | ZEST_FOR_TOY | ZEST_FOR_BENCH, RUN(ANY, RUNNING | RESUME, TUNED),                                 \
    "maximum number of steps")                                                                                         \
  X(EVALS, "evals", 0, COUNT, "0", AT_LEAST(0), "COUNT", "Stopping", ZEST_FOR_VECTORS, RUN(ANY, RUNNING, NEVER),       \
    "maximum number of evaluations of the loss; 0: no limit")                                                          \
  X(SECONDS, "seconds", 0, REAL, "0", AT_LEAST(0), "SECONDS", "Stopping",                                              \
    ZEST_FOR_STEPS, RUN(ANY, RUNNING | RESUME, TUNED),                                                                 \
    "time limit, checked after each step and counted anew after --resume; 0: no limit")                                \
  X(TARGET, "target", 0, REAL, "-inf", NONE, "LOSS", "Stopping", ZEST_FOR_VECTORS, RUN(ANY, RUNNING, NEVER),           \
    "stop when the loss of a step is at most this")                                                                    \
  X(PATIENCE, "patience", 0, COUNT, "0", AT_LEAST(0), "STEPS", "Stopping",                                             \
    ZEST_FOR_STEPS, RUN(ANY, RUNNING | RESUME, TUNED),                                                                 \
    "early stopping: stop after this many steps without a better loss (train: without a better dev value); 0: off")    \
  X(TOLERANCE, "tolerance", 0, REAL, "0", AT_LEAST(0), "LOSS", "Stopping", ZEST_FOR_VECTORS, RUN(ANY, RUNNING, NEVER), \
    "smallest decrease of the loss that counts as an improvement for --patience")                                      \
  X(EVAL_EVERY, "eval-every", 0, COUNT, "0", AT_LEAST(0), "STEPS", "Stopping",                                         \
    ZEST_FOR_STEPS, RUN(ANY, RUNNING, TUNED),                                                                          \
    "steps between evaluations: of the dev examples (train), or of the loss at x itself (minimize), which --target "   \
    "and --patience then use; 0: minimize uses the mean loss of the perturbed points of every step")                   \
  X(MAX_BAD, "max-bad-steps", 0, COUNT, "20", AT_LEAST(1), "STEPS", "Stopping",                                        \
    ZEST_FOR_STEPS, RUN(ANY, RUNNING, TUNED),                                                                          \
    "stop after this many steps in a row without a finite pair of losses")                                             \
  X(ON_DIVERGENCE, "on-divergence", 0, CHOICE, "stop", CHOICES("stop|continue"), "NAME", "Stopping",                   \
    ZEST_FOR_TRAINING, RUN(ANY, RESUME, TUNED),                                                                        \
    "what to do when the training loss stays above ten times that of the first step (and 10 above it) for 10 steps")   \
  X(EPOCHS, "epochs", 0, COUNT, "0", AT_LEAST(0), "COUNT", "Stopping", ZEST_FOR_TRAIN, RUN(ANY, RESUME, TUNED),        \
    "passes over the training examples, instead of --steps; 0: --steps counts. Without either, masked models train "   \
    "for 700 epochs with 512 shots of a built-in task, and for 200 with a gradient method")                            \
  X(SELECT, "select", 0, CHOICE, "task", CHOICES("task|accuracy|f1|em|loss"), "NAME", "Stopping",                      \
    ZEST_FOR_TRAIN, RUN(ANY, FIXED, ROW),                                                                              \
    "metric on the dev examples that selects the best weights and counts for --patience; task: the task's own")        \
  X(OBJECTIVE, "objective", 0, CHOICE, "loss", CHOICES("loss|accuracy|f1"), "NAME", "Method",                          \
    ZEST_FOR_TRAIN, RUN(ANY, FIXED, ROW),                                                                              \
    "what training minimises: the loss, or 1 - accuracy or 1 - F1 of the batch, which have no gradient")               \
  X(MODEL, "model", 0, TEXT, "", NONE, "PATH", "Model",                                                                \
    ZEST_FOR_TASKS | ZEST_FOR_REPLAY | ZEST_FOR_PRETRAIN | ZEST_FOR_LM | ZEST_FOR_EXPORT, RUN(ANY, RESUME, DATA),      \
    "model to start from: a Hugging Face folder, a GGUF file, or ORG/NAME after `zest pull ORG/NAME`; of a run: "      \
    "where its model is now, if it was moved")                                                                         \
  X(REVISION, "revision", 0, TEXT, "main", NONE, "NAME", "Model", ZEST_FOR_PULL, NO_RUN,                               \
    "branch, tag or commit of the model's repository")                                                                 \
  X(FILE, "file", 0, TEXT, "", NONE, "NAME", "Model", ZEST_FOR_PULL, NO_RUN,                                           \
    "download only this file of the repository, for example one of its GGUF files")                                    \
  X(TASK, "task", 0, TEXT, "", NONE, "NAME|FILE", "Data", ZEST_FOR_TASKS, RUN(ANY, RESUME, TABLE),                     \
    "built-in task (zest train --task list lists them) or a task file of your own")                                    \
  X(DATA, "data", 0, TEXT, "", NONE, "DIR", "Data", ZEST_FOR_TASKS, RUN(ANY, RESUME, DATA),                            \
    "folder with the data files of the task; a task file names its own")                                               \
  X(SHOTS, "shots", 0, COUNT, "0", WITHIN(0, 1048576), "COUNT", "Data", ZEST_FOR_TASKS, RUN(ANY, FIXED, DATA),         \
    "training examples per class, and as many for dev; 0: 512 for masked models, --train-size rows for causal ones")   \
  X(TRAIN_SIZE, "train-size", 0, COUNT, "0", WITHIN(0, 4294967295), "ROWS", "Data",                                    \
    ZEST_FOR_TASKS, RUN(ANY, FIXED, DATA),                                                                             \
    "training rows to sample, instead of --shots; 0: 1000")                                                            \
  X(DEV_SIZE, "dev-size", 0, COUNT, "0", WITHIN(0, 4294967295), "ROWS", "Data", ZEST_FOR_TASKS, RUN(ANY, FIXED, DATA), \
    "dev rows to sample; 0: 500, or what the task says, or a fifth of your own rows")                                  \
  X(TEST_SIZE, "test-size", 0, COUNT, "0", WITHIN(0, 4294967295), "ROWS", "Data",                                      \
    ZEST_FOR_TASKS, RUN(ANY, FIXED, DATA),                                                                             \
    "maximum number of test rows; 0: 1000")                                                                            \
  X(LABEL_NOISE, "label-noise", 0, REAL, "0", WITHIN(0, 1), "FRACTION", "Data",                                        \
    ZEST_FOR_TASKS, RUN(ANY, FIXED, TABLE),                                                                            \
    "fraction of the training labels that is flipped to another class at random")                                      \
  X(NOISY_DEV, "noisy-dev", 0, FLAG, "no", NONE, "", "Data", ZEST_FOR_TASKS, RUN(ANY, FIXED, DATA),                    \
    "flip as many of the dev labels, too")                                                                             \
  X(START_TOKEN, "start-token", 0, TEXT, "", NONE, "ID", "Data", ZEST_FOR_TASKS, RUN(ANY, FIXED, DATA),                \
    "id of the first token of causal prompts, or none; empty: the tokenizer's own. MeZO's code uses 0 for OPT")        \
  X(SPLIT, "split", 0, CHOICE, "test", CHOICES("train|dev|test"), "NAME", "Data",                                      \
    ZEST_FOR_EVAL | ZEST_FOR_PREDICT | ZEST_FOR_SHARPNESS, NO_RUN,                                                     \
    "which examples of the task to use")                                                                               \
  X(INPUT, "input", 'i', TEXT, "", NONE, "FILE", "Data", ZEST_FOR_PREDICT, NO_RUN,                                     \
    "file with rows to answer, which need no label; - for standard input")                                             \
  X(INPUT_FORMAT, "input-format", 0, CHOICE, "auto", CHOICES("auto|lines|tsv|csv|jsonl"), "NAME", "Data",              \
    ZEST_FOR_PREDICT, NO_RUN,                                                                                          \
    "format of the input; auto: by the file's ending or its first line; lines: every line is a text")                  \
  X(TRAIN_ONLY, "train-only", 0, TEXT, "", NONE, "PATTERN", "Method",                                                  \
    ZEST_FOR_TRAINING | ZEST_FOR_SHARPNESS | ZEST_FOR_LM, RUN(ANY, FIXED, ROW),                                        \
    "train (sharpness: perturb) only the tensors whose names match; several patterns separated by commas, * matches "  \
    "any characters")                                                                                                  \
  X(FREEZE, "freeze", 0, TEXT, "", NONE, "PATTERN", "Method",                                                          \
    ZEST_FOR_TRAINING | ZEST_FOR_SHARPNESS | ZEST_FOR_LM, RUN(ANY, FIXED, ROW),                                        \
    "do not change the tensors whose names match")                                                                     \
  X(UNTIE_HEAD, "untie-head", 0, FLAG, "no", NONE, "", "Method",                                                       \
    ZEST_FOR_TRAINING | ZEST_FOR_LM, RUN(ANY, FIXED, ROW),                                                             \
    "give an output head that is tied to the embeddings its own weights, as MeZO's code does")                         \
  X(CLIP, "clip", 0, REAL, "0", AT_LEAST(0), "NORM", "Gradients", ZEST_FOR_TRAINING, RUN(GRADIENT, FIXED, TUNED),      \
    "clip gradients to this norm; 0: off")                                                                             \
  X(RADIUS, "radius", 0, REAL, "0.01", AT_LEAST(0), "NUMBER", "Gradients",                                             \
    ZEST_FOR_TRAIN, RUN(SAM | ESAM | TSAM, FIXED, TUNED),                                                              \
    "perturbation radius of sam, esam and tsam")                                                                       \
  X(SAM_SEARCH, "sam-search", 0, CHOICE, "ascent", CHOICES("ascent|random"), "NAME", "Gradients",                      \
    ZEST_FOR_TRAIN, RUN(SAM, FIXED, ROW),                                                                              \
    "where sam takes its gradient: --radius uphill along the gradient at x, or at that of k random points on the "     \
    "sphere of this radius which has the largest loss")                                                                \
  X(ASCENT, "ascent", 0, REAL, "0", AT_LEAST(0), "LENGTH", "Gradients", ZEST_FOR_TRAIN, RUN(TSAM, FIXED, TUNED),       \
    "tsam: length of a gradient-ascent step from each perturbed point, at twice the gradients; 0: none")               \
  X(BETA1, "beta1", 0, REAL, "0.9", WITHIN(0, 0.9999), "NUMBER", "Gradients",                                          \
    ZEST_FOR_TRAINING, RUN(ADAMW, FIXED, TUNED),                                                                       \
    "adamw: decay rate of the first moment")                                                                           \
  X(BETA2, "beta2", 0, REAL, "0.999", WITHIN(0, 0.999999), "NUMBER", "Gradients",                                      \
    ZEST_FOR_TRAINING, RUN(ADAMW, FIXED, TUNED),                                                                       \
    "adamw: decay rate of the second moment")                                                                          \
  X(ADAM_EPSILON, "adam-epsilon", 0, REAL, "1e-8", POSITIVE, "NUMBER", "Gradients",                                    \
    ZEST_FOR_TRAINING, RUN(ADAMW, FIXED, TUNED),                                                                       \
    "adamw: added to the square root of the second moment")                                                            \
  X(DROPOUT, "dropout", 0, REAL, "0", WITHIN(0, 0.9), "RATE", "Gradients",                                             \
    ZEST_FOR_TRAINING, RUN(GRADIENT, FIXED, TUNED),                                                                    \
    "dropout rate in training, for model families that have dropout")                                                  \
  X(RECOMPUTE, "recompute", 0, FLAG, "no", NONE, "", "Gradients", ZEST_FOR_TRAINING, RUN(GRADIENT, RESUME, TUNED),     \
    "recompute activations in the backward pass: less memory, a third more time, the same bits")                       \
  X(ACCUMULATE, "accumulate", 0, COUNT, "1", WITHIN(1, 65536), "PARTS", "Gradients", ZEST_FOR_TRAINING,                \
    RUN(GRADIENT, FIXED, TUNED),                                                                                       \
    "compute the gradient of a batch in this many parts, which are added in their order: the activations of a part "   \
    "at a time. Several ranks divide the parts; results do not depend on the number of ranks")                         \
  X(SAVE_EVERY, "save-every", 0, COUNT, "200", AT_LEAST(0), "STEPS", "Gradients",                                      \
    ZEST_FOR_TRAINING, RUN(GRADIENT, RESUME, TUNED),                                                                   \
    "steps between checkpoints of weights and optimizer state, besides those at evaluations; a resumed run repeats "   \
    "the steps after the last one")                                                                                    \
  X(CORPUS, "text", 0, TEXT, "", NONE, "FILE", "Data", ZEST_FOR_PRETRAIN, RUN(ANY, RESUME, NEVER),                     \
    "training text: plain UTF-8, documents separated by blank lines")                                                  \
  X(LENGTH, "length", 0, COUNT, "128", WITHIN(8, 1048576), "TOKENS", "Data", ZEST_FOR_PRETRAIN, NO_RUN,                \
    "tokens per sequence, special tokens included")                                                                    \
  X(PLAIN_TEXT, "text", 0, TEXT, "", NONE, "FILE", "Data", ZEST_FOR_EVAL, NO_RUN,                                      \
    "measure the perplexity of this text file, plain UTF-8, instead of a task")                                        \
  X(WINDOW, "window", 0, COUNT, "0", WITHIN(0, 1048576), "TOKENS", "Data", ZEST_FOR_EVAL, NO_RUN,                      \
    "with --text: tokens that the model sees at once; 0: as many as it reads, at most 2048")                           \
  X(STRIDE, "stride", 0, COUNT, "0", WITHIN(0, 1048576), "TOKENS", "Data", ZEST_FOR_EVAL, NO_RUN,                      \
    "with --text: tokens from one window to the next; 0: half a window")                                               \
  X(MASK, "mask", 0, REAL, "0.15", WITHIN(0.01, 0.9), "FRACTION", "Data", ZEST_FOR_PRETRAIN, NO_RUN,                   \
    "masked models: fraction of tokens to predict; of these 80 % are masked, 10 % replaced by random tokens, 10 % "    \
    "kept")                                                                                                            \
  X(HELD_OUT, "held-out", 0, REAL, "0.05", WITHIN(0, 0.9), "FRACTION", "Data", ZEST_FOR_PRETRAIN, NO_RUN,              \
    "fraction of the documents that is held out to measure the loss")                                                  \
  X(PROMPT, "prompt", 'p', TEXT, "", NONE, "TEXT", "Model", ZEST_FOR_GENERATE, NO_RUN,                                 \
    "prompt to continue; without it every line of standard input is a prompt")                                         \
  X(TEXT, "text", 0, TEXT, "", NONE, "TEXT", "Model", ZEST_FOR_SCORE | ZEST_FOR_TOKENIZE | ZEST_FOR_PREDICT, NO_RUN,   \
    "text to work on; without it every line of standard input is a text")                                              \
  X(IDS, "ids", 0, FLAG, "no", NONE, "", "Model", ZEST_FOR_TOKENIZE, NO_RUN,                                           \
    "print only the ids, one text per line")                                                                           \
  X(COUNT_TOKENS, "count", 0, FLAG, "no", NONE, "", "Model", ZEST_FOR_TOKENIZE, NO_RUN,                                \
    "print only the number of tokens, one text per line")                                                              \
  X(DECODE, "decode", 0, FLAG, "no", NONE, "", "Model", ZEST_FOR_TOKENIZE, NO_RUN,                                     \
    "the reverse: texts are token ids separated by blanks")                                                            \
  X(SPECIAL, "special", 0, FLAG, "yes", NONE, "", "Model", ZEST_FOR_TOKENIZE, NO_RUN,                                  \
    "add the model's special tokens around each text (with --decode: show them); --no-special: leave them out")        \
  X(CHAT, "chat", 0, FLAG, "no", NONE, "", "Model", ZEST_FOR_GENERATE, NO_RUN,                                         \
    "converse in the text of the model's chat template: --prompt or each line of standard input is a turn")            \
  X(SYSTEM, "system", 0, TEXT, "", NONE, "TEXT", "Model", ZEST_FOR_GENERATE, NO_RUN,                                   \
    "with --chat: the system message that the conversation begins with")                                               \
  X(MAX_TOKENS, "max-tokens", 0, COUNT, "64", WITHIN(1, 1048576), "COUNT", "Model", ZEST_FOR_GENERATE, NO_RUN,         \
    "maximum number of new tokens")                                                                                    \
  X(TEMPERATURE, "temperature", 0, REAL, "0", WITHIN(0, 1000), "NUMBER", "Sampling",                                   \
    ZEST_FOR_GENERATE | ZEST_FOR_SAMPLING, NO_RUN,                                                                     \
    "divide logits by this and draw the next token at random; 0: take the most probable token")                        \
  X(TOP_K, "top-k", 0, COUNT, "0", WITHIN(0, 4294967295), "COUNT", "Sampling",                                         \
    ZEST_FOR_GENERATE | ZEST_FOR_SAMPLING, NO_RUN,                                                                     \
    "draw from the k most probable tokens only; 0: from all")                                                          \
  X(TOP_P, "top-p", 0, REAL, "1", WITHIN(0, 1), "FRACTION", "Sampling", ZEST_FOR_GENERATE | ZEST_FOR_SAMPLING, NO_RUN, \
    "draw from the fewest most probable tokens that have at least this probability together")                          \
  X(MIN_P, "min-p", 0, REAL, "0", WITHIN(0, 1), "FRACTION", "Sampling", ZEST_FOR_GENERATE | ZEST_FOR_SAMPLING, NO_RUN, \
    "draw from tokens with at least this times the probability of the most probable one")                              \
  X(REPETITION_PENALTY, "repetition-penalty", 0, REAL, "1", WITHIN(0.01, 100), "NUMBER", "Sampling",                   \
    ZEST_FOR_GENERATE | ZEST_FOR_SAMPLING, NO_RUN,                                                                     \
    "divide logits of tokens that the text already has by this (multiply negative ones)")                              \
  X(COMPUTE, "compute", 0, CHOICE, "f32", CHOICES("f32|bf16|f16"), "NAME", "Model",                                    \
    ZEST_FOR_MODELS, RUN(ANY, FIXED, ROW),                                                                             \
    "arithmetic of matrix products: fp32, or bf16 or fp16 operands with fp32 accumulation; f16 needs a GPU")           \
  X(DEVICE, "device", 0, CHOICE, "cpu", CHOICES("cpu|cuda"), "NAME", "Model", ZEST_FOR_MODELS, RUN(ANY, RESUME, ROW),  \
    "where the model runs; cuda needs an NVIDIA GPU and a build that found nvcc")                                      \
  X(WEIGHTS, "weights", 0, CHOICE, "stored", CHOICES("stored|f32|bf16|f16|quantized"), "NAME", "Model",                \
    ZEST_FOR_MODELS, RUN(ANY, FIXED, ROW),                                                                             \
    "data type of the weights in memory; stored: 16-bit weights as in the file, all others as f32; quantized: the "      \
    "same, but blocks of a GGUF file stay as they are, which generate does by default, and no weight can be trained")    \
  X(SHAPE, "shape", 0, TEXT, "roberta-base", NONE, "NAME", "Model", ZEST_FOR_BENCH, NO_RUN,                            \
    "model architecture to measure, with random weights")                                                              \
  X(BATCH, "batch", 'b', COUNT, "16", WITHIN(1, 1048576), "COUNT", "Model",                                            \
    ZEST_FOR_BENCH | ZEST_FOR_INFO | ZEST_FOR_TRAINING, RUN(ANY, FIXED, TUNED),                                        \
    "batch size: sequences or examples")                                                                               \
  X(TOKENS, "tokens", 0, COUNT, "64", WITHIN(1, 1048576), "COUNT", "Model", ZEST_FOR_BENCH | ZEST_FOR_INFO, NO_RUN,    \
    "tokens per sequence")                                                                                             \
  X(LENGTHS, "lengths", 0, CHOICE, "equal", CHOICES("equal|sst2"), "NAME", "Model", ZEST_FOR_BENCH, NO_RUN,            \
    "sequence lengths: all --tokens, or distributed like the prompts of SST-2")                                        \
  X(LIVE, "live", 0, COUNT, "0", WITHIN(0, 1048576), "PAIRS", "Model",                                                 \
    ZEST_FOR_BENCH | ZEST_FOR_INFO | ZEST_FOR_TRAIN | ZEST_FOR_SHARPNESS | ZEST_FOR_LM, RUN(ANY, RESUME, TUNED),       \
    "pairs of perturbed models (lanes) that are evaluated at once; more need more memory. 0: all k on a CPU, where "   \
    "results do not depend on it; on a GPU the fewest that keep it busy, and the last digits of losses may change")    \
  X(THREADS, "threads", 'j', COUNT, "0", WITHIN(0, 1024), "COUNT", "Running",                                          \
    ZEST_FOR_RUNS | ZEST_FOR_MODELS | ZEST_FOR_SWEEP | ZEST_FOR_EXPORT, RUN(ANY, RUNNING | RESUME, NEVER),             \
    "CPU threads; 0: all cores. Results do not depend on it")                                                          \
  X(PRESET, "preset", 0, TEXT, "paper", NONE, "NAME", "Method", ZEST_FOR_TOY | ZEST_FOR_SWEEP, NO_RUN,                 \
    "values of options that are not given. toy: paper (the paper's settings) or clean (settings in which its claim "   \
    "shows clearly); sweep: paper-table-2, paper-table-3, paper-table-4, paper-figure-3, forward-budget or "           \
    "forward-budget-cpu")                                                                                              \
  X(START_AT, "start-at", 0, LIST, "0,1", NONE, "X,Y", "Method", ZEST_FOR_TOY, NO_RUN,                                 \
    "starting point")                                                                                                  \
  X(GD_STEPS, "gd-steps", 0, COUNT, "50", WITHIN(0, 1000000), "COUNT", "Method", ZEST_FOR_TOY, NO_RUN,                 \
    "steps of gradient descent, for comparison")                                                                       \
  X(GD_LR, "gd-lr", 0, REAL, "0.1", AT_LEAST(0), "NUMBER", "Method", ZEST_FOR_TOY, NO_RUN,                             \
    "learning rate of gradient descent")                                                                               \
  X(SEEDS, "seeds", 0, COUNT, "10", WITHIN(1, 10000), "COUNT", "Method", ZEST_FOR_TOY, NO_RUN,                         \
    "runs of each method, with seeds from --seed upwards")                                                             \
  X(VALLEYS, "valleys", 0, COUNT, "1", WITHIN(1, 10000), "COUNT", "Method", ZEST_FOR_TOY, NO_RUN,                      \
    "number of valleys, whose losses are added up")                                                                    \
  X(MESH, "mesh", 0, LIST, "0.3,0.25", NONE, "WIDTH,HEIGHT", "Method", ZEST_FOR_TOY, NO_RUN,                           \
    "size of the triangles of the linear toy")                                                                         \
  X(EXEC, "exec", 'x', TEXT, "", NONE, "PROGRAM", "Objective", ZEST_FOR_MINIMIZE, NO_RUN,                              \
    "program that computes the loss, run by the shell: it reads points and prints losses")                             \
  X(DIM, "dim", 'd', COUNT, "0", AT_LEAST(0), "COUNT", "Objective", ZEST_FOR_MINIMIZE | ZEST_FOR_THEORY, NO_RUN,       \
    "number of dimensions; theory: 0 for the number of eigenvalues")                                                   \
  X(EIGENVALUES, "eigenvalues", 0, LIST, "", NONE, "LIST", "Objective", ZEST_FOR_THEORY, NO_RUN,                       \
    "eigenvalues of the Hessian; further directions, up to --dim, have eigenvalue 0")                                  \
  X(GRADIENT, "gradient", 0, LIST, "", NONE, "LIST", "Objective", ZEST_FOR_THEORY, NO_RUN,                             \
    "gradient along the same eigenvectors, or one number for all of them; 0 when only eigenvalues are given")          \
  X(VERSUS, "versus", 0, LIST, "", NONE, "LIST", "Objective", ZEST_FOR_THEORY, NO_RUN,                                 \
    "eigenvalues of a second landscape to compare with, as many; none when only --eigenvalues is given")               \
  X(TILTS, "tilts", 0, LIST, "0,0.1,0.3,1,3,10,100", NONE, "LIST", "Method", ZEST_FOR_THEORY, NO_RUN,                  \
    "values of t in the table")                                                                                        \
  X(EPSILON, "epsilon", 0, REAL, "0.1", POSITIVE, "NUMBER", "Method", ZEST_FOR_THEORY, NO_RUN,                         \
    "largest allowed difference between R_t and R_0 in the bound on t")                                                \
  X(SAMPLES, "samples", 0, COUNT, "0", WITHIN(0, 4294967296), "COUNT", "Method",                                       \
    ZEST_FOR_THEORY | ZEST_FOR_SHARPNESS, NO_RUN,                                                                      \
    "random directions: theory checks R_t with them, sharpness draws as many at each radius; 0: none")                 \
  X(RADII, "radii", 0, LIST, "", NONE, "LIST", "Method", ZEST_FOR_SHARPNESS, NO_RUN,                                   \
    "lengths |e| = rho sqrt(d) of the perturbations; empty: those of rho = 0.001, 0.002, 0.003, 0.004 and 0.005")      \
  X(ANTITHETIC, "antithetic", 0, FLAG, "no", NONE, "", "Method", ZEST_FOR_SHARPNESS, NO_RUN,                           \
    "draw perturbations in pairs, x + e and x - e: a better mean, but no interval for the standard deviation")         \
  X(SAMPLE_SEED, "sample-seed", 0, SEED, "1", NONE, "NUMBER", "Method", ZEST_FOR_SHARPNESS, NO_RUN,                    \
    "random seed of the perturbations, the probes and the sample of examples; the same for all models compared")       \
  X(EXAMPLES, "examples", 0, COUNT, "1024", WITHIN(1, 4294967295), "COUNT", "Data", ZEST_FOR_SHARPNESS, NO_RUN,        \
    "maximum number of examples to measure on, sampled with --sample-seed")                                            \
  X(TOP_EXAMPLES, "top-examples", 0, COUNT, "0", WITHIN(0, 4294967295), "COUNT", "Data", ZEST_FOR_SHARPNESS, NO_RUN,   \
    "examples for eigenvalues and trace, which need gradients; 0: as many as --examples")                              \
  X(NAMES, "names", 0, TEXT, "", NONE, "LIST", "Running", ZEST_FOR_SHARPNESS, NO_RUN,                                  \
    "names of the runs and models in the figure, in their order, separated by commas; those with the same name are "   \
    "drawn as one, with means and standard errors. Without it: their folders")                                         \
  X(TOP, "top", 0, COUNT, "5", WITHIN(0, 1000), "COUNT", "Method", ZEST_FOR_SHARPNESS, NO_RUN,                         \
    "number of eigenvalues of the Hessian, largest first; 0: none")                                                    \
  X(LANCZOS_STEPS, "lanczos-steps", 0, COUNT, "0", WITHIN(0, 1000000), "COUNT", "Method", ZEST_FOR_SHARPNESS, NO_RUN,  \
    "maximum number of Hessian-vector products, two gradients each; 0: 2 top + 10. More than that restart in the "     \
    "same memory")                                                                                                     \
  X(TRACE_SAMPLES, "trace-samples", 0, COUNT, "10", WITHIN(0, 1000000), "COUNT", "Method", ZEST_FOR_SHARPNESS, NO_RUN, \
    "random vectors to estimate the trace of the Hessian; 0: none")                                                    \
  X(DIFFERENCE_STEP, "difference-step", 0, REAL, "0", AT_LEAST(0), "LENGTH", "Method", ZEST_FOR_SHARPNESS, NO_RUN,     \
    "step length of finite differences; 0: chosen where two steps agree best")                                         \
  X(FORWARD_ONLY, "forward-only", 0, FLAG, "no", NONE, "", "Method", ZEST_FOR_SHARPNESS, NO_RUN,                       \
    "use no gradients: the trace from second differences of losses, and no eigenvalues")                               \
  X(SLICE, "slice", 0, COUNT, "0", WITHIN(0, 2), "DIMENSIONS", "Method", ZEST_FOR_SHARPNESS, NO_RUN,                   \
    "also evaluate the loss on a line (1) or a plane (2) through the weights")                                         \
  X(ALONG, "along", 0, CHOICE, "eigen", CHOICES("eigen|seeded"), "NAME", "Method", ZEST_FOR_SHARPNESS, NO_RUN,         \
    "directions of the slice: the first eigenvectors, or random vectors")                                              \
  X(POINTS, "points", 0, COUNT, "0", WITHIN(0, 1001), "COUNT", "Method", ZEST_FOR_SHARPNESS, NO_RUN,                   \
    "points of a slice per dimension; 0: 41 on a line, 17 in a plane")                                                 \
  X(SPAN, "span", 0, REAL, "0", AT_LEAST(0), "LENGTH", "Method", ZEST_FOR_SHARPNESS, NO_RUN,                           \
    "a slice reaches from -span to span; 0: as far as the loss changes clearly, at most the largest radius")           \
  X(START, "start", 0, TEXT, "0", NONE, "VALUE|FILE", "Objective", ZEST_FOR_MINIMIZE, NO_RUN,                          \
    "starting point: one number for all elements, or a text file of numbers")                                          \
  X(FORMAT, "format", 0, CHOICE, "text", CHOICES("text|f64|f32"), "NAME", "Objective", ZEST_FOR_MINIMIZE, NO_RUN,      \
    "how points are sent to the program: lines of decimal numbers, or raw little-endian doubles or floats")            \
  X(ANSWER_FORMAT, "format", 0, CHOICE, "jsonl", CHOICES("jsonl|tsv"), "NAME", "Running", ZEST_FOR_PREDICT, NO_RUN,    \
    "output format: one JSON object per line, or a table with a header")                                               \
  X(JOBS, "jobs", 0, COUNT, "1", WITHIN(1, 1024), "COUNT", "Running", ZEST_FOR_MINIMIZE | ZEST_FOR_SWEEP, NO_RUN,      \
    "copies of the program, or runs of a sweep, that run in parallel; results do not depend on it")                    \
  X(RANKS, "ranks", 0, COUNT, "1", WITHIN(1, 1000000), "COUNT", "Running", ZEST_FOR_SWEEP, NO_RUN,                      \
    "processes that divide each run of a sweep, started with --launcher; results do not depend on it")                 \
  X(LAUNCHER, "launcher", 0, TEXT, "mpirun --bind-to none", NONE, "COMMAND", "Running", ZEST_FOR_SWEEP, NO_RUN,        \
    "what starts the processes of a run if --ranks is more than 1: -n and their number follow; srun under Slurm")      \
  X(TIMEOUT, "timeout", 0, REAL, "0", AT_LEAST(0), "SECONDS", "Objective", ZEST_FOR_MINIMIZE, NO_RUN,                  \
    "time limit for one evaluation; 0: no limit")                                                                      \
  X(RESUME, "resume", 0, TEXT, "", NONE, "RUN", "Running",                                                             \
    ZEST_FOR_MINIMIZE | ZEST_FOR_TRAINING | ZEST_FOR_SWEEP, RUN(ANY, RESUME, NEVER),                                   \
    "continue the run or sweep in this folder, with its options")                                                      \
  X(SCALE, "scale", 0, REAL, "1", POSITIVE, "FACTOR", "Stopping", ZEST_FOR_SWEEP, NO_RUN,                              \
    "multiply --steps of every run by this, for a quick look; nothing else changes")                                   \
  X(KEEP, "keep", 0, CHOICE, "all", CHOICES("all|best|none"), "NAME", "Running", ZEST_FOR_SWEEP, NO_RUN,               \
    "weights that the finished runs of a sweep keep: best and last, best only, or none. Those of methods without "     \
    "gradients can be rebuilt from the journal")                                                                       \
  X(COMPARE, "compare", 0, TEXT, "", NONE, "NAMES", "Running", ZEST_FOR_SWEEP, NO_RUN,                                 \
    "hyper-parameters, separated by commas (radius,t), whose values each get a table row instead of being selected "   \
    "by the dev value")                                                                                                \
  X(DRY_RUN, "dry-run", 0, FLAG, "no", NONE, "", "Running",                                                            \
    ZEST_FOR_SWEEP | ZEST_FOR_SHARPNESS | ZEST_FOR_TRAINING, RUN(ANY, SESSION, NEVER),                                 \
    "write nothing: train loads and checks everything, takes one or two steps and prints the plan of the run with "    \
    "its time and memory, sharpness estimates its time and memory, a sweep lists its runs")                            \
  X(OUT, "out", 'o', TEXT, "", NONE, "PATH", "Running",                                                                \
    ZEST_FOR_MINIMIZE | ZEST_FOR_TOY | ZEST_FOR_THEORY | ZEST_FOR_REPLAY | ZEST_FOR_TRAINING | ZEST_FOR_PREDICT |      \
    ZEST_FOR_REPORT | ZEST_FOR_SWEEP | ZEST_FOR_SHARPNESS | ZEST_FOR_PULL, NO_RUN,                                     \
    "output: a folder for train, pretrain, minimize, sweep, pull and replay of a model; a file for the other "         \
    "commands")                                                                                                        \
  X(FIGURES, "figures", 0, TEXT, "", NONE, "DIR", "Running", ZEST_FOR_REPORT, NO_RUN,                                  \
    "also write each figure as an SVG file into this folder")                                                          \
  X(STEP, "step", 0, TEXT, "last", NONE, "STEP", "Running",                                                            \
    ZEST_FOR_REPLAY | ZEST_FOR_EVAL | ZEST_FOR_PREDICT | ZEST_FOR_SHARPNESS | ZEST_FOR_EXPORT, NO_RUN,                 \
    "step of the run: a number from 0 (the start), last, or best")                                                     \
  X(RANK_TIMEOUT, "rank-timeout", 0, REAL, "600", AT_LEAST(0), "SECONDS", "Running",                                   \
    ZEST_FOR_RANKED, RUN(ANY, RESUME | SESSION, NEVER),                                                                \
    "with mpirun or srun: how long a rank waits for the others before the command ends and names those that did not "  \
    "come; 0: for ever")                                                                                               \
  X(BROADCAST, "broadcast", 0, FLAG, "no", NONE, "", "Running",                                                        \
    ZEST_FOR_RANKED, RUN(ANY, RESUME | SESSION, NEVER),                                                                \
    "with mpirun or srun: only rank 0 has the files of the model, the data and the run; it sends the others what they "\
    "need, and the weights")                                                                                           \
  X(GGUF, "gguf", 0, TEXT, "", NONE, "FILE", "Running", ZEST_FOR_EXPORT, NO_RUN,                                       \
    "GGUF file to write, for llama.cpp and programs built on it")                                                      \
  X(GGUF_TYPE, "type", 0, CHOICE, "stored",                                                                            \
    CHOICES("stored|f32|f16|bf16|q8_0|q6_k|q5_k|q5_1|q5_0|q4_k|q4_1|q4_0|q3_k|q2_k"), "NAME", "Running",               \
    ZEST_FOR_EXPORT, NO_RUN,                                                                                           \
    "type of the matrices; vectors stay f32. stored: 16-bit weights as they are, all others f32")                      \
  X(ALLOW_CHANGED, "allow-changed-files", 0, FLAG, "no", NONE, "", "Data",                                             \
    ZEST_FOR_TASKS | ZEST_FOR_PRETRAIN | ZEST_FOR_REPLAY, RUN(ANY, RESUME | SESSION, TUNED),                           \
    "use a run's data and model files even if they have changed since it began")                                       \
  X(QUIET, "quiet", 'q', FLAG, "no", NONE, "", "Running", ZEST_FOR_ALL_COMMANDS, RUN(ANY, RESUME, NEVER),              \
    "show no progress, no start summary and no notes")                                                                 \
  X(JSON, "json", 0, FLAG, "no", NONE, "", "Running", ZEST_FOR_ALL_COMMANDS, RUN(ANY, RESUME, NEVER),                  \
    "print only the result, as JSON")                                                                                  \
  X(CONFIG, "config", 0, TEXT, "", NONE, "FILE", "Running", ZEST_FOR_SHELL, RUN(ANY, RESUME, NEVER),                   \
    "read options from this file: lines `name = value`, as in the options file of a run; the command line wins")
/* clang-format on */

#endif
