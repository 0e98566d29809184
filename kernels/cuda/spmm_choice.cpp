// SpMM of the cuda backend: what is prepared, and the choice between the own kernel and those of
// cuSPARSE.
#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/launchers.hpp"
#include "kernels/cuda/prepared_spmm.hpp"
#include "kernels/cuda/spmm.hpp"

namespace atl::cuda {

namespace {

constexpr const char* kOwn = "own";
constexpr int kRuns = 5;
constexpr int kRepeats = 8;

// The kernel of an spmm: null is the own one.
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

  std::pair<std::int64_t, DType> shape() const { return {x.cols, x.dtype}; }
  KernelKey key(const std::string& device) const {
    return {"spmm", prepared.range().size(), prepared.nnz(), x.cols, x.dtype, device};
  }
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
  auto made =
      CusparseSpmm::make(job.backend, job.queue, job.op, range, prepared.nnz(), job.x.dtype);
  return prepared.cusparse.emplace(job.x.dtype, std::move(made)).first->second.get();
}

void run_own_kernel(const Job& job) {
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

// Whether runs of the job leave the same bits in the rows of y, `work` by `work`.
bool gives_equal_bits(const Job& job, const std::function<void()>& work) {
  const DeviceMemory memory = make_buffer(job.backend, sizeof(std::uint64_t));
  auto* const out = static_cast<std::uint64_t*>(memory.get());
  const auto bits = [&] {
    work();
    fingerprint(job.queue.launch(), job.y.rows_in(job.prepared.range()), out);
    return value_at(job.backend, job.queue, out);
  };
  const std::uint64_t first = bits();
  for (int run = 1; run < kRepeats; ++run) {
    if (bits() != first) return false;
  }
  return true;
}

// Why `use` of cuSPARSE did not succeed: the library may refuse, and there may be no room. Nothing
// if it did.
std::optional<std::string> failure_of(const std::function<void()>& use) {
  try {
    use();
  } catch (const SparseRefusal& refusal) {
    return refusal.what();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMemory) throw;
    return error.what();
  }
  return std::nullopt;
}

// Whether a candidate succeeds.
bool succeeds(const Job& job, const char* what, const std::function<void()>& use) {
  const auto failure = failure_of(use);
  if (failure) log::debug("spmm of {} columns without {}: {}", job.x.cols, what, *failure);
  return !failure;
}

// The times of all kernels, and the fastest that the wish allows. Overwrites the rows of the range
// in y.
KernelChoice choose_by_time(const Job& job, CusparseSpmm& copy, SpmmWish wish) {
  KernelChoice choice{kOwn, {}, {}};
  double least = measure(job.backend, job.queue, [&] { run_own_kernel(job); });
  choice.milliseconds.emplace_back(kOwn, least);
  bool found = wish != SpmmWish::kCusparse;
  for (const SparseAlgorithm& algorithm : kSparseAlgorithms) {
    double time = 0;
    bool repeats = algorithm.repeats;
    const auto work = [&] { run_cusparse(job, copy, algorithm); };
    const auto use = [&] {
      time = measure(job.backend, job.queue, work);
      if (!algorithm.repeats) repeats = gives_equal_bits(job, work);
    };
    if (!succeeds(job, algorithm.name, use)) continue;
    choice.milliseconds.emplace_back(algorithm.name, time);
    if (!algorithm.repeats) choice.repeats.emplace_back(algorithm.name, repeats);
    const bool allowed = wish == SpmmWish::kCusparse || repeats;
    // The own kernel wins ties: it needs no copy of the operator.
    if (!allowed || (found && time >= least)) continue;
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
  const DeviceMemory memory =
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

// cuSPARSE where nothing was measured: by the algorithm that repeats.
KernelChoice take_cusparse(const Job& job, CusparseSpmm& copy) {
  KernelChoice choice{kOwn, {}, {}};
  for (const SparseAlgorithm& algorithm : kSparseAlgorithms) {
    const auto use = [&] { copy.prepare(job.queue, algorithm, job.x, job.y); };
    if (algorithm.repeats && succeeds(job, algorithm.name, use)) choice.kernel = algorithm.name;
  }
  return choice;
}

// The kernel of a shape that no choice names; nothing where cuSPARSE has no part in it.
std::optional<KernelChoice> decide(const Job& job, const KernelChoices& choices) {
  const SpmmWish wish = choices.wish();
  const bool measures = job.prepared.lasts() && job.prepared.nnz() > choices.measured_edges();
  if (wish == SpmmWish::kOwn || (wish == SpmmWish::kAuto && !measures)) return std::nullopt;
  KernelChoice choice{kOwn, {}, {}};
  CusparseSpmm* copy = nullptr;
  if (!succeeds(job, "cuSPARSE", [&] { copy = cusparse_of(job); })) return choice;
  if (copy == nullptr) return std::nullopt;
  const auto by_time = [&] { choice = measure_choice(job, *copy, wish); };
  if (measures && succeeds(job, "a measurement", by_time)) return choice;
  return wish == SpmmWish::kCusparse ? take_cusparse(job, *copy) : choice;
}

// The kernel of this job: as it was chosen before, or is chosen now.
Choice choose(const Job& job, KernelChoices* choices, const std::string& device) {
  if (choices == nullptr) return nullptr;
  PreparedRange& prepared = job.prepared;
  if (const auto known = prepared.chosen.find(job.shape()); known != prepared.chosen.end()) {
    // A number of columns that comes back: the layers have met theirs.
    if (!job.recording) drop_unused(prepared, job.x.dtype);
    return known->second;
  }
  // Measuring runs the job several times and waits for it.
  if (job.recording) return nullptr;
  const KernelKey key = job.key(device);
  // A choice for one that lasts is no choice for another, which was not measured.
  std::optional<std::string> kernel;
  if (prepared.lasts()) kernel = choices->lookup(key);
  if (!kernel) {
    if (std::optional<KernelChoice> made = decide(job, *choices)) {
      kernel = made->kernel;
      if (prepared.lasts()) choices->record(key, std::move(*made));
    }
  }
  const Choice choice = kernel ? sparse_algorithm_named(*kernel) : nullptr;
  prepared.chosen.emplace(job.shape(), choice);
  return choice;
}

// The chosen kernel does not run (any more): from now on, and when the run is resumed, the own
// kernel does.
void give_up(const Job& job, KernelChoices& choices, const KernelKey& key, Choice choice,
             const std::string& why) {
  static std::once_flag said;
  std::call_once(said, [&] {
    log::warn(
        "{}; sparse products of {} columns that {} was chosen for, and others that can't use "
        "cuSPARSE as chosen, run by the own kernel from now on",
        why, job.x.cols, choice->name);
  });
  job.prepared.chosen[job.shape()] = nullptr;
  if (job.prepared.lasts()) choices.replace_kernel(key, kOwn);
}

// False where cuSPARSE does not run the job as chosen, and nothing was done: it may not be given
// these matrices, there was no preparation before recording, or it fails.
bool runs_by_cusparse(const Job& job, KernelChoices& choices, const std::string& device,
                      const SparseAlgorithm& algorithm) {
  bool ran = false;
  const auto failure = failure_of([&] {
    CusparseSpmm* copy = cusparse_of(job);
    if (copy == nullptr || (job.recording && !copy->prepared(algorithm, job.x, job.y))) return;
    run_cusparse(job, *copy, algorithm);
    ran = true;
  });
  if (failure) give_up(job, choices, job.key(device), &algorithm, *failure);
  return ran;
}

}  // namespace

std::shared_ptr<const PreparedSparse> CudaBackend::prepare_spmm(
    Queue& queue, const SparseOperator&, std::span<const std::int64_t> host_row_ptr,
    std::span<const RowRange> ranges, Lifetime lifetime) {
  ATOLL_ASSERT(!recording_, "a preparation while recording");
  return std::make_shared<PreparedSpmm>(*this, queue, host_row_ptr, ranges, lifetime);
}

// By the kernel that was chosen.
void kernel(CudaBackend& backend, Queue& queue, const kernels::Spmm& call) {
  const auto& [op, rows, x, beta, y, epilogue] = call;
  CudaQueue& on = backend.use(queue);
  backend.name_kernel(kOwn);
  const auto* known = static_cast<const PreparedSpmm*>(op.prepared);
  PreparedRange* prepared = known != nullptr ? known->find(rows) : nullptr;
  if (prepared == nullptr) {
    return spmm(on.launch(), undivided(rows), op, x, beta, y, epilogue);
  }
  const Job job{backend, on, op, *prepared, x, beta, y, epilogue, backend.recording_};
  const std::string& device = backend.device_.name;
  const Choice choice = choose(job, backend.choices_.get(), device);
  if (choice != nullptr && runs_by_cusparse(job, *backend.choices_, device, *choice)) {
    return backend.name_kernel(choice->name);
  }
  run_own_kernel(job);
}

}  // namespace atl::cuda
