/* ZEST in one file: fine-tuning with forward passes only, from the random bits to a bit-exact replay.
 *
 *     cc -O2 -ffp-contract=off -std=c11 examples/zest_in_one_file.c -lm && ./a.out
 *
 * MeZO descends on E f(x + rho v), the average loss near x. ZEST descends on the tilted loss (eq. 2)
 *
 *     F_t(x) = (1/t) log E exp(t f(x + rho v)),   v ~ N(0, I)
 *
 * which is the average for t -> 0 and the largest loss near x, as in SAM, for t -> infinity. One step:
 *
 *     k seeds -> 2k losses f(x +- rho v_i) -> tilt -> k coefficients g_i -> x -= lr sum_i g_i v_i
 *
 * MeZO and ZEST differ in the tilt alone. No v_i is stored: its seed makes it again. So the first x, the
 * seed and the losses of every step (the journal) are enough to compute x after any step (replay).
 *
 * The library computes the same bits: tests/test_one_file.c compares them. It adds language models, fp32
 * and 16-bit weights, vector and GPU kernels, other distributions of v, non-finite losses, damaged files.
 * Each heading names the library's files for that part. Equations and algorithm: those of the ZEST paper.
 *
 * Shapes: x, v_i and a perturbed x are (d); losses are (k, 2), row i is f(x + rho v_i), f(x - rho v_i). */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DIM = 64, MAX_K = 64 }; /* sizes of the arrays below; nothing in the method limits d or k */

typedef struct {
    const char *name;
    double t;           /* tilt; 0 is MeZO */
    double rho;         /* scale of the perturbation */
    double lr;          /* learning rate of the first step; it falls linearly to 0 */
    int k;              /* directions per step; each costs two forward passes */
    int bias_corrected; /* which estimator of the tilted gradient: eq. 6 (0) or eq. 7 (1) */
    int steps;
    uint64_t seed; /* of every random number of the run */
} config;

/* ---- 1. Noise: Philox4x32-10 and Box-Muller (philox.h, normal.h) ----
 *
 * Element j of torch.randn(d) depends on all draws before it. Here it is a function of (seed, j) alone, so
 * any thread can make any part of v. Everything is IEEE arithmetic in a fixed order, with polynomials for
 * log, sin and cos, which differ between math libraries; -ffp-contract=off keeps the compiler from fusing
 * operations on its own. So the bits are the same on every machine. */

