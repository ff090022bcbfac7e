/* The one table of options. It feeds the library (zest_tuner_set), the command line, its help, the manual
 * page, the options file of a run and the journal's header. Add an option here and it exists everywhere.
 *
 * X(ID, name, letter, kind, default, range, argument, section, users, help)
 *   range    numbers: NONE, POSITIVE, AT_LEAST(low) or WITHIN(low, high); choices: CHOICES("a|b|c");
 *            text: NONE
 *   users    who takes it: a sum of ZEST_FOR_*
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
    ZEST_FOR_SHELL = 1 << 30, /* every command, but no part of a run: never kept in its options */
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
/* those that know language models */
#define ZEST_FOR_MODELS \
    (ZEST_FOR_GENERATE | ZEST_FOR_SCORE | ZEST_FOR_BENCH | ZEST_FOR_INFO | ZEST_FOR_TASKS | ZEST_FOR_PRETRAIN)
#define ZEST_FOR_ALL_COMMANDS                                                                 \
    (ZEST_FOR_MINIMIZE | ZEST_FOR_TOY | ZEST_FOR_THEORY | ZEST_FOR_REPLAY | ZEST_FOR_MODELS | \
     ZEST_FOR_REPORT | ZEST_FOR_SWEEP | ZEST_FOR_PULL | ZEST_FOR_TOKENIZE)

