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
