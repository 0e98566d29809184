// How well runs on a growing dataset do on the nodes of each of its steps: the accuracy matrix,
// average performance and forgetting of continual learning.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/training/sequence.hpp"
#include "launch/report/report_table.hpp"
#include "launch/report/run_records.hpp"

namespace atl {

struct SequenceMatrix {
  std::string metric;                                     // of all runs
  std::vector<std::string> runs;                          // names, in the order of the steps
  std::vector<NodeRange> steps;                           // one for each run
  std::vector<std::vector<std::optional<double>>> score;  // [i][j], j <= i: run i, nodes of step j
  // Those of the last run T, over the steps that it has a score of: the mean of score[T][j].
  std::optional<double> average;
  // The mean of score[T][j] - score[j][j] over the steps before the last one, or its negative where
  // the lowest is the best; below 0: forgotten.
  std::optional<double> forgetting;
};

// The matrix of runs that were trained with --sequence, one for each step. Throws Error{kInput}
// naming the run whose summary does not say it, or whose steps or metric are others.
SequenceMatrix sequence_of(const std::vector<RunRecord>& runs);

// Lines for a terminal: a row per run, a column per step.
std::string to_text(const SequenceMatrix& matrix);
// The same as a section of the report. rows: of its tables, one per run.
std::string draw_sequence(const SequenceMatrix& matrix, const std::vector<TableRow>& rows);

}  // namespace atl
