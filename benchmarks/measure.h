/* What the C programs of the benchmarks share: a clock, an order for medians, the end on a failure.
 */
#ifndef ASCENDRT_BENCHMARKS_MEASURE_H
#define ASCENDRT_BENCHMARKS_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static inline int order(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

static inline void check(int code, const char* what) {
  if (code == 0) return;
  fprintf(stderr, "%s gave %d\n", what, code);
  exit(1);
}

#endif
