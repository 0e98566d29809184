// One exception type for everything a user or a machine can cause, and the assertion for everything
// else.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

// The namespace is not called atoll: the C library declares a function ::atoll.
namespace atl {

enum class ErrorKind {
  kInput,          // a file or dataset is wrong
  kOption,         // a command line or configuration value is wrong
  kMemory,         // the machine has too little memory for what was asked
  kDevice,         // a backend's device failed or is absent
  kCommunication,  // a transport failed, or another rank did
  kTimeout,        // a peer stayed silent for longer than --timeout
  kDiverged,       // numbers of a training have left what floats hold
};

// The message says what is wrong, where (file, line or byte), the value found and the values
// allowed.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  // 2 for what the user can mend (input, option, memory), 1 for the rest.
  int exit_code() const;

 private:
  ErrorKind kind_;
};

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail_input(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::kInput, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail_option(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::kOption, fmt::format(format, std::forward<Args>(args)...));
}

// Prints rank (if set_assertion_rank was called), file, line and expression, then aborts.
[[noreturn]] void assertion_failed(const char* file, int line, const char* expression,
                                   const std::string& detail);
void set_assertion_rank(int rank);

}  // namespace atl

// A broken invariant: a bug of this program, never of its input. Always on.
#define ATOLL_ASSERT(expression, ...)                                                          \
  do {                                                                                         \
    if (!(expression)) [[unlikely]] {                                                          \
      ::atl::assertion_failed(__FILE__, __LINE__, #expression, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                          \
  } while (false)
