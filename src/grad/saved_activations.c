/* The activations that a forward pass saves for the backward pass: their memory, their layout, and what the
 * forward pass (model/transformer.c) calls while it saves them. */
#include "base/text.h"
#include "grad/grad_internal.h"

/* Elements of the widest row outside a layer. */
static size_t max_width(const zest_grad_pass *pass) {
    const zest_model_config *config = pass->forward.config;
    return config->hidden_size > config->embedding_size ? config->hidden_size : config->embedding_size;
}

void *zest_grad_d_stream(const zest_grad_pass *pass, size_t which) {
    return zest_model_offset(pass->grad->runner, pass->grad->d_stream.data,
                             which * pass->forward.max_rows * max_width(pass));
}

/* ---- Layout ---- */

/* `count` activations from *next on; *next moves past them. */
static void *take(const zest_grad_pass *pass, void **next, size_t count) {
    void *taken = *next;
    *next = zest_model_offset(pass->grad->runner, taken, count);
    return taken;
}

/* With `recompute`, x is in a buffer of its own and the rest in one that all layers share. */
static void *saved_x(const zest_grad_pass *pass, size_t i) {
    zest_grad *grad = pass->grad;
    size_t rows = pass->forward.max_rows;
    return grad->recompute ? zest_model_offset(grad->runner, grad->inputs.data,
                                               i * rows * pass->forward.config->hidden_size)
                           : zest_model_offset(grad->runner, grad->saved.data, i * rows * pass->layer_width);
}

zest_saved_layer zest_grad_saved(const zest_grad_pass *pass, size_t i) {
    const zest_model_config *config = pass->forward.config;
    zest_grad *grad = pass->grad;
    size_t rows = pass->forward.max_rows, layer_size = rows * pass->layer_width;
    int last = i + 1 == config->layers;
    void *next = zest_model_offset(grad->runner, grad->saved.data, (grad->recompute ? 0 : i) * layer_size);
    zest_saved_layer saved = {
        .x = saved_x(pass, i), .normed = grad->norm_out.data, .inner = grad->layer_work.data};
    if (!grad->recompute) (void)take(pass, &next, rows * config->hidden_size); /* x */
    saved.qkv = take(pass, &next, rows * pass->forward.qkv_stride);
    if (config->qk_norm)
        saved.qk_before_norm = take(pass, &next, rows * (pass->forward.q_width + pass->forward.kv_width));
    saved.context = take(pass, &next, rows * pass->forward.q_width);
    saved.attended = take(pass, &next, rows * config->hidden_size);
    saved.up = take(pass, &next, rows * config->ffn_size);
    if (config->gated) saved.gate = take(pass, &next, rows * config->ffn_size);
    if (config->branch_norms) saved.out_branch = take(pass, &next, rows * config->hidden_size);
    if (config->branch_norms) saved.down_branch = take(pass, &next, rows * config->hidden_size);
    if (config->post_norm) saved.mlp_sum = next;
    saved.context_all = last ? grad->layer_work.data : saved.context;
    saved.residual = last ? zest_model_offset(grad->runner, grad->saved.data,
                                              (grad->recompute ? 1 : config->layers) * layer_size)
                          : saved.x;
    saved.out = last ? grad->head_saved.data : saved_x(pass, i + 1);
    return saved;
}

