// Random directed graphs with relations, on which a label follows from the relations of the edges
// into a node, and not from its neighbours alone. Internal to datasets/.
//
// Node v is of group v % classes, which its features show. An edge u -> v of relation r votes for
// class (group of u + r) % classes of v, and the label of v is the class with most votes; among
// equals, that of the first in-edge, in the order of the file, which votes for one of them. Votes
// are made to agree: a class is drawn for v, and a share of its in-edges votes for that one, the
// others for any.
//
// Relations are drawn evenly, and their number is a multiple of the number of classes. So what a
// model sees without them says nothing at all about the label: to add 1 to the relation of every
// edge into v leaves the neighbours as they are, is as likely, and adds 1 to the label.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/csr.hpp"
#include "datasets/edge_sampler.hpp"

namespace atl {

struct RelationalSpec {
  std::int64_t nodes = 0;  // at least `classes`
  std::int64_t classes = 0;
  std::int64_t relations = 0;  // a multiple of `classes`
  std::int64_t degree = 0;     // in-edges of each node; self-loops and repeats among them are lost
  double agreement = 0.8;      // share of in-edges that vote for the class that was drawn
  std::uint64_t seed = 0;
};

class RelationalGraph {
 public:
  explicit RelationalGraph(const RelationalSpec& spec);

  std::uint64_t edges() const;
  Edge edge(std::uint64_t index) const;
  std::int32_t group(std::int64_t node) const;
  // The label that the edges of a graph give each node; -1 without in-edges.
  std::vector<std::int32_t> labels(const CsrView& in_edges,
                                   std::span<const std::uint16_t> types) const;

 private:
  RelationalSpec spec_;
  RandomKey edge_key_;
  RandomKey class_key_;
};

}  // namespace atl
