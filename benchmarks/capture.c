/* Replaying recorded tasks against submitting them again: a chain of fills of one byte, from C. */
#include <acl/acl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kTasks = 256, kRounds = 400 };

#define OK(call)                                                         \
  do {                                                                   \
    const int code = (call);                                             \
    if (code != 0) {                                                     \
      fprintf(stderr, "%s: %d %s\n", #call, code, aclGetRecentErrMsg()); \
      exit(1);                                                           \
    }                                                                    \
  } while (0)

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void submit(unsigned char* block, int value, aclrtStream stream) {
  for (int i = 0; i < kTasks; ++i) OK(aclrtMemsetAsync(block + i, 1, value, 1, stream));
}

static void check(unsigned char* block, int value) {
  unsigned char back[kTasks];
  OK(aclrtMemcpy(back, kTasks, block, kTasks, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int i = 0; i < kTasks; ++i) {
    if (back[i] == (unsigned char)value) continue;
    fprintf(stderr, "byte %d is %d, not %d\n", i, back[i], value);
    exit(1);
  }
}

int main(void) {
  aclrtStream stream;
  aclmdlRI instance;
  void* block;
  OK(aclInit(NULL));
  OK(aclrtSetDevice(0));
  OK(aclrtCreateStream(&stream));
  OK(aclrtMalloc(&block, kTasks, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  submit(block, 7, stream);
  OK(aclmdlRICaptureEnd(stream, &instance));
  double submitted = 1e18, replayed = 1e18, queued = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    double begin = now_ns();
    submit(block, round, stream);
    OK(aclrtSynchronizeStream(stream));
    double spent = now_ns() - begin;
    if (spent < submitted) submitted = spent;
    check(block, round);
    begin = now_ns();
    OK(aclmdlRIExecuteAsync(instance, stream));
    spent = now_ns() - begin;
    if (spent < queued) queued = spent;
    OK(aclrtSynchronizeStream(stream));
    spent = now_ns() - begin;
    if (spent < replayed) replayed = spent;
    check(block, 7);
  }
  printf("submit_ns_per_task %.1f\n", submitted / kTasks);
  printf("replay_ns_per_task %.1f\n", replayed / kTasks);
  printf("replay_call_ns %.1f\n", queued);
  printf("capture_replay_ratio %.3f\n", replayed / submitted);
  OK(aclmdlRIDestroy(instance));
  OK(aclrtFree(block));
  OK(aclrtDestroyStream(stream));
  OK(aclrtResetDevice(0));
  OK(aclFinalize());
  return 0;
}
