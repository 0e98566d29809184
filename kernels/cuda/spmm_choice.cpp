// SpMM of the cuda backend: plans, and the choice between the own kernel and cuSPARSE.
#include <algorithm>
#include <functional>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/spmm.hpp"
#include "kernels/cuda/spmm_plan.hpp"

namespace atl::cuda {

namespace {

constexpr const char* kOwn = "own";
constexpr const char* kCusparse = "cusparse";
constexpr int kRuns = 5;

// One spmm with all it needs.
struct Job {
  Backend& backend;
  CudaQueue& queue;
  const SparseOperator& op;
  PlannedRange& planned;
  ConstMatrixView x;
  double beta;
  MatrixView y;
  const Epilogue& epilogue;
};

void run_own(const Job& job) {
  spmm(job.queue.launch(), job.planned.work(), job.op, job.x, job.beta, job.y, job.epilogue);
}

CusparseSpmm& prepare_cusparse(const Job& job) {
  auto& candidate = job.planned.cusparse;
  if (candidate == nullptr) {
    candidate = std::make_unique<CusparseSpmm>(job.backend, job.queue, job.op, job.planned.range());
  }
  candidate->prepare(job.queue, job.x, job.y);
  return *candidate;
}

void run_cusparse(const Job& job) {
  prepare_cusparse(job).run(job.queue, job.x, job.beta, job.y);
  if (job.epilogue.identity()) return;
  const MatrixView rows = job.y.rows_in(job.planned.range());
  apply_epilogue(job.queue.launch(), rows, job.epilogue, rows);
}

// Median of kRuns after one to warm up, in milliseconds.
double measure(Backend& backend, Queue& queue, const std::function<void()>& work) {
  const auto clock = backend.make_clock(queue);
  work();
  std::vector<int> marks{clock->mark()};
  for (int run = 0; run < kRuns; ++run) {
    work();
    marks.push_back(clock->mark());
  }
  backend.synchronize(queue);
  std::vector<double> times;
  for (std::size_t run = 0; run < kRuns; ++run) {
    times.push_back(clock->microseconds(marks[run + 1]) - clock->microseconds(marks[run]));
  }
  std::ranges::nth_element(times, times.begin() + kRuns / 2);
  return times[kRuns / 2] / 1000;
}

// The times of the two and the faster one. Overwrites the rows of the range in y.
KernelChoice choose_by_time(const Job& job) {
  KernelChoice choice;
  choice.kernel = kOwn;
  const double own = measure(job.backend, job.queue, [&] { run_own(job); });
  choice.milliseconds.emplace_back(kOwn, own);
  try {
    const double other = measure(job.backend, job.queue, [&] { run_cusparse(job); });
    choice.milliseconds.emplace_back(kCusparse, other);
    // The own kernel wins ties: it needs no copy of the operator.
    if (other < own) choice.kernel = kCusparse;
  } catch (const SparseRefusal& refusal) {
    log::debug("spmm of {} columns stays with the own kernel: {}", job.x.cols, refusal.what());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMemory) throw;  // no room for the copy decides it, too
  }
  return choice;
}

// As choose_by_time, whatever the job: one that adds to y is measured without adding, on a matrix
// of its own.
KernelChoice measure_choice(const Job& job) {
  if (job.beta == 0) return choose_by_time(job);
  const MatrixView& y = job.y;
  const Buffer memory = make_buffer(job.backend, y.rows * y.cols * bytes_of(y.dtype));
  const MatrixView scratch{memory.get(), y.rows, y.cols, y.cols, y.dtype};
  const Epilogue none;
  return choose_by_time({job.backend, job.queue, job.op, job.planned, job.x, 0, scratch, none});
}

// Gives back cuSPARSE's copy of the operator if no width needs it.
void drop_unused(PlannedRange& planned) {
  for (const auto& [shape, kernel] : planned.chosen) {
    if (kernel == kCusparse) return;
  }
  planned.cusparse.reset();
}

// The kernel for this job, from what was chosen before or is measured now; the default where
// neither is to be had yet.
std::string choose(const Job& job, KernelChoices* choices, const std::string& device,
                   bool recording) {
  PlannedRange& planned = job.planned;
  if (choices == nullptr || !CusparseSpmm::supports(job.x.dtype, planned.range(), planned.nnz())) {
    return kOwn;
  }
  const auto shape = std::pair(job.x.cols, job.x.dtype);
  if (const auto known = planned.chosen.find(shape); known != planned.chosen.end()) {
    return known->second;
  }
  const KernelKey key{"spmm", planned.range().size(), planned.nnz(), job.x.cols, job.x.dtype,
                      device};
  std::optional<std::string> kernel = choices->lookup(key);
  if (!kernel) {
    // Measuring runs the job several times and waits for it.
    if (!choices->measure() || recording) return kOwn;
    KernelChoice measured = measure_choice(job);
    kernel = measured.kernel;
    choices->record(key, std::move(measured));
  }
  planned.chosen.emplace(shape, *kernel);
  drop_unused(planned);
  return *kernel;
}

}  // namespace

std::shared_ptr<const SparsePlan> CudaBackend::plan_spmm(Queue& queue, const SparseOperator&,
                                                         std::span<const std::int64_t> host_row_ptr,
                                                         std::span<const RowRange> ranges) {
  ATOLL_ASSERT(!recording_, "a plan while recording");
  return std::make_shared<SpmmPlan>(*this, queue, host_row_ptr, ranges);
}

void CudaBackend::do_spmm(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                          double beta, MatrixView y, const Epilogue& epilogue) {
  CudaQueue& on = use(queue);
  const auto* plan = static_cast<const SpmmPlan*>(op.plan);
  PlannedRange* planned = plan != nullptr ? plan->find(rows) : nullptr;
  if (planned == nullptr) {
    return cuda::spmm(on.launch(), undivided(rows), op, x, beta, y, epilogue);
  }
  const Job job{*this, on, op, *planned, x, beta, y, epilogue};
  const bool cusparse = choose(job, choices_.get(), device_.name, recording_) == kCusparse;
  // What can't be prepared while recording is left to the other kernel.
  const bool ready =
      !recording_ || (planned->cusparse != nullptr && planned->cusparse->prepared(x.cols));
  if (cusparse && ready) return run_cusparse(job);
  run_own(job);
}

}  // namespace atl::cuda
