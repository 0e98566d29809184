// A value per message, sent as halo rows travel or against it.
#pragma once

#include <span>

#include "engine/comm/transport.hpp"

namespace atl {

// sent[send_offset[r] .. send_offset[r + 1]) goes to rank r, received[recv_offset[r] ..
// recv_offset[r + 1]) comes from it. On the host; collective; done on return.
void exchange_parts(Transport& transport, std::span<const float> sent,
                    std::span<const std::int64_t> send_offset, std::span<float> received,
                    std::span<const std::int64_t> recv_offset, const OperationLabel& label);

}  // namespace atl
