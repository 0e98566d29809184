#include "engine/comm/rank_texts.hpp"

namespace atl {

void share_text(Transport& transport, std::string& text, const OperationLabel& label, int root) {
  auto length = static_cast<std::int64_t>(text.size());
  transport.broadcast(std::as_writable_bytes(std::span(&length, 1)), root, label);
  text.resize(static_cast<std::size_t>(length));
  transport.broadcast(std::as_writable_bytes(std::span(text)), root, label);
}

std::vector<std::string> gather_texts(Transport& transport, const std::string& text,
                                      const OperationLabel& label) {
  std::vector<std::string> texts;
  for (std::vector<std::byte>& bytes : transport.gather(std::as_bytes(std::span(text)), 0, label)) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    bytes = {};  // long ones need not be there twice
  }
  return texts;
}

}  // namespace atl
