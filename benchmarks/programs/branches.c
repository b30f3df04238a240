/* An Inception-like block: one input, four branches that do not depend on each other, on as many
 * streams as asked for.
 *   branches STREAMS INPUT OUTPUT BRANCH.om ...
 * The longest branch comes first. They are dealt to the streams back and forth, like cards, and the
 * first stream is the most urgent. Prints the time from the input's arrival to the end of all
 * branches in milliseconds and writes the outputs, one behind the other. */
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "check.h"

enum { kMost = 8 };

typedef struct {
  uint32_t id;
  size_t bytes;
  void* output;
  aclmdlDataset* inputs;
  aclmdlDataset* outputs;
} Branch;

static aclmdlDataset* dataset_of(void* memory, size_t bytes) {
  aclmdlDataset* set = aclmdlCreateDataset();
  CHECK(aclmdlAddDatasetBuffer(set, aclCreateDataBuffer(memory, bytes)));
  return set;
}

static void load(Branch* b, const char* path, void* input, size_t input_bytes) {
  aclmdlDesc* desc = aclmdlCreateDesc();
  CHECK(aclmdlLoadFromFile(path, &b->id));
  CHECK(aclmdlGetDesc(desc, b->id));
  b->bytes = aclmdlGetOutputSizeByIndex(desc, 0);
  CHECK(aclrtMalloc(&b->output, b->bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  b->inputs = dataset_of(input, input_bytes);
  b->outputs = dataset_of(b->output, b->bytes);
  CHECK(aclmdlDestroyDesc(desc));
}

/* The whole file in pinned memory. */
static void* read_file(const char* path, size_t* bytes) {
  void* memory = NULL;
  FILE* file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) exit(3);
  *bytes = (size_t)ftell(file);
  rewind(file);
  CHECK(aclrtMallocHost(&memory, *bytes));
  if (fread(memory, 1, *bytes, file) != *bytes) exit(3);
  fclose(file);
  return memory;
}

static void write_outputs(const char* path, const Branch* branches, int count) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) exit(3);
  for (int i = 0; i < count; ++i) {
    void* memory = NULL;
    const size_t bytes = branches[i].bytes;
    CHECK(aclrtMallocHost(&memory, bytes));
    CHECK(aclrtMemcpy(memory, bytes, branches[i].output, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    if (fwrite(memory, 1, bytes, file) != bytes) exit(3);
  }
  fclose(file);
}

static aclrtEvent event(uint32_t flags) {
  aclrtEvent made = NULL;
  CHECK(aclrtCreateEventExWithFlag(&made, flags));
  return made;
}

static int stream_of(int branch, int streams) {
  const int place = branch % (2 * streams);
  return place < streams ? place : 2 * streams - 1 - place;
}

int main(int argc, char** argv) {
  if (argc < 5 || argc - 4 > kMost) return 64;
  const int streams = atoi(argv[1]);
  const int count = argc - 4;
  Branch branches[kMost];
  aclrtStream s[kMost];
  size_t bytes = 0;
  void* input = NULL;
  float elapsed_ms = -1;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  void* host = read_file(argv[2], &bytes);
  CHECK(aclrtMalloc(&input, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  for (int i = 0; i < count; ++i) load(&branches[i], argv[4 + i], input, bytes);
  for (int i = 0; i < streams; ++i) CHECK(aclrtCreateStreamWithConfig(&s[i], (uint32_t)i, 0));
  aclrtEvent begin = event(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
  aclrtEvent end = event(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);

  CHECK(aclrtMemcpyAsync(input, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE, s[0]));
  CHECK(aclrtRecordEvent(begin, s[0]));
  for (int i = 1; i < streams; ++i) CHECK(aclrtStreamWaitEvent(s[i], begin));
  for (int i = 0; i < count; ++i) {
    const Branch* b = &branches[i];
    CHECK(aclmdlExecuteAsync(b->id, b->inputs, b->outputs, s[stream_of(i, streams)]));
  }
  for (int i = 1; i < streams; ++i) {
    aclrtEvent done = event(ACL_EVENT_SYNC);
    CHECK(aclrtRecordEvent(done, s[i]));
    CHECK(aclrtStreamWaitEvent(s[0], done));
  }
  CHECK(aclrtRecordEvent(end, s[0]));
  CHECK(aclrtSynchronizeEvent(end));
  CHECK(aclrtEventElapsedTime(&elapsed_ms, begin, end));
  write_outputs(argv[3], branches, count);
  CHECK(aclFinalize());
  printf("%.6f\n", (double)elapsed_ms);
  return 0;
}
