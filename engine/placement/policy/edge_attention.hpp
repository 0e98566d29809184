// Attention over the edges into each node of a small graph, forward and backward, in host memory.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.hpp"
#include "kernels/views.hpp"

namespace atl {

// Calls body(T()) with the C++ type of `dtype`: f32 or f64.
template <typename Body>
void for_type(DType dtype, const Body& body) {
  ATOLL_ASSERT(dtype == DType::kF32 || dtype == DType::kF64);
  if (dtype == DType::kF32) {
    body(float{});
  } else {
    body(double{});
  }
}

// Edges into node i are [begin[i], begin[i + 1]). messages z [edges, d], targets t [nodes, d],
// attention a [1, d]; shares [edges, heads] gets the softmax over a node's edges of
//   sum of a_c leaky_relu(z_ec + t_ic) over the head's columns,
// updates [nodes, d] the sum of z by these shares; 0 for a node without edges.
void attend(std::span<const std::int64_t> begin, ConstMatrixView messages, ConstMatrixView targets,
            ConstMatrixView attention, MatrixView shares, MatrixView updates);

// Its gradients: dmessages [edges, d] is set, dtargets [nodes, d] and dattention [1, d] are added
// to.
void attend_backward(std::span<const std::int64_t> begin, ConstMatrixView messages,
                     ConstMatrixView targets, ConstMatrixView attention, ConstMatrixView shares,
                     ConstMatrixView dupdates, MatrixView dmessages, MatrixView dtargets,
                     MatrixView dattention);

// y[rows[e], :] += x[e, :].
void scatter_add(ConstMatrixView x, std::span<const LocalId> rows, MatrixView y);

}  // namespace atl
