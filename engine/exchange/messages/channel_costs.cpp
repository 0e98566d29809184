#include "engine/exchange/messages/channel_costs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/exchange/messages/aggregation_scores.hpp"

namespace atl {

namespace {

// A channel sends differences, or rows as they are; estimates tell what the other would cost.
// Packing rows takes so much less than packing differences (`bench`, 2 ranks, 4 bits: 42 of 90 ms
// an epoch, 10 of them copies).
constexpr double kRowsPacking = 0.4;
// F range^2 / 6 of a row in |m|^2, for normal values whose range is six deviations.
constexpr double kRowsRange = 6;
// A channel sends differences again if they are expected to cost so much less.
constexpr double kReturn = 0.95;

}  // namespace

ChannelCosts::ChannelCosts(const ExchangeOptions& options, const Rank& rank)
    : mode_(exchange_mode(options.mode)),
      options_(options.message_bits),
      sending_(options.sending),
      rank_(rank),
      measurements_(rank),
      movement_(rank.transport) {}

void ChannelCosts::begin(const MessageChannel& channel) {
  if (scores_.contains(&channel.op())) return;
  scores_[&channel.op()] = sent_scores(channel.op(), options_.sensitivity, rank_.transport);
}

std::map<int, MessageChoices> ChannelCosts::weigh(int epoch, MessageChannels& channels,
                                                  const std::map<int, MessageCodes>& codes_of) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  std::map<int, MessageChoices> result;
  std::vector<double> drifts;
  for (const auto& [slot, channel] : channels) {
    const MessageCodes& codes = codes_of.at(slot);
    const std::vector<float>& scores = scores_.at(&channel->op());
    MessageBits widths;
    for (const std::uint8_t code : codes) {
      widths.push_back(static_cast<std::uint8_t>(choice_of(code).bits));
    }
    std::vector<float>& beta = result[slot].beta;
    beta = channel->noise_base(widths);
    if (chooses_periods() && !channel->as_rows()) {
      movement_.observe(slot, ages_in_epoch(codes, channel->op().halo.send_offset, epoch), beta);
    }
    for (std::size_t k = 0; k < beta.size(); ++k) beta[k] = std::min(beta[k] * scores[k], kLargest);
    if (!chooses_periods()) continue;
    std::vector<float>& rows = result[slot].rows;
    if (channel->channel().direction == Direction::kForward && !channel->as_rows()) {
      rows = channel->squared_rows();
    }
    double moved = 0;
    double size = 0;
    for (std::size_t k = 0; k < beta.size(); ++k) {
      moved += beta[k];
      if (!rows.empty()) rows[k] = std::min(rows[k] * scores[k], kLargest);
      // A gradient that is sent with what was lost counts as a whole.
      size += rows.empty() ? beta[k] : rows[k];
    }
    drifts.insert(drifts.end(), {moved, size});
  }
  if (!chooses_periods()) return result;
  rank_.transport.all_reduce(std::span(drifts), {"movement of rows"});
  for (auto drift = drifts.begin(); const auto& [slot, channel] : channels) {
    Drift& now = drift_[slot];
    if (channel->as_rows()) {
      const double rows = *(drift + 1) / kRowsRange;
      now = {now.share() * rows, rows};
    } else {
      now = {*drift, *(drift + 1)};
    }
    drift += 2;
  }
  return result;
}

double ChannelCosts::other_variance(const MessageChannel& channel, int bits) const {
  if (bits == kWireBits.back()) return 0;
  if (!channel.as_rows()) {
    const double levels = std::exp2(bits) - 1;
    return kRowsRange / (levels * levels);
  }
  const double lost = MessageChannel::lost_share(bits, 1);
  const double noise = lost / (1 - lost) / kRowsRange;
  if (channel.channel().direction == Direction::kBackward) {
    return 2 * noise / std::max(1.0, sending_.staleness_weight);
  }
  return noise * drift_.at(channel.channel().slot()).share();
}

// In units of beta: of what a row moves by in an epoch, or of a gradient itself.
double ChannelCosts::variance(const MessageChannel& channel, bool as_rows,
                              MessageChoice choice) const {
  const int slot = channel.channel().slot();
  if (as_rows != channel.as_rows()) return other_variance(channel, choice.bits);
  const double ratio = measurements_.rounding_ratio(slot, choice.bits);
  const double noise = channel.noise_at(choice.bits, ratio);
  if (!chooses_periods() || as_rows) return noise;
  const bool is_late = choice.period > 1;
  const double whole = is_late ? movement_.whole_square(slot, choice.period) : 1;
  if (channel.channel().direction == Direction::kForward) {
    const double lag = is_late ? movement_.mean_square(slot, choice.period) : 0;
    return noise * whole + sending_.staleness_weight * lag;
  }
  // Nothing comes in all epochs but one, in which the gradients of the others come as well; what
  // is lost counts there and where it comes with the next. No gradient is lost for good, so the sum
  // over a span of epochs errs by what is under way at its two ends: as much less than noise as a
  // lag, which never averages out, is more.
  const double others =
      is_late ? (choice.period - 1) + movement_.whole_square(slot, choice.period - 1) : 0;
  return (noise * whole + others) / choice.period / std::max(1.0, sending_.staleness_weight);
}

