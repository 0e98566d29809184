// Adaptive widths: a few epochs at uniform widths measure what the assignment needs, then every
// --reassign-every epochs the exact optimum of AdaQP's problem (arXiv 2306.01381, section 4) for
// the ranges that messages had in the last epoch. Where the mode says so, messages that are sent
// in one of several epochs are further choices of the same problem.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <ranges>

#include "base/log.hpp"
#include "engine/comm/max_over_ranks.hpp"
#include "engine/comm/rank_values.hpp"
#include "engine/exchange/messages/bit_assignment.hpp"
#include "engine/exchange/messages/channel_costs.hpp"
#include "engine/exchange/messages/link_probe.hpp"
#include "engine/exchange/messages/message_policy.hpp"

namespace atl {

namespace {

// Widths of the first epochs. Together they measure how far the rounding variance of a width is
// from its model, what packing costs at 32 bits and below, and, twice, what carrying all bytes
// costs the work beside it. The first epoch pays for pages and caches, so its times don't count;
// the last is a good one to take ranges from.
constexpr int kWarmupBits[] = {4, 32, 1, 32, 8};
constexpr int kWarmupEpochs = static_cast<int>(std::size(kWarmupBits));

class AdaptiveBits final : public MessagePolicy {
 public:
  AdaptiveBits(const ExchangeOptions& options, const Rank& rank)
      : mode_(exchange_mode(options.mode)),
        options_(options.message_bits),
        sending_(options.sending),
        rank_(rank),
        costs_(options, rank) {
    if (!options_.calibration.is_null()) calibration_ = given_calibration();
  }

  void begin(MessageChannel& channel, int epoch, bool restored) override;
  bool end_epoch(const Round& round, MessageChannels& channels,
                 std::optional<ExchangeReport::Choice>& choice) override;
  bool measures(int epoch) const override;
  int settled_epochs(int epoch) const override;
  std::span<const std::uint8_t> codes(int slot) const override;
  Json state(SafetensorsFile& rows) const override;
  void load_state(const Json& state, const SafetensorsFile& rows,
                  const std::string& place) override;
  Json calibration() const override {
    return calibration_ ? calibration_->to_json() : Json(nullptr);
  }

 private:
  // A checkpoint's record of one channel, until the channel begins.
  struct Restored {
    MessageCodes codes;
    std::string lists;
    bool as_rows = false;
  };
  bool chooses_periods() const { return mode_.sent == MessagesSent::kByCost; }
  // Nothing but variance counts: every message is exact.
  bool is_exact() const { return options_.lambda == 1; }

  ExchangeCalibration given_calibration() const {
    return exchange_calibration(options_.calibration, rank_.transport.size(),
                                options_.calibration_place);
  }
  // Throws Error{kInput} if there is a calibration, but not of this channel.
  void require_calibrated(const MessageChannel& channel) const;
  bool begin_as_restored(MessageChannel& channel, int epoch);
  void start_anew(int slot);
  void calibrate(MessageChannels& channels, bool overlap);
  void set_uniform(MessageChannel& channel, int bits);
  // Collective: tells both ends of all messages their codes, used from `epoch` on.
  void agree(std::span<MessageChannel* const> channels, std::span<const MessageCodes> codes,
             int epoch);
  void set_turn(MessageChannel& channel, int epoch);
  ExchangeReport::Choice assign(int epoch, MessageChannels& channels);
  void max_over_ranks(std::span<double> values) const {
    atl::max_over_ranks(rank_.transport, values, {"bit-width assignment"});
  }

