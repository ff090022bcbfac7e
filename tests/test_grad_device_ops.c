/* The operations of the backward pass on a GPU against the plain C ones, on operands rounded to the compute's
 * type. Without a GPU these tests are skipped. */
#include "grad/backward.h"
#include "grad/grad.h"
#include "tests/device_support.h"

enum { COMPUTES = 2 };
/* Of results of about 1: sums of some thousand products in fp32 in another order; in bf16 results that are
 * rounded. */
static const double tolerance[COMPUTES] = {2e-5, 2e-2};
/* Of sums over rows, which are floats whatever the compute, relative to the largest. */
static const double sum_tolerance[COMPUTES] = {1e-5, 1e-5};

/* ---- Norm, columns ---- */

typedef struct {
    size_t rows, width;
    int gain, rms, add, moves;
    zest_dtype dtype;
} norm_case;

static void one_norm(zest_device *device, int c, const norm_case *n) {
    size_t all = n->rows * n->width;
    float *x = normals(all, 1, 2), *dy = normals(all, 2, 1), *dx = normals(all, 3, 1),
          *gain = guarded(n->width);
    zest_weight stored = weight(n->dtype, 1, n->width, 4, 1, 1003);
    zest_perturbation p = {.seed = 9, .scale = {n->moves ? 0.1f : 0}, .lanes = 1};
    zest_workspace scratch = {.device = device}, host = {0};
    uint32_t none = 0;
    void *out[2] = {gain, gain};
    assert_int_equal(zest_ops_gather_rows(&zest_ops_plain, &stored, &p, &none, 1, out, 1, &host), 0);
    zest_norm_backward job = {.rms = n->rms,
                              .epsilon = 1e-5f,
                              .add = n->add,
                              .rows = n->rows,
                              .width = n->width,
                              .perturbation = p};
    zest_norm_backward on_device = job;
    float *sums = normals(2 * n->width, 5, 1),
          *d_sums = device_upload(device, sums, 2 * n->width * sizeof *sums);
    on_device.x = device_upload_activations(device, x, all);
    on_device.dy = device_upload_activations(device, dy, all);
    on_device.dx = device_upload_activations(device, dx, all);
    if (n->gain) on_device.stored = device_upload_weight(device, &stored);
    on_device.d_gain = d_sums, on_device.d_bias = d_sums + n->width;
    job.x = x, job.dy = dy, job.dx = dx, job.d_gain = sums, job.d_bias = sums + n->width;
    if (n->gain) job.gain = gain;
    assert_int_equal(zest_backward_plain.norm(&job, 1, &host), 0);
    device_check(device, zest_backward_for(device->operations)->norm(&on_device, 1, &scratch));
    float *got = guarded(all), *got_sums = device_download(device, d_sums, 2 * n->width * sizeof *sums);
    device_download_activations(device, on_device.dx, all, got);
    char what[80];
    snprintf(what, sizeof what, "%s norm %zu × %zu %d%d%d%d", device_names[c], n->rows, n->width, n->gain,
             n->rms, n->add, n->moves);
    device_compare(got, dx, n->rows, n->width, n->width, 4 * tolerance[c], what);
    device_compare(got_sums, sums, 1, 2 * n->width, 2 * n->width,
                   sum_tolerance[c] * device_largest(sums, 2 * n->width, 1, 1), what);
    /* without the sums, in place of dy */
    on_device.dx = (float *)(uintptr_t)on_device.dy, on_device.add = 0,
    on_device.d_gain = on_device.d_bias = NULL;
    job.dx = dy, job.add = 0, job.d_gain = job.d_bias = NULL;
    assert_int_equal(zest_backward_plain.norm(&job, 1, &host), 0);
    device_check(device, zest_backward_for(device->operations)->norm(&on_device, 1, &scratch));
    device_download_activations(device, on_device.dx, all, got);
    device_compare(got, dy, n->rows, n->width, n->width, 4 * tolerance[c], what);
    float *const made[] = {x, dy, dx, gain, sums, got, got_sums, host.data};
    for (size_t i = 0; i < COUNT(made); i++) free(made[i]);
    release(&stored);
}

