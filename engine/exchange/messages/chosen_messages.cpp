// Policies that send some of the messages in an epoch: drawn, by turns, or those whose rows moved.
#include <utility>

#include "engine/exchange/messages/message_policy.hpp"

namespace atl {

namespace {

// A message, the same to both of its ends.
struct MessagePlace {
  int sender = 0;
  int receiver = 0;
  std::int64_t place = 0;  // among those of this pair and direction
};

// Both ends know without a word what is sent.
class MessagesByRule : public MessagePolicy {
 public:
  MessagesByRule(const ExchangeOptions& options, const Rank& rank)
      : options_(options), rank_(rank) {}

  void begin(MessageChannel& channel, int epoch, bool restored) override {
    // Rows that were never sent are not there to be kept.
    choose(channel, epoch, options_.keeps_rows() && !restored);
    begun_ = true;
  }
  bool end_epoch(const Round& round, MessageChannels& channels,
                 std::optional<ExchangeReport::Choice>& /*choice*/) override {
    if (!std::exchange(begun_, false) && !changes_after(round.epoch)) return false;
    for (const auto& [slot, channel] : channels) choose(*channel, round.epoch + 1, false);
    return true;
  }
  int settled_epochs(int /*epoch*/) const override { return 1; }

 protected:
  const SendOptions& sending() const { return options_.sending; }
  const Rank& rank() const { return rank_; }

 private:
  virtual bool is_sent(const MessagePlace& message, Direction direction, int epoch) const = 0;
  // Whether other messages are sent in the next epoch.
  virtual bool changes_after(int /*epoch*/) const { return true; }

  void choose(MessageChannel& channel, int epoch, bool all) const {
    const HaloListsView& halo = channel.op().halo;
    const Channel& about = channel.channel();
    const auto width =
        static_cast<std::uint8_t>(width_of_layer(options_.message_bits.bits, about.layer));
    const int me = rank_.transport.rank();
    MessageBits sent, received;
    for (int peer = 0; peer < rank_.transport.size(); ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      const auto add = [&](MessageBits& bits, std::int64_t count, int sender, int receiver) {
        for (std::int64_t m = 0; m < count; ++m) {
          const bool is_one = all || is_sent({sender, receiver, m}, about.direction, epoch);
          bits.push_back(is_one ? width : 0);
        }
      };
      add(sent, halo.send_offset[p + 1] - halo.send_offset[p], me, peer);
      add(received, halo.received_from(p), peer, me);
    }
    channel.set_bits(std::move(sent), std::move(received));
  }

  const ExchangeOptions options_;
  const Rank& rank_;
  bool begun_ = false;  // a channel, in this epoch
};

// Each message is drawn anew in each epoch, the same in all layers (BNS-GCN, arXiv 2203.10983).
class SampledMessages final : public MessagesByRule {
 public:
  using MessagesByRule::MessagesByRule;

 private:
  bool is_sent(const MessagePlace& message, Direction direction, int epoch) const override {
    const RandomKey key{.seed = rank().seed,
                        .stream = RandomStream::kMessageSample,
                        .epoch = static_cast<std::uint32_t>(epoch)};
    const int pair = message.sender * rank().transport.size() + message.receiver;
    const auto column =
        static_cast<std::uint32_t>(2 * pair + (direction == Direction::kBackward ? 1 : 0));
    return random_uniform(key, static_cast<std::uint64_t>(message.place), column) < sending().rate;
  }
};

// All messages once in `every` epochs, or each in a turn of its own (DIGEST, arXiv 2206.00057).
class PeriodicMessages final : public MessagesByRule {
 public:
  using MessagesByRule::MessagesByRule;

 private:
  bool is_sent(const MessagePlace& message, Direction /*direction*/, int epoch) const override {
    return is_turn(sending().stagger ? message.place : 0, epoch);
  }
  bool changes_after(int epoch) const override {
    if (sending().every == 1) return false;
    return sending().stagger || is_turn(0, epoch) != is_turn(0, epoch + 1);
  }
  bool is_turn(std::int64_t place, int epoch) const {
    return (epoch - 1 + place) % sending().every == 0;
  }
};

// Messages whose rows have moved since they were sent (SANCUS, PVLDB 15(9), 2022). The sender sees
// it when an epoch is over, and tells the receiver what comes in the next one.
class DriftedMessages final : public MessagePolicy {
 public:
  DriftedMessages(const ExchangeOptions& options, const Rank& rank)
      : options_(options), rank_(rank) {}

