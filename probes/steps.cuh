// Steps that a kernel must not leave out, by name, so that a planted fault can: -DLEAVE_OUT=PROXY_FENCE.
//
//   if (kept(PROXY_FENCE)) fence_proxy_async();
//
// Nothing is left out by default, and the compiler sees a constant either way.
#pragma once

#ifndef LEAVE_OUT
#define LEAVE_OUT NOTHING
#endif

enum Step { NOTHING, COMMIT_WAIT, PROXY_FENCE, WAIT_ST, WAIT_LD };

constexpr bool kept(Step step) { return LEAVE_OUT != step; }
