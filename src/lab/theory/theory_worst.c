/* The worst case R_inf: the maximum of X over the ball (eq. Rt:B:general, Appendix B.7).
 *
 * With u = sqrt(d) s, A_i = rho^2 d lambda_i and B_i = rho sqrt(d) g_i: maximise B's + s'As/2 over |s| <= 1.
 * A maximiser has (mu - A_i) s_i = B_i for some mu >= floor = max(A_i, 0), where mu = 0 or |s| = 1; mu = 2 d
 * omega. What is solved for is x = mu - floor: it may be smaller than floor by any number of digits. */
#include <math.h>

#include "lab/theory/theory.h"

const char *zest_worst_case_name(zest_worst_case kind) {
    static const char *const names[] = {"interior", "boundary", "hard"};
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

typedef struct {
    const zest_landscape *landscape;
    double curve, slope; /* A_i = curve·lambda_i, B_i = slope·g_i */
    double top, floor;   /* the largest eigenvalue, or 0 if none is positive; curve·top */
} problem;

static double gap_of(const problem *p, size_t i) {
    return p->curve * (p->top - p->landscape->eigenvalues[i]);
}
static double pull_of(const problem *p, size_t i) { return p->slope * zest_theory_slope(p->landscape, i); }

/* s_i(x); a direction without pull stays at 0, whatever its gap. */
static double part_of(const problem *p, size_t i, double x) {
    double pull = pull_of(p, i);
    return pull == 0 ? 0 : pull / (gap_of(p, i) + x);
}

/* |s(x)| and, if asked for, minus its derivative. */
static double norm_at(const problem *p, double x, double *fall) {
    double norm = 0, cubes = 0;
    for (size_t i = 0; i < p->landscape->count; i++) {
        double part = part_of(p, i, x);
        norm = hypot(norm, part);
        if (part != 0) cubes += part * (part / (gap_of(p, i) + x));
    }
    if (fall) *fall = cubes / norm;
    return norm;
}

/* No term of the sum may exceed 1, and all together would be at most |B|/x: this brackets the root. */
static void bracket(const problem *p, double *low, double *high) {
    *low = *high = 0;
    for (size_t i = 0; i < p->landscape->count; i++) {
        double pull = fabs(pull_of(p, i));
        *low = fmax(*low, pull - gap_of(p, i));
        *high = hypot(*high, pull);
    }
}

/* The root of |s(x)| = 1 (eq. secular). Newton on 1/|s|, which is nearly straight; whenever it would leave
 * the bracket, a bisection, of the exponent when both ends are positive. So a root anywhere between 1e-300
 * and 1e300 takes no more than some hundred steps. */
static double secular_root(const problem *p) {
    double low, high;
    bracket(p, &low, &high);
    double x = low > 0 ? low : high;
    for (int step = 0; step < 400 && low < high; step++) {
        double fall, norm = norm_at(p, x, &fall);
        if (norm == 1) return x;
        if (norm > 1)
            low = x;
        else
            high = x;
        double next = x + (norm - 1) * norm / fall;
        if (!(next > low && next < high) || !isfinite(fall))
            next = low > 0 ? sqrt(low) * sqrt(high) : (low + high) / 2;
        if (fabs(next - x) <= 2e-16 * x || next <= low || next >= high) return next;
        x = next;
    }
    return x;
}

static zest_worst_case solve(const problem *p, double *x) {
    *x = 0;
    for (size_t i = 0; i < p->landscape->count; i++)
        if (gap_of(p, i) == 0 && pull_of(p, i) != 0) { /* |s| is infinite at x = 0 */
            *x = secular_root(p);
            return ZEST_WORST_BOUNDARY;
        }
    if (norm_at(p, 0, NULL) > 1) {
        *x = secular_root(p);
        return ZEST_WORST_BOUNDARY;
    }
    return p->top > 0 ? ZEST_WORST_HARD : ZEST_WORST_INTERIOR;
}

static problem problem_of(const zest_landscape *landscape) {
    double d = (double)landscape->dimension, rho = landscape->rho;
    problem p = {.landscape = landscape, .curve = rho * rho * d, .slope = rho * sqrt(d)};
    for (size_t i = 0; i < landscape->count; i++) p.top = fmax(p.top, landscape->eigenvalues[i]);
    p.floor = p.curve * p.top;
    return p;
}

zest_status zest_theory_worst(zest_ctx *ctx, const zest_landscape *landscape, zest_worst *worst,
                              double *maximiser, double *sensitivity) {
    zest_status status = zest_theory_check(ctx, landscape);
    if (status) return status;
    problem p = problem_of(landscape);
    double d = (double)landscape->dimension, x, work = 0, norm = 0;
    zest_worst_case kind = solve(&p, &x);
    for (size_t i = 0; i < landscape->count; i++) {
        double part = part_of(&p, i, x);
        work += part * pull_of(&p, i);
        norm = hypot(norm, part);
    }
    /* in the hard case the top eigenvector takes what is left of the norm */
    double rest = kind == ZEST_WORST_HARD ? sqrt(fmax(0, (1 - norm) * (1 + norm))) : 0;
    for (size_t i = 0; i < landscape->count; i++) {
        double part = part_of(&p, i, x);
        if (rest > 0 && landscape->eigenvalues[i] == p.top) part = rest, rest = 0;
        if (maximiser) maximiser[i] = sqrt(d) * part;
        /* the envelope theorem: dR/dlambda_i = (rho^2/2) u_i^2 */
        if (sensitivity) sensitivity[i] = p.curve / 2 * part * part;
    }
    /* s'As = mu|s|^2 - B's turns B's + s'As/2 into a sum of two terms that are not negative */
    *worst =
        (zest_worst){.kind = kind, .value = (work + p.floor + x) / 2, .multiplier = (p.floor + x) / (2 * d)};
    return zest_theory_check_result(ctx, worst->value, "R_inf");
}

/* ---- Derivatives ----
 *
 * With D_i = 2 omega - rho^2 lambda_i the paper has, for the boundary case,
 *     d omega/d lambda_i = (rho^2/2) w_i,    d phi_i/d lambda_i = rho^6 g_i^2 / D_i^3 (1 - w_i),
 *     w_i = (g_i^2/D_i^3) / sum_j (g_j^2/D_j^3).
 * In the numbers of this file D_i = m_i/d with m_i = mu - A_i, so g_i^2/D_i^3 is q_i = s_i^2/m_i up to a
 * common factor, and rho^6 g_i^2/D_i^3 = curve^2 q_i. */

/* q_i; a direction without slope has none. */
static double stiffness(const problem *p, size_t i, double x) {
    double part = part_of(p, i, x);
    return part == 0 ? 0 : part * (part / (gap_of(p, i) + x));
}

/* The norm is fixed, so omega moves. curve^2 q_i (1 - w_i) is q_i times the sum of the *other* q_j over that
 * of all: added up from both ends, since a difference would lose its digits where one of them dominates. */
static void on_the_boundary(const problem *p, double x, double *multiplier, double *sensitivity) {
    size_t n = p->landscape->count;
    double total = 0, after = 0, rho2 = p->landscape->rho * p->landscape->rho;
    for (size_t i = 0; i < n; i++) {
        sensitivity[i] = total; /* of those before i */
        total += stiffness(p, i, x);
    }
    for (size_t i = n; i-- > 0;) {
        double own = stiffness(p, i, x);
        multiplier[i] = rho2 / 2 * (own / total);
        sensitivity[i] = p->curve * p->curve * own * ((sensitivity[i] + after) / total);
        after += own;
    }
}

/* omega is 0 (interior) or follows the top eigenvalue (hard), whatever the others do. The top direction has
 * what they leave of the norm. */
static void off_the_boundary(const problem *p, zest_worst_case kind, double *multiplier,
                             double *sensitivity) {
    double total = 0, rho2 = p->landscape->rho * p->landscape->rho;
    size_t tops = 0;
    for (size_t i = 0; i < p->landscape->count; i++) {
        double own = stiffness(p, i, 0);
        multiplier[i] = 0;
        sensitivity[i] = p->curve * p->curve * own;
        total += own;
        tops += gap_of(p, i) == 0;
    }
    for (size_t i = 0; i < p->landscape->count && tops; i++) {
        if (gap_of(p, i) != 0) continue;
        int smooth = kind == ZEST_WORST_HARD && tops == 1;
        multiplier[i] = smooth ? rho2 / 2 : NAN;
        sensitivity[i] = smooth ? p->curve * p->curve * total : NAN;
    }
}

zest_status zest_theory_worst_derivatives(zest_ctx *ctx, const zest_landscape *landscape, double *multiplier,
                                          double *sensitivity) {
    zest_status status = zest_theory_check(ctx, landscape);
    if (status) return status;
    problem p = problem_of(landscape);
    double x;
    zest_worst_case kind = solve(&p, &x);
    if (kind == ZEST_WORST_BOUNDARY)
        on_the_boundary(&p, x, multiplier, sensitivity);
    else
        off_the_boundary(&p, kind, multiplier, sensitivity);
    for (size_t i = 0; i < landscape->count && !status; i++)
        if (isinf(sensitivity[i]) || (kind == ZEST_WORST_BOUNDARY && isnan(sensitivity[i])))
            status = zest_theory_check_result(ctx, sensitivity[i], "d phi_i/d lambda_i");
    return status;
}
