// The preparation of a sparse operator: how the rows of each range are divided, and which kernel
// was chosen for it.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/cusparse_spmm.hpp"
#include "kernels/cuda/device_buffer.hpp"
#include "kernels/cuda/spmm.hpp"
#include "kernels/kernel_choices.hpp"

namespace atl::cuda {

class PreparedRange {
 public:
  PreparedRange(Backend& backend, Queue& queue, std::span<const std::int64_t> row_ptr,
                RowRange range, Lifetime lifetime);

  RowRange range() const { return work_.range; }
  bool lasts() const { return lifetime_ == Lifetime::kRun; }
  std::int64_t nnz() const { return nnz_; }
  const SpmmWork& work() const { return work_; }
  // cuSPARSE's copies of the rows, made when they are first asked for. Null: the type does not hold
  // their values.
  std::map<DType, std::unique_ptr<CusparseSpmm>> cusparse;
  // Kernels chosen so far, by columns and type; null: the own one.
  std::map<std::pair<std::int64_t, DType>, const SparseAlgorithm*> chosen;

 private:
  SpmmWork work_;
  Lifetime lifetime_;
  std::int64_t nnz_ = 0;
  std::vector<SplitRow> host_split_;
  DeviceMemory rows_;
  DeviceMemory pieces_;
  DeviceMemory split_;
};

// Belongs, like its backend, to one host thread at a time.
class PreparedSpmm final : public PreparedSparse {
 public:
  PreparedSpmm(Backend& backend, Queue& queue, std::span<const std::int64_t> row_ptr,
               std::span<const RowRange> ranges, Lifetime lifetime = Lifetime::kRun);

  // Null if the range was not prepared.
  PreparedRange* find(RowRange range) const;

 private:
  std::vector<std::unique_ptr<PreparedRange>> ranges_;
};

}  // namespace atl::cuda