static void norms(void **state) {
    (void)state;
    static const norm_case cases[] = {
        {1, 8, 1, 0, 0, 0, ZEST_DTYPE_F32},     {37, 7, 1, 0, 1, 1, ZEST_DTYPE_F32},
        {50, 40, 0, 0, 0, 0, ZEST_DTYPE_F32},   {19, 256, 1, 1, 1, 0, ZEST_DTYPE_BF16},
        {70, 512, 1, 0, 0, 1, ZEST_DTYPE_F16},  {600, 768, 1, 0, 0, 0, ZEST_DTYPE_BF16},
        {33, 768, 1, 0, 1, 1, ZEST_DTYPE_F32},  {40, 1024, 1, 0, 1, 0, ZEST_DTYPE_BF16},
        {17, 2048, 1, 1, 1, 0, ZEST_DTYPE_F32}, {9, 4096, 1, 1, 1, 1, ZEST_DTYPE_BF16},
        {5, 5120, 1, 0, 0, 0, ZEST_DTYPE_F32},  {3, 8200, 1, 0, 0, 0, ZEST_DTYPE_F32}};
    for (int c = 0; c < COMPUTES; c++) {
        zest_device *device = device_open(device_computes[c]);
        for (size_t i = 0; i < COUNT(cases); i++) one_norm(device, c, &cases[i]);
        zest_device_close(device);
    }
    device_assert_matches();
}

static void columns(void **state) {
    (void)state;
    static const size_t shapes[][3] = {
        {1, 1, 1}, {100, 7, 9}, {513, 768, 2304}, {3, 3072, 3072}, {5000, 40, 40}};
    for (int c = 0; c < COMPUTES; c++) {
        zest_device *device = device_open(device_computes[c]);
        for (size_t i = 0; i < COUNT(shapes); i++) {
            size_t rows = shapes[i][0], width = shapes[i][1], stride = shapes[i][2];
            zest_workspace scratch = {.device = device}, host = {0};
            float *x = normals(rows * stride, 1, 1), *sums = normals(width, 2, 1);
            float *on_device = device_upload(device, sums, width * sizeof *sums);
            float *activations = device_upload_activations(device, x, rows * stride);
            assert_int_equal(zest_backward_plain.sum_columns(x, stride, rows, width, sums, 1, &host), 0);
            device_check(device, zest_backward_for(device->operations)
                                     ->sum_columns(activations, stride, rows, width, on_device, 1, &scratch));
            float *got = device_download(device, on_device, width * sizeof *got);
            device_compare(got, sums, 1, width, width, sum_tolerance[c] * device_largest(sums, width, 1, 1),
                           "columns");
            free(x), free(sums), free(got), free(host.data);
        }
        zest_device_close(device);
    }
    device_assert_matches();
}

/* ---- Element by element ---- */

