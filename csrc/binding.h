/* The function table between Python and a runtime (the vendor's or the emulator). One per process.
 *
 * libascendrt_bind.so holds it. Every ABI function `aclX` has a slot and a trampoline `art_aclX`
 * that jumps through it. A slot that no library filled holds `miss_aclX`: it notes its name for
 * this thread (the emulator keeps the note as the text of a failure) and answers by type (status
 * 207000, null, 0); a call never crashes for a missing symbol and pays no branch for that.
 *
 * In Python (module ascendrt._cffi: ffi, lib):
 *   lib.aclrtMalloc(...)    every ABI function under its vendor name, through the table
 *   lib.art_...(...)        the functions below; texts are `char *`: ffi.string(...)
 *   lib.ACL_..., ffi.typeof constants, enums and types of the ABI
 *
 * The order of calls that ascendrt/_backend.py makes:
 *   1. art_bind_open         the main library (libascendcl.so), then the optional ones
 *   2. art_bind_is_emulator  a facade found on the way to a real runtime is not a real one
 *   3. art_bind_device_count is it usable? (stub libraries answer 100039)
 *   4. art_bind_table        bind; the first library of the list that has a name wins
 *
 * Steps 1 to 3 change nothing of the table. Libraries are never closed: threads of a runtime
 * survive dlclose.
 *
 * Must never: include a header of the emulator, choose a backend, or take the GIL.
 * Threads: art_bind_table and art_bind_reset must not run at the same time as ABI calls (the Python
 * side holds a lock and binds before the first call); everything else may be called from any
 * thread.
 */
#ifndef ASCENDRT_BINDING_H_
#define ASCENDRT_BINDING_H_

#include <stddef.h>
#include <stdint.h>

#define ART_BIND __attribute__((visibility("default")))

/* dlopen(path, RTLD_NOW | RTLD_LOCAL). `path` is a file or a bare SONAME. Null on failure; then
 * `error` (of `error_size` bytes, cut if needed, always terminated) holds the loader's reason. */
ART_BIND void* art_bind_open(const char* path, char* error, size_t error_size);

/* 1 when the library is a facade of the emulator (marker symbol), else 0. */
ART_BIND int art_bind_is_emulator(void* library);

/* Calls aclrtGetDeviceCount of this library without binding anything. Returns its status and sets
 * *count; -1 when the library has no such function. */
ART_BIND int art_bind_device_count(void* library, uint32_t* count);

/* 1 when this one library (with its dependencies) has the symbol, else 0. */
ART_BIND int art_bind_has_symbol(void* library, const char* name);

/* Fills every slot from the first library that has the name, the others with their miss function.
 * Returns the number of names found. */
ART_BIND int art_bind_table(void* const* libraries, int count);

/* Every slot back to its miss function. */
ART_BIND void art_bind_reset(void);

/* Names found by the last art_bind_table; 0 before it. */
ART_BIND int art_bind_symbol_count(void);

/* Number of slots, and the name of one (null outside the range): for listing what is missing. */
ART_BIND int art_bind_slot_count(void);
ART_BIND const char* art_bind_slot_name(int index);

/* Address of any symbol of the bound libraries, also ones outside the ABI table (art_ctl_*); null
 * if none has it. */
ART_BIND void* art_bind_symbol(const char* name);

/* Puts `function` (null: nothing is changed) into the slot of a bound ABI function and returns what
 * was there; null when the name is not bound. For tools that watch calls, while nobody calls. */
ART_BIND void* art_bind_exchange(const char* name, void* function);

/* 1 when the ABI function is bound, 0 when it would miss or is no ABI function. Ask it before
 * calling a function that answers no status. */
ART_BIND int art_has(const char* name);

/* Not 0 when a call that asks what the device has done may wait for other threads (modelled time).
 * Such a call costs less than giving up the GIL around it, so who holds the GIL reads this first.
 */
extern ART_BIND const int32_t* art_looks_wait;

/* Name of the missing function this thread called since the last art_missing(), or null. Clears the
 * note. Read it after a call that answered a code other than 0. */
ART_BIND const char* art_missing(void);

/* File of the library that a bound ABI function came from, or null. The pointer stays valid. */
ART_BIND const char* art_bind_origin(const char* name);

#endif /* ASCENDRT_BINDING_H_ */
