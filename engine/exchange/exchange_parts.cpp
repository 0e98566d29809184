#include "engine/exchange/exchange_parts.hpp"

namespace atl {

void exchange_parts(Transport& transport, std::span<const float> sent,
                    std::span<const std::int64_t> send_offset, std::span<float> received,
                    std::span<const std::int64_t> recv_offset, const OperationLabel& label) {
  const auto part = [](auto values, std::span<const std::int64_t> offset, std::size_t peer) {
    return values.subspan(static_cast<std::size_t>(offset[peer]),
                          static_cast<std::size_t>(offset[peer + 1] - offset[peer]));
  };
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (std::size_t peer = 0; peer + 1 < recv_offset.size(); ++peer) {
    sends.push_back(std::as_bytes(part(sent, send_offset, peer)));
    receives.push_back(std::as_writable_bytes(part(received, recv_offset, peer)));
  }
  transport.all_to_all_v(std::move(sends), std::move(receives), label)->wait_all();
}

}  // namespace atl
