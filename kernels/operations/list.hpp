// All operations of backends, and how a backend says what runs them.
//
// An operation is a struct of what it is given, with
//   kName, or name(): the word for it in profiles;
//   check(): aborts where shapes, types or memory break the contract; called first;
//   empty(): whether there is nothing to compute;
//   zeroed(), if it has that: outputs that become 0 then, being sums;
//   work(host_readable): flops and bytes that it takes at least; also of views whose data is null.
//     host_readable: the host may read offsets, else edges are taken to be spread evenly over rows;
//   compute_by(compute), if it has that: the operations that it consists of, each given to compute;
//   label(kernel), if it has that: backends may have several kernels for it, and profiles name the
//     one that ran.
//
// A backend that derives from Implements has for each operation of the list a function
// `void kernel(Self&, Queue&, const Operation&)`, which stands in the file of the kernel. One that
// is missing is an undefined reference that names it.
#pragma once

#include "kernels/operations/attention.hpp"
#include "kernels/operations/dense.hpp"
#include "kernels/operations/edges.hpp"
#include "kernels/operations/heads.hpp"
#include "kernels/operations/loss.hpp"
#include "kernels/operations/metrics.hpp"
#include "kernels/operations/normalization.hpp"
#include "kernels/operations/optimizer.hpp"
#include "kernels/operations/pairs.hpp"
#include "kernels/operations/pool.hpp"
#include "kernels/operations/sparse.hpp"
#include "kernels/operations/wire.hpp"
#include "kernels/queue.hpp"

namespace atl {

namespace kernels {

template <typename... Operations>
struct Types {};

// Operations that all backends on a host run alike (HostBackend).
using HostOperations = Types<SumParts, BatchNormStatistics, InverseStd>;
using DeviceOperations =
    Types<Spmm, Attend, AttendBackwardTargets, AttendBackwardSources, AggregateEdges,
          AggregateEdgesBackwardSources, AggregateEdgesBackwardTerms, HeadDots, HeadDotsBackward,
          HeadMean, HeadMeanBackward, PairDots, PairProducts, Pool, PoolBackwardTargets,
          PoolBackwardSources, PoolSlope, GatherRows, QuantizeRows, DequantizeRows,
          QuantizeResiduals, FillZero, Convert, ApplyEpilogue, Gemm, Combine, Scale, Dot, Maximum,
          MaximumBackward, ActivationBackward, ColumnSums, BatchNormMoments, BatchNormGradientSums,
          BatchNormBackward, LayerNorm, LayerNormBackward, SoftmaxCrossEntropy, SigmoidCrossEntropy,
          ErrorLoss, CountCorrect, CountMultiLabel, AdamStep>;

template <typename First, typename Second>
struct Joined;
template <typename... First, typename... Second>
struct Joined<Types<First...>, Types<Second...>> {
  using List = Types<First..., Second...>;
};
using KernelOperations = Joined<HostOperations, DeviceOperations>::List;

template <typename Operation>
const char* name_of(const Operation& operation) {
  if constexpr (requires { operation.name(); }) return operation.name();
  return Operation::kName;
}

// Whether backends may have several kernels for it, which profiles tell apart.
template <typename Operation>
inline constexpr bool kHasKernels = requires(const Operation& operation) {
  operation.label("");
};

// take(operation) for each of the list, to be overridden: who gets operations that somebody else
// asks for.
template <typename List>
class Receiver;
template <>
class Receiver<Types<>> {
 public:
  virtual ~Receiver() = default;
  void take() {}  // so that there is a name to use
};
template <typename First, typename... Rest>
class Receiver<Types<First, Rest...>> : public Receiver<Types<Rest...>> {
 public:
  using Receiver<Types<Rest...>>::take;
  virtual void take(const First& operation) = 0;
};

// Base, a receiver, with take() for each of the list by the template each() of Self.
template <typename Self, typename Base, typename List = KernelOperations>
class TakesEach;
template <typename Self, typename Base>
class TakesEach<Self, Base, Types<>> : public Base {};
template <typename Self, typename Base, typename First, typename... Rest>
class TakesEach<Self, Base, Types<First, Rest...>> : public TakesEach<Self, Base, Types<Rest...>> {
 public:
  using Base::take;
  void take(const First& operation) override { static_cast<Self&>(*this).each(operation); }
};

}  // namespace kernels

// compute(queue, operation) for each of the list, to be overridden.
template <typename List>
class Interface;
template <>
class Interface<kernels::Types<>> : public BackendTraits {
 protected:
  void compute() {}  // so that there is a name to use
};
template <typename First, typename... Rest>
class Interface<kernels::Types<First, Rest...>> : public Interface<kernels::Types<Rest...>> {
 protected:
  using Interface<kernels::Types<Rest...>>::compute;
  virtual void compute(Queue& queue, const First& operation) = 0;
};

// Declares kernel() of Self and an operation, in this namespace.
template <typename Self, typename Operation>
class DeclaresKernel {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-template-friend"  // it is no template on purpose
#endif
  friend void kernel(Self& backend, Queue& queue, const Operation& operation);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
};

// Base with compute() for each of the list, by the function kernel() of Self, which Declares puts
// where Self's kernels stand: a backend in a namespace of its own has a template like the above
// there.
template <typename Self, typename Base, typename List,
          template <typename, typename> typename Declares = DeclaresKernel>
class Implements;
template <typename Self, typename Base, template <typename, typename> typename Declares>
class Implements<Self, Base, kernels::Types<>, Declares> : public Base {};
template <typename Self, typename Base, typename First, typename... Rest,
          template <typename, typename> typename Declares>
class Implements<Self, Base, kernels::Types<First, Rest...>, Declares>
    : public Implements<Self, Base, kernels::Types<Rest...>, Declares>, Declares<Self, First> {
 protected:
  using Base::compute;
  void compute(Queue& queue, const First& operation) override {
    kernel(static_cast<Self&>(*this), queue, operation);
  }
};

}  // namespace atl
