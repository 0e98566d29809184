#include "engine/comm/watchdog.hpp"

#include <fmt/ranges.h>

#include "base/error.hpp"

namespace atl {

void fail_silent(int rank, const std::vector<int>& peers, double seconds,
                 const OperationLabel& label) {
  if (peers.size() == 1) {
    fail(ErrorKind::kTimeout,
         "rank {} heard nothing from rank {} for {:g} s while waiting for {}; is that rank stopped "
         "or its host unreachable?",
         rank, peers.front(), seconds, to_string(label));
  }
  fail(ErrorKind::kTimeout,
       "rank {} heard nothing from ranks {} for {:g} s while waiting for {}; are those ranks "
       "stopped or their hosts unreachable?",
       rank, fmt::join(peers, ", "), seconds, to_string(label));
}

}  // namespace atl
