// The cost of the transport between the ranks that mpirun started: bandwidth, and how much of a
// transfer hides under computation. Usage: benchmark_transport [--thread on|off] [--sleep US]
// [--compute MS].
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "engine/comm/transport.hpp"

namespace atl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr OperationLabel kLabel{.operation = "benchmark"};

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Times {
  double median = 0;
  double worst = 0;
};

Times summarize(std::vector<double> values) {
  std::ranges::sort(values);
  return {values[values.size() / 2], values.back()};
}

// Packets of `bytes` to and from the ranks for which `talks` says so.
class Exchange {
 public:
  template <typename Talks>
  Exchange(Transport& transport, std::size_t bytes, Talks talks)
      : transport_(transport), sent_(bytes, std::byte{1}) {
    received_.assign(transport.size(), std::vector<std::byte>(bytes));
    for (int r = 0; r < transport.size(); ++r) {
      const int me = transport.rank();
      sends_.push_back(talks(me, r) ? std::span<const std::byte>(sent_)
                                    : std::span<const std::byte>());
      receives_.push_back(talks(r, me) ? std::span<std::byte>(received_[r])
                                       : std::span<std::byte>());
    }
  }
  std::unique_ptr<PendingTransfer> start() {
    return transport_.all_to_all_v(sends_, receives_, kLabel);
  }

 private:
  Transport& transport_;
  std::vector<std::byte> sent_;
  std::vector<std::vector<std::byte>> received_;
  std::vector<std::span<const std::byte>> sends_;
  std::vector<std::span<std::byte>> receives_;
};

double cpu_ms(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}
// Processor time of the threads other than this one.
double other_threads_ms() {
  return cpu_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu_ms(CLOCK_THREAD_CPUTIME_ID);
}

template <typename Body>
Times time_ms(Transport& transport, int repetitions, Body body) {
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    transport.barrier(kLabel);
    const auto start = Clock::now();
    body();
    times.push_back(milliseconds_since(start));
  }
  return summarize(times);
}

// Arithmetic in registers of one core; the volatile ends keep it inside the timed region.
void compute(std::int64_t rounds) {
  static volatile std::uint64_t state = 1;
  std::uint64_t value = state;
  for (std::int64_t i = 0; i < rounds; ++i) {
    value = value * 6364136223846793005U + 1442695040888963407U;
  }
  state = value;
}

std::int64_t rounds_for(double target_ms) {
  constexpr std::int64_t kProbe = 10'000'000;
  double fastest_ms = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 10; ++i) {
    const auto start = Clock::now();
    compute(kProbe);
    fastest_ms = std::min(fastest_ms, milliseconds_since(start));
  }
  return static_cast<std::int64_t>(static_cast<double>(kProbe) * target_ms / fastest_ms);
}

void measure_bandwidth(Transport& transport, std::size_t bytes, int repetitions) {
  Exchange there(transport, bytes, [](int from, int to) { return from == 0 && to == 1; });
  Exchange back(transport, bytes, [](int from, int to) { return from == 1 && to == 0; });
  const Times round_trip = time_ms(transport, repetitions, [&] {
    there.start()->wait_all();
    back.start()->wait_all();
  });
  Exchange all(transport, bytes, [](int from, int to) { return from != to; });
  const Times exchange = time_ms(transport, repetitions, [&] { all.start()->wait_all(); });
  if (transport.rank() != 0) return;
  const double megabits = static_cast<double>(bytes) * 8e-6;
  fmt::print(
      "{:>9} bytes: one way {:8.3f} ms ({:7.1f} Mbit/s); all-to-all {:8.3f} ms, worst {:8.3f} "
      "({:7.1f} Mbit/s out of each rank)\n",
      bytes, round_trip.median / 2, megabits / (round_trip.median / 2e3), exchange.median,
      exchange.worst, megabits * (transport.size() - 1) / (exchange.median / 1e3));
}

void measure_overlap(Transport& transport, std::size_t bytes, double compute_ms) {
  const std::int64_t rounds = rounds_for(compute_ms);
  Exchange all(transport, bytes, [](int from, int to) { return from != to; });
  constexpr int kRepetitions = 9;
  const Times alone = time_ms(transport, kRepetitions, [&] { compute(rounds); });
  const Times wire = time_ms(transport, kRepetitions, [&] { all.start()->wait_all(); });
  std::vector<double> waits;
  const double others_before = other_threads_ms();
  const Times both = time_ms(transport, kRepetitions, [&] {
    const auto pending = all.start();
    compute(rounds);
    const auto start = Clock::now();
    pending->wait_all();
    waits.push_back(milliseconds_since(start));
  });
  const double others = (other_threads_ms() - others_before) / kRepetitions;
  const Times exposed = summarize(waits);
  if (transport.rank() != 0) return;
  fmt::print(
      "{:>9} bytes, median (worst): compute alone {:.1f} ({:.1f}) ms, wire alone {:.1f} ({:.1f}) "
      "ms, both {:.1f} ({:.1f}) ms, exposed wait {:.1f} ({:.1f}) ms; processor time of the "
      "progress thread {:.1f} ms\n",
      bytes, alone.median, alone.worst, wire.median, wire.worst, both.median, both.worst,
      exposed.median, exposed.worst, others);
}

int run(int argc, char** argv) {
  MpiProgressOptions options;
  double compute_ms = 300;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--thread") == 0) {
      options.thread = std::strcmp(argv[i + 1], "on") == 0;
    } else if (std::strcmp(argv[i], "--sleep") == 0) {
      options.sleep = std::chrono::microseconds(std::atoi(argv[i + 1]));
    } else if (std::strcmp(argv[i], "--compute") == 0) {
      compute_ms = std::atof(argv[i + 1]);
    }
  }
  const auto transport = make_mpi_transport(60, options);
  if (transport->size() < 2) {
    fmt::print(stderr, "benchmark_transport: start at least 2 ranks with mpirun\n");
    return 2;
  }
  if (transport->rank() == 0) {
    fmt::print("{} ranks, progress thread {}, sleep {} us\n", transport->size(),
               options.thread ? "on" : "off", options.sleep.count());
  }
  measure_bandwidth(*transport, 8, 200);
  measure_bandwidth(*transport, std::size_t{64} << 10, 50);
  measure_bandwidth(*transport, std::size_t{4} << 20, 7);
  measure_overlap(*transport, std::size_t{4} << 20, compute_ms);
  return 0;
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) { return atl::run(argc, argv); }
