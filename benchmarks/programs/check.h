/* The end of a program whose call failed, with the runtime's own text. */
#ifndef ASCENDRT_BENCHMARKS_CHECK_H
#define ASCENDRT_BENCHMARKS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define CHECK(call)                                                        \
  do {                                                                     \
    const aclError code = (call);                                          \
    if (code != ACL_SUCCESS) {                                             \
      const char* text = aclGetRecentErrMsg();                             \
      fprintf(stderr, "%s: %d\n%s\n", #call, (int)code, text ? text : ""); \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

#endif
