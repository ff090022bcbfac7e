/* The activations that a forward pass saves for the backward pass: their memory, their layout, and what the
 * forward pass (model/transformer.c) calls while it saves them. */
#include "base/text.h"
#include "grad/grad_internal.h"

size_t zest_grad_max_width(const zest_grad_pass *pass) {
    const zest_model_config *config = pass->pass.config;
    return config->hidden_size > config->embedding_size ? config->hidden_size : config->embedding_size;
}

void *zest_grad_stream(const zest_grad_pass *pass, size_t which) {
    return zest_model_offset(pass->grad->runner, pass->grad->d.data,
                             which * pass->pass.max_rows * zest_grad_max_width(pass));
}

/* ---- Layout ---- */

/* `count` activations from *next on, which moves behind them. */
static void *take(const zest_grad_pass *pass, void **next, size_t count) {
    void *taken = *next;
    *next = zest_model_offset(pass->grad->runner, taken, count);
    return taken;
}

/* With `recompute`: x lies in a buffer of its own, the rest in one that all layers share. */
static void *saved_x(const zest_grad_pass *pass, size_t i) {
    zest_grad *grad = pass->grad;
    size_t rows = pass->pass.max_rows;
    return grad->recompute
               ? zest_model_offset(grad->runner, grad->inputs.data, i * rows * pass->pass.config->hidden_size)
               : zest_model_offset(grad->runner, grad->tape.data, i * rows * pass->row_cells);
}

zest_saved_layer zest_grad_saved(const zest_grad_pass *pass, size_t i) {
    const zest_model_config *config = pass->pass.config;
    zest_grad *grad = pass->grad;
    size_t rows = pass->pass.max_rows, layer_size = rows * pass->row_cells;
    int last = i + 1 == config->layers;
    void *next = zest_model_offset(grad->runner, grad->tape.data, (grad->recompute ? 0 : i) * layer_size);
    zest_saved_layer saved = {.x = saved_x(pass, i), .normed = grad->a.data, .inner = grad->wide.data};
    if (!grad->recompute) (void)take(pass, &next, rows * config->hidden_size); /* x */
    saved.qkv = take(pass, &next, rows * pass->pass.qkv_stride);
    saved.context = take(pass, &next, rows * pass->pass.q_width);
    saved.attended = take(pass, &next, rows * config->hidden_size);
    saved.up = take(pass, &next, rows * config->ffn_size);
    if (config->gated) saved.gate = take(pass, &next, rows * config->ffn_size);
    if (config->post_norm) saved.mlp_sum = next;
    saved.context_all = last ? grad->wide.data : saved.context;
    saved.residual = last ? zest_model_offset(grad->runner, grad->tape.data,
                                              (grad->recompute ? 1 : config->layers) * layer_size)
                          : saved.x;
    saved.out = last ? grad->head.data : saved_x(pass, i + 1);
    return saved;
}

/* What follows the layers, in grad->head: the last layer's output, then what each step makes of it. */
static void lay_out_head(zest_grad_pass *pass) {
    const zest_model *model = &pass->grad->view;
    const zest_model_config *config = pass->pass.config;
    size_t size = pass->asked * zest_grad_max_width(pass);
    void *next = pass->grad->head.data;
    zest_forward_save *save = &pass->save;
    (void)take(pass, &next, size);
    if (config->final_norm) save->final_normed = take(pass, &next, size);
    if (model->project_out.weight.data) save->projected = take(pass, &next, size);
    if (!config->head_transform) return;
    save->head_activated = pass->grad->a.data;
    save->head_dense = take(pass, &next, size);
    save->features = next;
}

/* ---- What the forward pass calls ---- */

static zest_saved_layer forward_layer(void *user, size_t i) {
    zest_grad_pass *pass = user;
    zest_saved_layer saved = zest_grad_saved(pass, i);
    if (pass->recomputing) saved.out = NULL;
    return saved;
}

static void activate(void *user, void *out, const void *x, const void *up, size_t count,
                     zest_activation activation) {
    const zest_grad_pass *pass = user;
    zest_model_runner *runner = pass->grad->runner;
    pass->grad->backward->activate(out, x, up, count, activation, runner->threads, &runner->scratch);
}