/* clang-format off */
#define ZEST_OPTION_TABLE(X)                                                                                           \
  X(METHOD, "method", 'm', CHOICE, "zest-n", CHOICES("zest-n|zest-bc|mezo|sgd|adamw|sam|esam|tsam"), "NAME", "Method", \
    ZEST_FOR_RUNS,                                                                                                     \
    "estimator of the tilted gradient: naive, bias-corrected, or MeZO (which is t = 0); the others take gradients, "   \
    "which zest train alone has")                                                                                      \
  X(T, "t", 't', REAL, "1", AT_LEAST(0), "NUMBER", "Method",                                                           \
    ZEST_FOR_RUNS | ZEST_FOR_TOY | ZEST_FOR_BENCH | ZEST_FOR_SHARPNESS,                                                \
    "tilt: 0 averages the losses nearby, larger values weigh the largest; acts on the scale of the loss")              \
  X(RHO, "rho", 'r', REAL, "0.001", POSITIVE, "NUMBER", "Method",                                                      \
    ZEST_FOR_RUNS | ZEST_FOR_TOY | ZEST_FOR_THEORY | ZEST_FOR_BENCH,                                                   \
    "scale of the perturbations")                                                                                      \
  X(K, "k", 'k', COUNT, "5", WITHIN(1, 1048576), "COUNT", "Method",                                                    \
    ZEST_FOR_RUNS | ZEST_FOR_TOY | ZEST_FOR_BENCH | ZEST_FOR_INFO,                                                     \
    "directions a step; each costs two evaluations")                                                                   \
  X(DISTRIBUTION, "distribution", 0, CHOICE, "gaussian", CHOICES("gaussian|sphere|ball|rademacher"), "NAME",           \
    "Method", ZEST_FOR_RUNS | ZEST_FOR_TOY | ZEST_FOR_SHARPNESS,                                                       \
    "of the directions: N(0,I), uniform on the sphere or in the ball of radius sqrt(d), or signs")                     \
  X(DENOMINATOR, "denominator", 0, CHOICE, "shared", CHOICES("shared|ball"), "NAME", "Method",                         \
    ZEST_FOR_RUNS | ZEST_FOR_TOY,                                                                                      \
    "losses in the denominator: those of the same k pairs, or of k further pairs drawn in the ball (Theorem 3.1 to "   \
    "the letter; needs distribution sphere; twice the evaluations)")                                                   \
  X(LR, "lr", 0, REAL, "0.01", AT_LEAST(0), "NUMBER", "Method", ZEST_FOR_STEPS | ZEST_FOR_TOY | ZEST_FOR_BENCH,        \
    "learning rate")                                                                                                   \
  X(SCHEDULE, "schedule", 0, CHOICE, "constant", CHOICES("constant|linear|cosine"), "NAME", "Method", ZEST_FOR_STEPS,  \
    "how lr falls from the end of the warm-up to the last step")                                                       \
  X(WARMUP, "warmup", 0, COUNT, "0", AT_LEAST(0), "STEPS", "Method", ZEST_FOR_STEPS,                                   \
    "steps in which lr climbs from 0 to its value")                                                                    \
  X(FINAL_LR, "final-lr", 0, REAL, "0", WITHIN(0, 1), "FRACTION", "Method", ZEST_FOR_STEPS,                            \
    "where linear and cosine end, as a fraction of lr")                                                                \
  X(WEIGHT_DECAY, "weight-decay", 0, REAL, "0", AT_LEAST(0), "NUMBER", "Method", ZEST_FOR_STEPS,                       \
    "x is multiplied by 1 - lr * weight-decay in every step")                                                          \
  X(ROUNDING, "rounding", 0, CHOICE, "stochastic", CHOICES("stochastic|nearest"), "NAME", "Method", ZEST_FOR_STEPS,    \
    "of 16-bit weights after an update; to the nearest, most small updates are lost")                                  \
  X(SEED, "seed", 's', SEED, "1", NONE, "NUMBER", "Method",                                                            \
    ZEST_FOR_RUNS | ZEST_FOR_TOY | ZEST_FOR_THEORY | ZEST_FOR_BENCH | ZEST_FOR_TASKS |                                 \
    ZEST_FOR_PRETRAIN,                                                                                                 \
    "seed of every random number of the run")                                                                          \
  X(STEPS, "steps", 'n', COUNT, "1000", AT_LEAST(0), "COUNT", "Stopping",                                              \
    ZEST_FOR_STEPS | ZEST_FOR_TOY | ZEST_FOR_BENCH,                                                                    \
    "steps to take at most")                                                                                           \
  X(EVALS, "evals", 0, COUNT, "0", AT_LEAST(0), "COUNT", "Stopping", ZEST_FOR_VECTORS,                                 \
    "stop before a step that would need more evaluations than this; 0 for no limit")                                   \
  X(SECONDS, "seconds", 0, REAL, "0", AT_LEAST(0), "SECONDS", "Stopping", ZEST_FOR_STEPS,                              \
    "stop after the step in which this time passes, counted anew after a resume; 0 for no limit")                      \
  X(TARGET, "target", 0, REAL, "-inf", NONE, "LOSS", "Stopping", ZEST_FOR_VECTORS,                                     \
    "stop when the loss of a step is at most this")                                                                    \
  X(PATIENCE, "patience", 0, COUNT, "0", AT_LEAST(0), "STEPS", "Stopping", ZEST_FOR_STEPS,                             \
    "stop when the best loss has not improved by the tolerance for this many steps; 0 for no limit")                   \
  X(TOLERANCE, "tolerance", 0, REAL, "0", AT_LEAST(0), "LOSS", "Stopping", ZEST_FOR_VECTORS,                           \
    "what counts as an improvement for --patience")                                                                    \
  X(EVAL_EVERY, "eval-every", 0, COUNT, "0", AT_LEAST(0), "STEPS", "Stopping", ZEST_FOR_STEPS,                         \
    "evaluate x itself every so many steps; target and patience then look at these losses alone; 0: they look at "     \
    "the mean loss of the perturbed points of every step")                                                             \
  X(MAX_BAD, "max-bad-steps", 0, COUNT, "20", AT_LEAST(1), "STEPS", "Stopping", ZEST_FOR_STEPS,                        \
    "give up after this many steps in a row without one finite pair of losses")                                        \
  X(ON_DIVERGENCE, "on-divergence", 0, CHOICE, "stop", CHOICES("stop|continue"), "NAME", "Stopping",                   \
    ZEST_FOR_TRAINING,                                                                                                 \
    "when the loss stays above ten times that of the first step (and 10 more than it) for 10 steps: stop the run, "    \
    "or go on")                                                                                                        \
  X(EPOCHS, "epochs", 0, COUNT, "0", AT_LEAST(0), "COUNT", "Stopping", ZEST_FOR_TRAIN,                                 \
    "passes over the training examples, instead of --steps; 0 for --steps. When neither is given, masked models "      \
    "take 700 with 512 shots of a task by name, and 200 with a method that takes gradients")                           \
  X(SELECT, "select", 0, CHOICE, "task", CHOICES("task|accuracy|f1|em|loss"), "NAME", "Stopping", ZEST_FOR_TRAIN,      \
    "what is best on the dev examples, for the weights that are kept and for --patience; task: as the task says")      \
  X(OBJECTIVE, "objective", 0, CHOICE, "loss", CHOICES("loss|accuracy|f1"), "NAME", "Method", ZEST_FOR_TRAIN,          \
    "what training minimises: the loss, or 1 - accuracy or 1 - F1 of the batch, which have no gradient")               \
  X(MODEL, "model", 0, TEXT, "", NONE, "PATH", "Model", ZEST_FOR_TASKS | ZEST_FOR_REPLAY | ZEST_FOR_PRETRAIN,          \
    "the model to start from: a Hugging Face folder, a GGUF file, or ORG/NAME after `zest pull ORG/NAME`; of a run: "  \
    "where it is now, if it was moved")                                                                                \
  X(REVISION, "revision", 0, TEXT, "main", NONE, "NAME", "Model", ZEST_FOR_PULL,                                       \
    "branch, tag or commit of the model's repository")                                                                 \
  X(FILE, "file", 0, TEXT, "", NONE, "NAME", "Model", ZEST_FOR_PULL,                                                   \
    "take this file of the repository alone, for example one of its GGUF files")                                       \
  X(TASK, "task", 0, TEXT, "", NONE, "NAME|FILE", "Data", ZEST_FOR_TASKS,                                              \
    "a task by name (zest train --task list lists them), or a task file of your own")                                  \
  X(DATA, "data", 0, TEXT, "", NONE, "DIR", "Data", ZEST_FOR_TASKS,                                                    \
    "the folder with the task's original files; a task file says itself where its data are")                           \
  X(SHOTS, "shots", 0, COUNT, "0", WITHIN(0, 1048576), "COUNT", "Data", ZEST_FOR_TASKS,                                \
    "examples a class for training and as many for dev; 0: 512 for masked models, --train-size rows for causal ones")  \
  X(TRAIN_SIZE, "train-size", 0, COUNT, "0", WITHIN(0, 4294967295), "ROWS", "Data", ZEST_FOR_TASKS,                    \
    "training rows of a random sample, instead of --shots; 0: 1000")                                                   \
  X(DEV_SIZE, "dev-size", 0, COUNT, "0", WITHIN(0, 4294967295), "ROWS", "Data", ZEST_FOR_TASKS,                        \
    "dev rows of such a sample; 0: 500, what the task says, or a fifth of your own rows")                              \
  X(TEST_SIZE, "test-size", 0, COUNT, "0", WITHIN(0, 4294967295), "ROWS", "Data", ZEST_FOR_TASKS,                      \
    "test rows at most; 0: 1000")                                                                                      \
  X(LABEL_NOISE, "label-noise", 0, REAL, "0", WITHIN(0, 1), "FRACTION", "Data", ZEST_FOR_TASKS,                        \
    "fraction of the training labels that is switched to another class at random")                                     \
  X(NOISY_DEV, "noisy-dev", 0, FLAG, "no", NONE, "", "Data", ZEST_FOR_TASKS,                                           \
    "switch as many of the dev labels")                                                                                \
  X(START_TOKEN, "start-token", 0, TEXT, "", NONE, "ID", "Data", ZEST_FOR_TASKS,                                       \
    "token that causal prompts begin with, or none; empty: as the tokenizer has it. MeZO's code puts 0 before OPT")    \
  X(SPLIT, "split", 0, CHOICE, "test", CHOICES("train|dev|test"), "NAME", "Data",                                      \
    ZEST_FOR_EVAL | ZEST_FOR_PREDICT | ZEST_FOR_SHARPNESS, "the examples to answer or to measure on")                  \
  X(INPUT, "input", 'i', TEXT, "", NONE, "FILE", "Data", ZEST_FOR_PREDICT,                                             \
    "rows of your own to answer, which need no label; - for standard input")                                           \
  X(INPUT_FORMAT, "input-format", 0, CHOICE, "auto", CHOICES("auto|lines|tsv|csv|jsonl"), "NAME", "Data",              \
    ZEST_FOR_PREDICT, "format of the input; auto: by the file's ending or its first line; lines: each is a text")      \
  X(TRAIN_ONLY, "train-only", 0, TEXT, "", NONE, "PATTERN", "Method", ZEST_FOR_TRAINING | ZEST_FOR_SHARPNESS,          \
    "train (sharpness: perturb) the tensors whose names match; several patterns with commas, * for any characters")    \
  X(FREEZE, "freeze", 0, TEXT, "", NONE, "PATTERN", "Method", ZEST_FOR_TRAINING | ZEST_FOR_SHARPNESS,                  \
    "leave the tensors whose names match as they are")                                                                 \
  X(UNTIE_HEAD, "untie-head", 0, FLAG, "no", NONE, "", "Method", ZEST_FOR_TRAINING,                                    \
    "give a head that shares the embeddings a copy of its own, as MeZO's code does")                                   \
  X(MOMENTUM, "momentum", 0, REAL, "0", WITHIN(0, 0.9999), "NUMBER", "Gradients", ZEST_FOR_TRAIN,                      \
    "sgd, sam, esam, tsam: the share of the last move that goes into the next")                                        \
  X(CLIP, "clip", 0, REAL, "0", AT_LEAST(0), "NORM", "Gradients", ZEST_FOR_TRAINING,                                   \
    "shorten gradients that are longer than this; 0: never")                                                           \
  X(RADIUS, "radius", 0, REAL, "0.01", AT_LEAST(0), "NUMBER", "Gradients", ZEST_FOR_TRAIN,                             \
    "sam, esam, tsam: how far away the gradients are taken")                                                           \
  X(SAM_SEARCH, "sam-search", 0, CHOICE, "ascent", CHOICES("ascent|random"), "NAME", "Gradients", ZEST_FOR_TRAIN,      \
    "sam: the point where the gradient is taken: --radius uphill along the gradient at x, or, of k random points on "  \
    "the sphere of that radius, the one with the largest loss")                                                        \
  X(ASCENT, "ascent", 0, REAL, "0", AT_LEAST(0), "LENGTH", "Gradients", ZEST_FOR_TRAIN,                                \
    "tsam: one step uphill of this length from each neighbour, at twice the gradients; 0: none")                       \
  X(BETA1, "beta1", 0, REAL, "0.9", WITHIN(0, 0.9999), "NUMBER", "Gradients", ZEST_FOR_TRAINING,                       \
    "adamw: memory of the mean of the gradients")                                                                      \
  X(BETA2, "beta2", 0, REAL, "0.999", WITHIN(0, 0.999999), "NUMBER", "Gradients", ZEST_FOR_TRAINING,                   \
    "adamw: memory of their squares")                                                                                  \
  X(ADAM_EPSILON, "adam-epsilon", 0, REAL, "1e-8", POSITIVE, "NUMBER", "Gradients", ZEST_FOR_TRAINING,                 \
    "adamw: added to the root of the squares")                                                                         \
  X(DROPOUT, "dropout", 0, REAL, "0", WITHIN(0, 0.9), "RATE", "Gradients", ZEST_FOR_TRAINING,                          \
    "share of the activations that a training pass leaves out, where the model's family has dropout")                  \
  X(RECOMPUTE, "recompute", 0, FLAG, "no", NONE, "", "Gradients", ZEST_FOR_TRAINING,                                   \
    "keep the inputs of the layers alone and go through each layer again on the way back: less memory, a third more "  \
    "time, the same bits")                                                                                             \
  X(SAVE_EVERY, "save-every", 0, COUNT, "200", AT_LEAST(0), "STEPS", "Gradients", ZEST_FOR_TRAINING,                   \
    "steps between checkpoints of weights and the method's state, beside those at evaluations; a resumed run takes "   \
    "the steps behind the last one again")                                                                             \
  X(CORPUS, "text", 0, TEXT, "", NONE, "FILE", "Data", ZEST_FOR_PRETRAIN,                                              \
    "what to train on: plain text, UTF-8, documents separated by blank lines")                                         \
  X(LENGTH, "length", 0, COUNT, "128", WITHIN(8, 1048576), "TOKENS", "Data", ZEST_FOR_PRETRAIN,                        \
    "tokens of a sequence, with those that begin and end it")                                                          \
  X(MASK, "mask", 0, REAL, "0.15", WITHIN(0.01, 0.9), "SHARE", "Data", ZEST_FOR_PRETRAIN,                              \
    "masked models: share of the tokens to be told; of these 80 % are masked, 10 % become random tokens, 10 % stay")   \
  X(HELD_OUT, "held-out", 0, REAL, "0.05", WITHIN(0, 0.9), "SHARE", "Data", ZEST_FOR_PRETRAIN,                         \
    "share of the documents that is not trained on, for the loss that is reported")                                    \
  X(PROMPT, "prompt", 'p', TEXT, "", NONE, "TEXT", "Model", ZEST_FOR_GENERATE,                                         \
    "what to continue; without it every line of standard input is a prompt")                                           \
  X(TEXT, "text", 0, TEXT, "", NONE, "TEXT", "Model", ZEST_FOR_SCORE | ZEST_FOR_TOKENIZE | ZEST_FOR_PREDICT,           \
    "the text to work on; without it every line of standard input is a text")                                          \
  X(IDS, "ids", 0, FLAG, "no", NONE, "", "Model", ZEST_FOR_TOKENIZE,                                                   \
    "print the ids alone, a text a line")                                                                              \
  X(COUNT_TOKENS, "count", 0, FLAG, "no", NONE, "", "Model", ZEST_FOR_TOKENIZE,                                        \
    "print the number of tokens alone, a text a line")                                                                 \
  X(DECODE, "decode", 0, FLAG, "no", NONE, "", "Model", ZEST_FOR_TOKENIZE,                                             \
    "the other way round: texts are ids with blanks between them")                                                     \
  X(SPECIAL, "special", 0, FLAG, "yes", NONE, "", "Model", ZEST_FOR_TOKENIZE,                                          \
    "add the special tokens that the model expects around a text (with --decode: show them); --no-special: do not")    \
  X(MAX_TOKENS, "max-tokens", 0, COUNT, "64", WITHIN(1, 1048576), "COUNT", "Model", ZEST_FOR_GENERATE,                 \
    "new tokens at most")                                                                                              \
  X(COMPUTE, "compute", 0, CHOICE, "f32", CHOICES("f32|bf16|f16"), "NAME", "Model", ZEST_FOR_MODELS,                   \
    "arithmetic of the matrix products: fp32, or operands rounded to bf16 or fp16 with sums in fp32; f16 needs a GPU") \
  X(DEVICE, "device", 0, CHOICE, "cpu", CHOICES("cpu|cuda"), "NAME", "Model", ZEST_FOR_MODELS,                         \
    "where the model runs; cuda needs an NVIDIA GPU and a build that found nvcc")                                      \
  X(WEIGHTS, "weights", 0, CHOICE, "stored", CHOICES("stored|f32|bf16|f16"), "NAME", "Model", ZEST_FOR_MODELS,         \
    "type of the weights in memory; stored: 16-bit ones as in the file, all others as f32")                            \
  X(SHAPE, "shape", 0, TEXT, "roberta-base", NONE, "NAME", "Model", ZEST_FOR_BENCH,                                    \
    "model whose shape is measured, with random weights")                                                              \
  X(BATCH, "batch", 'b', COUNT, "16", WITHIN(1, 1048576), "COUNT", "Model",                                            \
    ZEST_FOR_BENCH | ZEST_FOR_INFO | ZEST_FOR_TRAINING, "sequences or examples in a batch")                            \
  X(TOKENS, "tokens", 0, COUNT, "64", WITHIN(1, 1048576), "COUNT", "Model", ZEST_FOR_BENCH | ZEST_FOR_INFO,            \
    "tokens in a sequence")                                                                                            \
  X(LENGTHS, "lengths", 0, CHOICE, "equal", CHOICES("equal|sst2"), "NAME", "Model", ZEST_FOR_BENCH,                    \
    "lengths of the sequences: all --tokens, or as the prompts of SST-2 have them")                                    \
  X(LIVE, "live", 0, COUNT, "0", WITHIN(0, 1048576), "PAIRS", "Model",                                                 \
    ZEST_FOR_BENCH | ZEST_FOR_INFO | ZEST_FOR_TRAIN | ZEST_FOR_SHARPNESS,                                              \
    "pairs of lanes evaluated at once. More take more memory. 0: all k on a CPU, where results do not depend on it; "   \
    "the fewest that keep it busy on a GPU, where the last digits of losses may")                                      \
  X(THREADS, "threads", 'j', COUNT, "0", WITHIN(0, 1024), "COUNT", "Running",                                          \
    ZEST_FOR_RUNS | ZEST_FOR_MODELS | ZEST_FOR_SWEEP,                                                                  \
    "threads to use; 0 for all cores; results do not depend on it")                                                    \
  X(PRESET, "preset", 0, TEXT, "paper", NONE, "NAME", "Method", ZEST_FOR_TOY | ZEST_FOR_SWEEP,                         \
    "values of the options that are not given. A toy takes paper (as the paper states them) or clean (such that its "  \
    "claim shows clearly), a sweep paper-table-2, paper-table-3, paper-table-4 or paper-figure-3")                     \
  X(START_AT, "start-at", 0, LIST, "0,1", NONE, "X,Y", "Method", ZEST_FOR_TOY, "starting point of a toy")              \
  X(GD_STEPS, "gd-steps", 0, COUNT, "50", WITHIN(0, 1000000), "COUNT", "Method", ZEST_FOR_TOY,                         \
    "steps of gradient descent, for comparison")                                                                       \
  X(GD_LR, "gd-lr", 0, REAL, "0.1", AT_LEAST(0), "NUMBER", "Method", ZEST_FOR_TOY,                                     \
    "learning rate of gradient descent")                                                                               \
  X(SEEDS, "seeds", 0, COUNT, "10", WITHIN(1, 10000), "COUNT", "Method", ZEST_FOR_TOY,                                 \
    "runs of each method, with the seeds from --seed upwards")                                                         \
  X(MESH, "mesh", 0, LIST, "0.3,0.25", NONE, "WIDTH,HEIGHT", "Method", ZEST_FOR_TOY,                                   \
    "size of the triangles of the linear toy")                                                                         \
  X(EXEC, "exec", 'x', TEXT, "", NONE, "PROGRAM", "Objective", ZEST_FOR_MINIMIZE,                                      \
    "command, run by the shell, that reads points and answers losses")                                                 \
  X(DIM, "dim", 'd', COUNT, "0", AT_LEAST(0), "COUNT", "Objective", ZEST_FOR_MINIMIZE | ZEST_FOR_THEORY,               \
    "number of dimensions; theory takes 0 for as many as there are eigenvalues")                                       \
  X(EIGENVALUES, "eigenvalues", 0, LIST, "", NONE, "LIST", "Objective", ZEST_FOR_THEORY,                               \
    "of the Hessian; directions beyond these, up to --dim, have none")                                                 \
  X(GRADIENT, "gradient", 0, LIST, "", NONE, "LIST", "Objective", ZEST_FOR_THEORY,                                     \
    "along the same eigenvectors, or one number for all of them; 0 when only eigenvalues are given")                   \
  X(VERSUS, "versus", 0, LIST, "", NONE, "LIST", "Objective", ZEST_FOR_THEORY,                                         \
    "eigenvalues of a second landscape to compare with, as many; none when only eigenvalues are given")                \
  X(TILTS, "tilts", 0, LIST, "0,0.1,0.3,1,3,10,100", NONE, "LIST", "Method", ZEST_FOR_THEORY,                          \
    "values of t, from 0")                                                                                             \
  X(EPSILON, "epsilon", 0, REAL, "0.1", POSITIVE, "NUMBER", "Method", ZEST_FOR_THEORY,                                 \
    "how far R_t may be from R_0 in the bound on t")                                                                   \
  X(SAMPLES, "samples", 0, COUNT, "0", WITHIN(0, 4294967296), "COUNT", "Method",                                       \
    ZEST_FOR_THEORY | ZEST_FOR_SHARPNESS,                                                                              \
    "random directions: theory checks R_t with them, sharpness takes so many at each radius; 0 for none")             \
  X(RADII, "radii", 0, LIST, "", NONE, "LIST", "Method", ZEST_FOR_SHARPNESS,                                           \
    "lengths of the perturbations, |e| = rho sqrt(d); empty: rho = 0.001, 0.002, 0.003, 0.004 and 0.005")              \
  X(ANTITHETIC, "antithetic", 0, FLAG, "no", NONE, "", "Method", ZEST_FOR_SHARPNESS,                                   \
    "take perturbations in pairs, x + e and x - e: a better mean, but no interval for the spread")                     \
  X(SAMPLE_SEED, "sample-seed", 0, SEED, "1", NONE, "NUMBER", "Method", ZEST_FOR_SHARPNESS,                            \
    "seed of the perturbations, the probes and the choice of examples: the same for all models that are compared")     \
  X(EXAMPLES, "examples", 0, COUNT, "1024", WITHIN(1, 4294967295), "COUNT", "Data", ZEST_FOR_SHARPNESS,                \
    "examples of the split to measure on, at most; drawn with --sample-seed")                                          \
  X(TOP_EXAMPLES, "top-examples", 0, COUNT, "0", WITHIN(0, 4294967295), "COUNT", "Data", ZEST_FOR_SHARPNESS,           \
    "examples for eigenvalues and trace, which take gradients; 0: as many as --examples")                              \
  X(NAMES, "names", 0, TEXT, "", NONE, "LIST", "Running", ZEST_FOR_SHARPNESS,                                          \
    "what runs and models are called in the figure, in their order, with commas between; those of one name are "       \
    "drawn as one, with means and standard errors. Without it: their folders")                                         \
  X(TOP, "top", 0, COUNT, "5", WITHIN(0, 1000), "COUNT", "Method", ZEST_FOR_SHARPNESS,                                 \
    "eigenvalues of the Hessian, the largest first; 0 for none")                                                       \
  X(LANCZOS_STEPS, "lanczos-steps", 0, COUNT, "0", WITHIN(0, 1000000), "COUNT", "Method", ZEST_FOR_SHARPNESS,          \
    "products with the Hessian at most, two gradients each; 0: 2 top + 10. More than that restart in the same memory") \
  X(TRACE_SAMPLES, "trace-samples", 0, COUNT, "10", WITHIN(0, 1000000), "COUNT", "Method", ZEST_FOR_SHARPNESS,         \
    "random vectors for the trace of the Hessian; 0 for none")                                                         \
  X(DIFFERENCE_STEP, "difference-step", 0, REAL, "0", AT_LEAST(0), "LENGTH", "Method", ZEST_FOR_SHARPNESS,             \
    "length of the step of difference quotients; 0: chosen where two steps agree best")                                \
  X(FORWARD_ONLY, "forward-only", 0, FLAG, "no", NONE, "", "Method", ZEST_FOR_SHARPNESS,                               \
    "no gradients: the trace by second differences of losses, and no eigenvalues")                                     \
  X(SLICE, "slice", 0, COUNT, "0", WITHIN(0, 2), "DIMENSIONS", "Method", ZEST_FOR_SHARPNESS,                           \
    "also the loss on a line (1) or in a plane (2) through the weights")                                               \
  X(ALONG, "along", 0, CHOICE, "eigen", CHOICES("eigen|seeded"), "NAME", "Method", ZEST_FOR_SHARPNESS,                 \
    "direction of the slice: the first eigenvectors, or random vectors")                                               \
  X(POINTS, "points", 0, COUNT, "0", WITHIN(0, 1001), "COUNT", "Method", ZEST_FOR_SHARPNESS,                           \
    "points of a slice in each dimension; 0: 41 on a line, 17 in a plane")                                             \
  X(SPAN, "span", 0, REAL, "0", AT_LEAST(0), "LENGTH", "Method", ZEST_FOR_SHARPNESS,                                   \
    "a slice goes from -span to span; 0: as far as the loss changes clearly, at most the largest radius")              \
  X(START, "start", 0, TEXT, "0", NONE, "VALUE|FILE", "Objective", ZEST_FOR_MINIMIZE,                                  \
    "starting point: one number for all elements, or a file of numbers in text")                                       \
  X(FORMAT, "format", 0, CHOICE, "text", CHOICES("text|f64|f32"), "NAME", "Objective", ZEST_FOR_MINIMIZE,              \
    "how points are sent: a line of decimal numbers, or raw little-endian doubles or floats")                          \
  X(ANSWER_FORMAT, "format", 0, CHOICE, "jsonl", CHOICES("jsonl|tsv"), "NAME", "Running", ZEST_FOR_PREDICT,            \
    "format of the answers: a JSON object a line, or a table with a header")                                           \
  X(JOBS, "jobs", 0, COUNT, "1", WITHIN(1, 1024), "COUNT", "Running", ZEST_FOR_MINIMIZE | ZEST_FOR_SWEEP,              \
    "copies of the program, or runs of a sweep, that work side by side; results do not depend on it")                  \
  X(TIMEOUT, "timeout", 0, REAL, "0", AT_LEAST(0), "SECONDS", "Objective", ZEST_FOR_MINIMIZE,                          \
    "the longest that one evaluation may take; 0 for no limit")                                                        \
  X(RESUME, "resume", 0, TEXT, "", NONE, "RUN", "Running", ZEST_FOR_MINIMIZE | ZEST_FOR_TRAINING | ZEST_FOR_SWEEP,     \
    "go on with the run (or sweep) in this folder; its options come from there")                                       \
  X(SCALE, "scale", 0, REAL, "1", POSITIVE, "FACTOR", "Stopping", ZEST_FOR_SWEEP,                                      \
    "multiplies --steps of every run, for a quick look: 0.1 makes a tenth of the steps; nothing else changes")         \
  X(KEEP, "keep", 0, CHOICE, "all", CHOICES("all|best|none"), "NAME", "Running", ZEST_FOR_SWEEP,                       \
    "which weights the finished runs of a sweep keep: the best and the last, the best alone, or none. Those of "       \
    "methods without gradients can be made again from the journal")                                                    \
  X(COMPARE, "compare", 0, TEXT, "", NONE, "NAMES", "Running", ZEST_FOR_SWEEP,                                         \
    "hyper-parameters of a sweep, separated by commas, whose values are compared instead of chosen by dev: each "      \
    "value has a row of its own in the tables (radius,t)")                                                             \
  X(DRY_RUN, "dry-run", 0, FLAG, "no", NONE, "", "Running", ZEST_FOR_SWEEP | ZEST_FOR_SHARPNESS,                       \
    "a sweep only lists its runs and how far they are, sharpness only says how long it will take, and in what memory") \
  X(OUT, "out", 'o', TEXT, "", NONE, "PATH", "Running",                                                                \
    ZEST_FOR_MINIMIZE | ZEST_FOR_TOY | ZEST_FOR_THEORY | ZEST_FOR_REPLAY | ZEST_FOR_TRAINING | ZEST_FOR_PREDICT |      \
        ZEST_FOR_REPORT | ZEST_FOR_SWEEP | ZEST_FOR_SHARPNESS | ZEST_FOR_PULL,                                         \
    "where results go: minimize, train, pretrain, sweep and pull make this folder, the others write this file (replay "\
    "of a trained model: a folder)")                                                                                   \
  X(FIGURES, "figures", 0, TEXT, "", NONE, "DIR", "Running", ZEST_FOR_REPORT,                                          \
    "also write each figure as an SVG file into this folder")                                                          \
  X(STEP, "step", 0, TEXT, "last", NONE, "STEP", "Running",                                                            \
    ZEST_FOR_REPLAY | ZEST_FOR_EVAL | ZEST_FOR_PREDICT | ZEST_FOR_SHARPNESS,                                           \
    "the step of a run: a number from 0 (the start), last, or best")                                                   \
  X(ALLOW_CHANGED, "allow-changed-files", 0, FLAG, "no", NONE, "", "Data",                                             \
    ZEST_FOR_TASKS | ZEST_FOR_PRETRAIN | ZEST_FOR_REPLAY,                                                              \
    "use a run's data and model files though they have changed since it began; without it they are refused")           \
  X(QUIET, "quiet", 'q', FLAG, "no", NONE, "", "Running", ZEST_FOR_ALL_COMMANDS,                                       \
    "no progress on stderr")                                                                                           \
  X(JSON, "json", 0, FLAG, "no", NONE, "", "Running", ZEST_FOR_ALL_COMMANDS,                                           \
    "print the result as one JSON object, and nothing else, on stdout")                                                \
  X(CONFIG, "config", 0, TEXT, "", NONE, "FILE", "Running", ZEST_FOR_SHELL,                                            \
    "take options from this file, lines `name = value` as in the options file of a run; the command line wins")
/* clang-format on */

#endif
