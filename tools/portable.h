/* Included before every file of the portable build (tools/package.sh): functions that have a newer version in the
 * builder's glibc than the program needs are bound to the old one, so that it starts with glibc 2.34 and later. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(ZEST_PORTABLE_H)
#define ZEST_PORTABLE_H
__asm__(".symver hypot, hypot@GLIBC_2.2.5");
#endif
