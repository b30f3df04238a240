/* A whole AscendCL program in C11: device, stream, memory, copies, events, a model, clean-up.
 *
 * Build against the headers of this project alone (or against CANN, nothing here is special):
 *     ascendrt sdk /tmp/sdk && . /tmp/sdk/set_env.sh
 *     cc -std=c11 -I/tmp/sdk/include hello.c -L/tmp/sdk/lib64 -lascendcl -o hello
 *     ascendrt run -- ./hello [model.om]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

enum { kCount = 1024, kBytes = kCount * sizeof(int32_t) };

/* Every call that returns a code goes through CHECK: the first failure ends the program. */
static void check(aclError code, const char* call, int line) {
  if (code == ACL_SUCCESS) return;
  const char* text = aclGetRecentErrMsg();
  fprintf(stderr, "hello.c:%d: %s gave %d\n%s\n", line, call, (int)code,
          text != NULL ? text : "(no further text)");
  exit(EXIT_FAILURE);
}
#define CHECK(call) check((call), #call, __LINE__)

static void require(int truth, const char* what) {
  if (truth) return;
  fprintf(stderr, "hello.c: %s\n", what);
  exit(EXIT_FAILURE);
}

/* Pageable host memory there and back: aclrtMemcpy returns when the bytes are in place. */
static void copy_and_wait(void* device_memory) {
  int32_t out[kCount];
  int32_t back[kCount];
  for (int i = 0; i < kCount; ++i) out[i] = i * i;
  memset(back, 0, sizeof back);
  CHECK(aclrtMemcpy(device_memory, kBytes, out, kBytes, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK(aclrtMemcpy(back, kBytes, device_memory, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  require(memcmp(out, back, kBytes) == 0, "the synchronous copies changed the data");
  printf("copy: %d bytes to the device and back\n", (int)kBytes);
}

/* Pinned host memory there and back on a stream, timed by two events. */
static void copy_on_stream(void* device_memory, aclrtStream stream) {
  void* pinned = NULL;
  aclrtEvent start = NULL;
  aclrtEvent stop = NULL;
  float elapsed_ms = -1.0f;
  CHECK(aclrtMallocHost(&pinned, 2 * kBytes));
  CHECK(aclrtCreateEvent(&start));
  CHECK(aclrtCreateEvent(&stop));
  int32_t* out = (int32_t*)pinned;
  int32_t* back = out + kCount;
  for (int i = 0; i < kCount; ++i) out[i] = kCount - i;
  memset(back, 0, kBytes);

  CHECK(aclrtRecordEvent(start, stream));
  CHECK(aclrtMemcpyAsync(device_memory, kBytes, out, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  CHECK(aclrtMemcpyAsync(back, kBytes, device_memory, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  CHECK(aclrtRecordEvent(stop, stream));
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclrtEventElapsedTime(&elapsed_ms, start, stop));
  require(memcmp(out, back, kBytes) == 0, "the asynchronous copies changed the data");
  require(elapsed_ms >= 0.0f, "the events ran backwards");
  printf("copy on a stream: %d bytes each way, events say %.3f ms\n", (int)kBytes, elapsed_ms);

  CHECK(aclrtDestroyEvent(stop));
  CHECK(aclrtDestroyEvent(start));
  CHECK(aclrtFreeHost(pinned));
}

/* One device buffer of zeros in a dataset; the dataset owns neither, so drop_dataset frees both. */
static void add_buffer(aclmdlDataset* dataset, size_t size) {
  void* memory = NULL;
  CHECK(aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemset(memory, size, 0, size));
  aclDataBuffer* buffer = aclCreateDataBuffer(memory, size);
  require(buffer != NULL, "aclCreateDataBuffer gave NULL");
  CHECK(aclmdlAddDatasetBuffer(dataset, buffer));
}

static void drop_dataset(aclmdlDataset* dataset) {
  for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(dataset); ++i) {
    aclDataBuffer* buffer = aclmdlGetDatasetBuffer(dataset, i);
    CHECK(aclrtFree(aclGetDataBufferAddr(buffer)));
    CHECK(aclDestroyDataBuffer(buffer));
  }
  CHECK(aclmdlDestroyDataset(dataset));
}

static void print_output(const aclmdlDesc* desc, aclmdlDataset* outputs, size_t index) {
  aclDataBuffer* buffer = aclmdlGetDatasetBuffer(outputs, index);
  const size_t size = aclGetDataBufferSizeV2(buffer);
  float* values = malloc(size);
  require(values != NULL, "out of host memory");
  CHECK(aclrtMemcpy(values, size, aclGetDataBufferAddr(buffer), size, ACL_MEMCPY_DEVICE_TO_HOST));
  printf("model output %d (%s): %d bytes", (int)index, aclmdlGetOutputNameByIndex(desc, index),
         (int)size);
  if (aclmdlGetOutputDataType(desc, index) == ACL_FLOAT && size >= sizeof(float))
    printf(", first value %.6f", values[0]);
  printf("\n");
  free(values);
}

/* The model on an input of zeros: load, ask for the sizes, execute, read the outputs, unload. */
static void run_model(const char* path) {
  uint32_t model_id = 0;
  CHECK(aclmdlLoadFromFile(path, &model_id));
  aclmdlDesc* desc = aclmdlCreateDesc();
  require(desc != NULL, "aclmdlCreateDesc gave NULL");
  CHECK(aclmdlGetDesc(desc, model_id));
  aclmdlDataset* inputs = aclmdlCreateDataset();
  aclmdlDataset* outputs = aclmdlCreateDataset();
  require(inputs != NULL && outputs != NULL, "aclmdlCreateDataset gave NULL");
  for (size_t i = 0; i < aclmdlGetNumInputs(desc); ++i)
    add_buffer(inputs, aclmdlGetInputSizeByIndex(desc, i));
  for (size_t i = 0; i < aclmdlGetNumOutputs(desc); ++i)
    add_buffer(outputs, aclmdlGetOutputSizeByIndex(desc, i));

  CHECK(aclmdlExecute(model_id, inputs, outputs));
  for (size_t i = 0; i < aclmdlGetNumOutputs(desc); ++i) print_output(desc, outputs, i);

  drop_dataset(outputs);
  drop_dataset(inputs);
  CHECK(aclmdlDestroyDesc(desc));
  CHECK(aclmdlUnload(model_id));
}

int main(int argc, char** argv) {
  aclrtStream stream = NULL;
  void* device_memory = NULL;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  const char* soc = aclrtGetSocName();
  printf("device 0: %s\n", soc != NULL ? soc : "(no name)");
  CHECK(aclrtCreateStream(&stream));
  CHECK(aclrtMalloc(&device_memory, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));

  copy_and_wait(device_memory);
  copy_on_stream(device_memory, stream);
  if (argc > 1) run_model(argv[1]);
  CHECK(aclrtSynchronizeDevice());

  CHECK(aclrtFree(device_memory));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  printf("done\n");
  return EXIT_SUCCESS;
}
