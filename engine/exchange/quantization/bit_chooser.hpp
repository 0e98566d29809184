// How the quantized exchange chooses the bit-widths of messages, from epoch to epoch.
#pragma once

#include <memory>

#include "engine/exchange/quantization/quantized_channel.hpp"

namespace atl {

// All calls are collective.
class BitChooser {
 public:
  virtual ~BitChooser() = default;
  // Gives a channel that is used for the first time its widths.
  virtual void begin(QuantizedChannel& channel, int epoch) = 0;
  // Gives channels other widths from the next epoch on, or does nothing. Returns true if it did;
  // `choice`: how they were chosen, if by their cost.
  virtual bool end_epoch(const Round& round, QuantizedChannels& channels,
                         std::optional<ExchangeReport::Choice>& choice) = 0;
  // As HaloExchange::settled_epochs().
  virtual int settled_epochs(int epoch) const = 0;
  // The most bits that any message may come to have.
  virtual int widest() const = 0;
  // See HaloExchange.
  virtual Json state() const { return nullptr; }
  virtual void load_state(const Json& /*state*/, const std::string& /*place*/) {}
  virtual Json calibration() const { return nullptr; }
};

// Throws Error{kOption} for values that are not allowed.
std::unique_ptr<BitChooser> make_bit_chooser(const BitOptions& options, const Rank& rank);
std::unique_ptr<BitChooser> make_adaptive_bits(const BitOptions& options, const Rank& rank);

// The same width for all messages of a channel, known to both ends without a word.
void set_uniform_bits(QuantizedChannel& channel, int bits);

}  // namespace atl
