/* exp and sinh in fp64 from IEEE operations only, so that a journal gives the same coefficients on every
 * machine, independent of libm. Errors are a few units in the last place; the tests measure them. */
#ifndef ZEST_BASE_EXP_H
#define ZEST_BASE_EXP_H

/* Underflows to 0 below -745; +inf above 709.8; NaN for NaN. */
double zest_exp(double x);

/* sinh(z)/z for |z| <= 1; 1 at 0. */
double zest_sinhc(double z);

#endif
