#include "engine/exchange/messages/message_choice.hpp"

#include "base/error.hpp"

namespace atl {

MessageChoice choice_of(std::uint8_t code) {
  ATOLL_ASSERT(code < kMessageCodes, "code {} of a message", code);
  return {kWireBits[code % kWireBits.size()], kMessagePeriods[code / kWireBits.size()]};
}

std::uint8_t code_of(MessageChoice choice) {
  std::size_t period = 0;
  while (kMessagePeriods[period] != choice.period) ++period;
  return static_cast<std::uint8_t>(period * kWireBits.size() + bits_index(choice.bits));
}

namespace {

// body(message, its choice, epochs since its last turn, 0: this is one).
template <typename Body>
void for_each_turn(std::span<const std::uint8_t> codes, std::span<const std::int64_t> peer_offset,
                   int epoch, const Body& body) {
  for (std::size_t peer = 0; peer + 1 < peer_offset.size(); ++peer) {
    for (std::int64_t k = peer_offset[peer]; k < peer_offset[peer + 1]; ++k) {
      const MessageChoice choice = choice_of(codes[static_cast<std::size_t>(k)]);
      const auto turn = static_cast<int>((epoch + k - peer_offset[peer]) % choice.period);
      body(static_cast<std::size_t>(k), choice, turn);
    }
  }
}

}  // namespace

MessageBits bits_in_epoch(std::span<const std::uint8_t> codes,
                          std::span<const std::int64_t> peer_offset, int epoch) {
  MessageBits bits(codes.size());
  for_each_turn(codes, peer_offset, epoch,
                [&](std::size_t k, const MessageChoice& choice, int turn) {
                  bits[k] = static_cast<std::uint8_t>(turn == 0 ? choice.bits : 0);
                });
  return bits;
}

std::vector<int> ages_in_epoch(std::span<const std::uint8_t> codes,
                               std::span<const std::int64_t> peer_offset, int epoch) {
  std::vector<int> ages(codes.size());
  for_each_turn(codes, peer_offset, epoch,
                [&](std::size_t k, const MessageChoice& choice, int turn) {
                  ages[k] = turn == 0 ? choice.period : turn;
                });
  return ages;
}

namespace {
constexpr char kFirstDigit = '0';
}  // namespace

std::string digits_of(std::span<const std::uint8_t> numbers) {
  std::string digits;
  for (const std::uint8_t number : numbers) digits += static_cast<char>(kFirstDigit + number);
  return digits;
}

std::vector<std::uint8_t> numbers_of(const std::string& digits, std::size_t allowed,
                                     const char* what, const std::string& place) {
  std::vector<std::uint8_t> numbers;
  for (const char digit : digits) {
    const auto number = static_cast<std::size_t>(digit - kFirstDigit);  // huge below the first
    if (number >= allowed) {
      fail_input("{}: {} '{}' of a message; allowed are '{}' to '{}'", place, what, digit,
                 kFirstDigit, static_cast<char>(kFirstDigit + allowed - 1));
    }
    numbers.push_back(static_cast<std::uint8_t>(number));
  }
  return numbers;
}

}  // namespace atl