  const ExchangeMode& mode_;
  const BitOptions options_;
  const SendOptions sending_;
  const Rank& rank_;
  int first_epoch_ = 0;  // 0: none yet
  std::optional<ExchangeCalibration> calibration_;
  ChannelCosts costs_;
  std::map<int, std::string> lists_;
  std::map<int, MessageCodes> current_;   // of this rank, by slot
  std::map<int, MessageCodes> received_;  // the same, where periods are chosen
  std::map<int, bool> as_rows_;           // on all ranks, by slot: what channels were told
  std::map<int, bool> rows_serve_;        // the same: rows are to travel though some are narrow
  std::map<int, bool> takes_turns_;       // some message of some rank isn't sent in all epochs
  std::map<int, Restored> restored_;
};

void AdaptiveBits::begin(MessageChannel& channel, int epoch, bool /*restored*/) {
  const int slot = channel.channel().slot();
  costs_.begin(channel);
  lists_[slot] = lists_checksum(channel.op());
  const bool restored = begin_as_restored(channel, epoch);
  require_calibrated(channel);
  if (restored) return;
  if (first_epoch_ == 0) first_epoch_ = epoch;
  if (is_exact()) return set_uniform(channel, kWireBits.back());
  set_uniform(channel, kWarmupBits[std::min(epoch - first_epoch_, kWarmupEpochs - 1)]);
}

void AdaptiveBits::set_uniform(MessageChannel& channel, int bits) {
  const HaloListsView& halo = channel.op().halo;
  const auto uniform = [](std::int64_t messages, int value) {
    return MessageBits(static_cast<std::size_t>(messages), static_cast<std::uint8_t>(value));
  };
  channel.set_bits(uniform(halo.sent_rows(), bits), uniform(halo.halo_rows(), bits), is_exact());
  const int code = code_of({.bits = bits});
  current_[channel.channel().slot()] = uniform(halo.sent_rows(), code);
  received_[channel.channel().slot()] = uniform(halo.halo_rows(), code);
}

void AdaptiveBits::agree(std::span<MessageChannel* const> channels,
                         std::span<const MessageCodes> codes, int epoch) {
  std::vector<MessageCodes> received = tell_receivers(rank_.transport, channels, codes, epoch);
  // By channel, messages that are not exact, and messages that are not sent in all epochs.
  std::vector<double> counts(2 * channels.size(), 0.0);
  const std::span exact = std::span(counts).first(channels.size());
  const std::span turns = std::span(counts).last(channels.size());
  for (std::size_t c = 0; c < channels.size(); ++c) {
    for (const std::uint8_t code : codes[c]) {
      const MessageChoice choice = choice_of(code);
      if (choice.period > 1) turns[c] += 1;
      if (choice.period > 1 || choice.bits < kWireBits.back()) exact[c] += 1;
    }
  }
  rank_.transport.all_reduce(std::span(counts), {"bit-width assignment"});
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const int slot = channels[c]->channel().slot();
    current_[slot] = codes[c];
    received_[slot] = std::move(received[c]);
    // Epochs that only measure leave the rows that are kept alone.
    const bool all_exact = exact[c] == 0 && (is_exact() || epoch - first_epoch_ >= kWarmupEpochs);
    as_rows_[slot] = all_exact || rows_serve_[slot];
    takes_turns_[slot] = turns[c] > 0;
    set_turn(*channels[c], epoch);
  }
}

void AdaptiveBits::set_turn(MessageChannel& channel, int epoch) {
  const HaloListsView& halo = channel.op().halo;
  const int slot = channel.channel().slot();
  channel.set_bits(bits_in_epoch(current_[slot], halo.send_offset, epoch),
                   bits_in_epoch(received_[slot], halo.recv_offset, epoch), as_rows_[slot]);
}

bool AdaptiveBits::begin_as_restored(MessageChannel& channel, int epoch) {
  if (restored_.empty()) return false;
  const int slot = channel.channel().slot();
  const auto found = restored_.find(slot);
  const bool fits = found != restored_.end() && found->second.lists == lists_[slot] &&
                    std::ssize(found->second.codes) == channel.op().halo.sent_rows();
  const auto misfits =
      sum_over_ranks<double>(rank_.transport, fits ? 0 : 1, {"bit-widths of the checkpoint"});
  if (misfits > 0) {
    if (rank_.transport.rank() == 0) {
      log::warn("the checkpoint's bit-widths belong to other messages; adaptive widths start anew");
    }
    start_anew(slot);
    return false;
  }
  MessageChannel* const channels[] = {&channel};
  rows_serve_[slot] = found->second.as_rows;
  agree(channels, {&found->second.codes, 1}, epoch);
  restored_.erase(found);
  return true;
}

void AdaptiveBits::start_anew(int slot) {
  restored_.clear();
  costs_.forget_all();
  takes_turns_.clear();
  as_rows_.clear();
  rows_serve_.clear();
  first_epoch_ = 0;
  // Times of other messages; but what the user gave counts, unless it is the resumed run's own and
  // knows nothing of these.
  calibration_.reset();
  if (options_.calibration.is_null()) return;
  calibration_ = given_calibration();
  if (!calibration_->channels.contains(slot)) calibration_.reset();
}

void AdaptiveBits::require_calibrated(const MessageChannel& channel) const {
  if (!calibration_ || calibration_->channels.contains(channel.channel().slot())) return;
  fail_input("{}: layer {} {} was not measured; measure this model anew",
             options_.calibration_place, channel.channel().layer,
             to_string(channel.channel().direction));
}

void AdaptiveBits::calibrate(MessageChannels& channels, bool overlap) {
  const auto size = static_cast<std::size_t>(rank_.transport.size());
  std::vector<std::int64_t> sends(size, 0);
  std::vector<std::int64_t> receives(size, 0);
  std::vector<double> most, least;
  for (const auto& [slot, channel] : channels) {
    const HaloListsView& halo = channel->op().halo;
    const std::int64_t row = wire_row_bytes(32, channel->cols(), channel->storage());
    for (std::size_t r = 0; r < size; ++r) {
      sends[r] = std::max(sends[r], row * (halo.send_offset[r + 1] - halo.send_offset[r]));
      receives[r] = std::max(receives[r], row * (halo.recv_offset[r + 1] - halo.recv_offset[r]));
    }
    const ExchangeCalibration::ChannelTimes times = costs_.measurements().times(slot, overlap);
    most.insert(most.end(), {times.slowdown_s, times.quantize_s});
    // The least by way of the most.
    least.push_back(-times.central_s);
  }
  max_over_ranks(most);
  max_over_ranks(least);
  calibration_.emplace();
  calibration_->ranks = rank_.transport.size();
  calibration_->links = measure_links(rank_, sends, receives);
  for (std::size_t c = 0; const auto& [slot, channel] : channels) {
    calibration_->channels[slot] = {-least[c], most[2 * c], most[2 * c + 1]};
    ++c;
  }
  costs_.measurements().forget_times();
}

ExchangeReport::Choice AdaptiveBits::assign(int epoch, MessageChannels& channels) {
  std::map<int, MessageChoices> choices = costs_.weigh(epoch, channels, current_);
  std::vector<ChannelProblem> problems;
  for (const auto& [slot, channel] : channels) {
    problems.push_back(
        costs_.problem(*channel, channel->as_rows(), *calibration_, choices.at(slot)));
  }
  std::map<int, MessageChoices> other_choices;
  for (const auto& [slot, channel] : channels) {
    if (!chooses_periods()) continue;
    MessageChoices& other = other_choices[slot] = costs_.others(*channel, choices.at(slot));
    problems.push_back(costs_.problem(*channel, !channel->as_rows(), *calibration_, other));
  }
  Transport& transport = rank_.transport;
  const RankReductions reductions{
      .sum =
          [&](std::span<double> values) { transport.all_reduce(values, {"bit-width assignment"}); },
      .max = [&](std::span<double> values) { max_over_ranks(values); }};
  const auto start = std::chrono::steady_clock::now();
  std::vector<ChannelAssignment> found = assign_bits(problems, options_.lambda, reductions);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;

  for (std::size_t c = 0; const auto& [slot, channel] : channels) {
    if (chooses_periods()) {
      const bool before = channel->as_rows();
      const std::size_t other = channels.size() + c;
      const bool rows =
          costs_.rows_serve(*channel, found[before ? c : other], found[before ? other : c]);
      rows_serve_[slot] = rows;
      if (rows != before) {
        choices.at(slot) = std::move(other_choices.at(slot));
        problems[c] = std::move(problems[other]);
        found[c] = std::move(found[other]);
      }
    }
    ++c;
  }

  std::vector<double> figures{took.count()};
  std::vector<MessageChannel*> all;
  std::vector<MessageCodes> codes;
  ExchangeReport::Choice choice;
  for (std::size_t c = 0; const auto& [slot, channel] : channels) {
    choice.gap = std::max(choice.gap, found[c].gap());
    double wire_s = 0;
    MessageCodes flat;
    for (std::size_t l = 0; l < found[c].chosen.size(); ++l) {
      const std::vector<std::uint8_t>& link = found[c].chosen[l];
      if (link.empty()) continue;
      std::int64_t bytes = 0;
      for (const std::uint8_t chosen : link) {
        bytes += problems[c].choices[chosen].bytes;
        flat.push_back(choices.at(slot).codes[chosen]);
      }
      wire_s = std::max(wire_s, kHiddenShare * problems[c].links[l].cost.wire.seconds(bytes));
    }
    figures.push_back(wire_s * 1000);
    ExchangeReport::Choice::Times& mine = choice.channels[slot];
    mine.central_ms = problems[c].central_s * 1000;
    if (const double unit = costs_.unit(slot); unit > 0) mine.error = found[c].variance / unit;
    all.push_back(channel.get());
    codes.push_back(std::move(flat));
    ++c;
  }
  max_over_ranks(figures);
  choice.solver_ms = figures[0];
  for (std::size_t c = 1; auto& [slot, times] : choice.channels) times.wire_ms = figures[c++];
  std::vector<MessageChannel*> of_rows_before;
  std::ranges::copy_if(all, std::back_inserter(of_rows_before), &MessageChannel::as_rows);
  agree(all, codes, epoch + 1);
  for (const auto& [slot, channel] : channels) {
    const bool before = std::ranges::count(of_rows_before, channel.get()) > 0;
    // The noise is another one.
    if (channel->as_rows() != before) costs_.measurements().forget_rounding(slot);
  }
  return choice;
}

std::span<const std::uint8_t> AdaptiveBits::codes(int slot) const {
  const auto found = current_.find(slot);
  return found == current_.end() ? std::span<const std::uint8_t>() : found->second;
}

bool AdaptiveBits::measures(int epoch) const {
  const int done = epoch - first_epoch_ + 1;
  return !is_exact() &&
         (done <= kWarmupEpochs || (done - kWarmupEpochs) % options_.reassign_every == 0);
}

int AdaptiveBits::settled_epochs(int epoch) const {
  if (is_exact()) return kAlwaysSettled;
  if (first_epoch_ == 0 ||
      std::ranges::any_of(takes_turns_ | std::views::values, std::identity())) {
    return 1;
  }
  const int done = epoch - first_epoch_ + 1;
  if (done <= kWarmupEpochs) return 1;
  return options_.reassign_every - (done - kWarmupEpochs - 1) % options_.reassign_every;
}

bool AdaptiveBits::end_epoch(const Round& round, MessageChannels& channels,
                             std::optional<ExchangeReport::Choice>& choice) {
  if (channels.empty() || is_exact()) return false;
  const int done = round.epoch - first_epoch_ + 1;
  if (done < kWarmupEpochs) {
    if (!calibration_) costs_.measurements().observe_times(channels, kWarmupBits[done - 1]);
    costs_.measurements().observe_rounding(channels);
    for (const auto& [slot, channel] : channels) set_uniform(*channel, kWarmupBits[done]);
    return true;
  }
  if (!measures(round.epoch)) {
    for (const auto& [slot, channel] : channels) {
      if (takes_turns_[slot]) set_turn(*channel, round.epoch + 1);
    }
    return false;
  }
  costs_.measurements().observe_rounding(channels);
  if (!calibration_) {
    costs_.measurements().observe_times(channels, kWarmupBits[kWarmupEpochs - 1]);
    calibrate(channels, round.overlap);
  }
  choice = assign(round.epoch, channels);
  return true;
}

Json AdaptiveBits::state(SafetensorsFile& rows) const {
  Json channels = Json::array();
  for (const auto& [slot, codes] : current_) {
    Json channel = {{"slot", slot}, {"plan", lists_.at(slot)}, {"bits", digits_of(codes)}};
    const auto serve = rows_serve_.find(slot);
    if (serve != rows_serve_.end() && serve->second) channel["as_rows"] = true;
    costs_.add_state(slot, channel, rows);
    channels.push_back(std::move(channel));
  }
  return {{"first_epoch", first_epoch_}, {"channels", channels}, {"calibration", calibration()}};
}

void AdaptiveBits::load_state(const Json& state, const SafetensorsFile& rows,
                              const std::string& place) {
  first_epoch_ = json_field<int>(state, "first_epoch", place);
  for (const Json& channel : json_field<Json>(state, "channels", place)) {
    const auto slot = json_field<int>(channel, "slot", place);
    Restored& restored = restored_[slot];
    restored.lists = json_field<std::string>(channel, "plan", place);
    restored.as_rows = json_field_or<bool>(channel, "as_rows", place, false);
    const std::size_t allowed = chooses_periods() ? kMessageCodes : kWireBits.size();
    restored.codes =
        numbers_of(json_field<std::string>(channel, "bits", place), allowed, "width", place);
    costs_.load_state(slot, channel, rows, place);
  }
  // The command line counts before the checkpoint.
  const Json measured = json_field<Json>(state, "calibration", place);
  if (!measured.is_null() && options_.calibration.is_null()) {
    calibration_ = exchange_calibration(measured, rank_.transport.size(), place);
  }
}

}  // namespace

std::unique_ptr<MessagePolicy> make_adaptive_bits(const ExchangeOptions& options,
                                                  const Rank& rank) {
  return std::make_unique<AdaptiveBits>(options, rank);
}

}  // namespace atl
