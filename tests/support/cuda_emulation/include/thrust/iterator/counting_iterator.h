// The iterator of Thrust that Atoll uses, without what algorithms of the host would want of it;
// stands in for the toolkit's header.
#pragma once

#include <cstddef>

namespace thrust {

template <typename T>
class counting_iterator {
 public:
  explicit counting_iterator(T first) : first_(first) {}
  T operator[](std::ptrdiff_t i) const { return first_ + static_cast<T>(i); }

 private:
  T first_;
};

}  // namespace thrust
