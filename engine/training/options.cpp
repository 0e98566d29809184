#include "engine/training/options.hpp"

#include <sstream>

namespace atl {

const char* to_string(LearningRateSchedule schedule) {
  switch (schedule) {
    case LearningRateSchedule::kConstant:
      return "constant";
    case LearningRateSchedule::kCosine:
      return "cosine";
    case LearningRateSchedule::kStep:
      return "step";
  }
  return "";
}

std::string backend_of_rank(const std::string& list, int rank, int size) {
  std::vector<std::string> names;
  std::istringstream words(list);
  for (std::string name; std::getline(words, name, ',');) names.push_back(name);
  if (names.size() == 1) return names[0];
  if (std::ssize(names) != size) {
    fail_option("--backend {}: {} names for {} ranks; give one, or one per rank", list,
                names.size(), size);
  }
  return names[static_cast<std::size_t>(rank)];
}

}  // namespace atl
