// Synthetic datasets of any size: the same files for a seed, whatever the number of threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.hpp"
#include "datasets/split.hpp"

namespace atl {

struct GenerateOptions {
  std::filesystem::path out;  // the dataset folder to make; must not exist
  std::string name;           // "" = from the kind
  std::uint64_t seed = 0;
  bool directed = false;
  std::optional<SplitSpec> split;  // all but like: 0.6,0.2,0.2 without it
  // sbm, rmat and relational
  std::int64_t nodes = 10000;
  std::int64_t classes = 8;
  std::int64_t features = 64;
  double degree = 10;          // mean number of neighbours (in-neighbours if directed)
  std::int64_t relations = 8;  // relational: a multiple of the classes
  double homophily = 0.8;      // sbm: share of edges inside a class; relational: that agree
  double signal = 1;           // sbm: length of the class centres; the noise has unit variance
  double rmat_a = 0.57, rmat_b = 0.19, rmat_c = 0.19;  // Graph500
  // like:NAME
  double scale = 1;          // of nodes and edges
  bool degree_tail = false;  // with the hubs that the set has (degree_tail.hpp)
};

// kind: sbm | rmat | relational | like:NAME. Throws Error{kOption} listing the kinds if it is
// unknown, and on values out of range; then nothing is left at options.out.
//  sbm   degree-corrected stochastic block model (Karrer, Newman, Phys. Rev. E 83, 2011) with
//  power-law
//        degrees; features are noisy class centres, so that neighbours help.
//  rmat  recursive matrix (Chakrabarti, Zhan, Faloutsos, SDM'04); features and labels are noise.
//  relational
//        a directed graph whose edges have relations, without which labels can't be learnt
//        (relational_graph.hpp); nodes have their group as type.
//  like  sizes, splits, homophily and degree skew of a published set.
DatasetInfo generate_dataset(const std::string& kind, const GenerateOptions& options);
std::vector<std::string> generator_kinds();

}  // namespace atl