static void activations(void **state) {
    (void)state;
    enum { ALL = 4001 };
    for (int c = 0; c < COMPUTES; c++) {
        zest_device *device = device_open(device_computes[c]);
        for (int form = 0; form < 20; form++) { /* aligned or not, gated or not */
            zest_activation kind = (zest_activation)(form / 4);
            size_t count = form & 1 ? ALL : 4000, skip = form & 1 ? 1 : 0;
            zest_workspace scratch = {.device = device};
            float *x = guarded(count), *up = normals(count, 4, 1), *d = normals(count, 5, 1),
                  *y = guarded(count), *d_up = guarded(count), *got = guarded(count);
            for (size_t i = 0; i < count; i++) x[i] = (float)((double)i - 2000) * 0.004f + 0.0013f;
            float *xs = device_upload_activations(device, x, count),
                  *ups = device_upload_activations(device, up, count);
            float *ds = device_upload_activations(device, d, count),
                  *ys = device_upload_activations(device, y, count);
            float *d_ups = device_upload_activations(device, d_up, count);
            const float *by = form & 2 ? up : NULL, *bys = form & 2 ? ups : NULL;
            size_t bytes = skip * device->element_size, n = count - skip;
#define AT(x) ((void *)((char *)(uintptr_t)(x) + bytes))
            zest_plain_activate(y + skip, x + skip, by ? by + skip : NULL, n, kind, 1, NULL);
            zest_backward_for(device->operations)
                ->activate(AT(ys), AT(xs), bys ? AT(bys) : NULL, n, kind, 1, &scratch);
            zest_plain_activate_backward(d + skip, d_up + skip, x + skip, by ? by + skip : NULL, n, kind, 1,
                                         NULL);
            zest_backward_for(device->operations)
                ->activate_backward(AT(ds), AT(d_ups), AT(xs), bys ? AT(bys) : NULL, n, kind, 1, &scratch);
#undef AT
            double allowed = 2e-6 + device_step[c];
            device_download_activations(device, ys, count, got);
            device_compare(got + skip, y + skip, 1, n, n, allowed, "activate");
            device_download_activations(device, ds, count, got);
            device_compare(got + skip, d + skip, 1, n, n, allowed * 2, "activate, back");
            device_download_activations(device, d_ups, count, got);
            if (by) device_compare(got + skip, d_up + skip, 1, n, n, allowed, "activate, back to up");
            free(x), free(up), free(d), free(y), free(d_up), free(got);
        }
        zest_device_close(device);
    }
    device_assert_matches();
}

/* Masks are the same bits; in fp32 so are the results. */
static void drops(void **state) {
    (void)state;
    static const size_t counts[] = {1, 8, 4096, 100003};
    for (int c = 0; c < COMPUTES; c++) {
        zest_device *device = device_open(device_computes[c]);
        for (size_t i = 0; i < 2 * COUNT(counts); i++) {
            size_t count = counts[i / 2];
            zest_workspace scratch = {.device = device};
            zest_mask mask = zest_dropout_mask(&(zest_dropout){0, 0.3, 0, 7}, 0.3, i, ZEST_DROPOUT_MLP);
            float *x = normals(count, 1, 1), *r = normals(count, 2, 1), *got = guarded(count);
            float *xs = device_upload_activations(device, x, count),
                  *rs = device_upload_activations(device, r, count);
            zest_plain_drop(x, x, i & 1 ? r : NULL, count, &mask, 1, NULL);
            zest_backward_for(device->operations)->drop(xs, xs, i & 1 ? rs : NULL, count, &mask, 1, &scratch);
            device_download_activations(device, xs, count, got);
            device_compare(got, x, 1, count, count, c ? device_step[c] : 0, "drop");
            free(x), free(r), free(got);
        }
        float *x = normals(100, 1, 1), *on_device = device_upload(device, x, 100 * sizeof *x);
        zest_backward_for(device->operations)
            ->negate(on_device, on_device, 100, 1, &(zest_workspace){.device = device});
        float *got = device_download(device, on_device, 100 * sizeof *x);
        for (size_t i = 0; i < 100; i++) assert_true(got[i] == -x[i]);
        free(x), free(got);
        zest_device_close(device);
    }
    device_assert_matches();
}

/* ---- Rows ---- */

/* An index of lists of row i % rows, some of them long; in the order of zest_grad_index. */
static zest_scatter_index make_index(uint32_t *table, size_t count, size_t rows, size_t *used) {
    uint32_t *targets = table, *starts = targets + rows, *runs = starts + rows + 1, *sources = NULL;
    size_t run = 0, at = 0;
    for (size_t pass = 0; pass < 2; pass++) {
        run = at = 0;
        for (size_t r = 0; r < rows; r++) {
            size_t in_run = 0;
            targets[r] = (uint32_t)(rows - 1 - r);
            starts[r] = (uint32_t)run;
            for (size_t i = 0; i < count; i++) {
                if (i * 2654435761u % 97 % rows != r || r == 1) continue; /* row 1: nobody */
                if (in_run++ % ZEST_SCATTER_RUN == 0) runs[run++] = (uint32_t)at;
                if (sources) sources[at] = (uint32_t)i;
                at++;
            }
        }
        starts[rows] = (uint32_t)run;
        runs[run] = (uint32_t)at;
        sources = runs + run + 1;
    }
    *used = (size_t)(sources + at - table);
    return (zest_scatter_index){targets, starts, runs, sources, rows, run, count > rows * ZEST_SCATTER_RUN};
}