zest_mask zest_dropout_mask(const zest_dropout *dropout, double rate, size_t layer, zest_dropout_site site) {
    zest_mask mask = {0, 0, 1.0f};
    if (!dropout || !(rate > 0)) return mask;
    double threshold = rate * 65536 + 0.5;
    mask.threshold = threshold < 65535 ? (uint32_t)threshold : 65535;
    mask.scale = (float)(65536.0 / (65536.0 - mask.threshold));
    mask.key = zest_seed(dropout->seed, layer, site);
    return mask;
}

zest_mask zest_grad_mask(const zest_grad_pass *pass, size_t layer, zest_dropout_site site) {
    const zest_dropout *dropout = pass->job->dropout;
    const double rates[ZEST_DROPOUT_SITES] = {
        [ZEST_DROPOUT_EMBEDDINGS] = dropout ? dropout->embeddings : 0,
        [ZEST_DROPOUT_ATTENTION] = dropout ? dropout->attention : 0,
        [ZEST_DROPOUT_ATTENDED] = dropout ? dropout->added : 0,
        [ZEST_DROPOUT_MLP] = dropout ? dropout->added : 0,
    };
    return zest_dropout_mask(dropout, rates[site], layer, site);
}

static int attention_with_dropout(void *user, size_t layer, const zest_attention *job) {
    zest_grad_pass *pass = user;
    zest_model_runner *runner = pass->grad->runner;
    zest_mask mask = zest_grad_mask(pass, layer, ZEST_DROPOUT_ATTENTION);
    zest_attention_backward masked = {.forward = *job,
                                      .mask = &mask,
                                      .longest = pass->pass.config->max_positions,
                                      .keys = pass->longest_keys,
                                      .rows = pass->rows};
    return pass->grad->backward->attention_masked(&masked, runner->threads, &runner->scratch);
}

static void drop(void *user, size_t layer, zest_dropout_site site, void *x, const void *residual,
                 size_t count) {
    const zest_grad_pass *pass = user;
    zest_model_runner *runner = pass->grad->runner;
    zest_mask mask = zest_grad_mask(pass, layer, site);
    pass->grad->backward->drop(x, x, residual, count, &mask, runner->threads, &runner->scratch);
}

/* ---- The pass ---- */

static zest_status save_output(zest_model_runner *runner, const zest_group_output *group, void *user,
                               zest_error *error) {
    zest_grad_pass *pass = user;
    const void *features[2];
    zest_status status = zest_model_head_transform(runner, group, features, error);
    pass->h = group->h[0];
    pass->features = features[0];
    return status;
}

zest_status zest_grad_forward(zest_grad_pass *pass) {
    zest_status status = zest_grad_alloc(pass);
    if (!status) status = zest_grad_list_keys(pass);
    if (status) return status;
    pass->save = (zest_forward_save){.user = pass,
                                     .layer = forward_layer,
                                     .activate = activate,
                                     .attention = attention_with_dropout,
                                     .drop = drop};
    for (size_t site = 0; site < ZEST_DROPOUT_SITES; site++)
        pass->save.drops[site] = zest_grad_mask(pass, 0, (zest_dropout_site)site).threshold != 0;
    lay_out_head(pass);
    pass->request.save = &pass->save;
    pass->request.on_group = save_output;
    pass->request.user = pass;
    void *x = pass->pass.config->layers ? zest_grad_saved(pass, 0).x : pass->grad->head.data;
    pass->lane.x[0] = pass->lane.x[1] = x;
    return zest_forward_groups(&pass->pass, &pass->lane, 1);
}

zest_status zest_grad_recompute_layer(zest_grad_pass *pass, size_t i) {
    zest_lane_group lane = pass->lane;
    size_t rows;
    lane.x[0] = lane.x[1] = saved_x(pass, i);
    pass->recomputing = 1;
    zest_status status = zest_model_forward_layer(&pass->pass, i, &lane, &rows);
    pass->recomputing = 0;
    return status;
}

/* ---- Memory ---- */

typedef struct {
    zest_model_buffer *room;
    size_t cells;
} wanted_room;
enum { ROOMS = 8 };

