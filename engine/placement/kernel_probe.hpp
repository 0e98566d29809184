// How fast this rank's kernels are, measured on the engine's own operations while all other ranks
// measure the same: that is what an epoch does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/comm/transport.hpp"
#include "engine/placement/topology.hpp"
#include "engine/tensor/device_csr.hpp"

namespace atl {

struct KernelProbeOptions {
  std::vector<std::int64_t> columns{16, 64, 128, 256};  // ascending
  std::int64_t rows = 1 << 17;  // of matrices and nodes of the graph; fewer where memory is short
  int degree = 14;              // mean
  double seconds = 0.9;         // per kernel and number of columns, at least
};

// Steps queue a piece of work and return how much it is. One step is short, so that rates can be
// taken over any time, and steps walk through matrices that no cache holds.
class KernelProbe {
 public:
  // Takes an eighth of `memory_bytes` at most. Throws Error{kMemory}.
  KernelProbe(Backend& backend, Queue& queue, const KernelProbeOptions& options,
              double memory_bytes);
  KernelProbe(const KernelProbe&) = delete;
  KernelProbe& operator=(const KernelProbe&) = delete;

  // Bytes of rows read, one per edge, and of rows written.
  double spmm_step(std::int64_t columns);
  // Floating-point operations of [rows, columns] x [columns, columns].
  double gemm_step(std::int64_t columns);
  // Bytes read and written by ReLU.
  double elementwise_step(std::int64_t columns);
  // Bytes of f32 rows packed at 4 bits.
  double quantize_step(std::int64_t columns);

  // Waits until everything queued has run.
  void finish() { backend_.synchronize(queue_); }

 private:
  // A graph whose degrees and columns follow a power law, and whose columns have no locality.
  void make_graph(int degree);
  void make_messages();
  std::int64_t rows_of_step() const;
  RowRange next_rows();

  Backend& backend_;
  Queue& queue_;
  std::int64_t rows_ = 0;
  std::int64_t next_row_ = 0;
  std::vector<std::int64_t> host_row_ptr_;
  DeviceCsr graph_;
  ConstDeviceArray<float> halves_;
  ConstDeviceArray<float> ones_;
  SparseOperator op_;
  std::shared_ptr<const PreparedSparse> prepared_;
  Tensor x_;
  Tensor y_;
  Tensor weight_;
  std::int64_t messages_ = 0;
  ConstDeviceArray<LocalId> message_rows_;
  ConstDeviceArray<std::int64_t> message_first_;
  ConstDeviceArray<std::uint8_t> message_bits_;
  ConstDeviceArray<GlobalId> row_ids_;
  std::map<std::int64_t, ConstDeviceArray<std::int64_t>> message_offset_;  // by columns
  DeviceArray<std::byte> packets_;
  DeviceArray<float> range_;
  DeviceArray<float> variance_;
  DeviceArray<std::int64_t> bad_;
};

// Work per second of `step`, on all ranks at the same time. Collective. A control group that may
// use its processors a part of the time only lets work through in bursts of a period's length, 100
// ms at most with usual settings, so a rate is the median over three windows of many periods, not
// the best or the median of single steps, which fit into a burst.
double measure_rate(Transport& transport, KernelProbe& probe, double seconds,
                    const std::function<double()>& step);

// Fills the rates of `device` but that of its progress. Collective.
void measure_kernels(Transport& transport, KernelProbe& probe, const KernelProbeOptions& options,
                     Device& device);

}  // namespace atl
