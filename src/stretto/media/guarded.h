// libjpeg and libpng report errors by longjmp. A call of theirs runs inside of run_guarded(), which
// is the only place that they jump to: no frame with destructors lies between.
#pragma once

#include <csetjmp>
#include <memory>
#include <type_traits>

namespace stretto::media {

struct Landing {
  std::jmp_buf jump;
};

// Whether function(context) returned rather than jumped to `landing`. Neither it nor what it calls
// may hold objects with destructors at a call that can jump, and it may not throw.
bool run_guarded(Landing& landing, void (*function)(void*), void* context);

// The same for a lambda. What it captures by reference lies in frames that stay.
template <typename F>
bool run_guarded(Landing& landing, F&& f) {
  return run_guarded(
      landing, [](void* p) { (*static_cast<std::remove_reference_t<F>*>(p))(); },
      static_cast<void*>(std::addressof(f)));
}

}  // namespace stretto::media
