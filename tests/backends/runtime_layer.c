/* A program written at the level of the runtime: devices, contexts, streams, events, memory.
 * Compiled against the generated headers and linked with libruntime alone. Prints one line per step
 * that went as the runtime does it; the test counts them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rt.h"

#define EXPECT(call, wanted)                                                     \
  do {                                                                           \
    const int code_ = (int)(call);                                               \
    if (code_ != (wanted)) {                                                     \
      printf("line %d: %s gave %d, not %d\n", __LINE__, #call, code_, (wanted)); \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)
#define OK(call) EXPECT(call, 0)
#define THAT(condition) EXPECT((condition) ? 0 : 1, 0)
#define SIZE 4096U
#define INVALID 107000
#define NO_DEVICE 107001
#define NO_CONTEXT 107002
#define DEAD 107017
#define TIME_LIMIT 507046
#define STREAM_BUSY 507004

static void said(const char* what) { printf("%s\n", what); }

static void devices(void) {
  int32_t count = 0, device = 77;
  uint32_t id = 77, cores = 0, ai_cpus = 0;
  rtRunMode mode = RT_RUN_MODE_RESERVED;
  char soc[64];
  EXPECT(rtGetDevice(&device), NO_CONTEXT);
  OK(rtGetDeviceCount(&count));
  THAT(count == 1);
  EXPECT(rtGetDeviceCount(NULL), INVALID);
  EXPECT(rtSetDevice(99), NO_DEVICE);
  EXPECT(rtGetLastError(0), NO_DEVICE);
  EXPECT(rtGetLastError(0), 0);
  OK(rtSetDevice(0));
  OK(rtGetDevice(&device));
  THAT(device == 0);
  OK(rtGetRunMode(&mode));
  THAT(mode == RT_RUN_MODE_ONLINE);
  OK(rtGetSocVersion(soc, sizeof soc));
  THAT(strcmp(soc, "Ascend910B1") == 0);
  EXPECT(rtGetSocVersion(soc, 3), INVALID);
  OK(rtGetAiCoreCount(&cores));
  OK(rtGetAiCpuCount(&ai_cpus));
  THAT(cores > 0 && ai_cpus > 0);
  OK(rtGetDevicePhyIdByIndex(0, &id));
  THAT(id == 0);
  OK(rtDeviceSynchronize());
  EXPECT(rtDeviceSynchronizeWithTimeout(-2), INVALID);
  said("devices");
}

static void contexts(void) {
  rtContext_t primary = NULL, made = NULL, current = NULL;
  rtStream_t stream = NULL;
  OK(rtGetPriCtxByDeviceId(0, &primary));
  OK(rtCtxGetCurrent(&current));
  THAT(current == primary);
  OK(rtCtxCreate(&made, 0, 0));
  OK(rtCtxGetCurrent(&current));
  THAT(current == made && made != primary);
  OK(rtCtxGetCurrentDefaultStream(&stream));
  THAT(stream != NULL);
  OK(rtCtxSetCurrent(NULL));
  EXPECT(rtCtxGetCurrent(&current), NO_CONTEXT);
  OK(rtCtxSetCurrent(made));
  OK(rtCtxDestroy(made));
  EXPECT(rtCtxSetCurrent(made), INVALID);
  OK(rtCtxSetCurrent(primary));
  EXPECT(rtCtxCreate(NULL, 0, 0), INVALID);
  said("contexts");
}

static void memory(rtStream_t stream) {
  void *device = NULL, *host = NULL;
  size_t left = 0, total = 0;
  char back[SIZE];
  EXPECT(rtMalloc(NULL, SIZE, 0, 0), INVALID);
  EXPECT(rtMalloc(&device, 0, 0, 0), INVALID);
  OK(rtMalloc(&device, SIZE, 0, 0));
  OK(rtMallocHost(&host, SIZE, 0));
  memset(host, 'a', SIZE);
  OK(rtMemcpy(device, SIZE, host, SIZE, RT_MEMCPY_HOST_TO_DEVICE));
  OK(rtMemset(device, SIZE, 'b', 8));
  OK(rtMemcpy(back, SIZE, device, SIZE, RT_MEMCPY_DEFAULT));
  THAT(back[0] == 'b' && back[8] == 'a');
  EXPECT(rtMemcpy(device, 8, host, SIZE, RT_MEMCPY_HOST_TO_DEVICE), INVALID);
  EXPECT(rtMemcpy(device, SIZE, host, SIZE, RT_MEMCPY_RESERVED), INVALID);
  OK(rtMemsetAsync(device, SIZE, 'c', SIZE, stream));
  OK(rtMemcpyAsync(host, SIZE, device, SIZE, RT_MEMCPY_DEVICE_TO_HOST, stream));
  OK(rtStreamSynchronize(stream));
  THAT(((char*)host)[SIZE - 1] == 'c');
  OK(rtMemcpy2d(device, 64, host, 64, 32, 4, RT_MEMCPY_HOST_TO_DEVICE));
  OK(rtMemGetInfo(&left, &total));
  THAT(left > 0 && left <= total);
  OK(rtMemGetInfoEx(RT_MEMORYINFO_HBM, &left, &total));
  OK(rtFree(device));
  EXPECT(rtFree(device), INVALID);
  OK(rtFreeHost(host));
  said("memory");
}

static void events(rtStream_t stream) {
  rtEvent_t first = NULL, second = NULL;
  rtEventStatus_t status = RT_EVENT_INIT;
  float elapsed = -1;
  uint64_t stamp = 0;
  OK(rtEventCreate(&first));
  OK(rtEventCreateWithFlag(&second, 0x9));
  OK(rtEventRecord(first, stream));
  OK(rtEventRecord(second, stream));
  OK(rtStreamWaitEvent(NULL, second));
  OK(rtEventSynchronize(second));
  OK(rtEventQuery(first));
  OK(rtEventQueryStatus(second, &status));
  THAT(status == RT_EVENT_RECORDED);
  OK(rtEventElapsedTime(&elapsed, first, second));
  THAT(elapsed >= 0);
  OK(rtEventGetTimeStamp(&stamp, second));
  THAT(stamp > 0);
  OK(rtEventReset(second, stream));
  OK(rtStreamSynchronize(stream));
  OK(rtEventDestroy(first));
  EXPECT(rtEventDestroy(first), DEAD);
  OK(rtEventDestroy(second));
  EXPECT(rtEventDestroy(NULL), INVALID);
  said("events");
}

static void streams(rtStream_t stream) {
  rtStream_t other = NULL;
  rtEvent_t gate = NULL;
  int32_t id = -1;
  OK(rtStreamCreateWithFlags(&other, 3, 0));
  OK(rtGetStreamId(other, &id));
  THAT(id >= 0);
  OK(rtEventCreateWithFlag(&gate, 0x1));
  OK(rtStreamWaitEvent(other, gate)); /* nobody recorded it yet */
  EXPECT(rtStreamQuery(other), STREAM_BUSY);
  EXPECT(rtStreamSynchronizeWithTimeout(other, 1), TIME_LIMIT);
  OK(rtEventRecord(gate, stream));
  OK(rtStreamSynchronize(other));
  OK(rtStreamQuery(other));
  OK(rtStreamDestroy(other));
  EXPECT(rtStreamSynchronize(other), DEAD);
  OK(rtEventDestroy(gate));
  said("streams");
}

int main(void) {
  rtStream_t stream = NULL;
  devices();
  contexts();
  OK(rtStreamCreate(&stream, 0));
  memory(stream);
  events(stream);
  streams(stream);
  OK(rtStreamDestroy(stream));
  OK(rtDeviceReset(0));
  EXPECT(rtDeviceReset(0), 507007);
  said("done");
  return 0;
}
