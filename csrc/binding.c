/* See binding.h. Owns: the table, its filling, and the notes of missing functions. */
#define _GNU_SOURCE /* dladdr */
#include "binding.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gen/all.h"

/* A forwarder facade makes this symbol of the core visible through its handle. */
static const char kMarker[] = "ascendrt_emu_marker";
/* The runtime cuts a log text at 1024 bytes and marks the cut: hand over more than that. */
enum { kMaxLibraries = 32, kMaxLogText = 2048 };

static _Thread_local const char* g_missing;
/* The emulator's own note of an absent function (art_ctl_absent), null on a real runtime: it gives
 * aclGetRecentErrMsg and the log the function's name. */
static void (*g_note_absent)(const char* name);
static const int32_t kNever;
const int32_t* art_looks_wait = &kNever;
static void note_missing(const char* name) {
  g_missing = name;
  if (g_note_absent != NULL) g_note_absent(name);
}

#include "gen/table.inc"

/* Slots are function pointers of the same size as void*; POSIX guarantees the conversion that dlsym
 * needs. */
_Static_assert(sizeof(struct art_table) == ART_SLOTS * sizeof(void*),
               "a table is an array of pointers");

static int g_bound;
static void* g_libraries[kMaxLibraries];
static int g_library_count;

static void* slot_get(const struct art_table* table, int index) {
  void* value;
  memcpy(&value, (const char*)table + (size_t)index * sizeof(void*), sizeof(void*));
  return value;
}

static void slot_set(struct art_table* table, int index, void* value) {
  memcpy((char*)table + (size_t)index * sizeof(void*), &value, sizeof(void*));
}

/* g_names is sorted. -1 when the name is no ABI function. */
static int slot_index(const char* name) {
  int low = 0, high = ART_SLOTS - 1;
  while (name != NULL && low <= high) {
    const int middle = (low + high) / 2;
    const int order = strcmp(name, g_names[middle]);
    if (order == 0) return middle;
    if (order < 0) high = middle - 1;
    if (order > 0) low = middle + 1;
  }
  return -1;
}

static void* find_in(void* const* libraries, int count, const char* name) {
  for (int i = 0; i < count; ++i) {
    void* found = libraries[i] == NULL ? NULL : dlsym(libraries[i], name);
    if (found != NULL) return found;
  }
  return NULL;
}

void* art_bind_open(const char* path, char* error, size_t error_size) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const char* reason = library == NULL ? dlerror() : "";
  if (error != NULL && error_size > 0)
    snprintf(error, error_size, "%s", reason ? reason : "unknown reason");
  return library;
}

int art_bind_is_emulator(void* library) { return art_bind_has_symbol(library, kMarker); }

int art_bind_device_count(void* library, uint32_t* count) {
  int (*get_count)(uint32_t*) = NULL;
  void* found = find_in(&library, 1, "aclrtGetDeviceCount");
  if (found == NULL) return -1;
  memcpy(&get_count, &found, sizeof(found));
  return get_count(count);
}

int art_bind_has_symbol(void* library, const char* name) {
  return find_in(&library, 1, name) != NULL;
}

static const int32_t* find_looks_wait(void* const* libraries, int count) {
  const int32_t* (*place)(void) = NULL;
  void* found = find_in(libraries, count, "art_ctl_looks_wait");
  if (found == NULL) return &kNever;
  memcpy(&place, &found, sizeof(found));
  return place();
}

int art_bind_table(void* const* libraries, int count) {
  struct art_table table = g_misses;
  void* note_absent;
  int found = 0;
  if (count > kMaxLibraries) count = kMaxLibraries;
  for (int i = 0; i < ART_SLOTS; ++i) {
    void* function = find_in(libraries, count, g_names[i]);
    if (function == NULL) continue;
    slot_set(&table, i, function);
    ++found;
  }
  note_absent = find_in(libraries, count, "art_ctl_absent");
  memcpy(&g_note_absent, &note_absent, sizeof(note_absent));
  art_looks_wait = find_looks_wait(libraries, count);
  g_table = table;
  g_library_count = count;
  for (int i = 0; i < count; ++i) g_libraries[i] = libraries[i];
  g_bound = found;
  return found;
}

void art_bind_reset(void) {
  g_table = g_misses;
  g_note_absent = NULL;
  art_looks_wait = &kNever;
  g_library_count = 0;
  g_bound = 0;
}

int art_bind_symbol_count(void) { return g_bound; }

int art_bind_slot_count(void) { return ART_SLOTS; }

const char* art_bind_slot_name(int index) {
  return index < 0 || index >= ART_SLOTS ? NULL : g_names[index];
}

void* art_bind_symbol(const char* name) { return find_in(g_libraries, g_library_count, name); }

int art_has(const char* name) {
  const int index = slot_index(name);
  return index >= 0 && slot_get(&g_table, index) != slot_get(&g_misses, index);
}

void* art_bind_exchange(const char* name, void* function) {
  void* before;
  if (!art_has(name)) return NULL;
  before = slot_get(&g_table, slot_index(name));
  if (function != NULL) slot_set(&g_table, slot_index(name), function);
  return before;
}

const char* art_missing(void) {
  const char* name = g_missing;
  g_missing = NULL;
  return name;
}

const char* art_bind_origin(const char* name) {
  Dl_info info;
  if (!art_has(name)) return NULL;
  return dladdr(slot_get(&g_table, slot_index(name)), &info) != 0 ? info.dli_fname : NULL;
}

/* A trampoline cannot forward `...`: the text is formatted here and passed as one argument. */
ART_BIND void art_aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line,
                            const char* fmt, ...) {
  char text[kMaxLogText];
  va_list arguments;
  if (fmt == NULL) {
    g_table.aclAppLog(logLevel, func, file, line, NULL);
    return;
  }
  va_start(arguments, fmt);
  vsnprintf(text, sizeof(text), fmt, arguments);
  va_end(arguments);
  g_table.aclAppLog(logLevel, func, file, line, "%s", text);
}
