// Barriers that cost the rare side alone: a thread makes all others pass a full memory barrier, so
// these need none (membarrier(2)). Owns: the one call. Must never: be the only way; where the
// kernel lacks it both sides pay.
#pragma once

namespace ascendrt::base {

// Note [Asymmetric order]
// "I write A and then read B" on the frequent side, "I write B and then read A" on the rare one:
// one of the two has to see the other's word. Both would need a full barrier between write and
// read. While g_others_can_pass is set the frequent side keeps the order of its instructions (a
// signal fence) and nothing more; the rare side calls make_others_pass() between its two. Else the
// frequent side writes with a sequentially consistent exchange. The flag is set while the library
// is loaded and stays as it is.
extern const bool g_others_can_pass;

// Every running thread of the process has passed a full memory barrier when this returns. Does
// nothing where the kernel cannot.
void make_others_pass();

}  // namespace ascendrt::base