void ChannelCosts::add_choices(const MessageChannel& channel, bool as_rows, MessageChoices& choices,
                               ChannelProblem& problem) const {
  const Channel& about = channel.channel();
  const auto found = drift_.find(2 * about.number);  // forward
  const Drift drift = found == drift_.end() ? Drift{} : found->second;
  // The exact choice comes last.
  for (std::size_t p = kMessagePeriods.size(); p-- > 0;) {
    const int period = kMessagePeriods[p];
    const bool allowed =
        period == 1 ||
        (chooses_periods() && !as_rows && !channel.as_rows() && period <= sending_.oldest &&
         period <= options_.reassign_every && drift.moved < sending_.drift_limit * drift.rows);
    for (std::size_t w = 0; w < kWireBits.size() && allowed; ++w) {
      const MessageChoice choice{kWireBits[w], period};
      choices.codes.push_back(code_of(choice));
      // Bytes of all epochs until every turn has come.
      problem.choices.push_back({variance(channel, as_rows, choice),
                                 wire_row_bytes(choice.bits, channel.cols(), channel.storage()) *
                                     bytes_epochs() / period});
    }
  }
  if (!chooses_periods()) return;
  const auto one_bit = std::ranges::find(choices.codes, code_of({.bits = 1}));
  problem.unit_time = static_cast<std::size_t>(one_bit - choices.codes.begin());
}

ChannelProblem ChannelCosts::problem(const MessageChannel& channel, bool as_rows,
                                     const ExchangeCalibration& calibration,
                                     MessageChoices& choices) const {
  const int slot = channel.channel().slot();
  const HaloListsView& halo = channel.op().halo;
  ChannelProblem problem;
  add_choices(channel, as_rows, choices, problem);
  // All ranks add up their parts: the sum is known already.
  if (chooses_periods()) {
    problem.unit_variance = drift_.at(slot).rows / rank_.transport.size();
  }
  const ExchangeCalibration::ChannelTimes& times = calibration.channels.at(slot);
  problem.central_s = times.central_s;
  problem.quantize_s = times.quantize_s * (chooses_periods() && as_rows ? kRowsPacking : 1);
  const int rank = rank_.transport.rank();
  const int size = rank_.transport.size();
  for (int peer = 0; peer < size; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    const auto begin = static_cast<std::size_t>(halo.send_offset[p]);
    const auto end = static_cast<std::size_t>(halo.send_offset[p + 1]);
    LinkTime cost{calibration.links[static_cast<std::size_t>(rank * size + peer)],
                  {0, times.central_s}};
    cost.wire.theta_s_per_byte /= kHiddenShare * bytes_epochs();
    cost.wire.gamma_s /= kHiddenShare;
    const auto widest =
        static_cast<double>(end - begin) * static_cast<double>(problem.choices.back().bytes);
    if (widest > 0) cost.cover.theta_s_per_byte = times.slowdown_s / widest;
    problem.links.push_back(
        {std::span<const float>(choices.beta).subspan(begin, end - begin), cost});
  }
  return problem;
}

MessageChoices ChannelCosts::others(const MessageChannel& channel, const MessageChoices& now) {
  return {
      .codes = {}, .beta = channel.as_rows() || now.rows.empty() ? now.beta : now.rows, .rows = {}};
}

bool ChannelCosts::rows_serve(const MessageChannel& channel, const ChannelAssignment& rows,
                              const ChannelAssignment& differences) const {
  const double unit = drift_.at(channel.channel().slot()).rows;
  if (unit <= 0 || differences.time_s <= 0) return false;
  // In the unit of time of differences, which includes their packing.
  const double error = options_.lambda / unit;
  const double time = differences.objective - error * differences.variance;
  const double objective = error * rows.variance + time * rows.time_s / differences.time_s;
  return objective * (channel.as_rows() ? kReturn : 1) < differences.objective;
}

double ChannelCosts::unit(int slot) const {
  const auto found = drift_.find(slot);
  return found == drift_.end() ? 0 : found->second.rows;
}

void ChannelCosts::forget_all() {
  measurements_.forget_all();
  movement_.forget_all();
  drift_.clear();
}

void ChannelCosts::add_state(int slot, Json& channel, SafetensorsFile& rows) const {
  if (const auto drift = drift_.find(slot); drift != drift_.end()) {
    channel["moved"] = drift->second.share();
  }
  measurements_.add_state(slot, channel);
  movement_.add_state(slot, channel, rows);
}

void ChannelCosts::load_state(int slot, const Json& channel, const SafetensorsFile& rows,
                              const std::string& place) {
  if (channel.contains("moved")) drift_[slot] = {json_field<double>(channel, "moved", place), 1};
  measurements_.load_state(slot, channel, place);
  movement_.load_state(slot, channel, rows, place);
}

}  // namespace atl
