#include "launch/schedule/slurm_script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/shell_words.hpp"
#include "launch/schedule/schedule_slots.hpp"

namespace atl {

namespace {

// Slurm's default of MaxArraySize is one more: seeds are the numbers of an array's tasks.
constexpr std::int64_t kMostTask = 1000;

// In a job the script trains, as launch/slurm-example.sbatch does; otherwise it submits.
constexpr const char* kInJob = R"sh(#SBATCH --output=atoll-%x-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
set -uo pipefail

# in-job PROGRAM RUN train DATASET [options of atoll train]: a job of one run. in-array: one of those
# of an array, whose number is the seed.
train_in_job() {
  local kind=$1 atoll=$2 run=$3 resume=() step code
  shift 3
  [ "$kind" = in-job ] || { run=$run/seed-$SLURM_ARRAY_TASK_ID && set -- "$@" --seed "$SLURM_ARRAY_TASK_ID"; }
  export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
  # Started anew, after the time limit or the loss of a node, it goes on where it was.
  [ ! -e "$run/config.toml" ] || resume=(--resume --take-over)
  # Two minutes before the limit Slurm sends USR1 to this script alone (B:). The ranks end their
  # epoch, write a checkpoint and exit with 138; then the job goes back to the queue.
  trap 'scancel --signal=USR1 "$SLURM_JOB_ID"' USR1
  # -K1: ends the step when a rank is killed. MPICH: SRUN_MPI=pmi2.
  srun --mpi="${SRUN_MPI:-pmix}" -K1 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "$atoll" "$@" \
    --run-dir "$run" ${resume[@]+"${resume[@]}"} &
  step=$!
  wait $step
  code=$?
  # The trap ends the first wait; the step may still be at work.
  while kill -0 $step 2>/dev/null; do
    wait $step
    code=$?
  done
  [ $code -ne 138 ] || { scontrol requeue "$SLURM_JOB_ID" && sleep 60; }
  exit $code
}
case ${1:-} in in-job | in-array) train_in_job "$@" ;; esac

atoll=${ATOLL:-atoll} runs=${RUNS:-runs}
options=("$@")
# Its number, which other jobs wait for.
submit() {
  local id
  id=$(sbatch --parsable ${options[@]+"${options[@]}"} "$@") || exit
  echo "${id%%;*}"
}

)sh";

// One call of sbatch.
struct Submission {
  std::vector<int> jobs;  // several: an array
  std::set<int> after;    // jobs that it waits for
};

class ScriptWriter {
 public:
  ScriptWriter(const ScheduleFile& file, std::span<const ListedJob> jobs)
      : file_(file), jobs_(jobs), segment_of_(jobs.size(), nullptr) {
    for (const JobSegment& segment : file.schedule.segments) {
      const JobSegment*& own = segment_of_.at(static_cast<std::size_t>(segment.job));
      ATOLL_ASSERT(own == nullptr, "job {} has several segments", segment.job);
      own = &segment;
    }
    const auto kind = [](const ScheduledHost& host) { return host.kind; };
    hosts_differ_ = !std::ranges::all_of(
        file.hosts, [&](int k) { return k == file.hosts.front().kind; }, kind);
    find_order();
    make_submissions();
  }

  std::string text() {
    std::string text = head() + kInJob;
    for (std::size_t s = 0; s < submissions_.size(); ++s) text += call(s);
    return text;
  }

 private:
  const JobSegment& segment(int job) const { return *segment_of_[static_cast<std::size_t>(job)]; }
  const ListedJob& listed(int job) const { return jobs_[static_cast<std::size_t>(job)]; }

  // By job: those that had a slot of it directly before.
  void find_order() {
    before_.resize(jobs_.size());
    std::map<std::pair<int, int>, int> last;  // job by host and slot
    for (const SlotBar& bar : slot_bars(file_.schedule, file_.hosts)) {
      const int job = file_.schedule.segments[bar.segment].job;
      const auto [place, is_first] = last.try_emplace({bar.host, bar.slot}, job);
      if (is_first) continue;
      before_[static_cast<std::size_t>(job)].insert(place->second);
      place->second = job;
    }
  }

  // Whether two jobs are tasks of one array.
  bool are_alike(int a, int b) const {
    const ListedJob& x = listed(a);
    const ListedJob& y = listed(b);
    const JobPlacement& p = segment(a).placement;
    const JobPlacement& q = segment(b).placement;
    return !hosts_differ_ && x.seed <= kMostTask && y.seed <= kMostTask && x.group == y.group &&
           x.mode == y.mode && x.options == y.options && p.hosts.size() == q.hosts.size() &&
           p.ranks_per_host == q.ranks_per_host &&
           std::abs(x.needs.arrival_s - y.needs.arrival_s) < kSameTime &&
           std::abs(segment(a).from_s - segment(b).from_s) < kSameTime;
  }