static void one_scatter_add(zest_device *device, int c, size_t count, size_t rows, size_t width, int add) {
    uint32_t table[4000];
    size_t used, x_stride = width + 8, out_stride = width + 16;
    zest_scatter_index index = make_index(table, count, rows, &used);
    assert_true(used <= COUNT(table));
    const uint32_t *uploaded = device_upload(device, table, used * sizeof *table);
    float *x = normals(count * x_stride, 1, 1), *out = normals(rows * out_stride, 2, 1);
    zest_scatter_add job = {index, x, out, x_stride, out_stride, width, add}, on_device = job;
    on_device.x = device_upload_activations(device, x, count * x_stride);
    on_device.out = add ? device_upload(device, out, rows * out_stride * sizeof *out)
                        : (void *)device_upload_activations(device, out, rows * out_stride);
    on_device.index.targets = uploaded;
    on_device.index.starts = uploaded + (index.starts - table);
    on_device.index.runs = uploaded + (index.runs - table);
    on_device.index.sources = uploaded + (index.sources - table);
    assert_int_equal(zest_plain_scatter_add(&job, 2, NULL), 0);
    device_check(device, zest_backward_for(device->operations)
                             ->scatter_add(&on_device, 1, &(zest_workspace){.device = device}));
    float *got = guarded(rows * out_stride);
    if (add)
        device_check(device, device->operations->device->download(device, got, on_device.out,
                                                                  rows * out_stride * sizeof *got));
    else
        device_download_activations(device, on_device.out, rows * out_stride, got);
    device_compare(got, out, rows, width, out_stride,
                   add || !c ? 2e-6 * sqrt((double)count) : 2 * device_step[c], "scatter_add");
    zest_copy_rows copy = {x, out, x_stride, out_stride, width, index.runs[1], index.sources, NULL, 1, 0, 0};
    zest_copy_rows copied = copy;
    copied.from = on_device.x, copied.to = device_upload_activations(device, out, rows * out_stride);
    copied.source = on_device.index.sources;
    if (copy.count > rows) copy.count = copied.count = rows;
    assert_int_equal(zest_plain_copy(&copy, 2, NULL), 0);
    device_check(
        device, zest_backward_for(device->operations)->copy(&copied, 1, &(zest_workspace){.device = device}));
    device_download_activations(device, copied.to, rows * out_stride, got);
    device_compare(got, out, rows, out_stride, out_stride, 0, "copy");
    free(x), free(out), free(got);
}

static void rows(void **state) {
    (void)state;
    for (int c = 0; c < COMPUTES; c++) {
        zest_device *device = device_open(device_computes[c]);
        for (int add = 0; add < 2; add++) {
            one_scatter_add(device, c, 12, 5, 768, add);
            one_scatter_add(device, c, 12, 5, 7, add);
            one_scatter_add(device, c, 900, 3, 64, add);
            one_scatter_add(device, c, 900, 3, 5, add);
            one_scatter_add(device, c, 1, 3, 8, add);
        }
        zest_device_close(device);
    }
    device_assert_matches();
}

/* ---- Logits ---- */