/* What follows the layers, in grad->head_saved: the last layer's output, then what each step makes of it. */
static void lay_out_head(zest_grad_pass *pass) {
    const zest_model *model = &pass->grad->view;
    const zest_model_config *config = pass->forward.config;
    size_t size = pass->out_rows * max_width(pass);
    void *next = pass->grad->head_saved.data;
    zest_forward_save *save = &pass->save;
    (void)take(pass, &next, size);
    if (config->final_norm) save->final_normed = take(pass, &next, size);
    if (model->project_out.weight.data) save->projected = take(pass, &next, size);
    if (!config->head_transform) return;
    save->head_activated = pass->grad->norm_out.data;
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
                                      .longest = pass->forward.config->max_positions,
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

/* ---- Memory ---- */

typedef struct {
    zest_model_buffer *buffer;
    size_t elements;
} buffer_size;
enum { BUFFERS = 8 };

/* Elements a row that a layer saves. */
static size_t saved_width(const zest_grad_pass *pass, int recompute) {
    const zest_model_config *config = pass->forward.config;
    return (recompute ? 0 : config->hidden_size) + pass->forward.qkv_stride + pass->forward.q_width +
           config->hidden_size + config->ffn_size * (config->gated ? 2 : 1) +
           (config->post_norm ? config->hidden_size : 0) +
           (config->branch_norms ? 2 * config->hidden_size : 0) +
           (config->qk_norm ? pass->forward.q_width + pass->forward.kv_width : 0);
}

static void list_buffers(const zest_grad_pass *pass, int recompute, buffer_size sizes[BUFFERS]) {
    const zest_model_config *config = pass->forward.config;
    zest_grad *grad = pass->grad;
    size_t rows = pass->forward.max_rows, q = pass->forward.q_width, widest = max_width(pass);
    size_t work = 2 * q + pass->forward.qkv_stride, keys = 0, slots = recompute ? 1 : config->layers;
    if (work < 2 * config->ffn_size) work = 2 * config->ffn_size;
    if (pass->request.batch->prefix_of) keys = pass->forward.key_rows * 2 * pass->forward.kv_width;
    const buffer_size all[BUFFERS] = {
        {&grad->saved, rows * (slots * saved_width(pass, recompute) + config->hidden_size)},
        {&grad->inputs, recompute ? config->layers * rows * config->hidden_size : 0},
        {&grad->d_stream, 3 * rows * widest},
        {&grad->norm_out, rows * widest},
        {&grad->runner->norm_out, rows * widest}, /* for embed */
        {&grad->runner->prefix_kv, keys},
        {&grad->layer_work, rows * work + keys},
        {&grad->head_saved, pass->out_rows * 5 * widest}};
    for (size_t i = 0; i < BUFFERS; i++) sizes[i] = all[i];
}

size_t zest_grad_plan_memory(const zest_grad *grad, size_t tokens, size_t outputs) {
    const zest_model_config *config = &grad->runner->model->config;
    size_t q = config->heads * config->head_dim, stride = q + 2 * config->kv_heads * config->head_dim;
    zest_grad copy = *grad; /* list_buffers only points at its buffers */
    zest_grad_pass pass = {.grad = &copy, .out_rows = outputs};
    zest_model_batch batch = {0};
    buffer_size sizes[BUFFERS];
    size_t elements = 0;
    pass.forward.config = config;
    pass.forward.max_rows = tokens;
    pass.forward.q_width = q;
    pass.forward.kv_width = (stride - q) / 2;
    pass.forward.qkv_stride = stride;
    pass.request.batch = &batch;
    list_buffers(&pass, grad->recompute, sizes);
    for (size_t i = 0; i < BUFFERS; i++) elements += sizes[i].elements;
    return elements * zest_model_element_size(grad->runner);
}

/* Bytes of the buffers that have to grow, and the bytes that growing them frees. */
static size_t bytes_to_allocate(const zest_grad_pass *pass, int recompute, size_t *freed) {
    buffer_size sizes[BUFFERS];
    size_t bytes = 0, element_size = zest_model_element_size(pass->grad->runner);
    *freed = 0;
    list_buffers(pass, recompute, sizes);
    for (size_t i = 0; i < BUFFERS; i++) {
        if (sizes[i].elements <= sizes[i].buffer->count) continue;
        bytes += sizes[i].elements * element_size;
        *freed += sizes[i].buffer->count * element_size;
    }
    return bytes;
}

/* On a device: refuses a batch that would not fit. */
static zest_status check_memory(const zest_grad_pass *pass) {
    zest_model_runner *runner = pass->grad->runner;
    size_t freed, less_freed, bytes = bytes_to_allocate(pass, pass->grad->recompute, &freed);
    if (!bytes) return ZEST_OK;
    size_t available = runner->operations->device->available(runner->device) + freed;
    if (runner->device->error.status) return zest_device_take_error(runner->device, pass->error);
    if (bytes <= available) return ZEST_OK;
    size_t less = bytes_to_allocate(pass, 1, &less_freed), row = bytes / pass->forward.max_rows;
    const double mib = 1048576;
    char advice[160] = "";
    if (!pass->grad->recompute && less <= available - freed + less_freed)
        (void)zest_number_format(advice, sizeof advice, "--recompute needs %.1f MiB; or ",
                                 (double)less / mib);
    return zest_error_set(pass->error, ZEST_ERROR_MEMORY,
                          "the gradient of a batch of %zu tokens needs %.1f MiB of the device's memory for "
                          "activations, and %.1f are free: %sabout %zu tokens would fit%s",
                          pass->forward.max_rows, (double)bytes / mib, (double)available / mib, advice,
                          row ? available / row : 0,
                          advice[0] || pass->grad->recompute ? "" : " (more with --recompute)");
}

static zest_status alloc(zest_grad_pass *pass) {
    buffer_size sizes[BUFFERS];
    zest_status status = pass->grad->runner->device ? check_memory(pass) : ZEST_OK;
    pass->layer_width = saved_width(pass, pass->grad->recompute);
    list_buffers(pass, pass->grad->recompute, sizes);
    for (size_t i = 0; i < BUFFERS && !status; i++)
        status =
            zest_model_buffer_reserve(pass->grad->runner, sizes[i].buffer, 1, sizes[i].elements, pass->error);
    return status;
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
    zest_status status = alloc(pass);
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
    void *x = pass->forward.config->layers ? zest_grad_saved(pass, 0).x : pass->grad->head_saved.data;
    pass->lane.x[0] = pass->lane.x[1] = x;
    return zest_forward_groups(&pass->forward, &pass->lane, 1);
}

zest_status zest_grad_recompute_layer(zest_grad_pass *pass, size_t i) {
    zest_lane_group lane = pass->lane;
    size_t rows;
    lane.x[0] = lane.x[1] = saved_x(pass, i);
    pass->recomputing = 1;
    zest_status status = zest_model_forward_layer(&pass->forward, i, &lane, &rows);
    pass->recomputing = 0;
    return status;
}
