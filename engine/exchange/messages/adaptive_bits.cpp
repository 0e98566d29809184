// Adaptive widths: a few epochs at uniform widths measure what the assignment needs, then every
// --reassign-every epochs the exact optimum of AdaQP's problem (arXiv 2306.01381, section 4) for
// the ranges that messages had in the last epoch.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "base/log.hpp"
#include "engine/comm/max_over_ranks.hpp"
#include "engine/exchange/messages/aggregation_scores.hpp"
#include "engine/exchange/messages/bit_assignment.hpp"
#include "engine/exchange/messages/channel_measurements.hpp"
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

// A message is planned to be there when so much of the work that hides it is done. Both times vary
// from epoch to epoch, and a wire that is a little longer than central work is waited for, while
// bits saved below that point cost little variance.
constexpr double kHiddenShare = 0.8;

class AdaptiveBits final : public MessagePolicy {
 public:
  AdaptiveBits(const BitOptions& options, const Rank& rank)
      : options_(options), rank_(rank), measurements_(rank) {
    if (!options.calibration.is_null()) calibration_ = given_calibration();
  }

  void begin(MessageChannel& channel, int epoch, bool restored) override;
  bool end_epoch(const Round& round, MessageChannels& channels,
                 std::optional<ExchangeReport::Choice>& choice) override;
  int settled_epochs(int epoch) const override;
  int widest() const override { return kWireBits.back(); }
  Json state() const override;
  void load_state(const Json& state, const std::string& place) override;
  Json calibration() const override {
    return calibration_ ? calibration_->to_json() : Json(nullptr);
  }

 private:
  // A checkpoint's record of one channel, until the channel begins.
  struct Restored {
    MessageBits bits;
    std::string lists;
  };

  ExchangeCalibration given_calibration() const {
    return exchange_calibration(options_.calibration, rank_.transport.size(),
                                options_.calibration_place);
  }
  // Throws Error{kInput} if there is a calibration, but not of this channel.
  void require_calibrated(const MessageChannel& channel) const;
  bool begin_as_restored(MessageChannel& channel, int epoch);
  void start_anew(int slot);
  void calibrate(MessageChannels& channels, bool overlap);
  ChannelProblem problem(MessageChannel& channel, std::vector<float>& beta) const;
  ExchangeReport::Choice assign(int epoch, MessageChannels& channels);
  void max_over_ranks(std::span<double> values) const {
    atl::max_over_ranks(rank_.transport, values, {"bit-width assignment"});
  }

  const BitOptions options_;
  const Rank& rank_;
  int first_epoch_ = 0;  // 0: none yet
  std::optional<ExchangeCalibration> calibration_;
  // A_k of the messages this rank sends.
  std::map<const DistributedOperator*, std::vector<float>> scores_;
  ChannelMeasurements measurements_;
  std::map<int, std::string> lists_;
  std::map<int, MessageBits> current_;  // of this rank, by slot
  std::map<int, Restored> restored_;
};

void AdaptiveBits::begin(MessageChannel& channel, int epoch, bool /*restored*/) {
  const int slot = channel.channel().slot();
  if (!scores_.contains(&channel.op())) {
    scores_[&channel.op()] = sent_scores(channel.op(), options_.sensitivity, rank_.transport);
  }
  lists_[slot] = lists_checksum(channel.op());
  const bool restored = begin_as_restored(channel, epoch);
  require_calibrated(channel);
  if (restored) return;
  if (first_epoch_ == 0) first_epoch_ = epoch;
  const int step = std::min(epoch - first_epoch_, kWarmupEpochs - 1);
  set_uniform_bits(channel, kWarmupBits[step]);
  current_[slot] = channel.sent_bits();
}