/* 128 random bits as a function of a counter and a key: Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011. Its four constants: two multipliers, and two increments of the key per round. */
static void philox(uint64_t key, uint64_t counter, uint32_t out[4]) {
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * c[0], product1 = (uint64_t)0xCD9E8D57u * c[2];
        c[0] = (uint32_t)(product1 >> 32) ^ c[1] ^ k0;
        c[1] = (uint32_t)product1;
        c[2] = (uint32_t)(product0 >> 32) ^ c[3] ^ k1;
        c[3] = (uint32_t)product0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

/* c[0] x^(n-1) + ... + c[n-1] */
static float polynomial(const float *c, int n, float x) {
    float sum = c[0];
    for (int i = 1; i < n; i++) sum = fmaf(sum, x, c[i]);
    return sum;
}

/* Box-Muller's radius sqrt(-2 ln u), u = (bits + 1/2) / 2^32 in (0, 1]. With u = 2^e (1 + f):
 * ln u = e ln 2 + ln(1 + f) and ln(1 + f) = f - f^2/2 + f^3 P(f), where P is fitted to an error of 1e-8. */
static float radius(uint32_t bits) {
    static const float P[] = {-0.0782319829f, 0.129857257f, -0.131892383f, 0.141681254f,
                              -0.166169003f,  0.200027853f, -0.25001049f,  0.333333105f};
    const float sqrt_half = 0x1.6a09e6p-1f, ln2 = 0.693147182f;
    int e;
    float m = frexpf(fmaf((float)bits, 0x1p-32f, 0x1p-33f), &e); /* u = m 2^e, m in [1/2, 1) */
    if (m < sqrt_half) m *= 2, e--;                              /* now m in [sqrt(1/2), sqrt(2)) */
    float f = m - 1, square = f * f;
    float log1p_f = fmaf(square * f, polynomial(P, 8, f), fmaf(-0.5f, square, f));
    float minus_2_log_u = -2 * fmaf((float)e, ln2, log1p_f);
    return sqrtf(minus_2_log_u > 0 ? minus_2_log_u : 0);
}

/* Box-Muller's angle 2 pi bits / 2^32 is a quadrant, the two top bits rounded, and an angle a in
 * [-pi/4, pi/4). With z = a^2: sin a = a + a z S(z) and cos a = 1 - z/2 + z^2 C(z), with fitted S and C. */
static void cos_sin(uint32_t bits, float *cosine, float *sine) {
    static const float S[] = {-0.000195058776f, 0.00833210256f, -0.166666538f};
    static const float C[] = {2.44233343e-05f, -0.00138872326f, 0.0416666456f};
    const float unit = 3.6572952e-10f;             /* (pi/2) / 2^32 */
    uint32_t quadrant = (bits + (1u << 29)) >> 30; /* 0: right, 1: top, 2: left, 3: bottom */
    float a = (float)(int32_t)(bits << 2) * unit, z = a * a;
    float s = fmaf(polynomial(S, 3, z) * z, a, a);
    float c = fmaf(z * z, polynomial(C, 3, z), fmaf(-0.5f, z, 1));
    *cosine = quadrant % 2 ? s : c;
    *sine = quadrant % 2 ? c : s;
    if (quadrant == 1 || quadrant == 2) *cosine = -*cosine;
    if (quadrant >= 2) *sine = -*sine;
}

/* Elements 4 block .. 4 block + 3 of the standard normals that belong to a seed. */
static void normal4(uint64_t seed, uint64_t block, float out[4]) {
    uint32_t bits[4];
    philox(seed, block, bits);
    for (int i = 0; i < 4; i += 2) {
        float r = radius(bits[i]), cosine, sine;
        cos_sin(bits[i + 1], &cosine, &sine);
        out[i] = r * cosine;
        out[i + 1] = r * sine;
    }
}

/* ---- 2. Directions: v_i is made from its seed s_i, Algorithm 1 lines 2 and 4 (noise.c, lanes.c) ---- */

/* A bijection of 64-bit numbers that mixes all bits: the finaliser of MurmurHash3, Stafford's variant 13. */
static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* The seed of direction i of a step; i has the low 24 bits. All of it is bijective, so no two directions of
 * a run share a seed. The constant, 2^64 / golden ratio, is there for run 0, since mix(0) = 0. */
static uint64_t direction_seed(uint64_t run, int step, int i) {
    return mix(((uint64_t)step << 24 | (uint64_t)i) ^ mix(run + 0x9E3779B97F4A7C15u));
}

/* out = x + scale v, where v ~ N(0, I) is made on the fly; one rounding per element. out may be x. */
static void add_direction(uint64_t seed, double scale, const double *x, int d, double *out) {
    float v[4];
    for (int j = 0; j < d; j++) {
        if (j % 4 == 0) normal4(seed, (uint64_t)j / 4, v);
        out[j] = fma(scale, (double)v[j % 4], x[j]);
    }
}

/* ---- 3. Lanes: the losses of 2k perturbed copies of x, Algorithm 1 lines 3 to 7 (lanes.c) ---- */

/* How unequal the curvatures are at x[0] = u: from -1 to 1, and 0 at u = 0. */
static double imbalance(double u) { return u / sqrt(1 + u * u); }

/* The objective f: a valley along x[0] with f = 0 on its floor x[1] = x[2] = ... = 0. The Hessian there
 * has the eigenvalues 0, 1 + s and 1 - s: the same trace everywhere, the smallest lambda_max at x[0] = 0.
 * For a language model this function is the forward pass on the batch of the step. */
static double objective(const double *x, int d) {
    double s = imbalance(x[0]), sum = 0;
    for (int j = 1; j < d; j++) sum += 0.5 * (j % 2 ? 1 + s : 1 - s) * x[j] * x[j];
    return sum;
}

static void evaluate_lanes(const config *c, int step, const double *x, int d, double *losses) {
    double point[MAX_DIM];
    for (int lane = 0; lane < 2 * c->k; lane++) {
        uint64_t seed = direction_seed(c->seed, step, lane / 2);
        add_direction(seed, lane % 2 ? -c->rho : c->rho, x, d, point);
        losses[lane] = objective(point, d);
    }
}

/* ---- 4. Tilt: (k, 2) losses -> k coefficients, Algorithm 1 lines 8 and 9 (tilt.c, exp.c) ---- */

/* exp(x) for x <= 0. With x = n ln 2 + r it is 2^n exp(r), and exp(r) is a Taylor series. The last bit of
 * libm's exp depends on the machine. ln 2 is split in two, so that n times its high part is exact. */
static double exp_nonpositive(double x) {
    if (x < -745.2) return 0; /* less than half the smallest double */
    const double ln2_high = 0x1.62e42fefa3800p-1, ln2_low = 0x1.ef35793c76730p-45;
    double n = rint(x * 1.4426950408889634); /* 1 / ln 2 */
    double r = fma(-n, ln2_low, fma(-n, ln2_high, x));
    double factorial = 6227020800, sum = 1 / factorial; /* 13!; the terms after it are below 1e-17 */
    for (int i = 13; i >= 1; i--) {
        factorial /= i;
        sum = fma(sum, r, 1 / factorial);
    }
    return ldexp(sum, (int)n);
}

/* sinh(z) / z for |z| <= 1: its Taylor series 1 + z^2/3! + ... + z^16/17! */
static double sinh_over_z(double z) {
    double factorial = 355687428096000, sum = 1 / factorial; /* 17!, exact in a double */
    for (int i = 17; i >= 3; i -= 2) {
        factorial /= i * (i - 1);
        sum = fma(sum, z * z, 1 / factorial);
    }
    return sum;
}

/* (exp(t (plus - top)) - exp(t (minus - top))) / t. If the losses are close, the difference would lose
 * digits. It is then 2 exp(t middle) sinh(t half) / t, which becomes plus - minus for t -> 0. */
static double tilted_difference(double t, double plus, double minus, double top) {
    double half = 0.5 * plus - 0.5 * minus;
    double middle = (0.5 * plus - 0.5 * top) + (0.5 * minus - 0.5 * top);
    if (fabs(t * half) <= 1) return 2 * exp_nonpositive(t * middle) * half * sinh_over_z(t * half);
    return (exp_nonpositive(t * (plus - top)) - exp_nonpositive(t * (minus - top))) / t;
}

/* The gradient estimate is sum_i g_i v_i. With a = exp(t f), B_i = a_i+ + a_i- and Z = sum_i B_i:
 *
 *     MeZO     g_i = (f_i+ - f_i-) / (2 rho k)           the mean of k two-point estimates, appendix A
 *     ZEST-N   g_i = (a_i+ - a_i-) / (t rho Z)           eq. 6: eq. 3 with sample means, bias O(1/k)
 *     ZEST-BC  {1 + k/(k-1) [B_i/Z - sum_j (B_j/Z)^2]} times that of ZEST-N: eq. 7, bias O(1/k^2)
 *
 * Subtracting the largest loss, top, from all losses leaves the ratios as they are, and no exp overflows. */
static void tilt(const config *c, const double *losses, double *g) {
    int k = c->k;
    if (c->t == 0) {
        for (int i = 0; i < k; i++) g[i] = (losses[2 * i] - losses[2 * i + 1]) / (2 * c->rho) / k;
        return;
    }
    double t = c->t, B[MAX_K], Z = 0, squares = 0, top = losses[0];
    for (int lane = 1; lane < 2 * k; lane++) top = fmax(top, losses[lane]);
    for (int i = 0; i < k; i++) {
        B[i] = exp_nonpositive(t * (losses[2 * i] - top)) + exp_nonpositive(t * (losses[2 * i + 1] - top));
        Z += B[i];
        squares += B[i] * B[i];
    }
    for (int i = 0; i < k; i++) {
        double factor = 1; /* of eq. 7, which needs k > 1 */
        if (c->bias_corrected && k > 1) factor = 1 + (double)k / (k - 1) * (B[i] / Z - squares / (Z * Z));
        g[i] = factor * (tilted_difference(t, losses[2 * i], losses[2 * i + 1], top) / Z) / c->rho;
    }
}

/* ---- 5. Update: x -= lr g_i v_i for i = 1 .. k in order, Algorithm 1 lines 10 to 13 (step.c) ---- */

static void update(const config *c, int step, double lr, const double *losses, double *x, int d) {
    double g[MAX_K];
    tilt(c, losses, g);
    for (int i = 0; i < c->k; i++)
        if (g[i] != 0) /* with a large t most of them underflow to 0 */
            add_direction(direction_seed(c->seed, step, i), -lr * g[i], x, d, x);
}

/* ---- 6. Journal: lr and the 2k losses of every step (journal.c) ----
 *
 * A record has 8 (1 + 2k) bytes: 88 at k = 5, for any d. It is written before x changes, so a run that is
 * killed loses at most one step. The library's records also have a step number and a checksum. */

static int journal_append(FILE *journal, double lr, const double *losses, int k) {
    size_t count = 2 * (size_t)k;
    return fwrite(&lr, sizeof lr, 1, journal) == 1 &&
           fwrite(losses, sizeof *losses, count, journal) == count && fflush(journal) == 0;
}

static int journal_read(FILE *journal, double *lr, double *losses, int k) {
    size_t count = 2 * (size_t)k;
    return fread(lr, sizeof *lr, 1, journal) == 1 && fread(losses, sizeof *losses, count, journal) == count;
}

/* The training loop; x is updated in place. Returns 0 if the journal cannot be written. */
static int train(const config *c, double *x, int d, FILE *journal) {
    double losses[2 * MAX_K];
    for (int step = 0; step < c->steps; step++) {
        double lr = c->lr * (1 - (double)step / c->steps);
        evaluate_lanes(c, step, x, d, losses);
        if (!journal_append(journal, lr, losses, c->k)) return 0;
        update(c, step, lr, losses, x, d);
    }
    return 1;
}

/* ---- 7. Replay: the same updates from the losses in the journal, without the objective (journal.c) ---- */

/* x is the first x and becomes the x after the last step in the journal. Returns the number of steps. */
static int replay(const config *c, double *x, int d, FILE *journal) {
    double lr, losses[2 * MAX_K];
    int step = 0;
    rewind(journal);
    while (journal_read(journal, &lr, losses, c->k)) update(c, step++, lr, losses, x, d);
    return step;
}

/* Starts on the floor of the valley, where f = 0 and only lambda_max can get smaller. The average loss near x
 * depends on the trace (section 2), so MeZO stays. F_t grows with lambda_max (Theorem 4.1), so ZEST goes to
 * the flat part of the valley. */
int main(void) {
    enum { D = 11 };
    config runs[3] = {{.name = "MeZO", .t = 0, .rho = 0.3, .k = 20, .lr = 0.1, .steps = 1000, .seed = 1}};
    runs[1] = runs[2] = runs[0];
    runs[1].name = "ZEST-N", runs[1].t = 3;
    runs[2].name = "ZEST-BC", runs[2].t = 3, runs[2].bias_corrected = 1;
    int failures = 0;
    printf("method   t    x[0]: start, end    lambda_max: start, end    f(x)      replay\n");
    for (int i = 0; i < 3; i++) {
        double start[D] = {1.5}, x[D] = {1.5}, again[D] = {1.5};
        FILE *journal = tmpfile();
        if (!journal || !train(&runs[i], x, D, journal)) {
            fprintf(stderr, "%s: cannot write the journal to a temporary file\n", runs[i].name);
            return 1;
        }
        int same = replay(&runs[i], again, D, journal) == runs[i].steps && memcmp(x, again, sizeof x) == 0;
        printf("%-7s  %g     %8.3f %8.3f          %8.3f %8.3f     %.1e   %s\n", runs[i].name, runs[i].t,
               start[0], x[0], 1 + fabs(imbalance(start[0])), 1 + fabs(imbalance(x[0])), objective(x, D),
               same ? "same bits" : "DIFFERS");
        failures += !same;
        fclose(journal);
    }
    return failures != 0;
}
