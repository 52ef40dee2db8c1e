// FunctionRef: a callable passed down by reference, without allocation.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace baton {

template <typename Signature>
class FunctionRef;

// Refers to any callable of the signature; two words, copied freely.
// Memory: owns nothing; the callable must outlive every call through this reference. Meant for
// parameters, not for members.
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<R, F&, Args...>)
      FunctionRef(F&& callable)  // NOLINT(google-explicit-constructor): a lambda is passed as it is
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace baton
