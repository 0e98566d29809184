#include "engine/exchange/messages/row_movement.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/exchange/messages/message_choice.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

constexpr std::size_t kMessages = 2000;

float squares_of_message(std::size_t k) { return 0.5F + static_cast<float>(k % 17); }

// Message k is observed at one of the ages 1 to 8.
std::vector<int> ages() {
  std::vector<int> ages(kMessages);
  for (std::size_t k = 0; k < kMessages; ++k) ages[k] = 1 + static_cast<int>(k % 8);
  return ages;
}

// Squares that are seen when rows move by age^growth, all `trend` times as fast as before.
std::vector<float> seen(const std::vector<int>& ages, double growth, double trend) {
  std::vector<float> squares(kMessages);
  for (std::size_t k = 0; k < kMessages; ++k) {
    squares[k] = static_cast<float>(trend * squares_of_message(k) * std::pow(ages[k], growth));
  }
  return squares;
}

const std::vector<int> kEveryEpoch(kMessages, 1);

// body(transport of one rank).
template <typename Body>
void alone(const Body& body) {
  run_local_ranks(1, 30, [&](Transport& transport) { body(transport); });
}

// A channel that was observed in every epoch, then at all ages.
RowMovement observed(Transport& transport, double growth, double trend) {
  RowMovement movement(transport);
  std::vector<float> squares = seen(kEveryEpoch, growth, 1);
  movement.observe(4, kEveryEpoch, squares);
  EXPECT_EQ(movement.growth(4), 2) << "nothing was measured";
  squares = seen(ages(), growth, trend);
  movement.observe(4, ages(), squares);
  for (std::size_t k = 0; k < kMessages && growth >= 0 && growth <= 2; ++k) {
    const double expected = trend * squares_of_message(k);
    EXPECT_NEAR(squares[k], expected, 1e-3 * expected) << k;
  }
  return movement;
}

TEST(RowMovement, FindsHowDistancesGrowWithAge) {
  alone([](Transport& transport) {
    for (const double growth : {0.0, 0.7, 1.0, 2.0}) {
      for (const double trend : {1.0, 0.2, 5.0}) {
        EXPECT_NEAR(observed(transport, growth, trend).growth(4), growth, 1e-4) << trend;
      }
    }
  });
}

TEST(RowMovement, StaysBetweenRestAndADirection) {
  alone([](Transport& transport) {
    EXPECT_EQ(observed(transport, -1, 1).growth(4), 0);
    EXPECT_EQ(observed(transport, 3, 1).growth(4), 2);
  });
}

TEST(RowMovement, FewMessagesTellNothing) {
  alone([](Transport& transport) {
    std::vector<int> few = kEveryEpoch;
    std::fill_n(few.begin(), 50, 4);
    RowMovement movement(transport);
    for (const std::vector<int>& ages : {kEveryEpoch, few}) {
      std::vector<float> squares = seen(ages, 0, 1);
      movement.observe(4, ages, squares);
    }
    EXPECT_EQ(movement.growth(4), 2);
  });
}

TEST(RowMovement, SquaresOfPeriods) {
  alone([](Transport& transport) {
    const RowMovement movement = observed(transport, 1, 1);
    EXPECT_EQ(movement.mean_square(4, 1), 0);
    EXPECT_NEAR(movement.mean_square(4, 2), 1.0 / 2, 1e-4);
    EXPECT_NEAR(movement.mean_square(4, 4), (1 + 2 + 3) / 4.0, 1e-3);
    EXPECT_EQ(movement.whole_square(4, 1), 1);
    EXPECT_NEAR(movement.whole_square(4, 8), 8, 1e-2);
    EXPECT_EQ(movement.whole_square(5, 8), 64) << "of a channel that nobody has seen";
  });
}

TEST(RowMovement, GoesOnFromItsState) {
  alone([](Transport& transport) {
    RowMovement movement = observed(transport, 0.6, 2);
    Json channel = Json::object();
    SafetensorsFile rows;
    movement.add_state(4, channel, rows);
    RowMovement restored(transport);
    restored.load_state(4, channel, rows, "here");
    EXPECT_EQ(restored.growth(4), movement.growth(4));
    std::vector<float> again = seen(ages(), 0.9, 3);
    std::vector<float> same = again;
    movement.observe(4, ages(), again);
    restored.observe(4, ages(), same);
    EXPECT_EQ(again, same);
    EXPECT_EQ(restored.growth(4), movement.growth(4));

    channel["growth"] = 7;
    const Error error = thrown_error([&] { restored.load_state(4, channel, rows, "here"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
  });
}

}  // namespace
}  // namespace atl
