#include "engine/exchange/messages/message_policy.hpp"

#include <algorithm>

#include "base/numbers.hpp"

namespace atl {

int width_of_layer(const BitChoice& bits, int layer) {
  return bits.widths.size() == 1 ? bits.widths.front()
                                 : bits.widths.at(static_cast<std::size_t>(layer));
}

namespace {

// The same width for all messages of a layer, known to both ends without a word.
class UniformBits final : public MessagePolicy {
 public:
  explicit UniformBits(BitChoice bits) : bits_(std::move(bits)) {}
  void begin(MessageChannel& channel, int /*epoch*/, bool /*restored*/) override {
    const HaloListsView& halo = channel.op().halo;
    const auto width = static_cast<std::uint8_t>(width_of_layer(bits_, channel.channel().layer));
    channel.set_bits(MessageBits(static_cast<std::size_t>(halo.sent_rows()), width),
                     MessageBits(static_cast<std::size_t>(halo.halo_rows()), width));
  }
  bool end_epoch(const Round&, MessageChannels&, std::optional<ExchangeReport::Choice>&) override {
    return false;
  }
  int settled_epochs(int /*epoch*/) const override { return kAlwaysSettled; }

 private:
  BitChoice bits_;
};

// Every message draws one of AdaQP's widths anew at each assignment: what adaptive widths have to
// beat (AdaQP, section 5.4).
class RandomBits final : public MessagePolicy {
 public:
  RandomBits(const Rank& rank, int reassign_every) : rank_(rank), reassign_every_(reassign_every) {}

  void begin(MessageChannel& channel, int epoch, bool /*restored*/) override {
    MessageChannel* const channels[] = {&channel};
    // A resumed run draws what held before.
    const int drawn = (epoch - 1) / reassign_every_ * reassign_every_;
    agree_on_bits(rank_.transport, channels, {draw(channel, drawn)}, epoch);
  }

  bool end_epoch(const Round& round, MessageChannels& channels,
                 std::optional<ExchangeReport::Choice>&) override {
    if (channels.empty() || round.epoch % reassign_every_ != 0) return false;
    std::vector<MessageChannel*> all;
    std::vector<MessageBits> bits;
    for (const auto& [slot, channel] : channels) {
      all.push_back(channel.get());
      bits.push_back(draw(*channel, round.epoch));
    }
    agree_on_bits(rank_.transport, all, std::move(bits), round.epoch);
    return true;
  }
  int settled_epochs(int epoch) const override {
    return reassign_every_ - (epoch - 1) % reassign_every_;
  }

 private:
  static constexpr std::uint8_t kWidths[] = {2, 4, 8};

  MessageBits draw(const MessageChannel& channel, int epoch) const {
    const RandomKey key{.seed = rank_.seed,
                        .stream = RandomStream::kMessageBits,
                        .layer = static_cast<std::uint8_t>(channel.channel().number),
                        .epoch = static_cast<std::uint32_t>(epoch)};
    const auto column = static_cast<std::uint32_t>(
        2 * rank_.transport.rank() + (channel.channel().direction == Direction::kBackward ? 1 : 0));
    MessageBits bits(static_cast<std::size_t>(channel.op().halo.sent_rows()));
    for (std::size_t k = 0; k < bits.size(); ++k) {
      bits[k] = kWidths[random_bits(key, k, column) % std::size(kWidths)];
    }
    return bits;
  }

  const Rank& rank_;
  int reassign_every_;
};

}  // namespace

std::vector<std::string> bit_names() {
  std::vector<std::string> names;
  for (const int bits : kWireBits) names.push_back(std::to_string(bits));
  names.insert(names.end(), {"random", "adaptive"});
  return names;
}

std::string to_string(const BitChoice& choice) {
  if (choice.by == BitChoice::By::kFixed) return fmt::format("{}", fmt::join(choice.widths, ","));
  return choice.by == BitChoice::By::kRandom ? "random" : "adaptive";
}

std::vector<int> parse_widths(const std::string& text, std::string_view option,
                              const std::string& allowed) {
  std::vector<int> widths;
  for (const std::string& piece : between_commas(text)) {
    const auto width = parse_number<int>(piece);
    if (!width || std::ranges::find(kWireBits, *width) == kWireBits.end()) {
      fail_option("{} {}: '{}' is no width; allowed are {}", option, text, piece, allowed);
    }
    widths.push_back(*width);
  }
  return widths;
}

BitChoice parse_bits(const std::string& text) {
  for (const auto by : {BitChoice::By::kAdaptive, BitChoice::By::kRandom}) {
    if (text == to_string(BitChoice{by})) return {by};
  }
  return {BitChoice::By::kFixed, parse_widths(text, "--bits",
                                              fmt::format("{}, or a width per layer as in 8,4,32",
                                                          fmt::join(bit_names(), ", ")))};
}

std::unique_ptr<MessagePolicy> make_message_policy(const ExchangeOptions& options,
                                                   const Rank& rank) {
  const BitOptions& bits = options.message_bits;
  if (!(bits.lambda >= 0 && bits.lambda <= 1)) {
    fail_option("--lambda {}: allowed are 0 (only time counts) to 1 (only variance counts)",
                bits.lambda);
  }
  if (bits.reassign_every < 1) {
    fail_option("--reassign-every {}: allowed are 1 epoch or more", bits.reassign_every);
  }
  const ExchangeMode& mode = exchange_mode(options.mode);
  if (mode.sent == MessagesSent::kNone) {
    return std::make_unique<UniformBits>(BitChoice{BitChoice::By::kFixed, {0}});
  }
  if (mode.sent == MessagesSent::kByCost) return make_adaptive_bits(options, rank);
  if (!mode.sends_all()) return make_chosen_messages(options, rank);
  switch (bits.bits.by) {
    case BitChoice::By::kAdaptive:
      return make_adaptive_bits(options, rank);
    case BitChoice::By::kRandom:
      return std::make_unique<RandomBits>(rank, bits.reassign_every);
    case BitChoice::By::kFixed:
      break;
  }
  return std::make_unique<UniformBits>(bits.bits);
}

}  // namespace atl
