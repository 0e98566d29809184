// Which messages travel in an epoch, and at how many bits: the width of one that doesn't is 0.
#pragma once

#include <memory>

#include "engine/exchange/messages/message_channel.hpp"
#include "engine/exchange/messages/message_choice.hpp"

namespace atl {

// All calls are collective.
class MessagePolicy {
 public:
  virtual ~MessagePolicy() = default;
  // Gives a channel that is used for the first time its widths. restored: it has the rows that were
  // kept when a checkpoint was written, and state() of then was loaded.
  virtual void begin(MessageChannel& channel, int epoch, bool restored) = 0;
  // Gives channels other widths from the next epoch on, or does nothing. Returns true if it did;
  // `choice`: how they were chosen, if by their cost.
  virtual bool end_epoch(const Round& round, MessageChannels& channels,
                         std::optional<ExchangeReport::Choice>& choice) = 0;
  // Whether end_epoch() will ask channels what messages of this epoch have lost. A channel has
  // begun.
  virtual bool measures(int /*epoch*/) const { return false; }
  // As HaloExchange::settled_epochs().
  virtual int settled_epochs(int epoch) const = 0;
  // How often each message of a channel that this rank sends does so, in the order of its lists,
  // where that was chosen; else nothing, and its widths tell all.
  virtual std::span<const std::uint8_t> codes(int /*slot*/) const { return {}; }
  // See HaloExchange. rows: what of it would be long as text.
  virtual Json state(SafetensorsFile& /*rows*/) const { return nullptr; }
  virtual void load_state(const Json& /*state*/, const SafetensorsFile& /*rows*/,
                          const std::string& /*place*/) {}
  virtual Json calibration() const { return nullptr; }
};

// Throws Error{kOption} for values that are not allowed.
std::unique_ptr<MessagePolicy> make_message_policy(const ExchangeOptions& options,
                                                   const Rank& rank);
// A width for each message by its cost and, where the mode says so, epochs in which it is sent.
std::unique_ptr<MessagePolicy> make_adaptive_bits(const ExchangeOptions& options, const Rank& rank);
// For messages that are not sent in every epoch.
std::unique_ptr<MessagePolicy> make_chosen_messages(const ExchangeOptions& options,
                                                    const Rank& rank);

// The width of a layer by a fixed choice.
int width_of_layer(const BitChoice& bits, int layer);

}  // namespace atl
