/* The template of a C program: init, context, stream, model, asynchronous execution, clean-up.
 *
 *     cc -std=c11 -I sdk/include examples/c/template.c -L sdk/lib64 -lascendcl -o template
 *     ascendrt run -- ./template digits.om
 *
 * What the usual guide gets wrong:
 * - It takes sizes as height * width * channels * 4. The model tells them, and they may be larger.
 * - It hands pointers to aclmdlExecuteAsync. That takes datasets, which the program makes itself
 *   (aclmdlGetDataset does not exist), and which must live until the stream was waited for.
 * - It returns from main at the first failure and leaves model, memory, stream and device behind.
 * - It names a context "where memory lives". Destroying one frees no device memory.
 * - It reads results that were never copied to the host; a device pointer cannot be read there.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

/* A failing step is told with its text, and `goto` leads to the undoing of the steps before it. */
#define TRY(call, undo)                                                               \
  do {                                                                                \
    const aclError code_ = (call);                                                    \
    if (code_ != ACL_SUCCESS) {                                                       \
      const char* text_ = aclGetRecentErrMsg();                                       \
      fprintf(stderr, "template.c:%d: %s gave %d\n%s\n", __LINE__, #call, (int)code_, \
              text_ != NULL ? text_ : "(no further text)");                           \
      goto undo;                                                                      \
    }                                                                                 \
  } while (0)

/* Zeroed device memory of the size that the model asks for, wrapped for a dataset. */
static aclError add_buffer(aclmdlDataset* dataset, size_t size) {
  void* memory = NULL;
  aclDataBuffer* buffer = NULL;
  aclError code = aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST);
  if (code != ACL_SUCCESS) return code;
  code = aclrtMemset(memory, size, 0, size);
  if (code == ACL_SUCCESS) {
    buffer = aclCreateDataBuffer(memory, size);
    code = buffer == NULL ? ACL_ERROR_BAD_ALLOC : aclmdlAddDatasetBuffer(dataset, buffer);
  }
  if (code != ACL_SUCCESS) {
    if (buffer != NULL) aclDestroyDataBuffer(buffer);
    aclrtFree(memory);
  }
  return code;
}

/* A dataset owns neither its buffers nor their memory. */
static void drop(aclmdlDataset* dataset) {
  if (dataset == NULL) return;
  for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(dataset); ++i) {
    aclDataBuffer* buffer = aclmdlGetDatasetBuffer(dataset, i);
    aclrtFree(aclGetDataBufferAddr(buffer));
    aclDestroyDataBuffer(buffer);
  }
  aclmdlDestroyDataset(dataset);
}

/* Executes once in the stream, copies output 0 to the host in the same stream, waits for both. */
static int execute(uint32_t model, aclmdlDesc* desc, aclrtStream stream) {
  int done = 0;
  void* host = NULL;
  aclmdlDataset* inputs = aclmdlCreateDataset();
  aclmdlDataset* outputs = aclmdlCreateDataset();
  const size_t size = aclmdlGetOutputSizeByIndex(desc, 0);
  for (size_t i = 0; i < aclmdlGetNumInputs(desc); ++i)
    TRY(add_buffer(inputs, aclmdlGetInputSizeByIndex(desc, i)), clean_up);
  for (size_t i = 0; i < aclmdlGetNumOutputs(desc); ++i)
    TRY(add_buffer(outputs, aclmdlGetOutputSizeByIndex(desc, i)), clean_up);
  TRY(aclrtMallocHost(&host, size), clean_up);

  TRY(aclmdlExecuteAsync(model, inputs, outputs, stream), clean_up);
  TRY(aclrtMemcpyAsync(host, size, aclGetDataBufferAddr(aclmdlGetDatasetBuffer(outputs, 0)), size,
                       ACL_MEMCPY_DEVICE_TO_HOST, stream),
      wait);
  TRY(aclrtSynchronizeStream(stream), clean_up); /* before this line nothing may be read */
  printf("output 0: %zu bytes, first value %.6f\n", size, ((const float*)host)[0]);
  done = 1;
  goto clean_up;

wait: /* the run is queued: its datasets must not go before it is over */
  (void)aclrtSynchronizeStream(stream);
clean_up:
  if (host != NULL) aclrtFreeHost(host);
  drop(outputs);
  drop(inputs);
  return done;
}

int main(int argc, char** argv) {
  int done = 0;
  aclrtContext context = NULL;
  aclrtStream stream = NULL;
  uint32_t model = 0;
  aclmdlDesc* desc = NULL;
  if (argc < 2) {
    fprintf(stderr, "usage: %s model.om\n", argv[0]);
    return 2;
  }
  TRY(aclInit(NULL), end);
  TRY(aclrtSetDevice(0), finalize);
  TRY(aclrtCreateContext(&context, 0), reset); /* current on this thread from here on */
  TRY(aclrtCreateStream(&stream), destroy_context);
  TRY(aclmdlLoadFromFile(argv[1], &model), destroy_stream);
  desc = aclmdlCreateDesc();
  TRY(aclmdlGetDesc(desc, model), unload);

  done = execute(model, desc, stream);

unload:
  aclmdlDestroyDesc(desc);
  aclmdlUnload(model);
destroy_stream:
  aclrtDestroyStream(stream);
destroy_context:
  aclrtDestroyContext(context);
reset:
  aclrtResetDevice(0);
finalize:
  aclFinalize();
end:
  printf(done ? "done\n" : "failed\n");
  return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
