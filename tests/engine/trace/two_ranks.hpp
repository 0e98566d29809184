// One epoch of two ranks on one host, small enough to follow by hand (all in us):
//
//   rank 0  epoch 0-100   prepare 2-10  post 10-12  central 12-40  wait 40-60  marginal 60-90
//                         all-reduce 90-97  step 97-98
//   rank 1  epoch 5-105   prepare 5-30  post 30-35  central 35-50  wait 50-55  marginal 55-80
//                         all-reduce 80-100  step 100-103
//   packet 0 -> 1: posted at 11, sent at 20, awaited from 33, arrived at 45
//   packet 1 -> 0: posted at 33, sent at 34, awaited from 11, arrived at 58
#pragma once

#include "tests/engine/trace/made_traces.hpp"

namespace atl {

// The parts that tests change.
struct TwoRanks {
  std::string second_host = "a";
  double second_clock = 0;  // what rank 1's clock is ahead
  double to_1_arrived = 45;
  double to_0_sent = 34;
  double wait_1_end = 55;
  int epoch = 1;
  double begin = 0;  // of everything

  void add_to(MadeTrace& made) const {
    const double a = begin;
    const double b = begin + second_clock;
    const auto work = [&](int rank, const char* name, double from, double to, int layer = -1,
                          const char* direction = "") {
      const double clock = rank == 0 ? a : b;
      made.work(rank, name, clock + from, clock + to, epoch, layer, direction);
    };
    made.epoch(0, a + 0, a + 100, epoch).epoch(1, b + 5, b + 105, epoch);
    work(0, "prepare marginal", 2, 10, 0, "forward");
    work(0, "post", 10, 12, 0, "forward");
    work(0, "spmm central", 12, 40, 0, "forward");
    work(0, "wait", 40, 60, 0, "forward");
    work(0, "spmm marginal", 60, 90, 0, "forward");
    work(0, "step", 97, 98);
    work(1, "prepare marginal", 5, 30, 0, "forward");
    work(1, "post", 30, 35, 0, "forward");
    work(1, "spmm central", 35, 50, 0, "forward");
    work(1, "wait", 50, wait_1_end, 0, "forward");
    work(1, "spmm marginal", wait_1_end, 80, 0, "forward");
    work(1, "step", 100, 103);
    made.sum(0, a + 90, a + 97, epoch).sum(1, b + 80, b + 100, epoch);
    made.packet(0, 1, a + 11, a + 20, b + 33, b + to_1_arrived, epoch, 250);
    made.packet(1, 0, b + 33, b + to_0_sent, a + 11, a + 58, epoch, 400);
  }
  MergedTrace merged() const {
    MadeTrace made({"a", second_host});
    add_to(made);
    return merge_trace(made.trace());
  }
};

}  // namespace atl
