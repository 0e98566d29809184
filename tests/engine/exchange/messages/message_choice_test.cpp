#include "engine/exchange/messages/message_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace atl {
namespace {

// Two peers with 100 and 37 messages of the same choice.
struct Messages {
  explicit Messages(MessageChoice choice) : codes(137, code_of(choice)) {}
  MessageCodes codes;
  std::vector<std::int64_t> offset = {0, 100, 137};
};

TEST(MessageChoice, CodesSayWidthAndPeriod) {
  std::vector<int> seen;
  for (const int period : kMessagePeriods) {
    for (const int bits : kWireBits) {
      const std::uint8_t code = code_of({bits, period});
      EXPECT_EQ(choice_of(code).bits, bits);
      EXPECT_EQ(choice_of(code).period, period);
      seen.push_back(code);
    }
  }
  std::vector<int> expected(kMessageCodes);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

TEST(MessageChoice, EveryMessageHasOneTurnInAPeriod) {
  for (const int period : kMessagePeriods) {
    const Messages messages({4, period});
    std::vector<int> turns(137, 0);
    for (int epoch = 11; epoch < 11 + period; ++epoch) {
      const MessageBits bits = bits_in_epoch(messages.codes, messages.offset, epoch);
      const auto sent = std::ranges::count(bits, 4);
      EXPECT_EQ(sent + std::ranges::count(bits, 0), 137);
      EXPECT_NEAR(static_cast<double>(sent), 137.0 / period, 2) << "each epoch about as many";
      for (std::size_t k = 0; k < bits.size(); ++k) turns[k] += bits[k] == 4 ? 1 : 0;
    }
    EXPECT_EQ(turns, std::vector<int>(137, 1)) << period;
  }
}

// Whatever the period was before: no message waits for longer than the longer of the two.
TEST(MessageChoice, ChangesOfThePeriodMakeNobodyWaitForLonger) {
  for (const int before : kMessagePeriods) {
    for (const int after : kMessagePeriods) {
      const Messages old({1, before});
      const Messages now({1, after});
      for (int change = 20; change < 36; ++change) {
        std::vector<int> age(137, 0);
        for (int epoch = 1; epoch < change + 20; ++epoch) {
          const Messages& messages = epoch < change ? old : now;
          const MessageBits bits = bits_in_epoch(messages.codes, messages.offset, epoch);
          for (std::size_t k = 0; k < bits.size(); ++k) {
            age[k] = bits[k] == 0 ? age[k] + 1 : 0;
            if (epoch > 8) {
              ASSERT_LT(age[k], std::max(before, after));
            }
          }
        }
      }
    }
  }
}

TEST(MessageChoice, AgesCountFromTheTurnBefore) {
  for (const int period : kMessagePeriods) {
    const Messages messages({2, period});
    std::vector<int> last(137, 0);
    for (int epoch = 1; epoch <= 30; ++epoch) {
      const MessageBits bits = bits_in_epoch(messages.codes, messages.offset, epoch);
      const std::vector<int> ages = ages_in_epoch(messages.codes, messages.offset, epoch);
      for (std::size_t k = 0; k < bits.size(); ++k) {
        if (epoch > 8) {
          ASSERT_EQ(ages[k], epoch - last[k]) << period;
        }
        if (bits[k] != 0) last[k] = epoch;
      }
    }
  }
}

}  // namespace
}  // namespace atl
