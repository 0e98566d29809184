#include "launch/bench_compare.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/numbers.hpp"
#include "engine/exchange/expected_messages.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/bench_samples.hpp"

namespace atl {

namespace {

constexpr const char* kVanilla = "vanilla";

// Times of one epoch on one channel, on this rank; ms.
struct ChannelMs {
  double central = 0;
  double wait = 0;
};

// The slot of a layer's messages in one direction.
int slot_of(int layer, std::string_view direction) {
  return 2 * layer + (direction == "backward" ? 1 : 0);
}

using ChannelTimes = std::map<int, ChannelMs>;  // by slot

ChannelTimes channel_times(const TraceRecorder& trace) {
  ChannelTimes times;
  for (const TraceSpan& span : trace.spans()) {
    if (span.tag.layer < 0) continue;
    const std::string_view name = span.name;
    const int slot = slot_of(span.tag.layer, span.direction);
    const double ms = span.duration_us / 1000;
    // Others of its part wait for no message.
    if (name == "wait" && *span.what == '\0') times[slot].wait += ms;
    if (name.ends_with(" central")) times[slot].central += ms;
  }
  // Without a wait no message was sent: a layer's own work.
  std::erase_if(times, [](const auto& entry) { return entry.second.wait == 0; });
  return times;
}

// Messages of a slot, of all ranks.
struct SlotMessages {
  double rows = 0;
  double sent = 0;
  double bytes = 0;  // of those sent
};

std::map<int, SlotMessages> messages_by_slot(const ExchangeReport& report) {
  std::map<int, SlotMessages> slots;
  for (const ExchangeReport::Messages& messages : report.channels) {
    const Channel& channel = messages.channel;
    SlotMessages& slot = slots[slot_of(channel.layer, to_string(channel.direction))];
    slot.rows += static_cast<double>(messages.rows);
    slot.bytes += static_cast<double>(messages.bytes);
    for (const std::int64_t rows : messages.rows_of_width) slot.sent += static_cast<double>(rows);
  }
  return slots;
}

double mean_of(const std::vector<double>& values) {
  return std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
}

// One mode while it is compared: its own weights and moments, its own way of exchange.
class Contender {
 public:
  Contender(const ComparedMode& mode, Trainer& trainer)
      : mode_(mode),
        trainer_(trainer),
        exchange_(trainer.make_exchange(mode.exchange)),
        state_(trainer.state(/*optimizer=*/true, StateOf::kAllRanks)) {}

  const ComparedMode& mode() const { return mode_; }
  const Samples& samples() const { return samples_; }
  const std::optional<ExchangeReport>& report() const { return report_; }
  double loss() const { return loss_; }

  void run_epoch(int epoch, bool measured) {
    trainer_.load_state(state_, /*optimizer=*/true, mode_.name);
    trainer_.swap_exchange(exchange_, mode_.overlap);
    const EpochResult result = trainer_.run_epoch(epoch);
    trainer_.swap_exchange(exchange_, mode_.overlap);
    state_ = trainer_.state(/*optimizer=*/true, StateOf::kAllRanks);
    loss_ = result.loss;
    if (result.exchange) report_ = result.exchange;
    if (report_) count_messages(measured);
    if (!measured) return;
    if (report_) mean_bits_.push_back(report_->mean_bits);
    samples_.add(result);
    for (const auto& [slot, times] : channel_times(trainer_.trace())) {
      central_[slot].push_back(times.central);
      wait_[slot].push_back(times.wait);
    }
  }

  // Over the epochs measured.
  double mean_bits() const {
    if (exchange_mode(mode_.exchange.mode).sent == MessagesSent::kNone) return 0;
    return mean_bits_.empty() ? 32 : mean_of(mean_bits_);
  }

  double wait_ms(int slot) const { return spread_of(wait_.at(slot)).median; }

  // The epoch with every wire hidden as far as central work can, on this rank: work outside of
  // exchanges, and per channel what is marginal and the longer of central work and wire. `vanilla`
  // waited for every wire in full; one that carries fewer bytes takes less in proportion. Where
  // epochs differ by what they send, the mean of all of them.
  double bound_ms(const Contender& vanilla, const std::map<int, double>& exact_bytes) const {
    const ExpectedMessages expected =
        expected_messages(mode_.exchange, shares_.empty() ? 1 : mean_of(shares_));
    const auto typical = [&](const std::vector<double>& values) {
      return expected.kinds.size() == 1 ? spread_of(values).median : mean_of(values);
    };
    double bound = typical(samples_.epoch_ms);
    for (const auto& [slot, central] : central_) {
      const double central_ms = spread_of(central).median;
      const double exact = exact_bytes.at(slot);
      // Where nothing was said, messages are exact.
      const double all = report_ ? all_bytes_.at(slot) : exact;
      const double wire_ms = exact > 0 ? vanilla.wait_ms(slot) * all / exact : 0;
      double longer = 0;
      for (const EpochKind& kind : expected.kinds) {
        longer += kind.share * std::max(central_ms, kind.messages * wire_ms);
      }
      bound += longer - central_ms - typical(wait_.at(slot));
    }
    return bound;
  }

