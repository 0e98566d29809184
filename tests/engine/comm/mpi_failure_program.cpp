// Ends badly in the way its argument says, so that run_mpi.sh can check what the user sees.
#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <thread>

#include "base/error.hpp"
#include "engine/comm/transport.hpp"

namespace atl {
namespace {

constexpr OperationLabel kHalo{
    .operation = "halo exchange", .direction = "forward", .layer = 1, .epoch = 4};
constexpr std::size_t kBytes = std::size_t{1} << 20;

// Every rank sends 1 MiB to every other.
struct Exchange {
  explicit Exchange(const Transport& transport)
      : sent(kBytes), received(transport.size(), std::vector<std::byte>(kBytes)) {}
  std::vector<std::byte> sent;
  std::vector<std::vector<std::byte>> received;
};

std::unique_ptr<PendingTransfer> start(Transport& transport) {
  auto memory = std::make_shared<Exchange>(transport);
  std::vector<std::span<const std::byte>> sends(transport.size());
  std::vector<std::span<std::byte>> receives(transport.size());
  for (int r = 0; r < transport.size(); ++r) {
    if (r == transport.rank()) continue;
    sends[r] = memory->sent;
    receives[r] = memory->received[r];
  }
  return transport.all_to_all_v(sends, receives, kHalo, memory);
}

void silent_rank(Transport& transport) {
  transport.barrier({.operation = "start"});
  if (transport.rank() == 2) std::this_thread::sleep_for(std::chrono::hours(1));
  start(transport)->wait_all();
}

void stopped_rank(Transport& transport) {
  transport.barrier({.operation = "start"});
  if (transport.rank() == 2) std::raise(SIGSTOP);
  start(transport)->wait_all();
}

void killed_rank(Transport& transport) {
  transport.barrier({.operation = "start"});
  if (transport.rank() == 2) std::raise(SIGKILL);
  start(transport)->wait_all();
}

void bad_input_on_one_rank(Transport& transport) {
  if (transport.rank() == 1) fail_input("part 1 is damaged");
  start(transport)->wait_all();
}

// The failing rank has a transfer under way, which must neither be waited for nor freed.
void error_over_a_pending_transfer(Transport& transport) {
  const auto pending = start(transport);
  if (transport.rank() == 1) fail_input("part 1 is damaged");
  pending->wait_all();
  transport.barrier({.operation = "barrier"});
}

void dropped_transfer(Transport& transport) {
  if (transport.rank() == 2) std::this_thread::sleep_for(std::chrono::hours(1));
  { const auto pending = start(transport); }
  transport.barrier({.operation = "barrier"});
}

void short_message(Transport& transport) {
  std::vector<std::byte> bytes(transport.rank() == 0 ? 12 : 16);
  transport.broadcast(bytes, 0, {.operation = "weights"});
  transport.barrier({.operation = "barrier"});
}

void long_message(Transport& transport) {
  std::vector<std::byte> bytes(transport.rank() == 0 ? 20 : 16);
  transport.broadcast(bytes, 0, {.operation = "weights"});
  transport.barrier({.operation = "barrier"});
}

// A rank that ends early: the others meet the silence at the end of the run.
void missing_at_the_end(Transport& transport) {
  if (transport.rank() == 2) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Three times as long as the timeout: the others hear that it works.
void working_rank(Transport& transport) {
  const HeartbeatScope scope(transport, {"the partition"});
  if (transport.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(3));
  transport.barrier({.operation = "the partition"});
}

void stopped_at_work(Transport& transport) {
  const HeartbeatScope scope(transport, {"the partition"});
  if (transport.rank() == 2) std::raise(SIGSTOP);
  transport.barrier({.operation = "the partition"});
}

// The others work for an hour and wait for nobody.
void stopped_beside_work(Transport& transport) {
  const HeartbeatScope scope(transport, {"the partition"});
  if (transport.rank() == 2) std::raise(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::hours(1));
}

std::unique_ptr<Transport> split_into_pairs(Transport& job) {
  const int stage = job.rank() / 2;
  return job.split(stage, "stage " + std::to_string(stage));
}

// Ranks 0 to 3 exchange in their groups for as long as the job lives.
void exchange_beside(Transport& job, void (*in_stage_2)(Transport& stage, bool is_rank_5)) {
  const auto stage = split_into_pairs(job);
  stage->barrier({.operation = "start"});
  if (job.rank() >= 4) return in_stage_2(*stage, job.rank() == 5);
  for (;;) start(*stage)->wait_all();
}

void silent_in_a_group(Transport& job) {
  exchange_beside(job, [](Transport& stage, bool is_rank_5) {
    if (is_rank_5) std::this_thread::sleep_for(std::chrono::hours(1));
    start(stage)->wait_all();
  });
}

void stopped_in_a_group(Transport& job) {
  exchange_beside(job, [](Transport& stage, bool is_rank_5) {
    if (is_rank_5) std::raise(SIGSTOP);
    start(stage)->wait_all();
  });
}

void killed_in_a_group(Transport& job) {
  exchange_beside(job, [](Transport& stage, bool is_rank_5) {
    if (is_rank_5) std::raise(SIGKILL);
    start(stage)->wait_all();
  });
}

void bad_input_in_a_group(Transport& job) {
  exchange_beside(job, [](Transport& stage, bool is_rank_5) {
    const auto pending = start(stage);
    if (is_rank_5) fail_input("part 5 is damaged");
    pending->wait_all();
    stage.barrier({.operation = "barrier"});
  });
}

void short_message_in_a_group(Transport& job) {
  exchange_beside(job, [](Transport& stage, bool is_rank_5) {
    std::vector<std::byte> bytes(is_rank_5 ? 16 : 12);
    stage.broadcast(bytes, 0, {.operation = "weights"});
    stage.barrier({.operation = "barrier"});
  });
}

// Rank 5 works three times as long as the timeout. Its group waits for it, and so do those that are
// not in the scope.
void working_in_a_group(Transport& job) {
  const auto stage = split_into_pairs(job);
  if (job.rank() >= 4) {
    const HeartbeatScope scope(*stage, {"the stage"});
    if (job.rank() == 5) std::this_thread::sleep_for(std::chrono::seconds(3));
    stage->barrier({.operation = "the stage"});
    job.barrier({.operation = "all stages"});
  } else {
    start(*stage)->wait_all();
    job.barrier({.operation = "all stages"});
  }
}

void stopped_beside_work_in_a_group(Transport& job) {
  const auto stage = split_into_pairs(job);
  if (job.rank() < 4) {
    for (;;) start(*stage)->wait_all();
  }
  const HeartbeatScope scope(*stage, {"the stage"});
  if (job.rank() == 5) std::raise(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::hours(1));
}

// Ranks that wait for each other, alive in a scope but without any work to wait for.
void crossed_waits(Transport& job) {
  const auto one = job.split(0, "one");
  const auto other = job.split(0, "other");
  const HeartbeatScope scope(job, {"work of all"});
  (job.rank() == 0 ? *one : *other).barrier({.operation = "a barrier"});
}

void missing_in_a_split(Transport& job) {
  if (job.rank() == 5) std::this_thread::sleep_for(std::chrono::hours(1));
  split_into_pairs(job);
}

int run(const std::string& name) {
  static const std::map<std::string, void (*)(Transport&)> programs{
      {"silent", silent_rank},
      {"stopped", stopped_rank},
      {"killed", killed_rank},
      {"input", bad_input_on_one_rank},
      {"pending", error_over_a_pending_transfer},
      {"dropped", dropped_transfer},
      {"short", short_message},
      {"long", long_message},
      {"end", missing_at_the_end},
      {"works", working_rank},
      {"stopped_at_work", stopped_at_work},
      {"stopped_beside_work", stopped_beside_work},
      {"group_silent", silent_in_a_group},
      {"group_stopped", stopped_in_a_group},
      {"group_killed", killed_in_a_group},
      {"group_input", bad_input_in_a_group},
      {"group_short", short_message_in_a_group},
      {"group_works", working_in_a_group},
      {"group_stopped_beside_work", stopped_beside_work_in_a_group},
      {"group_crossed", crossed_waits},
      {"group_missing", missing_in_a_split},
  };
  try {
    if (name == "before") fail_option("--layers x: must be a number");
    const auto transport = make_mpi_transport(1);
    programs.at(name)(*transport);
  } catch (const Error& error) {
    std::fprintf(stderr, "atoll: %s\n", error.what());
    abort_job(error.exit_code());
  }
  return 0;
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) { return atl::run(argc == 2 ? argv[1] : ""); }
