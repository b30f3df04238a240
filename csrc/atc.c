/* The program `atc`: passes its words to the emulator's core and prints what comes back.
   Must never hold anything of the command line itself; that is the core's. */
#include <stdint.h>
#include <stdio.h>

int32_t art_ctl_atc(int32_t count, const char* const* words, int32_t dialect,
                    void (*take)(int32_t channel, const char* line, void* user), void* user);

static void print(int32_t channel, const char* line, void* user) {
  FILE* to = channel == 0 ? stdout : stderr;
  (void)user;
  fprintf(to, "%s\n", line);
  fflush(to); /* in the order they came, whatever stdout is */
}

int main(int argc, char** argv) {
  const int32_t vendor_dialect = 0;
  return art_ctl_atc(argc > 0 ? argc - 1 : 0, (const char* const*)argv + 1, vendor_dialect, print,
                     NULL);
}
