/* zest sharpness: how flat the loss is around the weights of runs or models. */
#include <stdlib.h>
#include <string.h>

#include "cli/sharpness.h"

/* ---- What is asked for ---- */

static zest_status make_plan(const zest_options *o, zest_sharpness_plan *plan, double **radii,
                             zest_error *error) {
    *plan = (zest_sharpness_plan){
        .samples = (size_t)zest_options_whole(o, ZEST_OPTION_SAMPLES),
        .distribution = (zest_distribution)zest_options_whole(o, ZEST_OPTION_DISTRIBUTION),
        .t = zest_options_number(o, ZEST_OPTION_T),
        .seed = zest_options_whole(o, ZEST_OPTION_SAMPLE_SEED),
        .antithetic = (int)zest_options_whole(o, ZEST_OPTION_ANTITHETIC),
        .top = (size_t)zest_options_whole(o, ZEST_OPTION_TOP),
        .lanczos_steps = (size_t)zest_options_whole(o, ZEST_OPTION_LANCZOS_STEPS),
        .trace_samples = (size_t)zest_options_whole(o, ZEST_OPTION_TRACE_SAMPLES),
        .top_step = zest_options_number(o, ZEST_OPTION_DIFFERENCE_STEP),
        .trace_step = zest_options_number(o, ZEST_OPTION_DIFFERENCE_STEP),
        .forward_only = (int)zest_options_whole(o, ZEST_OPTION_FORWARD_ONLY),
        .slice = (int)zest_options_whole(o, ZEST_OPTION_SLICE),
        .seeded = (int)zest_options_whole(o, ZEST_OPTION_ALONG),
        .points = (size_t)zest_options_whole(o, ZEST_OPTION_POINTS),
        .span = zest_options_number(o, ZEST_OPTION_SPAN),
        .threads = (int)zest_options_whole(o, ZEST_OPTION_THREADS),
    };
    zest_status status = zest_options_list(o, ZEST_OPTION_RADII, radii, &plan->radius_count, error);
    plan->radii = *radii;
    return status;
}

/* --names taken apart, in place. As many as there are words, or none. */
static zest_status find_names(char *list, const char **names, size_t count, zest_error *error) {
    const char *between = strchr(list, ';') ? ";" : ",";
    size_t used = 0;
    for (char *next = list, *name; *list && (name = strsep(&next, between));) {
        while (*name == ' ') name++;
        if (used < count) names[used] = name;
        used++;
    }
    if (!used || used == count) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "--names has %zu names for %zu runs or models", used,
                          count);
}

/* ---- What is told ---- */

/* FILE.svg, and FILE-slice.svg when there are slices. */
static zest_status draw(const zest_sharpness_series *series, size_t count, const char *path,
                        zest_error *error) {
    zest_plot *plot = zest_sharpness_figure(series, count, (zest_sharpness_style){.title = "Sharpness"}),
              *slices = zest_sharpness_slices(series, count);
    zest_buffer second = {0};
    size_t stem = strlen(path);
    if (stem > 4 && !strcmp(path + stem - 4, ".svg")) stem -= 4;
    zest_buffer_add(&second, path, stem);
    zest_buffer_text(&second, "-slice.svg");
    zest_status status = plot && !second.failed ? zest_plot_write(plot, path, error)
                                                : zest_error_memory(error, "the figure", 0);
    if (!status && slices) status = zest_plot_write(slices, second.data, error);
    zest_buffer_free(&second);
    zest_plot_free(plot);
    zest_plot_free(slices);
    return status;
}

static json_t *cost_json(const zest_sharpness_found *found, const zest_sharpness_cost *cost) {
    return json_pack("{s:o, s:o, s:I, s:o, s:I, s:o, s:o}", "name", zest_output_string(found->name), "passes",
                     zest_output_real(cost->lanes), "examples", (json_int_t)found->examples, "gradients",
                     zest_output_real(cost->gradients), "gradient_examples",
                     (json_int_t)found->slope_examples, "seconds", zest_output_real(cost->seconds), "bytes",
                     zest_output_real(cost->bytes));
}

static void print_cost(const zest_sharpness_found *found, const zest_sharpness_cost *cost) {
    zest_output_print(
        "%s: %.0f passes over %zu examples, %.0f gradients of %zu; about %.0f s, %.1f GiB beside the model\n",
        found->name, cost->lanes, found->examples, cost->gradients, found->slope_examples, cost->seconds,
        cost->bytes / 0x1p30);
}

static int report(const zest_options *options, zest_sharpness_view *views, size_t count) {
    const char *out = zest_options_text(options, ZEST_OPTION_OUT);
    zest_error error = {0};
    zest_status status = ZEST_OK;
    json_t *models = json_array();
    zest_sharpness_series *series = calloc(count, sizeof *series);
    if (!models || !series) status = zest_error_memory(&error, "results", count * sizeof *series);
    for (size_t i = 0; i < count && !status; i++) {
        json_t *one = views[i].kept ? json_incref(views[i].kept)
                                    : zest_sharpness_json(&views[i].found, &views[0].found);
        if (!one || json_array_append_new(models, one)) status = zest_error_memory(&error, "results", 0);
        series[i] = (zest_sharpness_series){one, views[i].found.name, 0};
    }
    if (!status && *out) status = draw(series, count, out, &error);
    free(series);
    if (status) {
        json_decref(models);
        return zest_output_fail(status, error.message);
    }
    if (zest_options_whole(options, ZEST_OPTION_JSON))
        return zest_output_json(json_pack("{s:o}", "models", models));
    json_decref(models);
    zest_sharpness_print(views, count);
    return ZEST_EXIT_OK;
}

