/* Plays a plan from standard input: one call of the runtime per line. Used to compare the modelled
 * clock with a simulator.
 *   stream PRIORITY       makes the next stream
 *   event                 makes the next event
 *   model FILE            loads the next model (64 floats in, 64 floats out)
 *   in S BYTES  out S BYTES  inside S BYTES  set S BYTES     asynchronous copies and a fill
 *   run S M               executes a model
 *   record S E  wait S E
 *   sync S  sync_event E  query S (polls until the stream is done)
 * At the end everything is synchronized, and for every event the milliseconds since event 0 are
 * printed, one per line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "check.h"

enum { kMost = 4096, kArea = 1 << 23, kTensor = 256 };

typedef struct {
  uint32_t id;
  aclmdlDataset* inputs;
  aclmdlDataset* outputs;
} Model;

static aclrtStream streams[kMost];
static aclrtEvent events[kMost];
static Model models[kMost];
static int stream_count, event_count, model_count;
static void *host, *device, *other;

static aclmdlDataset* dataset(void) {
  void* memory;
  aclmdlDataset* set = aclmdlCreateDataset();
  CHECK(aclrtMalloc(&memory, kTensor, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemset(memory, kTensor, 0, kTensor));
  CHECK(aclmdlAddDatasetBuffer(set, aclCreateDataBuffer(memory, kTensor)));
  return set;
}

static void load(const char* path) {
  Model* m = &models[model_count++];
  CHECK(aclmdlLoadFromFile(path, &m->id));
  m->inputs = dataset();
  m->outputs = dataset();
}

static void poll(aclrtStream stream) {
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  while (status != ACL_STREAM_STATUS_COMPLETE) CHECK(aclrtStreamQuery(stream, &status));
}

static void play(const char* word, long first, long second) {
  aclrtStream s = streams[first];
  const size_t bytes = (size_t)second;
  if (strcmp(word, "stream") == 0) {
    CHECK(aclrtCreateStreamWithConfig(&streams[stream_count++], (uint32_t)first, 0));
  } else if (strcmp(word, "event") == 0) {
    CHECK(aclrtCreateEvent(&events[event_count++]));
  } else if (strcmp(word, "in") == 0) {
    CHECK(aclrtMemcpyAsync(device, kArea, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE, s));
  } else if (strcmp(word, "out") == 0) {
    CHECK(aclrtMemcpyAsync(host, kArea, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST, s));
  } else if (strcmp(word, "inside") == 0) {
    CHECK(aclrtMemcpyAsync(other, kArea, device, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
  } else if (strcmp(word, "set") == 0) {
    CHECK(aclrtMemsetAsync(device, kArea, 1, bytes, s));
  } else if (strcmp(word, "run") == 0) {
    const Model* m = &models[second];
    CHECK(aclmdlExecuteAsync(m->id, m->inputs, m->outputs, s));
  } else if (strcmp(word, "record") == 0) {
    CHECK(aclrtRecordEvent(events[second], s));
  } else if (strcmp(word, "wait") == 0) {
    CHECK(aclrtStreamWaitEvent(s, events[second]));
  } else if (strcmp(word, "sync") == 0) {
    CHECK(aclrtSynchronizeStream(s));
  } else if (strcmp(word, "sync_event") == 0) {
    CHECK(aclrtSynchronizeEvent(events[first]));
  } else if (strcmp(word, "query") == 0) {
    poll(s);
  } else {
    fprintf(stderr, "no such word: %s\n", word);
    exit(64);
  }
}

int main(void) {
  char line[1024], word[32], path[1000];
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtMallocHost(&host, kArea));
  CHECK(aclrtMalloc(&device, kArea, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMalloc(&other, kArea, ACL_MEM_MALLOC_HUGE_FIRST));
  memset(host, 0, kArea);
  while (fgets(line, sizeof line, stdin) != NULL) {
    long first = 0, second = 0;
    if (sscanf(line, "model %999s", path) == 1) {
      load(path);
    } else if (sscanf(line, "%31s %ld %ld", word, &first, &second) >= 1) {
      play(word, first, second);
    }
  }
  CHECK(aclrtSynchronizeDevice());
  for (int i = 0; i < event_count; ++i) {
    float ms = -1;
    CHECK(aclrtEventElapsedTime(&ms, events[0], events[i]));
    printf("%.9g\n", (double)ms);
  }
  return 0;
}
