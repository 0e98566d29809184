#include "engine/exchange/messages/row_movement.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "engine/exchange/messages/message_choice.hpp"

namespace atl {

namespace {

// Over the messages of one age, of all ranks.
struct AgeSums {
  double messages = 0;
  double before = 0;  // squares of one epoch, as observed the last time
  double now = 0;     // of so many epochs
};
using SumsByAge = std::array<AgeSums, kMessagePeriods.back() + 1>;

// Below so many messages a figure is an accident of few rows.
constexpr double kEnoughMessages = 64;

bool counts(const AgeSums& sums) {
  return sums.messages >= kEnoughMessages && sums.before > 0 && sums.now > 0 &&
         std::isfinite(sums.before) && std::isfinite(sums.now);
}

// The exponent that fits the ages best (least squares of logarithms through age 1), if there are
// any. All rows may have become faster or slower since the last time; those of age 1 tell.
std::optional<double> fitted_growth(const SumsByAge& sums) {
  const double trend = counts(sums[1]) ? std::log(sums[1].now / sums[1].before) : 0;
  double of_both = 0;
  double of_age = 0;
  for (std::size_t age = 2; age < sums.size(); ++age) {
    if (!counts(sums[age])) continue;
    const double log_age = std::log(static_cast<double>(age));
    of_both += sums[age].messages * log_age * (std::log(sums[age].now / sums[age].before) - trend);
    of_age += sums[age].messages * log_age * log_age;
  }
  if (of_age == 0) return std::nullopt;
  return of_both / of_age;
}

constexpr const char* kGrowth = "growth";
std::string tensor_name(int slot) { return fmt::format("movement.{}", slot); }

}  // namespace

void RowMovement::observe(int slot, std::span<const int> ages, std::vector<float>& squares) {
  Channel& channel = channels_[slot];
  const bool known = channel.squares.size() == squares.size();
  SumsByAge sums{};
  for (std::size_t k = 0; k < squares.size() && known; ++k) {
    AgeSums& mine = sums[static_cast<std::size_t>(ages[k])];
    mine.messages += 1;
    mine.before += channel.squares[k];
    mine.now += squares[k];
  }
  std::vector<double> all;
  for (const AgeSums& one : sums) all.insert(all.end(), {one.messages, one.before, one.now});
  transport_.all_reduce(std::span(all), {"movement of rows"});
  for (std::size_t a = 0; a < sums.size(); ++a) {
    sums[a] = {all[3 * a], all[3 * a + 1], all[3 * a + 2]};
  }
  if (const std::optional<double> growth = fitted_growth(sums)) {
    channel.growth = std::clamp(*growth, 0.0, kSteady);
  }
  for (std::size_t k = 0; k < squares.size(); ++k) {
    squares[k] = static_cast<float>(squares[k] / std::pow(ages[k], channel.growth));
  }
  channel.squares = squares;
}

double RowMovement::growth(int slot) const {
  const auto found = channels_.find(slot);
  return found == channels_.end() ? kSteady : found->second.growth;
}

double RowMovement::mean_square(int slot, int period) const {
  double sum = 0;
  for (int age = 1; age < period; ++age) sum += std::pow(age, growth(slot));
  return sum / period;
}

double RowMovement::whole_square(int slot, int period) const {
  return std::pow(period, growth(slot));
}

void RowMovement::add_state(int slot, Json& channel, SafetensorsFile& rows) const {
  const auto found = channels_.find(slot);
  if (found == channels_.end()) return;
  channel[kGrowth] = found->second.growth;
  const std::vector<float>& squares = found->second.squares;
  rows.tensors[tensor_name(slot)] = host_tensor<float>("F32", {std::ssize(squares)}, squares);
}

void RowMovement::load_state(int slot, const Json& channel, const SafetensorsFile& rows,
                             const std::string& place) {
  const auto squares = rows.tensors.find(tensor_name(slot));
  if (squares == rows.tensors.end()) return;
  Channel& mine = channels_[slot];
  mine.growth = json_field<double>(channel, kGrowth, place);
  if (!(mine.growth >= 0 && mine.growth <= kSteady)) {
    fail_input("{}: growth {}; allowed are 0 to {}", place, mine.growth, kSteady);
  }
  mine.squares = values_in<float>(squares->second);
}

}  // namespace atl
