/* A service that copies a request in, runs a model on it and copies the answer out, written in the
 * ways people write it:
 *   one_stream     everything queued on one stream
 *   sync           one buffer, and a synchronize per request: a "pipeline" of many guides
 *   double_buffer  two streams with a buffer each
 *   stages         a stream per stage, two buffers, events between the stages
 * Prints the time between two events of the device, and the time on the wall, in milliseconds.
 * Every answer is checked. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl.h"
#include "check.h"

enum { kWidth = 64, kBytes = kWidth * sizeof(float), kBuffers = 2 };

typedef struct {
  void* in;
  void* out;
  aclmdlDataset* inputs;
  aclmdlDataset* outputs;
  aclrtEvent copied_in, computed, copied_out;
} Buffer;

static uint32_t model;
static Buffer buffers[kBuffers];
static float (*questions)[kWidth];
static float (*answers)[kWidth];

static aclmdlDataset* dataset_of(void* memory) {
  aclmdlDataset* set = aclmdlCreateDataset();
  CHECK(aclmdlAddDatasetBuffer(set, aclCreateDataBuffer(memory, kBytes)));
  return set;
}

static void make(int requests, const char* path) {
  CHECK(aclmdlLoadFromFile(path, &model));
  for (int i = 0; i < kBuffers; ++i) {
    Buffer* b = &buffers[i];
    CHECK(aclrtMalloc(&b->in, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&b->out, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
    b->inputs = dataset_of(b->in);
    b->outputs = dataset_of(b->out);
    CHECK(aclrtCreateEventExWithFlag(&b->copied_in, ACL_EVENT_SYNC));
    CHECK(aclrtCreateEventExWithFlag(&b->computed, ACL_EVENT_SYNC));
    CHECK(aclrtCreateEventExWithFlag(&b->copied_out, ACL_EVENT_SYNC));
  }
  const size_t bytes = (size_t)requests * kBytes;
  CHECK(aclrtMallocHost((void**)&questions, bytes));
  CHECK(aclrtMallocHost((void**)&answers, bytes));
  for (int r = 0; r < requests; ++r) {
    for (int i = 0; i < kWidth; ++i) questions[r][i] = (float)(r + i);
  }
  memset(answers, 0, bytes);
}

static void copy_in(int r, const Buffer* b, aclrtStream stream) {
  CHECK(aclrtMemcpyAsync(b->in, kBytes, questions[r], kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
}

static void compute(const Buffer* b, aclrtStream stream) {
  CHECK(aclmdlExecuteAsync(model, b->inputs, b->outputs, stream));
}

static void copy_out(int r, const Buffer* b, aclrtStream stream) {
  CHECK(aclrtMemcpyAsync(answers[r], kBytes, b->out, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
}

static void request(int r, const Buffer* b, aclrtStream stream) {
  copy_in(r, b, stream);
  compute(b, stream);
  copy_out(r, b, stream);
}

/* Every stage on its own stream; a buffer is filled again when its last answer has left. */
static void staged(int r, const Buffer* b, aclrtStream* s) {
  if (r >= kBuffers) CHECK(aclrtStreamWaitEvent(s[0], b->computed));
  copy_in(r, b, s[0]);
  CHECK(aclrtRecordEvent(b->copied_in, s[0]));
  CHECK(aclrtStreamWaitEvent(s[1], b->copied_in));
  if (r >= kBuffers) CHECK(aclrtStreamWaitEvent(s[1], b->copied_out));
  compute(b, s[1]);
  CHECK(aclrtRecordEvent(b->computed, s[1]));
  CHECK(aclrtStreamWaitEvent(s[2], b->computed));
  copy_out(r, b, s[2]);
  CHECK(aclrtRecordEvent(b->copied_out, s[2]));
}

/* The last stream waits for the others, so that one event stands for the end of everything. */
static void join(aclrtStream* s, int streams) {
  for (int i = 0; i + 1 < streams; ++i) {
    aclrtEvent done;
    CHECK(aclrtCreateEventExWithFlag(&done, ACL_EVENT_SYNC));
    CHECK(aclrtRecordEvent(done, s[i]));
    CHECK(aclrtStreamWaitEvent(s[streams - 1], done));
  }
}

static void check_answers(int requests) {
  for (int r = 0; r < requests; ++r) {
    for (int i = 0; i < kWidth; ++i) {
      if (answers[r][i] == 3 * questions[r][(i + 1) % kWidth]) continue;
      fprintf(stderr, "request %d, element %d: %g\n", r, i, (double)answers[r][i]);
      exit(2);
    }
  }
}

static double wall_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  const char* mode = argv[1];
  const int requests = atoi(argv[2]);
  const int streams = strcmp(mode, "double_buffer") == 0 ? 2 : strcmp(mode, "stages") == 0 ? 3 : 1;
  aclrtStream s[3];
  aclrtEvent start, end;
  float elapsed_ms = -1;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  make(requests, argv[3]);
  for (int i = 0; i < streams; ++i) CHECK(aclrtCreateStream(&s[i]));
  CHECK(aclrtCreateEvent(&start));
  CHECK(aclrtCreateEvent(&end));

  const double began = wall_ms();
  CHECK(aclrtRecordEvent(start, s[0]));
  for (int r = 0; r < requests; ++r) {
    if (streams == 3) {
      staged(r, &buffers[r % kBuffers], s);
    } else if (streams == 2) {
      request(r, &buffers[r % 2], s[r % 2]);
    } else {
      request(r, &buffers[0], s[0]);
      if (strcmp(mode, "sync") == 0) CHECK(aclrtSynchronizeStream(s[0]));
    }
  }
  join(s, streams);
  CHECK(aclrtRecordEvent(end, s[streams - 1]));
  CHECK(aclrtSynchronizeEvent(end));
  const double wall = wall_ms() - began;
  CHECK(aclrtEventElapsedTime(&elapsed_ms, start, end));
  check_answers(requests);
  CHECK(aclFinalize());
  printf("%.6f %.6f\n", (double)elapsed_ms, wall);
  return 0;
}