 private:
  void count_messages(bool measured) {
    double rows = 0;
    double sent = 0;
    for (const auto& [slot, messages] : messages_by_slot(*report_)) {
      rows += messages.rows;
      sent += messages.sent;
      double& all = all_bytes_[slot];
      if (messages.sent > 0) all = messages.bytes / messages.sent * messages.rows;
    }
    if (measured) shares_.push_back(rows > 0 ? sent / rows : 1);
  }

  const ComparedMode& mode_;
  Trainer& trainer_;
  std::unique_ptr<HaloExchange> exchange_;
  SafetensorsFile state_;
  Samples samples_;
  std::map<int, std::vector<double>> central_, wait_;  // by slot
  std::optional<ExchangeReport> report_;               // none: exact
  std::map<int, double> all_bytes_;                    // by slot, if all messages were sent
  std::vector<double> mean_bits_, shares_;             // of messages that were sent, by epoch
  double loss_ = 0;
};

// Bytes that exact messages of each channel take, of all ranks.
std::map<int, double> exact_bytes(RankJob& job, Transport& transport) {
  const Network& network = job.trainer().network();
  std::vector<double> bytes;
  for (const LayerMessages& layer : network.layer_messages()) {
    const auto item = static_cast<double>(bytes_of(network.dtype()));
    bytes.push_back(
        static_cast<double>(padded_columns(layer.forward_columns) * layer.forward_rows) * item);
    bytes.push_back(
        static_cast<double>(padded_columns(layer.backward_columns) * layer.backward_rows) * item);
  }
  transport.all_reduce(std::span(bytes), {"byte formula"});
  std::map<int, double> by_slot;
  for (std::size_t slot = 0; slot < bytes.size(); ++slot) {
    by_slot[static_cast<int>(slot)] = bytes[slot];
  }
  return by_slot;
}

const Contender* find(const std::vector<Contender>& contenders, std::string_view name) {
  for (const Contender& contender : contenders) {
    if (contender.mode().name == name) return &contender;
  }
  return nullptr;
}

Json result_of(const Contender& contender, const Contender* vanilla, const Contender* exact,
               double bound_ms) {
  const Samples& samples = contender.samples();
  const Spread epoch = spread_of(samples.epoch_ms);
  const ComparedMode& mode = contender.mode();
  const std::optional<ExchangeReport>& report = contender.report();
  Json result = {
      {"mode", mode.name},
      {"overlap", mode.overlap},
      {"mean_bits", contender.mean_bits()},
      {"epoch_ms", to_json(epoch)},
      {"exposed_comm_ms",
       samples.exposed_ms.empty() ? Json(nullptr) : to_json(spread_of(samples.exposed_ms))},
      {"bytes_sent_per_epoch", spread_of(samples.bytes).median},
      {"loss", contender.loss()}};
  const Json none;
  result["speedup"] = vanilla == nullptr
                          ? none
                          : Json(spread_of(vanilla->samples().epoch_ms).median / epoch.median);
  result["bound_ms"] = std::isnan(bound_ms) ? none : Json(bound_ms);
  result["loss_difference"] =
      exact == nullptr ? none : Json((contender.loss() - exact->loss()) / exact->loss());
  if (report) result["assignment"] = to_json(*report);
  for (const auto& [phase, ms] : samples.phase_ms) {
    result["phases_ms"][phase] = to_json(spread_of(ms));
  }
  return result;
}

}  // namespace

std::vector<std::string> compared_mode_names() {
  std::vector<std::string> names{"all", kVanilla};
  for (const std::string& mode : exchange_modes()) names.push_back(mode);
  for (const std::string& width : bit_names()) names.push_back(width);
  return names;
}

std::vector<ComparedMode> compared_modes(const std::string& list, const ExchangeOptions& options) {
  const std::string wanted = list == "all" ? "vanilla,exact,8,4,2,1,random,adaptive" : list;
  const std::vector<std::string> known = bit_names();
  std::vector<ComparedMode> modes;
  for (const std::string& name : between_commas(wanted)) {
    const auto same = [&](const ComparedMode& mode) { return mode.name == name; };
    if (std::any_of(modes.begin(), modes.end(), same)) {
      fail_option("--compare {}: '{}' stands there twice", list, name);
    }
    ComparedMode mode{name, {.message_bits = options.message_bits}, name != kVanilla};
    const std::size_t colon = std::min(name.find(':'), name.size());
    const ExchangeMode* preset = find_exchange_mode(name.substr(0, colon));
    if (preset != nullptr && (colon == name.size() || preset->takes_bits())) {
      mode.exchange.mode = preset->name;
      mode.exchange.sending = options.sending;
      if (preset->takes_bits()) {
        const std::string bits = colon == name.size() ? preset->usual_bits : name.substr(colon + 1);
        mode.exchange.message_bits.bits = parse_bits(bits);
      }
      check_exchange(mode.exchange);
      if (mode.exchange.pipelined()) {
        fail_option(
            "--compare {}: messages of {} would travel beside the epochs of other modes; measure "
            "it alone, with --exchange {}",
            list, name, preset->name);
      }
    } else if (name != kVanilla) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        fail_option("--compare {}: unknown mode '{}'; allowed are: {}", list, name,
                    fmt::join(compared_mode_names(), ", "));
      }
      mode.exchange.mode = kModeOfBits;
      mode.exchange.message_bits.bits = parse_bits(name);
    }
    modes.push_back(std::move(mode));
  }
  return modes;
}