bool AdaptiveBits::begin_as_restored(MessageChannel& channel, int epoch) {
  if (restored_.empty()) return false;
  const int slot = channel.channel().slot();
  const auto found = restored_.find(slot);
  const bool fits = found != restored_.end() && found->second.lists == lists_[slot] &&
                    std::ssize(found->second.bits) == channel.op().halo.sent_rows();
  double misfits = fits ? 0 : 1;
  rank_.transport.all_reduce(std::span(&misfits, 1), {"bit-widths of the checkpoint"});
  if (misfits > 0) {
    if (rank_.transport.rank() == 0) {
      log::warn("the checkpoint's bit-widths belong to other messages; adaptive widths start anew");
    }
    start_anew(slot);
    return false;
  }
  MessageChannel* const channels[] = {&channel};
  current_[slot] = found->second.bits;
  agree_on_bits(rank_.transport, channels, {found->second.bits}, epoch);
  restored_.erase(found);
  return true;
}

void AdaptiveBits::start_anew(int slot) {
  restored_.clear();
  measurements_.forget_all();
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
    const ExchangeCalibration::ChannelTimes times = measurements_.times(slot, overlap);
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
  measurements_.forget_times();
}

ChannelProblem AdaptiveBits::problem(MessageChannel& channel, std::vector<float>& beta) const {
  const int slot = channel.channel().slot();
  const HaloListsView& halo = channel.op().halo;
  ChannelProblem problem;
  for (std::size_t w = 0; w < kWireBits.size(); ++w) {
    const int bits = kWireBits[w];
    problem.costs.variance[w] = channel.noise_at(bits, measurements_.rounding_ratio(slot, bits));
    problem.costs.bytes[w] = wire_row_bytes(bits, channel.cols(), channel.storage());
  }
  const ExchangeCalibration::ChannelTimes& times = calibration_->channels.at(slot);
  problem.central_s = times.central_s;
  problem.quantize_s = times.quantize_s;
  const std::vector<float>& scores = scores_.at(&channel.op());
  beta = channel.noise_base();
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (std::size_t k = 0; k < beta.size(); ++k) beta[k] = std::min(beta[k] * scores[k], kLargest);
  const int rank = rank_.transport.rank();
  const int size = rank_.transport.size();
  for (int peer = 0; peer < size; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    const auto begin = static_cast<std::size_t>(halo.send_offset[p]);
    const auto end = static_cast<std::size_t>(halo.send_offset[p + 1]);
    LinkTime cost{calibration_->links[static_cast<std::size_t>(rank * size + peer)],
                  {0, times.central_s}};
    cost.wire.theta_s_per_byte /= kHiddenShare;
    cost.wire.gamma_s /= kHiddenShare;
    const auto widest =
        static_cast<double>(end - begin) * static_cast<double>(problem.costs.bytes.back());
    if (widest > 0) cost.cover.theta_s_per_byte = times.slowdown_s / widest;
    problem.links.push_back({std::span<const float>(beta).subspan(begin, end - begin), cost});
  }
  return problem;
}

ExchangeReport::Choice AdaptiveBits::assign(int epoch, MessageChannels& channels) {
  std::vector<std::vector<float>> betas(channels.size());
  std::vector<ChannelProblem> problems;
  for (const auto& [slot, channel] : channels) {
    problems.push_back(problem(*channel, betas[problems.size()]));
  }
  Transport& transport = rank_.transport;
  const RankReductions reductions{
      .sum =
          [&](std::span<double> values) { transport.all_reduce(values, {"bit-width assignment"}); },
      .max = [&](std::span<double> values) { max_over_ranks(values); }};
  const auto start = std::chrono::steady_clock::now();
  const std::vector<ChannelAssignment> found = assign_bits(problems, options_.lambda, reductions);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;

  std::vector<double> figures{took.count()};
  std::vector<MessageChannel*> all;
  std::vector<MessageBits> bits;
  ExchangeReport::Choice choice;
  for (std::size_t c = 0; const auto& [slot, channel] : channels) {
    choice.gap = std::max(choice.gap, found[c].gap());
    double wire_s = 0;
    MessageBits flat;
    for (std::size_t l = 0; l < found[c].bits.size(); ++l) {
      const MessageBits& link = found[c].bits[l];
      if (link.empty()) continue;
      const std::int64_t bytes = message_bytes(link, channel->cols(), channel->storage());
      wire_s = std::max(wire_s, kHiddenShare * problems[c].links[l].cost.wire.seconds(bytes));
      flat.insert(flat.end(), link.begin(), link.end());
    }
    figures.push_back(wire_s * 1000);
    choice.channels[slot].central_ms = problems[c].central_s * 1000;
    all.push_back(channel.get());
    current_[slot] = flat;
    bits.push_back(std::move(flat));
    ++c;
  }
  max_over_ranks(figures);
  choice.solver_ms = figures[0];
  for (std::size_t c = 1; auto& [slot, times] : choice.channels) times.wire_ms = figures[c++];
  agree_on_bits(transport, all, std::move(bits), epoch);
  return choice;
}

