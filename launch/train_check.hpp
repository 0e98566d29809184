// The words of a training read as `atoll train` reads them, without training: what is wrong with
// them is said before anything is started.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "launch/command_words.hpp"
#include "launch/train_flags.hpp"

namespace atl {

class CheckedTraining {
 public:
  // words: "train" and what follows it. Throws Error{kOption} for words that train refuses by
  // themselves; its message begins with `place`.
  CheckedTraining(const std::vector<std::string>& words, const std::string& place);

  // `option` with its dashes, or "dataset".
  bool is_given(const std::string& option) const;
  std::string value(const std::string& option) const;  // that by default where it isn't given
  const CLI::App& command() const { return *command_; }
  // Valid as long as this.
  const TrainFlags& flags() const { return *flags_; }

 private:
  std::unique_ptr<CLI::App> program_;
  const TrainFlags* flags_;
  CLI::App* command_;
  Manner manner_;  // of the ranks, not of this process
};

}  // namespace atl
