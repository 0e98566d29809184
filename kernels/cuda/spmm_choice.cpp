// SpMM of the cuda backend: what is prepared, and the choice between the own kernel and those of
// cuSPARSE.
#include <algorithm>
#include <functional>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/prepared_spmm.hpp"
#include "kernels/cuda/spmm.hpp"

namespace atl::cuda {

namespace {

constexpr const char* kOwn = "own";
constexpr int kRuns = 5;

// What runs an spmm: null is the own kernel.
using Choice = const SparseAlgorithm*;

// One spmm with all it needs.
struct Job {
  Backend& backend;
  CudaQueue& queue;
  const SparseOperator& op;
  PreparedRange& prepared;
  ConstMatrixView x;
  double beta;
  MatrixView y;
  const Epilogue& epilogue;
  bool recording;
};

// cuSPARSE's copy of the operator for the type of this job; null where it has no part in it.
CusparseSpmm* cusparse_of(const Job& job) {
  PreparedRange& prepared = job.prepared;
  const RowRange range = prepared.range();
  if (!CusparseSpmm::counts(range, prepared.nnz()) ||
      !CusparseSpmm::aligned(job.x, job.y.rows_in(range))) {
    return nullptr;
  }
  const auto known = prepared.cusparse.find(job.x.dtype);
  if (known != prepared.cusparse.end()) return known->second.get();
  if (job.recording) return nullptr;
  auto made = CusparseSpmm::make(job.backend, job.queue, job.op, range, job.x.dtype);
  return prepared.cusparse.emplace(job.x.dtype, std::move(made)).first->second.get();
}

void run_own(const Job& job) {
  spmm(job.queue.launch(), job.prepared.work(), job.op, job.x, job.beta, job.y, job.epilogue);
}

void run_cusparse(const Job& job, CusparseSpmm& copy, const SparseAlgorithm& algorithm) {
  copy.prepare(job.queue, algorithm, job.x, job.y);
  copy.run(job.queue, algorithm, job.op, job.x, job.beta, job.y, job.epilogue);
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

// Whether `use` of cuSPARSE succeeds: the library may refuse, and there may be no room.
bool succeeds(const Job& job, const char* what, const std::function<void()>& use) {
  try {
    use();
    return true;
  } catch (const SparseRefusal& refusal) {
    log::debug("spmm of {} columns without {}: {}", job.x.cols, what, refusal.what());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMemory) throw;
    log::debug("spmm of {} columns without {}: {}", job.x.cols, what, error.what());
  }
  return false;
}

// Whether the wish allows what was measured to be taken.
bool allowed(SpmmWish wish, Choice choice) {
  return wish == SpmmWish::kCusparse ? choice != nullptr : choice == nullptr || choice->repeats;
}

// The times of all kernels, and the fastest that the wish allows. Overwrites the rows of the range
// in y.
KernelChoice choose_by_time(const Job& job, CusparseSpmm& copy, SpmmWish wish) {
  KernelChoice choice{kOwn, {}};
  double least = measure(job.backend, job.queue, [&] { run_own(job); });
  choice.milliseconds.emplace_back(kOwn, least);
  bool found = allowed(wish, nullptr);
  for (const SparseAlgorithm& algorithm : kSparseAlgorithms) {
    double time = 0;
    const auto use = [&] {
      time = measure(job.backend, job.queue, [&] { run_cusparse(job, copy, algorithm); });
    };
    if (!succeeds(job, algorithm.name, use)) continue;
    choice.milliseconds.emplace_back(algorithm.name, time);
    // The own kernel wins ties: it needs no copy of the operator.
    if (!allowed(wish, &algorithm) || (found && time >= least)) continue;
    found = true;
    least = time;
    choice.kernel = algorithm.name;
  }
  return choice;
}

// As choose_by_time, whatever the job: one that adds to y is measured without adding, on a matrix
// of its own whose rows lie as in y.
KernelChoice measure_choice(const Job& job, CusparseSpmm& copy, SpmmWish wish) {
  if (job.beta == 0) return choose_by_time(job, copy, wish);
  MatrixView scratch = job.y;
  const Buffer memory =
      make_buffer(job.backend, scratch.rows * scratch.stride * bytes_of(scratch.dtype));
  scratch.data = memory.get();
  const Epilogue none;
  return choose_by_time(
      {job.backend, job.queue, job.op, job.prepared, job.x, 0, scratch, none, false}, copy, wish);
}

// Gives back cuSPARSE's copy of the operator in this type if no number of columns needs it.
void drop_unused(PreparedRange& prepared, DType dtype) {
  const auto copy = prepared.cusparse.find(dtype);
  if (copy == prepared.cusparse.end() || copy->second == nullptr) return;
  const bool used = std::ranges::any_of(prepared.chosen, [&](const auto& entry) {
    return entry.first.second == dtype && entry.second != nullptr;
  });
  if (!used) prepared.cusparse.erase(copy);
}

// cuSPARSE where the matrix is too small for measuring: by the algorithm that repeats.
KernelChoice take_cusparse(const Job& job, CusparseSpmm& copy) {
  KernelChoice choice{kOwn, {}};
  for (const SparseAlgorithm& algorithm : kSparseAlgorithms) {
    const auto use = [&] { copy.prepare(job.queue, algorithm, job.x, job.y); };
    if (algorithm.repeats && succeeds(job, algorithm.name, use)) choice.kernel = algorithm.name;
  }
  return choice;
}

// The kernel of a shape that no choice names, recorded; nothing where cuSPARSE has no part in it.
std::optional<std::string> decide(const Job& job, KernelChoices& choices, const KernelKey& key) {
  const SpmmWish wish = choices.wish();
  const bool measures = job.prepared.nnz() > choices.measured_edges();
  if (wish == SpmmWish::kOwn || (wish == SpmmWish::kAuto && !measures)) return std::nullopt;
  CusparseSpmm* copy = nullptr;
  if (!succeeds(job, "cuSPARSE", [&] { copy = cusparse_of(job); })) return kOwn;
  if (copy == nullptr) return std::nullopt;
  KernelChoice choice = measures ? measure_choice(job, *copy, wish) : take_cusparse(job, *copy);
  const std::string kernel = choice.kernel;
  choices.record(key, std::move(choice));
  return kernel;
}

// What runs this job, from what was chosen before or is chosen now.
Choice choose(const Job& job, KernelChoices* choices, const std::string& device) {
  if (choices == nullptr) return nullptr;
  PreparedRange& prepared = job.prepared;
  const auto shape = std::pair(job.x.cols, job.x.dtype);
  if (const auto known = prepared.chosen.find(shape); known != prepared.chosen.end()) {
    // A number of columns that comes back: the layers have met theirs.
    if (!job.recording) drop_unused(prepared, job.x.dtype);
    return known->second;
  }
  // Measuring runs the job several times and waits for it.
  if (job.recording) return nullptr;
  const KernelKey key{"spmm", prepared.range().size(), prepared.nnz(), job.x.cols, job.x.dtype,
                      device};
  std::optional<std::string> kernel = choices->lookup(key);
  if (!kernel) kernel = decide(job, *choices, key);
  const Choice choice = kernel ? sparse_algorithm_named(*kernel) : nullptr;
  prepared.chosen.emplace(shape, choice);
  return choice;
}

}  // namespace

std::shared_ptr<const PreparedSparse> CudaBackend::prepare_spmm(
    Queue& queue, const SparseOperator&, std::span<const std::int64_t> host_row_ptr,
    std::span<const RowRange> ranges) {
  ATOLL_ASSERT(!recording_, "a preparation while recording");
  return std::make_shared<PreparedSpmm>(*this, queue, host_row_ptr, ranges);
}

void CudaBackend::do_spmm(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                          double beta, MatrixView y, const Epilogue& epilogue) {
  CudaQueue& on = use(queue);
  name_kernel(kOwn);
  const auto* known = static_cast<const PreparedSpmm*>(op.prepared);
  PreparedRange* prepared = known != nullptr ? known->find(rows) : nullptr;
  if (prepared == nullptr) {
    return cuda::spmm(on.launch(), undivided(rows), op, x, beta, y, epilogue);
  }
  const Job job{*this, on, op, *prepared, x, beta, y, epilogue, recording_};
  const Choice choice = choose(job, choices_.get(), device_.name);
  CusparseSpmm* copy = choice != nullptr ? cusparse_of(job) : nullptr;
  // What can't be prepared while recording is left to the own kernel.
  if (copy == nullptr || (recording_ && !copy->prepared(*choice, x, y))) return run_own(job);
  name_kernel(choice->name);
  run_cusparse(job, *copy, *choice);
}

}  // namespace atl::cuda
