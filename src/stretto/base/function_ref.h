// A reference to something callable, to pass on to a function that is compiled once instead of for
// every callable. Two words; it neither copies nor allocates.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace stretto {

template <typename Signature>
class FunctionRef;

// What it refers to has to live as long as it does: use it for parameters only.
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // NOLINT: implicit, as callers write lambdas
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace stretto
