// How fast the jobs of a schedule are where, by simulated epochs: the T(job, ranks, placement) that
// its policies ask for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "engine/placement/job_schedule.hpp"
#include "engine/placement/topology.hpp"
#include "launch/schedule/measured_run.hpp"
#include "launch/schedule/scheduled_training.hpp"
#include "launch/schedule/simulated_speed.hpp"

namespace atl {

class SimulatedSpeeds final : public JobSpeeds {
 public:
  struct Setting {
    ScheduledTrainings trainings;
    Topology topology;
    std::filesystem::path table = {};  // speeds that are known already; empty: none are kept
    // Runs with a trace, on one rank of each of some hosts or on as many of each host. A job of the
    // same layers is corrected by one on as large a graph, if there is one, of those by one with as
    // many columns, and of those by the one whose number of ranks is nearest to its own; the last
    // of several.
    std::vector<MeasuredRun> measured = {};
  };
  // Throws Error{kInput} for a run on other numbers of ranks, and for a damaged table; one of
  // another version of the program is left alone until save().
  explicit SimulatedSpeeds(Setting setting);

  // With its share of the evaluations.
  double epoch_s(int job, const JobPlacement& placement) override;
  std::vector<double> card_shares(int job, const JobPlacement& placement) override;

  // Seconds of a start: the mean of measured runs of the same layers on as large a graph, if these
  // know it.
  std::optional<double> start_s(int job) const;
  // Numbers of measured runs that have the layers of no job.
  std::vector<std::size_t> unused_runs() const;
  // Why a job can't train where it was asked for with most ranks; "": it can, or nobody asked.
  std::string refusal(int job) const;
  // Epochs that this object has simulated; others were in the table, or equal to these.
  int simulated() const { return simulated_; }
  // Writes the table where anything in it is new; happens by itself after a cut. Its folder must be
  // there.
  void save();

 private:
  struct Known {
    SimulatedSpeed speed;
    // For people who read the table.
    std::string dataset = {};
    std::size_t hosts = 0;
    int ranks_per_host = 0;
  };
  using Place = std::tuple<std::size_t, int, std::vector<int>>;  // training, ranks per host, hosts

  const SimulatedSpeed& speed_of(std::size_t training, const JobPlacement& placement);
  // The same where no placement that is alike is known, from the table or anew.
  const SimulatedSpeed& simulate(std::size_t training, const JobPlacement& placement);
  // A measured run with the layers of a training.
  struct Measure {
    std::size_t run = 0;
    bool of_other_graph = false;
    bool of_other_columns = false;
  };

  // One of Setting::measured; none has the layers of the training.
  std::optional<std::size_t> nearest_run(std::size_t training, int ranks) const;
  // The first hosts of their kinds, in the order of those that they stand for.
  JobPlacement canonical(const JobPlacement& placement) const;
  const ScheduledTrainings::Job& at(int job) const {
    return setting_.trainings.jobs[static_cast<std::size_t>(job)];
  }
  double evaluations_per_epoch(int job) const;
  void read_table();

  Setting setting_;
  std::vector<ScheduledHost> hosts_;
  std::vector<Topology> measured_on_;           // by measured run
  std::vector<std::vector<Measure>> measured_;  // by training
  std::map<std::string, Known> known_;          // by key
  std::map<Place, const SimulatedSpeed*> places_;
  CutTable cuts_;
  int cuts_saved_ = 0;
  int simulated_ = 0;
  bool is_new_ = false;
};

}  // namespace atl
