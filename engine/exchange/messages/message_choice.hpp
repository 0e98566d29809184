// How a message travels from one assignment to the next: at how many bits, and in which epochs.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "engine/exchange/messages/message_layout.hpp"

namespace atl {

struct MessageChoice {
  int bits = kWireBits.back();
  int period = 1;  // it is sent in one of so many epochs
};

// Each divides the next, so that a message of which the period changes never waits for longer than
// the longer of the two.
inline constexpr std::array kMessagePeriods = {1, 2, 4, 8};

// One number per message that says its choice to both ends. That of a width in all epochs is its
// place in kWireBits.
using MessageCodes = std::vector<std::uint8_t>;
inline constexpr std::size_t kMessageCodes = kWireBits.size() * kMessagePeriods.size();

MessageChoice choice_of(std::uint8_t code);
std::uint8_t code_of(MessageChoice choice);

// The widths of an epoch, 0 for messages whose turn it is not. codes: in the order of lists of
// which those of peer r are [peer_offset[r], peer_offset[r + 1]), as in MessageBits. Messages of a
// period take turns, so that each epoch sends about as many.
MessageBits bits_in_epoch(std::span<const std::uint8_t> codes,
                          std::span<const std::int64_t> peer_offset, int epoch);
// Epochs since each message was sent before `epoch`, if it had its code for so long; in every
// epoch: 1.
std::vector<int> ages_in_epoch(std::span<const std::uint8_t> codes,
                               std::span<const std::int64_t> peer_offset, int epoch);

// A number of each message, such as its code, as text of a checkpoint: one character each, from '0'
// on.
std::string digits_of(std::span<const std::uint8_t> numbers);
// The reverse. Throws Error{kInput} naming `place`, and what the numbers are, for one that is not
// below `allowed`.
std::vector<std::uint8_t> numbers_of(const std::string& digits, std::size_t allowed,
                                     const char* what, const std::string& place);

}  // namespace atl