  void make_submissions() {
    std::vector<int> order(jobs_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int job) { return segment(job).from_s; });
    for (const int job : order) {
      auto place = std::ranges::find_if(submissions_, [&](const Submission& known) {
        return are_alike(known.jobs.front(), job);
      });
      if (place == submissions_.end()) place = submissions_.insert(place, Submission());
      place->jobs.push_back(job);
      const std::set<int>& before = before_[static_cast<std::size_t>(job)];
      place->after.insert(before.begin(), before.end());
    }
  }

  std::string head() const {
    return fmt::format(
        "#!/bin/bash\n"
        "# {} jobs of {} on {} hosts ({}), in the order of atoll schedule --policy {}:\n"
        "# {:.1f} s in the mean from arrival to end, and {:.1f} s for all, as simulated. Submits "
        "them:\n"
        "#\n"
        "#   bash THIS-FILE --cpus-per-task=16 --time=01:00:00\n"
        "#\n"
        "# Its words are options of sbatch, for all jobs. Start it where runs/ and the datasets "
        "are "
        "on a\n"
        "# disk that all nodes share. ATOLL is the program, RUNS another folder than runs/.\n",
        file_.jobs.size(), comment(file_.list), file_.hosts.size(), comment(file_.topology),
        file_.policy, file_.schedule.mean_completion_s, file_.schedule.makespan_s);
  }

  // No name of a file ends a line of comments.
  static std::string comment(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return c == '\n' || c == '\r'; }, '?');
    return text;
  }

  // "1-3,7"
  std::string seeds_of(const Submission& submission) const {
    std::vector<std::int64_t> seeds;
    for (const int job : submission.jobs) seeds.push_back(listed(job).seed);
    std::ranges::sort(seeds);
    return fmt::format("{}", fmt::join(number_ranges(seeds), ","));
  }

  // ":$id0:${id2}_5", of those before the `own`-th.
  std::string after(std::size_t own) const {
    std::string text;
    for (std::size_t s = 0; s < own; ++s) {
      const std::vector<int>& jobs = submissions_[s].jobs;
      const auto waits = [&](int job) { return submissions_[own].after.contains(job); };
      if (std::ranges::all_of(jobs, waits)) {
        text += fmt::format(":$id{}", s);
        continue;
      }
      for (const int job : jobs) {
        if (waits(job)) text += fmt::format(":${{id{}}}_{}", s, listed(job).seed);
      }
    }
    return text;
  }

  std::string call(std::size_t s) const {
    const Submission& submission = submissions_[s];
    const int first = submission.jobs.front();
    const ListedJob& job = listed(first);
    const JobPlacement& placement = segment(first).placement;
    const bool array = submission.jobs.size() > 1;
    std::string name = job.group + "-" + job.mode;
    std::vector<std::string> words = job.train_words();
    std::string folder = job.folder("").string();
    if (array) {
      words.resize(words.size() - 2);  // --seed N
      folder = job.folder("").parent_path().string();
    } else {
      name += fmt::format("-{}", job.seed);
    }
    std::string text =
        fmt::format("id{}=$(submit --job-name={} --nodes={} --ntasks-per-node={}", s,
                    shell_word(name), placement.hosts.size(), placement.ranks_per_host);
    if (array) text += " --array=" + seeds_of(submission);
    if (hosts_differ_) {
      const std::vector<std::string> names = host_names(placement, file_.hosts);
      text += " --nodelist=" + shell_word(fmt::format("{}", fmt::join(names, ",")));
    }
    if (job.needs.arrival_s > 0) {
      text += fmt::format(" --begin=now+{:.0f}", std::ceil(job.needs.arrival_s));
    }
    if (!after(s).empty()) {
      text += fmt::format(" \\\n  --dependency=\"afterany{}\"", after(s));
    }
    return text +
           fmt::format(" \\\n  \"$0\" {} \"$atoll\" \"$runs\"/{} {}) || exit\necho \"$id{}\" {}\n",
                       array ? "in-array" : "in-job", shell_word(folder), shell_line(words), s,
                       shell_word(title_of(submission)));
  }

  std::string title_of(const Submission& submission) const {
    const ListedJob& job = listed(submission.jobs.front());
    if (submission.jobs.size() == 1) return job.title();
    return fmt::format("{}, {}, seeds {}", job.group, job.mode, seeds_of(submission));
  }

  const ScheduleFile& file_;
  std::span<const ListedJob> jobs_;
  std::vector<const JobSegment*> segment_of_;  // by job
  bool hosts_differ_ = false;
  std::vector<std::set<int>> before_;  // by job
  std::vector<Submission> submissions_;
};

}  // namespace

std::string slurm_script(const ScheduleFile& file, std::span<const ListedJob> jobs) {
  return ScriptWriter(file, jobs).text();
}

}  // namespace atl