/* ---- The command ---- */

/* costs: for a dry run with --json, else NULL. */
static zest_status look_at_all(zest_sharpness_look *look, char **words, const char **names,
                               zest_sharpness_view *views, size_t count, json_t **costs, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < count && !status; i++) {
        status = zest_sharpness_look_at(look, words[i], &views[i], error);
        if (names[i]) views[i].found.name = names[i];
        if (!status && !look->first && !views[i].kept) look->first = &views[i].found;
        if (status || !look->cost || views[i].kept) continue;
        if (costs)
            zest_output_append(costs, cost_json(&views[i].found, look->cost));
        else
            print_cost(&views[i].found, look->cost);
    }
    return status;
}

static int run(const zest_options *options, char **words, int word_count) {
    zest_error error = {0};
    size_t count = (size_t)word_count;
    zest_sharpness_plan plan;
    zest_sharpness_cost cost;
    double *radii = NULL;
    char *list = strdup(zest_options_text(options, ZEST_OPTION_NAMES));
    const char **names = calloc(count, sizeof *names);
    zest_sharpness_view *views = calloc(count, sizeof *views);
    int dry = (int)zest_options_whole(options, ZEST_OPTION_DRY_RUN),
        json = (int)zest_options_whole(options, ZEST_OPTION_JSON);
    json_t *costs = json_array();
    zest_sharpness_look look = {.given = options, .plan = &plan, .cost = dry ? &cost : NULL};
    zest_status status = views && names && list ? make_plan(options, &plan, &radii, &error)
                                                : zest_error_memory(&error, "results", 0);
    if (!status) status = find_names(list, names, count, &error);
    zest_progress_begin(&look.progress, "sharpness", "passes",
                        dry || (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    if (!status) status = look_at_all(&look, words, names, views, count, json ? &costs : NULL, &error);
    zest_progress_end(&look.progress);
    int code = ZEST_EXIT_OK;
    if (status)
        code = zest_output_fail(status, error.message);
    else if (dry && json)
        code = zest_output_json(json_pack("{s:O}", "models", costs));
    else if (!dry)
        code = report(options, views, count);
    json_decref(costs);
    for (size_t i = 0; i < count && views; i++) zest_sharpness_look_free(&views[i]);
    free(views);
    free(names);
    free(list);
    free(radii);
    return code;
}

const zest_command zest_command_sharpness = {
    .name = "sharpness",
    .words = "RUN|MODEL|FILE...",
    .least = 1,
    .most = 64,
    .summary = "measure how flat the loss is around the weights",
    .description =
        "Perturbs the weights --samples times at each of the --radii and prints the mean loss, its standard "
        "deviation, the largest loss and the tilted loss F_t; then the largest eigenvalues of the Hessian "
        "(Lanczos's process on differences of gradients, with residuals) and its trace (Hutchinson's "
        "estimate). "
        "All intervals are 95 %. Several runs or models are perturbed alike, and differences are those of "
        "pairs.\n\n"
        "Perturbations are uniform in the ball |e| <= radius, as in the paper's figures 2 and 4. With "
        "--distribution sphere and rademacher the radius is the length of each, with gaussian the root of "
        "their mean square. radius = rho sqrt(d); rho, the size in one coordinate, is printed beside it.\n\n"
        "Examples, task and step are chosen as for eval; the loss is the one that training minimises, by "
        "default "
        "on training examples. What is found about a run is kept as sharpness.json in its folder, where "
        "`zest "
        "report` finds it; what was not measured this time (--samples 0, --top 0) stays there as it was. "
        "Such a "
        "file may stand for its run: then nothing is measured, and what it says is printed and drawn.\n\n"
        "--dry-run tries a few passes and says how long the whole will take.",
    .examples =
        "zest sharpness run1 run2 --out sharpness.svg\tthe best weights of two runs, and a figure\n"
        "zest sharpness run1 --step 0 --top 10 --lanczos-steps 60\tmore eigenvalues, at the start\n"
        "zest sharpness roberta-base --task SST-2 --data data --forward-only\tlosses alone\n"
        "zest sharpness run1 run2 --dry-run\thow long it will take\n"
        "zest sharpness mezo-*/sharpness.json zest-*/sharpness.json --names MeZO,MeZO,ZEST_N,ZEST_N --out "
        "both.svg\twhat was measured before, seeds taken together\n"
        "zest sharpness run1 --slice 2 --out around.svg\ta plane through the weights, around-slice.svg",
    .options = "model\tof a run: where its model is now, if it was moved; of weights without a tokenizer: "
               "the model that has it\n"
               "dry-run\ttry a few passes, print the time and memory of the whole, and measure nothing\n"
               "out\tfigure to write (SVG)\n"
               "samples\trandom perturbations at each radius; 0: none\n"
               "train-only\tperturb only the tensors whose names match; several patterns separated by "
               "commas, * matches any characters\n"
               "freeze\tdo not perturb the tensors whose names match\n"
               "seed\trandom seed of the train/dev split\n"
               "t\ttilt of the tilted loss F_t",
    .defaults = "seed=42 step=best split=train samples=500 distribution=ball",
    .users = ZEST_FOR_SHARPNESS,
    .run = run,
};