/* Cells a row that a layer keeps. */
static size_t cells_of_layer(const zest_grad_pass *pass, int recompute) {
    const zest_model_config *config = pass->pass.config;
    return (recompute ? 0 : config->hidden_size) + pass->pass.qkv_stride + pass->pass.q_width +
           config->hidden_size + config->ffn_size * (config->gated ? 2 : 1) +
           (config->post_norm ? config->hidden_size : 0);
}

static void list_rooms(const zest_grad_pass *pass, int recompute, wanted_room wanted[ROOMS]) {
    const zest_model_config *config = pass->pass.config;
    zest_grad *grad = pass->grad;
    size_t rows = pass->pass.max_rows, q = pass->pass.q_width, widest = zest_grad_max_width(pass);
    size_t within = 2 * q + pass->pass.qkv_stride, keys = 0, slots = recompute ? 1 : config->layers;
    if (within < 2 * config->ffn_size) within = 2 * config->ffn_size;
    if (pass->request.batch->prefix_of) keys = pass->pass.key_rows * 2 * pass->pass.kv_width;
    const wanted_room all[ROOMS] = {
        {&grad->tape, rows * (slots * cells_of_layer(pass, recompute) + config->hidden_size)},
        {&grad->inputs, recompute ? config->layers * rows * config->hidden_size : 0},
        {&grad->d, 3 * rows * widest},
        {&grad->a, rows * widest},
        {&grad->runner->norm_out, rows * widest}, /* for embed */
        {&grad->runner->prefix_kv, keys},
        {&grad->wide, rows * within + keys},
        {&grad->head, pass->asked * 5 * widest}};
    for (size_t i = 0; i < ROOMS; i++) wanted[i] = all[i];
}

size_t zest_grad_plan_memory(const zest_grad *grad, size_t tokens, size_t outputs) {
    const zest_model_config *config = &grad->runner->model->config;
    size_t q = config->heads * config->head_dim, stride = q + 2 * config->kv_heads * config->head_dim;
    zest_grad scratch = *grad; /* its rooms are only pointed at */
    zest_grad_pass pass = {.grad = &scratch, .asked = outputs};
    zest_model_batch batch = {0};
    wanted_room wanted[ROOMS];
    size_t cells = 0;
    pass.pass.config = config;
    pass.pass.max_rows = tokens;
    pass.pass.q_width = q;
    pass.pass.qkv_stride = stride;
    pass.request.batch = &batch;
    list_rooms(&pass, grad->recompute, wanted);
    for (size_t i = 0; i < ROOMS; i++) cells += wanted[i].cells;
    return cells * zest_model_element_size(grad->runner);
}

/* Bytes that are missing, and bytes that are let go of when they are had. */
static size_t bytes_wanted(const zest_grad_pass *pass, int recompute, size_t *had) {
    wanted_room wanted[ROOMS];
    size_t bytes = 0, cell = zest_model_element_size(pass->grad->runner);
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
    size_t less = bytes_wanted(pass, 1, &less_had), row = bytes / pass->pass.max_rows;
    const double mib = 1048576;
    char other[160] = "";
    if (!pass->grad->recompute && less <= room - had + less_had)
        (void)zest_number_format(other, sizeof other, "--recompute needs %.1f MiB; or ", (double)less / mib);
    return zest_error_set(pass->error, ZEST_ERROR_MEMORY,
                          "the gradient of a batch of %zu tokens needs %.1f MiB of the device's memory for "
                          "activations, and %.1f are free: %sabout %zu tokens would fit%s",
                          pass->pass.max_rows, (double)bytes / mib, (double)room / mib, other,
                          row ? room / row : 0,
                          other[0] || pass->grad->recompute ? "" : " (more with --recompute)");
}

zest_status zest_grad_alloc(zest_grad_pass *pass) {
    wanted_room wanted[ROOMS];
    zest_status status = pass->grad->runner->device ? foresee(pass) : ZEST_OK;
    pass->row_cells = cells_of_layer(pass, pass->grad->recompute);
    list_rooms(pass, pass->grad->recompute, wanted);
    for (size_t i = 0; i < ROOMS && !status; i++)
        status =
            zest_model_buffer_reserve(pass->grad->runner, wanted[i].room, 1, wanted[i].cells, pass->error);
    return status;
}
