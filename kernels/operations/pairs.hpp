// Products of pairs of rows.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

// out[k, 0] = <x[first[k], :], x[second[k], :]>, summed in f32 or wider: the same bits wherever a
// pair stands in the lists. x [N, F], out [first.size(), 1] of the parameters' type.
struct PairDots {
  static constexpr const char* kName = "pair_dots";
  ConstMatrixView x;
  std::span<const LocalId> first;
  std::span<const LocalId> second;
  MatrixView out;

  bool empty() const { return out.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "pair_dots x");
    check_shape(backend, out, length(first), 1, parameter_dtype(x.dtype), "pair_dots out");
    check_length(length(second), length(first), "pair_dots second");
    if (empty()) return;
    check_disjoint(out, x, "pair_dots out and x");
  }
  SpanWork work(bool) const {
    SpanWork work = streaming_work({out, out, out});  // with the lists
    const double elements = static_cast<double>(out.rows) * static_cast<double>(x.cols);
    work.flops += 2 * elements;
    work.bytes += 2 * elements * static_cast<double>(bytes_of(x.dtype));
    return work;
  }
};

// y[k, c] = x[first[k], c] z[second[k], c], rounded once. x, z [., F], y [first.size(), F]; z may
// be x.
struct PairProducts {
  static constexpr const char* kName = "pair_products";
  ConstMatrixView x;
  std::span<const LocalId> first;
  ConstMatrixView z;
  std::span<const LocalId> second;
  MatrixView y;

  bool empty() const { return y.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "pair_products x");
    check_shape(backend, z, z.rows, x.cols, x.dtype, "pair_products z");
    check_shape(backend, y, length(first), x.cols, x.dtype, "pair_products y");
    check_length(length(second), length(first), "pair_products second");
    if (empty()) return;
    check_disjoint({y}, {x, z}, "pair_products y and an input");
  }
  SpanWork work(bool) const { return streaming_work({y, y, y}); }
};

}  // namespace atl::kernels