Json compare_modes(RankJob& job, Transport& transport, const std::vector<ComparedMode>& modes,
                   int warmup, int epochs) {
  std::vector<Contender> contenders;
  for (const ComparedMode& mode : modes) contenders.emplace_back(mode, job.trainer());
  for (int epoch = 1; epoch <= warmup + epochs; ++epoch) {
    for (Contender& contender : contenders) contender.run_epoch(epoch, epoch > warmup);
  }
  const Contender* vanilla = find(contenders, kVanilla);
  const Contender* exact = find(contenders, kExactMode);
  if (exact == nullptr) exact = vanilla;
  // Spans of a device time its compute queue alone, so the wire can't be told from them.
  const bool bounded = vanilla != nullptr && job.backend().host_accessible();
  const std::map<int, double> bytes = exact_bytes(job, transport);
  Json comparison = {{"modes", Json::array()}};
  for (const Contender& contender : contenders) {
    double bound = std::numeric_limits<double>::quiet_NaN();
    if (bounded) {
      bound = contender.bound_ms(*vanilla, bytes);
      transport.all_reduce(std::span(&bound, 1), {"bound"});
      bound /= transport.size();
    }
    comparison["modes"].push_back(result_of(contender, vanilla, exact, bound));
  }
  return comparison;
}

void print_comparison(const Json& comparison) {
  fmt::print("  {:<14} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>9}\n",
             "mode", "bits", "epoch ms", "min", "max", "exposed", "MB sent", "speed-up", "bound ms",
             "loss", "loss diff");
  const auto number = [](const Json& value, const char* unit, int digits) {
    return value.is_null() ? std::string("-")
                           : fmt::format("{:.{}f}{}", value.get<double>(), digits, unit);
  };
  for (const Json& mode : comparison.at("modes")) {
    const Json& epoch = mode.at("epoch_ms");
    const Json& exposed = mode.at("exposed_comm_ms");
    const Json& difference = mode.at("loss_difference");
    fmt::print(
        "  {:<14} {:>6.2f} {:>10.1f} {:>10.1f} {:>10.1f} {:>10} {:>10.3f} {:>8} {:>10} {:>10.5f} "
        "{:>9}\n",
        mode.at("mode").get<std::string>(), mode.at("mean_bits").get<double>(),
        epoch.at("median").get<double>(), epoch.at("min").get<double>(),
        epoch.at("max").get<double>(),
        exposed.is_null() ? "-" : number(exposed.at("median"), "", 1),
        mode.at("bytes_sent_per_epoch").get<double>() / 1e6, number(mode.at("speedup"), "x", 2),
        number(mode.at("bound_ms"), "", 1), mode.at("loss").get<double>(),
        difference.is_null() ? "-" : fmt::format("{:+.2e}", difference.get<double>()));
  }
}

}  // namespace atl
