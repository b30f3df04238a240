/* Calls that ask what the device has done: quick, but in modelled time they wait for other threads.
 * Must never: be used around a call that may wait in real time as well. */
#ifndef ASCENDRT_LOOKS_H_
#define ASCENDRT_LOOKS_H_

#include <Python.h>

#include "binding.h"

/* Gives up the GIL where the look may wait; what it returns goes to art_look_over. */
static inline PyThreadState* art_look(void) {
  return __builtin_expect(__atomic_load_n(art_looks_wait, __ATOMIC_RELAXED) != 0, 0)
             ? PyEval_SaveThread()
             : NULL;
}

static inline void art_look_over(PyThreadState* thread) {
  if (thread != NULL) PyEval_RestoreThread(thread);
}

#endif /* ASCENDRT_LOOKS_H_ */
