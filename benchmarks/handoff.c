// The hand-over of tasks to streams, from C. Prints "name nanoseconds" per line: the median of the
// rounds. The library is the first argument (libascendcl.so). With "pocl" in its place the same on
// an OpenCL queue, from whatever platform the loader libOpenCL.so.1 gives. An empty task sets one
// byte of device memory to a changing value; the byte is checked after each round. Owns: nothing of
// the product; declares what it calls itself.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum { kRounds = 41 };

// One round of `count` steps; gives the value that the byte has to have after it.
typedef int (*Round)(int count);
static unsigned char (*read_byte)(void);

static void measure(const char* name, Round round, int count) {
  double samples[kRounds];
  round(count);  // warms up
  for (int i = 0; i < kRounds; ++i) {
    const double begin = now_ns();
    const int value = round(count);
    samples[i] = (now_ns() - begin) / count;
    if (value < 0) continue;
    check(read_byte() != (unsigned char)value, name);
  }
  qsort(samples, kRounds, sizeof(double), order);
  printf("%s %.2f\n", name, samples[kRounds / 2]);
}

// ---- AscendCL

#define ACL_FUNCTIONS(X)                                    \
  X(aclInit, (const char*))                                 \
  X(aclrtSetDevice, (int32_t))                              \
  X(aclrtCreateStream, (void**))                            \
  X(aclrtSynchronizeStream, (void*))                        \
  X(aclrtCreateEventExWithFlag, (void**, uint32_t))         \
  X(aclrtRecordEvent, (void*, void*))                       \
  X(aclrtStreamWaitEvent, (void*, void*))                   \
  X(aclrtQueryEventStatus, (void*, int*))                   \
  X(aclrtMalloc, (void**, size_t, int))                     \
  X(aclrtMemcpy, (void*, size_t, const void*, size_t, int)) \
  X(aclrtMemsetAsync, (void*, size_t, int32_t, size_t, void*))
#define DECLARE(name, parameters) static int(*name) parameters;
ACL_FUNCTIONS(DECLARE)

static void* stream;
static void* other;
static void* event;
static void* device;

static unsigned char acl_byte(void) {
  unsigned char byte = 0;
  check(aclrtMemcpy(&byte, 1, device, 1, 2), "aclrtMemcpy");
  return byte;
}

static int submit_synchronize(int count) {
  for (int i = 0; i < count; ++i) {
    check(aclrtMemsetAsync(device, 64, i & 255, 1, stream), "aclrtMemsetAsync");
    check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
  }
  return (count - 1) & 255;
}

static int sustained(int count) {
  for (int i = 0; i < count; ++i) {
    check(aclrtMemsetAsync(device, 64, i & 255, 1, stream), "aclrtMemsetAsync");
  }
  check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
  return (count - 1) & 255;
}

static int record(int count) {
  for (int i = 0; i < count; ++i) check(aclrtRecordEvent(event, stream), "aclrtRecordEvent");
  return -1;
}

static int query(int count) {
  int status = 0;
  for (int i = 0; i < count; ++i) check(aclrtQueryEventStatus(event, &status), "query");
  return -1;
}

static void poll_event(void) {
  int status = 0;
  do check(aclrtQueryEventStatus(event, &status), "aclrtQueryEventStatus");
  while (status != 1);
}

static int record_wait(int count) {
  for (int i = 0; i < count; ++i) {
    check(aclrtRecordEvent(event, stream), "aclrtRecordEvent");
    check(aclrtStreamWaitEvent(other, event), "aclrtStreamWaitEvent");
    poll_event();
  }
  return -1;
}

// A task, an event across two streams, a task behind it.
static int dependent(int count) {
  for (int i = 0; i < count; ++i) {
    check(aclrtMemsetAsync(device, 64, (i + 1) & 255, 1, stream), "aclrtMemsetAsync");
    check(aclrtRecordEvent(event, stream), "aclrtRecordEvent");
    check(aclrtStreamWaitEvent(other, event), "aclrtStreamWaitEvent");
    check(aclrtMemsetAsync(device, 64, i & 255, 1, other), "aclrtMemsetAsync");
    check(aclrtSynchronizeStream(other), "aclrtSynchronizeStream");
  }
  return (count - 1) & 255;
}