int AdaptiveBits::settled_epochs(int epoch) const {
  if (first_epoch_ == 0) return 1;
  const int done = epoch - first_epoch_ + 1;
  if (done <= kWarmupEpochs) return 1;
  return options_.reassign_every - (done - kWarmupEpochs - 1) % options_.reassign_every;
}

bool AdaptiveBits::end_epoch(const Round& round, MessageChannels& channels,
                             std::optional<ExchangeReport::Choice>& choice) {
  if (channels.empty()) return false;
  const int done = round.epoch - first_epoch_ + 1;
  if (done < kWarmupEpochs) {
    if (!calibration_) measurements_.observe_times(channels, kWarmupBits[done - 1]);
    measurements_.observe_rounding(channels);
    for (const auto& [slot, channel] : channels) {
      set_uniform_bits(*channel, kWarmupBits[done]);
      current_[slot] = channel->sent_bits();
    }
    return true;
  }
  if ((done - kWarmupEpochs) % options_.reassign_every != 0) return false;
  measurements_.observe_rounding(channels);
  if (!calibration_) {
    measurements_.observe_times(channels, kWarmupBits[kWarmupEpochs - 1]);
    calibrate(channels, round.overlap);
  }
  choice = assign(round.epoch, channels);
  return true;
}

Json AdaptiveBits::state() const {
  Json channels = Json::array();
  for (const auto& [slot, bits] : current_) {
    // One digit per message: the width's place in kWireBits.
    std::string digits;
    for (const std::uint8_t width : bits) {
      digits += static_cast<char>('0' + static_cast<int>(bits_index(width)));
    }
    Json channel = {{"slot", slot}, {"plan", lists_.at(slot)}, {"bits", digits}};
    measurements_.add_state(slot, channel);
    channels.push_back(std::move(channel));
  }
  return {{"first_epoch", first_epoch_}, {"channels", channels}, {"calibration", calibration()}};
}

void AdaptiveBits::load_state(const Json& state, const std::string& place) {
  first_epoch_ = json_field<int>(state, "first_epoch", place);
  for (const Json& channel : json_field<Json>(state, "channels", place)) {
    const auto slot = json_field<int>(channel, "slot", place);
    Restored& restored = restored_[slot];
    restored.lists = json_field<std::string>(channel, "plan", place);
    for (const char digit : json_field<std::string>(channel, "bits", place)) {
      const auto index = static_cast<std::size_t>(digit - '0');
      if (index >= kWireBits.size()) {
        fail_input("{}: width '{}' of a message; allowed are 0 to {}", place, digit,
                   kWireBits.size() - 1);
      }
      restored.bits.push_back(static_cast<std::uint8_t>(kWireBits[index]));
    }
    measurements_.load_state(slot, channel, place);
  }
  // The command line counts before the checkpoint.
  const Json measured = json_field<Json>(state, "calibration", place);
  if (!measured.is_null() && options_.calibration.is_null()) {
    calibration_ = exchange_calibration(measured, rank_.transport.size(), place);
  }
}

}  // namespace

std::unique_ptr<MessagePolicy> make_adaptive_bits(const BitOptions& options, const Rank& rank) {
  return std::make_unique<AdaptiveBits>(options, rank);
}

}  // namespace atl
