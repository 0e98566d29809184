#include "base/error.hpp"

#include <cstdio>
#include <cstdlib>

namespace atl {

namespace {
int g_rank = -1;
}

int Error::exit_code() const {
  switch (kind_) {
    case ErrorKind::kInput:
    case ErrorKind::kOption:
    case ErrorKind::kMemory:
      return 2;
    case ErrorKind::kDevice:
    case ErrorKind::kCommunication:
    case ErrorKind::kTimeout:
    case ErrorKind::kDiverged:  // no option is wrong by itself, nor a file
      return 1;
  }
  return 1;
}

void set_assertion_rank(int rank) { g_rank = rank; }

void assertion_failed(const char* file, int line, const char* expression,
                      const std::string& detail) {
  const std::string rank = g_rank < 0 ? std::string() : fmt::format("rank {}: ", g_rank);
  std::fprintf(stderr, "atoll: %s%s:%d: invariant broken: %s%s%s\n", rank.c_str(), file, line,
               expression, detail.empty() ? "" : ": ", detail.c_str());
  std::abort();
}

}  // namespace atl
