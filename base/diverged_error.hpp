// The error of a training whose numbers have left what floats hold.
#pragma once

#include <stdexcept>

namespace atl {

// No option is wrong by itself, nor a file: the exit code is 1.
class DivergedError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace atl
