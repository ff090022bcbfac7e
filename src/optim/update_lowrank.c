/* The update of a matrix whose noise has low rank (rng/noise_law.h): x += sum over directions i of c_i s u_i a_i'.
 *
 * A tile of the matrix stays in cache while all directions are added to it, each for the price of the tile's rows and
 * columns in random numbers: with k directions for every example there are hundreds. Every element is one chain of fused
 * multiply-adds, x = fma(c u_j(row), a_j(column), x), over the directions and their factors in order, whatever the tile
 * or the number of threads. c u_j is rounded once to the type of x. */
#include "optim/lanes.h"
#include "optim/step.h"

enum { TILE_ROWS = 64, TILE_COLUMNS = 256 };

typedef struct {
    uint64_t row, column;
    size_t rows, columns;
} place;

static size_t least(uint64_t a, size_t b) { return a < b ? (size_t)a : b; }

static place tile_at(const zest_tensor *tensor, int64_t number) {
    uint64_t across = (tensor->law.columns + TILE_COLUMNS - 1) / TILE_COLUMNS, n = (uint64_t)number;
    place at = {n / across * TILE_ROWS, n % across * TILE_COLUMNS, 0, 0};
    at.rows = least(tensor->law.rows - at.row, TILE_ROWS);
    at.columns = least(tensor->law.columns - at.column, TILE_COLUMNS);
    return at;
}

/* Rows of the tile, `stride` elements apart, in fp64 or fp32. */
static void add_factor(const zest_vector_ops *ops, int wide, void *x, uint64_t stride, const place *at,
                       double c, const float *u, const float *a) {
    for (size_t r = 0; r < at->rows; r++) {
        double scale = c * (double)u[r];
        if (wide)
            ops->fma_f64((double *)x + r * stride, (double *)x + r * stride, scale, a, at->columns);
        else
            ops->fma_f32((float *)x + r * stride, (float *)x + r * stride, (float)scale, a, at->columns);
    }
}

static void add_directions(const zest_vector_ops *ops, const zest_tensor *tensor, const zest_update *update,
                           int wide, void *x, uint64_t stride, const place *at) {
    const zest_noise_law *law = &tensor->law;
    float u[TILE_ROWS], a[TILE_COLUMNS];
    double keep = 1 - update->lr * update->decay, factor = law->factor != 0 ? (double)law->factor : 1;
    for (size_t r = 0; keep != 1 && r < at->rows; r++)
        if (wide)
            ops->scale_f64((double *)x + r * stride, keep, at->columns);
        else
            ops->scale_f32((float *)x + r * stride, (float)keep, at->columns);
    for (size_t i = 0; i < update->k; i++) {
        const zest_direction *v = &update->directions[i];
        int signs = v->distribution == ZEST_RADEMACHER;
        double c = -update->lr * update->g[i] * v->gain * factor;
        for (uint64_t j = 0; j < law->rank && update->g[i] != 0; j++) {
            ops->noise->vector(law, signs, ZEST_NOISE_ROWS, j, u, v->seed, at->row, at->rows);
            ops->noise->vector(law, signs, ZEST_NOISE_COLUMNS, j, a, v->seed, at->column, at->columns);
            add_factor(ops, wide, x, stride, at, c, u, a);
        }
    }
}

/* 16-bit weights go through a tile of floats, and are rounded at the end. */
static void update_16(const zest_vector_ops *ops, const zest_tensor *tensor, const zest_update *update,
                      const place *at) {
    float wide[TILE_ROWS * TILE_COLUMNS];
    uint16_t random[TILE_COLUMNS];
    int bf16 = tensor->dtype == ZEST_DTYPE_BF16;
    uint64_t first = at->row * tensor->law.columns + at->column;
    for (size_t r = 0; r < at->rows; r++)
        (bf16 ? ops->load_bf16 : ops->load_f16)(
            wide + r * TILE_COLUMNS, (uint16_t *)tensor->data + first + r * tensor->law.columns, at->columns);
    add_directions(ops, tensor, update, 0, wide, TILE_COLUMNS, at);
    for (size_t r = 0; r < at->rows; r++, first += tensor->law.columns) {
        if (update->nearest)
            for (size_t i = 0; i < at->columns; i++) random[i] = 0x8000;
        else
            ops->noise->round(random, update->rounding, tensor->first + first, at->columns);
        (bf16 ? ops->store_bf16 : ops->store_f16)((uint16_t *)tensor->data + first, wide + r * TILE_COLUMNS,
                                                  random, at->columns);
    }
}

int64_t zest_update_tiles(const zest_tensor *tensor) {
    return (int64_t)((tensor->law.rows + TILE_ROWS - 1) / TILE_ROWS *
                     ((tensor->law.columns + TILE_COLUMNS - 1) / TILE_COLUMNS));
}

void zest_update_tile(const zest_vector_ops *ops, const zest_tensor *tensor, int64_t tile,
                      const zest_update *update) {
    place at = tile_at(tensor, tile);
    size_t size = zest_dtype_size(tensor->dtype);
    void *x = (char *)tensor->data + (at.row * tensor->law.columns + at.column) * size;
    if (size == sizeof(uint16_t))
        update_16(ops, tensor, update, &at);
    else
        add_directions(ops, tensor, update, tensor->dtype == ZEST_DTYPE_F64, x, tensor->law.columns, &at);
}
