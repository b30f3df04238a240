/* A library under a vendor name, small enough to judge by eye: the tests' stand-in for real CANN.
 * Built with -DDEVICES=n, -DCOUNT_CODE=n, -DWITHOUT_MALLOC. Must never look like our facades. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef DEVICES
#define DEVICES 2
#endif
#ifndef COUNT_CODE
#define COUNT_CODE 0
#endif

static __thread int current = -1;
static __thread const char* recent;

int aclInit(const char* path) { return path != NULL && path[0] == '?' ? 100003 : 0; }
int aclFinalize(void) { return 0; }
int aclrtGetDeviceCount(uint32_t* count) {
  *count = DEVICES;
  return COUNT_CODE;
}
int aclrtSetDevice(int32_t device) {
  if (device < 0 || device >= DEVICES) {
    recent = "stand-in: no such device";
    return 107001;
  }
  current = device;
  return 0;
}
int aclrtResetDevice(int32_t device) {
  (void)device;
  current = -1;
  return 0;
}
int aclrtGetCurrentContext(void** context) {
  *context = &current;
  return current < 0 ? 107002 : 0;
}
int aclrtSetCurrentContext(void* context) {
  (void)context;
  return 0;
}
int aclrtGetMemInfo(int attribute, size_t* free_bytes, size_t* total_bytes) {
  (void)attribute;
  *free_bytes = 1u << 20;
  *total_bytes = 1u << 21;
  return 0;
}
int aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
  *major = 9;
  *minor = 8;
  *patch = 7;
  return 0;
}
const char* aclrtGetSocName(void) { return "StandIn1"; }
const char* aclGetRecentErrMsg(void) {
  const char* text = recent;
  recent = NULL;
  return text;
}
#ifndef WITHOUT_MALLOC
int aclrtMalloc(void** pointer, size_t size, int policy) {
  (void)policy;
  *pointer = malloc(size);
  return *pointer != NULL ? 0 : 207001;
}
#endif
int aclrtFree(void* pointer) {
  free(pointer);
  return 0;
}
int aclrtMemcpy(void* to, size_t room, const void* from, size_t count, int kind) {
  (void)kind;
  if (count > room) return 107000;
  memcpy(to, from, count);
  return 0;
}
