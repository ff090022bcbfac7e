/* Memory of a pass, and where things lie in it. */
#include <stdio.h>

#include "base/number.h"
#include "grad/grad_internal.h"

size_t zest_grad_widest(const zest_grad_pass *pass) {
    const zest_model_description *is = pass->pass.is;
    return is->width > is->embedding_width ? is->width : is->embedding_width;
}

float *zest_grad_stream(const zest_grad_pass *pass, size_t which) {
    return zest_model_at(pass->grad->runner, pass->grad->d.data,
                         which * pass->pass.room_rows * zest_grad_widest(pass));
}

/* Cells from `next` on, which moves behind them. */
static float *take(const zest_grad_pass *pass, float **next, size_t cells) {
    float *here = *next;
    *next = zest_model_at(pass->grad->runner, here, cells);
    return here;
}

zest_grad_layer zest_grad_kept(const zest_grad_pass *pass, size_t i) {
    const zest_model_description *is = pass->pass.is;
    zest_grad *grad = pass->grad;
    size_t rows = pass->pass.room_rows, all = rows * pass->row_cells;
    float *next = zest_model_at(grad->runner, grad->tape.data, (grad->recompute ? 0 : i) * all);
    zest_grad_layer kept = {0};
    kept.x = grad->recompute ? zest_model_at(grad->runner, grad->inputs.data, i * rows * is->width)
                             : take(pass, &next, rows * is->width);
    kept.qkv = take(pass, &next, rows * pass->pass.stride);
    kept.context = take(pass, &next, rows * pass->pass.q_width);
    kept.middle = take(pass, &next, rows * is->width);
    kept.up = take(pass, &next, rows * is->inner);
    if (is->gated) kept.gate = take(pass, &next, rows * is->inner);
    if (is->norm_after) kept.end = next;
    float *last = zest_model_at(grad->runner, grad->tape.data, (grad->recompute ? 1 : is->layers) * all);
    kept.input = i + 1 == is->layers ? last : kept.x;
    return kept;
}

/* ---- How much ---- */

typedef struct {
    zest_model_room *room;
    size_t cells;
} wanted_room;
enum { ROOMS = 8 };

/* Cells a row that a layer keeps. */
static size_t cells_of_layer(const zest_grad_pass *pass, int recompute) {
    const zest_model_description *is = pass->pass.is;
    return (recompute ? 0 : is->width) + pass->pass.stride + pass->pass.q_width + is->width +
           is->inner * (is->gated ? 2 : 1) + (is->norm_after ? is->width : 0);
}

static void list_rooms(const zest_grad_pass *pass, int recompute, wanted_room wanted[ROOMS]) {
    const zest_model_description *is = pass->pass.is;
    zest_grad *grad = pass->grad;
    size_t rows = pass->pass.room_rows, q = pass->pass.q_width, widest = zest_grad_widest(pass);
    size_t within = 2 * q + pass->pass.stride, keys = 0, slots = recompute ? 1 : is->layers;
    if (within < 2 * is->inner) within = 2 * is->inner;
    if (pass->request.batch->parents) keys = pass->pass.key_rows * 2 * pass->pass.kv_width;
    const wanted_room all[ROOMS] = {
        {&grad->tape, rows * (slots * cells_of_layer(pass, recompute) + is->width)},
        {&grad->inputs, recompute ? is->layers * rows * is->width : 0},
        {&grad->d, 3 * rows * widest},
        {&grad->a, rows * widest},
        {&grad->runner->a, rows * widest}, /* for embed */
        {&grad->runner->past, keys},
        {&grad->wide, rows * within + keys},
        {&grad->head, pass->asked * 5 * widest}};
    for (size_t i = 0; i < ROOMS; i++) wanted[i] = all[i];
}

size_t zest_grad_plan_memory(const zest_grad *grad, size_t tokens, size_t outputs) {
    const zest_model_description *is = &grad->runner->model->is;
    size_t q = is->heads * is->head_size, stride = q + 2 * is->kv_heads * is->head_size;
    zest_grad scratch = *grad; /* its rooms are only pointed at */
    zest_grad_pass pass = {.grad = &scratch, .asked = outputs};
    zest_model_batch batch = {0};
    wanted_room wanted[ROOMS];
    size_t cells = 0;
    pass.pass.is = is;
    pass.pass.room_rows = tokens;
    pass.pass.q_width = q;
    pass.pass.stride = stride;
    pass.request.batch = &batch;
    list_rooms(&pass, grad->recompute, wanted);
    for (size_t i = 0; i < ROOMS; i++) cells += wanted[i].cells;
    return cells * zest_model_cell(grad->runner);
}

/* Bytes that are missing, and bytes that are let go of when they are had. */
static size_t bytes_wanted(const zest_grad_pass *pass, int recompute, size_t *had) {
    wanted_room wanted[ROOMS];
    size_t bytes = 0, cell = zest_model_cell(pass->grad->runner);
    *had = 0;
    list_rooms(pass, recompute, wanted);
    for (size_t i = 0; i < ROOMS; i++) {
        if (wanted[i].cells <= wanted[i].room->count) continue;
        bytes += wanted[i].cells * cell;
        *had += wanted[i].room->count * cell;
    }
    return bytes;
}

static zest_status foresee(const zest_grad_pass *pass) {
    zest_model_runner *runner = pass->grad->runner;
    size_t had, less_had, bytes = bytes_wanted(pass, pass->grad->recompute, &had);
    if (!bytes) return ZEST_OK;
    size_t room = runner->operations->device->available(runner->device) + had;
    if (bytes <= room) return ZEST_OK;
    size_t less = bytes_wanted(pass, 1, &less_had), row = bytes / pass->pass.room_rows;
    const double mib = 1048576;
    char other[160] = "";
    if (!pass->grad->recompute && less <= room - had + less_had)
        (void)zest_number_format(other, sizeof other, "--recompute needs %.1f MiB; or ", (double)less / mib);
    return zest_error_set(pass->error, ZEST_ERROR_MEMORY,
                          "the gradient of a batch of %zu tokens needs %.1f MiB of the device's memory for "
                          "activations, and %.1f are free: %sabout %zu tokens would fit%s",
                          pass->pass.room_rows, (double)bytes / mib, (double)room / mib, other,
                          row ? room / row : 0,
                          other[0] || pass->grad->recompute ? "" : " (more with --recompute)");
}

zest_status zest_grad_make_room(zest_grad_pass *pass) {
    wanted_room wanted[ROOMS];
    zest_status status = pass->grad->runner->device ? foresee(pass) : ZEST_OK;
    pass->row_cells = cells_of_layer(pass, pass->grad->recompute);
    list_rooms(pass, pass->grad->recompute, wanted);
    for (size_t i = 0; i < ROOMS && !status; i++)
        status = zest_model_room_for(pass->grad->runner, wanted[i].room, 1, wanted[i].cells, pass->error);
    return status;
}
