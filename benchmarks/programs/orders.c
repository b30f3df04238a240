/* Small programs whose answer depends on the order of tasks of different streams.
 *   orders chain        copy in, copy inside on another stream, copy out, over one buffer
 *   orders fork         one input, parts worked on by four streams, joined
 *   orders chain-early  chain that does not wait for the copy in
 *   orders chain-reuse  chain that fills the buffer again before it was read
 *   orders fork-early   fork that reads the parts without waiting for the third stream
 * Exit code 0: every answer is right, 2: a wrong one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "check.h"

enum { kBytes = 64 * 1024, kRounds = 8, kParts = 4, kPart = kBytes / kParts };

static aclrtStream s[kParts + 1];
static unsigned char *in, *out;
static unsigned char *first, *second;

static aclrtEvent mark(aclrtStream stream) {
  aclrtEvent event;
  CHECK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  CHECK(aclrtRecordEvent(event, stream));
  return event;
}

static int right(int round) {
  for (int i = 0; i < kBytes; ++i) {
    if (out[i] != (unsigned char)(round + 1)) return 0;
  }
  return 1;
}

/* The host waits for the answers of a round only behind the next one. */
static int chain(int early, int reuse) {
  unsigned char* kept[kRounds];
  aclrtEvent read = NULL;
  int good = 1;
  for (int r = 0; r < kRounds; ++r) {
    CHECK(aclrtMallocHost((void**)&kept[r], 2 * kBytes));
    memset(kept[r], r + 1, kBytes);
    if (read != NULL && !reuse) CHECK(aclrtStreamWaitEvent(s[0], read));
    CHECK(aclrtMemcpyAsync(first, kBytes, kept[r], kBytes, ACL_MEMCPY_HOST_TO_DEVICE, s[0]));
    const aclrtEvent filled = mark(s[0]);
    if (!early) CHECK(aclrtStreamWaitEvent(s[1], filled));
    CHECK(aclrtMemcpyAsync(second, kBytes, first, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, s[1]));
    read = mark(s[1]);
    CHECK(aclrtMemcpyAsync(kept[r] + kBytes, kBytes, second, kBytes, ACL_MEMCPY_DEVICE_TO_HOST,
                           s[1]));
  }
  CHECK(aclrtSynchronizeDevice());
  for (int r = 0; r < kRounds; ++r) {
    out = kept[r] + kBytes;
    good &= right(r);
  }
  return good;
}

static int fork_and_join(int early) {
  int good = 1;
  for (int r = 0; r < kRounds; ++r) {
    memset(in, r + 1, kBytes);
    CHECK(aclrtMemcpyAsync(first, kBytes, in, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, s[0]));
    const aclrtEvent filled = mark(s[0]);
    for (int i = 0; i < kParts; ++i) {
      CHECK(aclrtStreamWaitEvent(s[i + 1], filled));
      CHECK(aclrtMemcpyAsync(second + i * kPart, kPart, first + i * kPart, kPart,
                             ACL_MEMCPY_DEVICE_TO_DEVICE, s[i + 1]));
      const aclrtEvent done = mark(s[i + 1]);
      if (!early || i != 2) CHECK(aclrtStreamWaitEvent(s[0], done));
    }
    CHECK(aclrtMemcpyAsync(out, kBytes, second, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, s[0]));
    CHECK(aclrtSynchronizeStream(s[0]));
    good &= right(r);
  }
  return good;
}

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  for (int i = 0; i <= kParts; ++i) CHECK(aclrtCreateStream(&s[i]));
  CHECK(aclrtMallocHost((void**)&in, kBytes));
  CHECK(aclrtMallocHost((void**)&out, kBytes));
  CHECK(aclrtMalloc((void**)&first, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMalloc((void**)&second, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  const int early = strstr(argv[1], "-early") != NULL;
  const int reuse = strstr(argv[1], "-reuse") != NULL;
  const int good = strncmp(argv[1], "chain", 5) == 0 ? chain(early, reuse) : fork_and_join(early);
  CHECK(aclrtSynchronizeDevice());
  CHECK(aclFinalize());
  return good ? 0 : 2;
}
