// Owns one handle of a C library (communicator, stream, event, ...): released once, also when
// another handle is moved in.
#pragma once

#include <utility>

namespace atl {

// Traits has: a type Value; static Value null(); static void release(Value) noexcept.
template <typename Traits>
class UniqueHandle {
 public:
  using Value = typename Traits::Value;

  UniqueHandle() = default;
  explicit UniqueHandle(Value value) : value_(value) {}
  UniqueHandle(UniqueHandle&& other) noexcept : value_(other.leak()) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      value_ = other.leak();
    }
    return *this;
  }
  ~UniqueHandle() { reset(); }

  Value get() const { return value_; }
  explicit operator bool() const { return value_ != Traits::null(); }
  // Releases what is held.
  void reset() noexcept {
    if (value_ != Traits::null()) Traits::release(leak());
  }
  // Gives up ownership without releasing.
  Value leak() noexcept { return std::exchange(value_, Traits::null()); }

 private:
  Value value_ = Traits::null();
};

}  // namespace atl