static void one_words(zest_device *device, int c, size_t items, size_t width, int twice) {
    enum { WORDS = 3, VOCABULARY = 11 };
    const uint32_t words[WORDS] = {7, 2, twice ? 7 : 10};
    size_t table = VOCABULARY * (width + 1);
    float *by = normals(items * WORDS, 1, 1), *lines = normals(WORDS * width, 2, 1),
          *features = normals(items * width, 3, 1), *d = guarded(items * width), *head = normals(table, 4, 1);
    zest_label_words_backward job = {by,    lines, features, d, words, head, head + VOCABULARY * width,
                                     items, WORDS, width};
    zest_label_words_backward on_device = job;
    on_device.d_logits = device_upload(device, by, items * WORDS * sizeof *by);
    on_device.rows = device_upload_activations(device, lines, WORDS * width);
    on_device.features = device_upload_activations(device, features, items * width);
    on_device.d = device_upload_activations(device, d, items * width);
    on_device.words = device_upload(device, words, sizeof words);
    on_device.d_weight = device_upload(device, head, table * sizeof *head);
    on_device.d_bias = on_device.d_weight + VOCABULARY * width;
    assert_int_equal(zest_plain_label_words_backward(&job, 1, NULL), 0);
    device_check(device, zest_backward_for(device->operations)
                             ->label_words(&on_device, 1, &(zest_workspace){.device = device}));
    float *got = guarded(items * width),
          *got_head = device_download(device, on_device.d_weight, table * sizeof *head);
    device_download_activations(device, on_device.d, items * width, got);
    device_compare(got, d, items, width, width, 1e-6 + device_step[c], "words");
    device_compare(got_head, head, 1, table, table, 1e-6 * (double)items, "words' head");
    free(by), free(lines), free(features), free(d), free(head), free(got), free(got_head);
}

static void one_logits(zest_device *device, int c, size_t rows, size_t count, size_t first) {
    size_t stride = (count + 7) / 8 * 8;
    float *logits = normals(rows * count, 1, 3), *d = guarded(rows * stride), *got = guarded(rows * stride);
    uint32_t *targets = malloc(rows * sizeof *targets);
    zest_logit_sum *sums = malloc(rows * sizeof *sums);
    double *weights = malloc(rows * sizeof *weights);
    assert_true(targets && sums && weights);
    for (size_t r = 0; r < rows; r++) {
        targets[r] = (uint32_t)(r * 7919 % (2 * first + count));
        sums[r] = (zest_logit_sum){4, 3.5 + (double)r, 0};
        weights[r] = r % 3 ? 0.25 : -3;
    }
    zest_logits_backward job = {{logits, rows, first, count, targets}, sums, weights, d, stride, 0},
                         on_device = job;
    on_device.block.logits = device_upload(device, logits, rows * count * sizeof *logits);
    on_device.block.targets = device_upload(device, targets, rows * sizeof *targets);
    on_device.sums = device_upload(device, sums, rows * sizeof *sums);
    on_device.weights = device_upload(device, weights, rows * sizeof *weights);
    on_device.d = device_upload_activations(device, d, rows * stride);
    assert_int_equal(zest_plain_logits_backward(&job, 1, NULL), 0);
    device_check(
        device,
        zest_backward_for(device->operations)->logits(&on_device, 1, &(zest_workspace){.device = device}));
    device_download_activations(device, on_device.d, rows * stride, got);
    device_compare(got, d, rows, count, stride, 1e-6 + device_step[c], "logits");
    free(logits), free(d), free(got), free(targets), free(sums), free(weights);
}

static void logits(void **state) {
    (void)state;
    for (int c = 0; c < COMPUTES; c++) {
        zest_device *device = device_open(device_computes[c]);
        one_words(device, c, 1, 5, 0);
        one_words(device, c, 70, 300, 0);
        one_words(device, c, 9, 768, 1);
        one_logits(device, c, 1, 1, 0);
        one_logits(device, c, 33, 1113, 40);
        one_logits(device, c, 5, 8192, 8192);
        zest_device_close(device);
    }
    device_assert_matches();
}

/* ---- Products ---- */

