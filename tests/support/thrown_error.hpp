// Catches the error that a call must throw.
#pragma once

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace atl {

// The Error thrown by call(); fails the test and returns an empty one if there is none.
template <typename Call>
Error thrown_error(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return {ErrorKind::kInput, ""};
}

}  // namespace atl
