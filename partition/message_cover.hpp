// The fewest messages by which sums over neighbours get what they need of other parts.
//
// Where a layer only adds up rows of neighbours, a part can send two kinds of messages to another
// one: a row, which serves all edges from its node, or the partial sum for a node of the other
// part, which serves all edges to that node. Each edge between the two parts needs one of them: a
// vertex cover. A minimum one (Koenig) is at most as large as either side alone; it is taken where
// it saves at least a twentieth of the messages. SuperGCN does so ("pre-post aggregation").
#pragma once

#include "partition/local_graph.hpp"
#include "partition/recomputation.hpp"

namespace atl {

// Which messages travel.
enum class MessageForm : std::uint8_t {
  kAuto,   // kCover where all layers add up rows of neighbours, else kRows
  kRows,   // a row for each pair of a node and a part that reads it
  kCover,  // rows and partial sums, as few as there can be
};
const char* to_string(MessageForm form);  // "auto", "rows" or "cover"

// A local graph whose messages are those of a minimum cover in each direction and for each pair of
// parts. Both ends of a pair know its edges, so they find the same cover without talking.
class CoveredGraph {
 public:
  // Pairs of which one part computes rows of the other keep their rows. What `graph` refers to must
  // outlive it.
  explicit CoveredGraph(const LocalGraphView& graph, const Recomputation& recomputation = {});

  // The graph with other in-edges of marginal rows, lists of messages, and sums to be sent. A row
  // has an edge of value 1 to each partial sum that is made for it. Degrees, types and features of
  // edges stay those of the whole graph.
  LocalGraphView view() const;
  // False: all messages are rows, and the graph itself serves as well.
  bool saves() const;
  std::int64_t bytes() const;  // that it holds

 private:
  LocalGraphView graph_;
  LocalMatrix forward_;
  LocalMatrix backward_;  // empty if symmetric
};

// How many messages each part gets of each other one, and how many of them are sums; [to * parts +
// from].
struct CoverCounts {
  std::vector<std::int64_t> messages = {};
  std::vector<std::int64_t> sums = {};
  bool operator==(const CoverCounts&) const = default;
};
CoverCounts count_cover(const LocalGraphBuilder& builder, Direction direction);

}  // namespace atl
