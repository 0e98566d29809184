// How far the rows of messages move from epoch to epoch, measured where some are not sent in each:
// these show how the distance grows with the epochs in between.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "engine/comm/transport.hpp"
#include "engine/tensor/safetensors.hpp"

namespace atl {

// Rows move by age^growth times the square of what they move by in one epoch: growth is 0 where
// each epoch draws them anew, and 2 where they keep their direction.
class RowMovement {
 public:
  explicit RowMovement(Transport& transport) : transport_(transport) {}

  // Collective. squares: of what the rows of this rank's messages have moved by in ages[k] epochs;
  // becomes what they move by in one.
  void observe(int slot, std::span<const int> ages, std::vector<float>& squares);
  double growth(int slot) const;
  // Mean over the epochs of a period that a row of it has moved by since it was sent, and over
  // those that it moves by until it is sent again, in squares of one epoch.
  double mean_square(int slot, int period) const;
  double whole_square(int slot, int period) const;

  void forget_all() { channels_.clear(); }
  // The state of one channel: a field of a JSON object, and rows; and back. Throws Error{kInput}
  // naming `place`.
  void add_state(int slot, Json& channel, SafetensorsFile& rows) const;
  void load_state(int slot, const Json& channel, const SafetensorsFile& rows,
                  const std::string& place);

 private:
  struct Channel {
    double growth = kSteady;
    std::vector<float> squares;  // of the last observe(), in one epoch
  };
  // Until it is measured: the most that it can be.
  static constexpr double kSteady = 2;

  Transport& transport_;
  std::map<int, Channel> channels_;  // by slot
};

}  // namespace atl
