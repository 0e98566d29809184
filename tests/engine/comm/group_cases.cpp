#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/engine/comm/packets.hpp"
#include "tests/engine/comm/transport_cases.hpp"

namespace atl {

namespace {

// Six ranks make groups of one, two and three.
int stage_of(int rank) {
  constexpr int kStages[] = {0, 1, 1, 2, 2, 2};
  return kStages[rank % 6];
}

std::unique_ptr<Transport> split_into_stages(Transport& world) {
  const int stage = stage_of(world.rank());
  return world.split(stage, "stage " + std::to_string(stage));
}

// Ranks of the world for which `is_in` holds.
template <typename IsIn>
std::vector<int> ranks_where(const Transport& world, const IsIn& is_in) {
  std::vector<int> ranks;
  for (int r = 0; r < world.size(); ++r) {
    if (is_in(r)) ranks.push_back(r);
  }
  return ranks;
}

void stages_of_one_two_and_three(Transport& world) {
  const auto stage = split_into_stages(world);
  const auto members =
      ranks_where(world, [&](int r) { return stage_of(r) == stage_of(world.rank()); });
  EXPECT_EQ(stage->name(), world.name());
  EXPECT_EQ(stage->timeout_seconds(), world.timeout_seconds());
  EXPECT_EQ(stage->size(), std::ssize(members));
  EXPECT_EQ(members.at(static_cast<std::size_t>(stage->rank())), world.rank());
  EXPECT_EQ(stage->group()->job_ranks, members);
  EXPECT_EQ(stage->group()->name, "stage " + std::to_string(stage_of(world.rank())));
  EXPECT_EQ(world.group()->name, "");
  EXPECT_EQ(world.group()->job_rank(world.rank()), world.rank());
  if (world.size() == 6) {
    EXPECT_EQ(stage->size(), stage_of(world.rank()) + 1);
  }
}

// All that a transport must do; sums add in the order of the group's ranks.
void every_case_in_every_group(Transport& world) {
  const auto stage = split_into_stages(world);
  for (const TransportCase& transport_case : transport_cases()) {
    SCOPED_TRACE(transport_case.name);
    transport_case.run(*stage);
  }
}

// Transfers of the job and of groups of two splits under way together, more in some than in others,
// and waited for in another order on each rank.
void transfers_of_job_and_groups_at_once(Transport& world) {
  const auto stage = split_into_stages(world);
  const auto parity = world.split(world.rank() % 2, "ranks of one parity");
  for (unsigned round = 0; round < 5; ++round) {
    std::vector<Packets> packets;
    std::vector<std::unique_ptr<PendingTransfer>> pending;
    packets.reserve(16);
    const auto start = [&](Transport& transport, Packets::Length length, unsigned salt) {
      packets.emplace_back(transport, length, 1000 * round + salt);
      pending.push_back(packets.back().start(transport));
    };
    start(world, unequal_lengths, 1);
    for (unsigned i = 0; i <= 2U * stage_of(world.rank()); ++i) {
      start(*stage, i % 2 == 0 ? unequal_lengths : one_way, 100 + i);
    }
    start(*parity, round == 0 ? large_lengths : unequal_lengths, 200);
    start(world, one_way, 2);
    // Collectives of one beside transfers of the others.
    std::vector<double> sums{1.0, static_cast<double>(stage->rank())};
    stage->all_reduce(std::span(sums), kLabel);
    EXPECT_EQ(sums[0], stage->size());
    EXPECT_EQ(sums[1], stage->size() * (stage->size() - 1) / 2);
    start(*parity, unequal_lengths, 201);
    world.barrier(kLabel);
    std::ranges::rotate(pending, pending.begin() + (world.rank() + round) % pending.size());
    for (const auto& transfer : pending) transfer->wait_all();
    EXPECT_TRUE(std::ranges::all_of(packets, &Packets::has_arrived)) << "round " << round;
  }
}

// Every group does something else, as often as it likes.
void groups_differ_in_their_calls(Transport& world) {
  const auto stage = split_into_stages(world);
  const auto sum = [&] {
    std::vector<std::int64_t> one{1};
    stage->all_reduce(std::span(one), kLabel);
    EXPECT_EQ(one[0], stage->size());
  };
  const auto send = [&] {
    std::vector<std::byte> bytes(1000, static_cast<std::byte>(stage->rank()));
    stage->broadcast(bytes, stage->size() - 1, kLabel);
    EXPECT_EQ(bytes, std::vector<std::byte>(1000, static_cast<std::byte>(stage->size() - 1)));
  };
  if (stage_of(world.rank()) == 1) {
    for (int i = 0; i < 20; ++i) sum();
    stage->barrier(kLabel);
    send();
  } else if (stage_of(world.rank()) == 2) {
    send();
    Packets packets(*stage, large_lengths, 3);
    packets.start(*stage)->wait_all();
    EXPECT_TRUE(packets.has_arrived());
    sum();
  }
  world.barrier(kLabel);
}

void groups_are_split_again(Transport& world) {
  const auto half = world.split(world.rank() % 2, "half");
  const auto pair = half->split(half->rank() / 2, "pair");
  const auto is_in_pair = [&](int r) {
    return r % 2 == world.rank() % 2 && r / 4 == world.rank() / 4;
  };
  EXPECT_EQ(pair->group()->job_ranks, ranks_where(world, is_in_pair));
  std::vector<std::int64_t> sums{world.rank()};
  std::int64_t expected = 0;
  for (const int r : pair->group()->job_ranks) expected += r;
  pair->all_reduce(std::span(sums), kLabel);
  EXPECT_EQ(sums[0], expected);
  half->barrier(kLabel);
}

void ranks_in_no_group(Transport& world) {
  const bool is_in = world.rank() % 2 == 1;
  const auto odd = world.split(is_in ? 3 : Transport::kNoGroup, "odd ranks");
  EXPECT_EQ(odd != nullptr, is_in);
  if (odd) {
    EXPECT_EQ(odd->group()->job_ranks, ranks_where(world, [](int r) { return r % 2 == 1; }));
    for (int i = 0; i < 10; ++i) odd->barrier(kLabel);
  }
  world.barrier(kLabel);
  EXPECT_EQ(world.split(Transport::kNoGroup, ""), nullptr);
}

// Bytes that a group sends count in all that it was split from, and nowhere else.
void bytes_count_upwards(Transport& world) {
  const std::int64_t before_split = world.bytes_sent();
  const auto half = world.split(world.rank() % 2, "half");
  EXPECT_EQ(world.bytes_sent() - before_split,
            all_reduce_bytes(2 * world.size(), 8, world.rank(), world.size()));
  const auto other = world.split(0, "all");
  const auto pair = half->split(half->rank() / 2, "pair");
  const std::int64_t of_half = half->bytes_sent();
  const std::int64_t of_world = world.bytes_sent();
  pair->barrier(kLabel);
  EXPECT_EQ(pair->bytes_sent(), pair->size() - 1);
  EXPECT_EQ(half->bytes_sent() - of_half, pair->size() - 1);
  EXPECT_EQ(world.bytes_sent() - of_world, pair->size() - 1);
  world.barrier(kLabel);
  EXPECT_EQ(half->bytes_sent() - of_half, pair->size() - 1);
  EXPECT_EQ(other->bytes_sent(), 0);
}

// Groups that end while messages of others are under way, and others after them.
void groups_come_and_go(Transport& world) {
  Packets packets(world, unequal_lengths, 9);
  const auto pending = packets.start(world);
  for (int i = 0; i < 30; ++i) {
    const auto group = world.split(world.rank() % (1 + i % 4), "group");
    Packets inside(*group, one_way, static_cast<unsigned>(i));
    inside.start(*group)->wait_all();
    EXPECT_TRUE(inside.has_arrived());
  }
  pending->wait_all();
  EXPECT_TRUE(packets.has_arrived());
}

// Scopes of groups open and close inside one of the job, and beside each other.
void scopes_of_groups(Transport& world) {
  const auto half = world.split(world.rank() % 2, "half");
  const HeartbeatScope of_world(world, {.operation = "work of all"});
  for (int i = 0; i <= world.rank() % 2; ++i) {
    const HeartbeatScope of_half(*half, {.operation = "work of a half"});
    half->barrier(kLabel);
  }
  world.barrier(kLabel);
}

}  // namespace

const std::vector<TransportCase>& group_cases() {
  static const std::vector<TransportCase> cases{
      {"GroupsOfOneTwoAndThree", stages_of_one_two_and_three},
      {"EveryCaseInEveryGroup", every_case_in_every_group},
      {"TransfersOfJobAndGroupsAtOnce", transfers_of_job_and_groups_at_once},
      {"GroupsDifferInTheirCalls", groups_differ_in_their_calls},
      {"GroupsAreSplitAgain", groups_are_split_again},
      {"RanksInNoGroup", ranks_in_no_group},
      {"BytesOfGroupsCountUpwards", bytes_count_upwards},
      {"GroupsComeAndGo", groups_come_and_go},
      {"ScopesOfGroups", scopes_of_groups},
  };
  return cases;
}

}  // namespace atl
