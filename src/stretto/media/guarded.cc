#include "stretto/media/guarded.h"

namespace stretto::media {

// Not inlined: variables of the caller could be in registers, which a jump sets back.
[[gnu::noinline]] bool run_guarded(Landing& landing, void (*function)(void*), void* context) {
  if (setjmp(landing.jump) != 0) return false;
  function(context);
  return true;
}

}  // namespace stretto::media