/* out += left' right: the gradient of a weight. */
static void one_outer(zest_device *device, int c, size_t rows, size_t left, size_t right, size_t skip) {
    size_t stride = left + skip;
    zest_workspace scratch = {.device = device}, host = {0};
    float *a = normals(rows * stride, 1, 1), *b = normals(rows * right, 2, 1),
          *out = normals(left * right, 3, 1);
    float *got_out = device_upload(device, out, left * right * sizeof *out);
    float *as = device_upload_activations(device, a, rows * stride),
          *bs = device_upload_activations(device, b, rows * right);
    zest_linear job = {.weight = {b, ZEST_DTYPE_F32, rows, right, 0, 1},
                       .transposed = 1,
                       .perturbation = {.lanes = 1},
                       .a = {a, a},
                       .a_stride = stride,
                       .a_transposed = 1,
                       .rows = left,
                       .out = {out, out},
                       .out_stride = right,
                       .residual = {out, out},
                       .residual_stride = right,
                       .fp32_output = 1};
    zest_linear on_device = job;
    on_device.weight.data = bs, on_device.weight.dtype = device_dtype(device);
    on_device.a[0] = on_device.a[1] = as;
    on_device.out[0] = on_device.out[1] = got_out;
    on_device.residual[0] = on_device.residual[1] = got_out;
    on_device.compute = device->compute;
    assert_int_equal(zest_ops_plain.linear(&job, 1, &host), 0);
    device_check(device, device->operations->linear(&on_device, 1, &scratch));
    float *got = device_download(device, got_out, left * right * sizeof *got);
    char what[80];
    snprintf(what, sizeof what, "%s %zu × %zu' × %zu", device_names[c], rows, left, right);
    device_compare(got, out, left, right, right, 3e-6 * sqrt((double)rows) + 1e-6, what);
    free(a), free(b), free(out), free(got), free(host.data);
}

/* Matrices below each other, for further inputs. */
static void one_stack(zest_device *device, int c, size_t rows, size_t width) {
    const size_t inputs[3] = {64, 16, 16};
    zest_workspace scratch = {.device = device}, host = {0};
    float *a = normals(rows * 96, 1, 1), *out = guarded(rows * width), *got = guarded(rows * width);
    float *as = device_upload_activations(device, a, rows * 96),
          *outs = device_upload_activations(device, out, rows * width);
    zest_weight parts[3], uploaded[3];
    float whole[96 * 200];
    for (size_t i = 0, at = 0; i < 3; at += inputs[i++] * width) {
        parts[i] = weight(device_dtype(device), inputs[i], width, 5 + i, 1, 77 + at);
        assert_int_equal(zest_dtype_to_float(parts[i].dtype, parts[i].data, inputs[i] * width, whole + at),
                         0);
        uploaded[i] = device_upload_weight(device, &parts[i]);
    }
    zest_linear_part more[2] = {{uploaded[1], {0}}, {uploaded[2], {0}}};
    zest_linear job = {.weight = {whole, ZEST_DTYPE_F32, 96, width, 0, 1},
                       .transposed = 1,
                       .perturbation = {.lanes = 1},
                       .a = {a, a},
                       .a_stride = 96,
                       .rows = rows,
                       .out = {out, out},
                       .out_stride = width};
    zest_linear on_device = job;
    on_device.weight = uploaded[0], on_device.more = more, on_device.more_count = 2;
    on_device.a[0] = on_device.a[1] = as, on_device.out[0] = on_device.out[1] = outs;
    on_device.compute = device->compute;
    assert_int_equal(zest_ops_plain.linear(&job, 1, &host), 0);
    device_check(device, device->operations->linear(&on_device, 1, &scratch));
    device_download_activations(device, outs, rows * width, got);
    device_compare(got, out, rows, width, width, 2e-5 + 2 * device_step[c], "matrices below each other");
    for (size_t i = 0; i < 3; i++) release(&parts[i]);
    free(a), free(out), free(got), free(host.data);
}

static void products(void **state) {
    (void)state;
    for (int c = 0; c < COMPUTES; c++) {
        zest_device *device = device_open(device_computes[c]);
        one_outer(device, c, 1, 1, 1, 0);
        one_outer(device, c, 37, 5, 3, 2);
        one_outer(device, c, 150, 64, 200, 0);
        one_outer(device, c, 333, 256, 72, 512);
        one_outer(device, c, 50, 1113, 64, 7);
        for (int again = 0; again < 3; again++) one_outer(device, c, 1000, 128, 256, 0);
        one_stack(device, c, 3, 40);
        one_stack(device, c, 130, 200);
        zest_device_close(device);
    }
    device_assert_matches();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms),    cmocka_unit_test(columns), cmocka_unit_test(activations),
        cmocka_unit_test(drops),    cmocka_unit_test(rows),    cmocka_unit_test(logits),
        cmocka_unit_test(products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
