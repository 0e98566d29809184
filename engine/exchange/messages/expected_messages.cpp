#include "engine/exchange/expected_messages.hpp"

#include <algorithm>
#include <numeric>

#include "engine/exchange/messages/message_rule.hpp"

namespace atl {

double ExpectedMessages::mean_share() const {
  return std::accumulate(kinds.begin(), kinds.end(), 0.0, [](double sum, const EpochKind& kind) {
    return sum + kind.share * kind.messages;
  });
}

ExpectedMessages expected_messages(const ExchangeOptions& options, std::optional<double> measured) {
  const SendOptions& sending = options.sending;
  switch (exchange_mode(options.mode).sent) {
    case MessagesSent::kAll: {
      if (!options.pipelined()) return {{EpochKind{}}};
      const int every = sending.synchronous_every;
      if (every == 1) return {{EpochKind{}}};
      if (every == 0) return {{EpochKind{.late = true}}};
      const double share = 1.0 / every;
      return {{{.share = share}, {.share = 1 - share, .late = true}}, every};
    }
    case MessagesSent::kSampled:
      return {{{.messages = sending.rate}}};
    case MessagesSent::kPeriodic: {
      const double share = 1.0 / sending.every;
      if (sending.every == 1) return {{EpochKind{}}};
      if (sending.stagger) return {{{.messages = share}}, sending.every};
      return {{{.share = share}, {.share = 1 - share, .messages = 0}}, sending.every};
    }
    case MessagesSent::kDrifted:
    case MessagesSent::kByCost:
      return {{{.messages = measured.value_or(1)}}, 1, !measured.has_value()};
    case MessagesSent::kNone:
      break;
  }
  return {{{.messages = 0}}};
}

MessageWork message_work(const ExchangeOptions& options, Direction direction, double bits,
                         std::int64_t columns, const EpochKind& kind) {
  const ExchangeMode& mode = exchange_mode(options.mode);
  // How often kernels read or write the values of their rows, see SentRows and MessageChannel.
  constexpr double kCopy = 2;
  constexpr double kAdd = 3;
  constexpr double kReduce = 1;
  MessageWork work;
  work.travels = mode.sent != MessagesSent::kNone;
  work.exact = work.travels && !mode.takes_bits();
  if (!work.travels) work.deliver.rows = kReduce;  // zeros
  if (work.travels) work.pack.messages = 1;
  if (!work.travels || work.exact) return work;
  const MessageRule rule = message_rule(options, direction, bits < 32 ? 1 : 32);
  const bool differences = rule.sends == MessageRule::Sends::kDifferences;
  const bool copies = rule.sends != MessageRule::Sends::kRows;
  const bool in_place = bits == 32 && !rule.pipelined && padded_columns(columns) == columns &&
                        (kind.messages == 0 || kind.messages == 1);
  if (rule.sender_keeps()) work.pack.messages += 1;  // as the receiver will see them
  if (rule.measures_drift || rule.shifts) work.pack.rows += kCopy + kAdd;
  // In one pass, as CPUs do it: a row, and what is kept of it, read and written.
  if (copies) work.pack.rows += kAdd;
  if (rule.measures_drift) work.pack.rows += 2 * kReduce;
  if (rule.shifts) {
    work.shifts = true;
    work.pack.rows += 2 * kReduce + 2 * kAdd;
    work.unpack.rows += kCopy;
  }
  work.unpack.messages = in_place ? 0 : 1;
  if (differences) work.unpack.rows += kReduce;
  if (rule.keeps) {
    work.deliver.rows = kCopy;
  } else if (kind.messages < 1) {
    work.deliver.rows = kReduce;  // zeros for rows that don't come
  }
  return work;
}

std::int64_t message_buffer_bytes(const ExchangeOptions& options, int widest,
                                  const MessageCounts& counts, std::int64_t columns, DType dtype) {
  // Beside the packets: offset, width, row and what packing finds out, per message.
  constexpr std::int64_t kPerMessage = 64;
  const auto& [direction, sent, received, outer] = counts;
  std::int64_t bytes = (sent + received) *
                       ((widest == 0 ? 0 : wire_row_bytes(widest, columns, dtype)) + kPerMessage);
  // Messages of some layers may be exact.
  const MessageRule rule = message_rule(options, direction, std::min(widest, 1));
  const std::int64_t row = padded_columns(columns) * bytes_of(dtype);
  if (rule.keeps) bytes += outer * row;
  // Kept and copied, and two numbers in rows of their own.
  if (rule.sender_keeps()) {
    bytes += sent * (2 * row + 2 * kColumnPadding * bytes_of(parameter_dtype(dtype)));
  }
  // By what they shift, and entries of sparse matrices: a pointer, a column and a value for each
  // message.
  if (rule.shifts) bytes += sent * row + 2 * (sent + received) * 16;
  return bytes;
}

int widest_message(const ExchangeOptions& options) {
  const ExchangeMode& mode = exchange_mode(options.mode);
  if (mode.sent == MessagesSent::kNone) return 0;
  const BitChoice& bits = options.message_bits.bits;
  if (!mode.takes_bits() || bits.by == BitChoice::By::kAdaptive) return 32;
  // Those that RandomBits draws from are AdaQP's.
  return bits.by == BitChoice::By::kRandom ? 8 : std::ranges::max(bits.widths);
}

}  // namespace atl