static void run_acl(const char* path) {
  void* library = dlopen(path, RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
#define LOAD(name, parameters) *(void**)&name = dlsym(library, #name);
  ACL_FUNCTIONS(LOAD)
  read_byte = acl_byte;
  check(aclInit(NULL), "aclInit");
  check(aclrtSetDevice(0), "aclrtSetDevice");
  check(aclrtCreateStream(&stream), "aclrtCreateStream");
  check(aclrtCreateStream(&other), "aclrtCreateStream");
  check(aclrtCreateEventExWithFlag(&event, 0x9), "aclrtCreateEventExWithFlag");  // time line, sync
  check(aclrtMalloc(&device, 4096, 0), "aclrtMalloc");
  measure("handoff_ns", submit_synchronize, 2000);
  measure("sustained_ns", sustained, 20000);
  measure("record_ns", record, 10000);
  measure("query_ns", query, 10000);
  measure("record_wait_ns", record_wait, 2000);
  measure("dependent_ns", dependent, 500);
}

// ---- OpenCL

#define CL_FUNCTIONS(X)                                                              \
  X(int, clGetPlatformIDs, (uint32_t, void**, uint32_t*))                            \
  X(int, clGetDeviceIDs, (void*, uint64_t, uint32_t, void**, uint32_t*))             \
  X(void*, clCreateContext, (const intptr_t*, uint32_t, void**, void*, void*, int*)) \
  X(void*, clCreateCommandQueue, (void*, void*, uint64_t, int*))                     \
  X(void*, clCreateBuffer, (void*, uint64_t, size_t, void*, int*))                   \
  X(int, clEnqueueFillBuffer,                                                        \
    (void*, void*, const void*, size_t, size_t, size_t, uint32_t, void*, void*))     \
  X(int, clEnqueueReadBuffer,                                                        \
    (void*, void*, uint32_t, size_t, size_t, void*, uint32_t, void*, void*))         \
  X(int, clFinish, (void*))
#define DECLARE_CL(type, name, parameters) static type(*name) parameters;
CL_FUNCTIONS(DECLARE_CL)

static void* queue;
static void* buffer;

static unsigned char cl_byte(void) {
  unsigned char byte = 0;
  check(clEnqueueReadBuffer(queue, buffer, 1, 0, 1, &byte, 0, NULL, NULL), "clEnqueueReadBuffer");
  return byte;
}

static void cl_fill(int value) {
  const unsigned char byte = (unsigned char)value;
  check(clEnqueueFillBuffer(queue, buffer, &byte, 1, 0, 1, 0, NULL, NULL), "clEnqueueFillBuffer");
}

static int cl_enqueue_finish(int count) {
  for (int i = 0; i < count; ++i) {
    cl_fill(i & 255);
    check(clFinish(queue), "clFinish");
  }
  return (count - 1) & 255;
}

static int cl_sustained(int count) {
  for (int i = 0; i < count; ++i) cl_fill(i & 255);
  check(clFinish(queue), "clFinish");
  return (count - 1) & 255;
}

static void run_pocl(void) {
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW);
  if (library == NULL) exit(3);
#define LOAD_CL(type, name, parameters) *(void**)&name = dlsym(library, #name);
  CL_FUNCTIONS(LOAD_CL)
  void* platform = NULL;
  void* cpu = NULL;
  int code = 0;
  if (clGetPlatformIDs(1, &platform, NULL) != 0 ||
      clGetDeviceIDs(platform, 0xFFFFFFFF, 1, &cpu, NULL) != 0) {
    exit(3);
  }
  void* context = clCreateContext(NULL, 1, &cpu, NULL, NULL, &code);
  check(code, "clCreateContext");
  queue = clCreateCommandQueue(context, cpu, 0, &code);
  check(code, "clCreateCommandQueue");
  buffer = clCreateBuffer(context, 1, 4096, NULL, &code);
  check(code, "clCreateBuffer");
  read_byte = cl_byte;
  measure("pocl_handoff_ns", cl_enqueue_finish, 200);
  measure("pocl_sustained_ns", cl_sustained, 1000);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (strcmp(argv[1], "pocl") == 0) {
    run_pocl();
  } else {
    run_acl(argv[1]);
  }
  return 0;
}
