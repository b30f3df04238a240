// Blocking copies between host and device against memcpy() over buffers that are faulted in alike,
// from C, all in turn. Prints "name ratio" per line: bytes per second of the copy over those of
// memcpy, medians of the rounds. Argument: libascendcl.so. Who runs it may confine it to one
// processor.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define FUNCTIONS(X)                               \
  X(aclInit, (const char*))                        \
  X(aclrtSetDevice, (int32_t))                     \
  X(aclrtMalloc, (void**, size_t, int))            \
  X(aclrtFree, (void*))                            \
  X(aclrtMemset, (void*, size_t, int32_t, size_t)) \
  X(aclrtMemcpy, (void*, size_t, const void*, size_t, int))
#define DECLARE(name, parameters) static int(*name) parameters;
FUNCTIONS(DECLARE)

enum { kRounds = 41, kCopies = 4, kRepeatBelow = 4 << 20 };
static const char* const kNames[kCopies] = {"memcpy", "h2d", "d2h", "d2d"};

struct Buffers {
  size_t bytes;
  unsigned char* host[2];
  void* device[2];
};

static void copy(const struct Buffers* b, int which) {
  switch (which) {
    case 0:
      memcpy(b->host[1], b->host[0], b->bytes);
      __asm__ volatile("" : : "r"(b->host[1]) : "memory");
      return;
    case 1:
      check(aclrtMemcpy(b->device[0], b->bytes, b->host[0], b->bytes, 1), "aclrtMemcpy H2D");
      return;
    case 2:
      check(aclrtMemcpy(b->host[1], b->bytes, b->device[0], b->bytes, 2), "aclrtMemcpy D2H");
      return;
    default:
      check(aclrtMemcpy(b->device[1], b->bytes, b->device[0], b->bytes, 3), "aclrtMemcpy D2D");
  }
}

// What was copied from host to device, on and back is what was there.
static void verify(const struct Buffers* b) {
  for (size_t i = 0; i < b->bytes; ++i) b->host[0][i] = (unsigned char)(i * 31 + b->bytes);
  copy(b, 1);
  copy(b, 3);
  memset(b->host[1], 0, b->bytes);
  check(aclrtMemcpy(b->host[1], b->bytes, b->device[1], b->bytes, 2), "aclrtMemcpy");
  check(memcmp(b->host[0], b->host[1], b->bytes), "the comparison of what came back");
}

static void measure(size_t bytes) {
  struct Buffers b = {.bytes = bytes};
  for (int i = 0; i < 2; ++i) {
    b.host[i] = aligned_alloc(4096, bytes);
    check(b.host[i] == NULL, "aligned_alloc");
    memset(b.host[i], i + 1, bytes);
    check(aclrtMalloc(&b.device[i], bytes, 0), "aclrtMalloc");
    check(aclrtMemset(b.device[i], bytes, i, bytes), "aclrtMemset");
  }
  verify(&b);
  static double samples[kCopies][kRounds];
  const int repeat = bytes < kRepeatBelow ? (int)(kRepeatBelow / bytes) : 1;
  for (int round = 0; round < kRounds; ++round) {
    for (int which = 0; which < kCopies; ++which) {
      const double begin = now_ns();
      for (int i = 0; i < repeat; ++i) copy(&b, which);
      samples[which][round] = now_ns() - begin;
    }
  }
  for (int which = 0; which < kCopies; ++which) {
    qsort(samples[which], kRounds, sizeof(double), order);
  }
  const double plain = samples[0][kRounds / 2];
  printf("memcpy_%zu_gbps %.3f\n", bytes, (double)bytes * repeat / plain);
  for (int which = 1; which < kCopies; ++which) {
    printf("%s_%zu %.3f\n", kNames[which], bytes, plain / samples[which][kRounds / 2]);
  }
  for (int i = 0; i < 2; ++i) {
    free(b.host[i]);
    check(aclrtFree(b.device[i]), "aclrtFree");
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  void* library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
#define LOAD(name, parameters) *(void**)&name = dlsym(library, #name);
  FUNCTIONS(LOAD)
  check(aclInit(NULL), "aclInit");
  check(aclrtSetDevice(0), "aclrtSetDevice");
  for (size_t bytes = 4u << 10; bytes <= 64u << 20; bytes *= 4) measure(bytes);
  return 0;
}