  void begin(MessageChannel& channel, int epoch, bool restored) override {
    Ages& ages = ages_[channel.channel().slot()];
    const auto messages = static_cast<std::size_t>(channel.op().halo.sent_rows());
    if (!restored || ages.age.size() != messages || ages.gap.size() != messages) {
      ages = {std::vector<std::uint8_t>(messages, 0), std::vector<std::uint8_t>(messages, 1)};
    }
    MessageChannel* const channels[] = {&channel};
    agree_on_bits(rank_.transport, channels, {bits(channel)}, epoch);
  }

  bool end_epoch(const Round& round, MessageChannels& channels,
                 std::optional<ExchangeReport::Choice>& /*choice*/) override {
    std::vector<MessageChannel*> all;
    std::vector<MessageBits> next;
    for (const auto& [slot, channel] : channels) {
      grow_older(ages_.at(slot), channel->drift());
      all.push_back(channel.get());
      next.push_back(bits(*channel));
    }
    agree_on_bits(rank_.transport, all, std::move(next), round.epoch);
    return true;
  }

  int settled_epochs(int /*epoch*/) const override { return 1; }

  Json state(SafetensorsFile& /*rows*/) const override {
    Json channels = Json::array();
    for (const auto& [slot, ages] : ages_) {
      channels.push_back(
          {{"slot", slot}, {"age", digits_of(ages.age)}, {"gap", digits_of(ages.gap)}});
    }
    return {{"channels", channels}};
  }
  void load_state(const Json& state, const SafetensorsFile& /*rows*/,
                  const std::string& place) override {
    const Json channels = json_field<Json>(state, "channels", place);
    for (const Json& ages : channels) {
      const auto epochs = [&](const char* field) {
        return numbers_of(json_field<std::string>(ages, field, place), kOldestMessage + 1, field,
                          place);
      };
      ages_[json_field<int>(ages, "slot", place)] = {epochs("age"), epochs("gap")};
    }
  }

 private:
  // The messages of a channel, in epochs.
  struct Ages {
    std::vector<std::uint8_t> age;  // since each was sent; 0: it is sent
    std::vector<std::uint8_t> gap;  // between the last two times that it was sent
  };

  void grow_older(Ages& ages, const SentRows::Drift& drift) const {
    const double bound = options_.sending.bound * options_.sending.bound;
    for (std::size_t k = 0; k < ages.age.size(); ++k) {
      // A row that has just been sent will move as it did on the way there, in one direction.
      const double steps = ages.age[k] == 0 ? ages.gap[k] : 1;
      const bool moved = !(drift.moved[k] <= bound * steps * steps * drift.size[k]);
      ++ages.age[k];
      if (!moved && ages.age[k] < options_.sending.oldest) continue;
      ages.gap[k] = std::exchange(ages.age[k], 0);
    }
  }

  MessageBits bits(const MessageChannel& channel) const {
    const Channel& about = channel.channel();
    const auto width =
        static_cast<std::uint8_t>(width_of_layer(options_.message_bits.bits, about.layer));
    MessageBits result;
    for (const std::uint8_t age : ages_.at(about.slot()).age) {
      result.push_back(age == 0 ? width : 0);
    }
    return result;
  }

  const ExchangeOptions options_;
  const Rank& rank_;
  std::map<int, Ages> ages_;  // by slot
};

}  // namespace

std::unique_ptr<MessagePolicy> make_chosen_messages(const ExchangeOptions& options,
                                                    const Rank& rank) {
  switch (exchange_mode(options.mode).sent) {
    case MessagesSent::kSampled:
      return std::make_unique<SampledMessages>(options, rank);
    case MessagesSent::kPeriodic:
      return std::make_unique<PeriodicMessages>(options, rank);
    default:
      return std::make_unique<DriftedMessages>(options, rank);
  }
}

}  // namespace atl
