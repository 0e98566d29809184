#include "engine/placement/task_writer.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "engine/comm/divided_packets.hpp"

namespace atl {

namespace {

// MPI lets a smaller message set out at once; a larger one waits for its receiver to post, so the
// packets of a rank that is a layer ahead don't share the network with those that others wait for.
// The eager limit of Open MPI over TCP.
constexpr double kMostEagerBytes = 64 << 10;

SimTask task_at(const PhasePlace& place, TaskKind kind, const char* name) {
  return {.kind = kind,
          .name = name,
          .direction = place.layer < 0  ? ""
                       : place.backward ? "backward"
                                        : "forward",
          .layer = place.layer};
}

}  // namespace

TaskWriter::TaskWriter(const Topology& topology, TaskDetail detail)
    : topology_(topology),
      merged_(detail == TaskDetail::kMerged),
      joins_packets_(merged_ && topology.ranks() > kMostExactRanks),
      ranks_(topology.ranks()),
      graph_(ranks_) {}

void TaskWriter::begin(const EpochSetting& setting) {
  ATOLL_ASSERT(&setting.topology == &topology_);
  setting_ = &setting;
  map_ = setting.map();
  graph_.clear();
  waits_ = false;
  sent_ = {};
  departing_.clear();
  arriving_.clear();
  pieces_begin_ = pieces_end_ = 0;
  const auto ranks = static_cast<std::size_t>(ranks_);
  packed_.assign(ranks, -1);
  last_packet_.assign(joins_packets_ ? 0 : ranks * ranks, -1);
  last_.assign(ranks, -1);
  barrier_.assign(ranks, -1);
}

void TaskWriter::begin_epoch() {
  graph_.begin_epoch();
  std::ranges::fill(last_, -1);
  arriving_.swap(departing_);
  departing_.clear();
}

void TaskWriter::add(const PieceCost& piece) {
  for (const BlockCost& block : piece.blocks) add(block);
  if (piece.ends_stage()) all_reduce(piece);
}

TaskId TaskWriter::compute(int rank, const PhasePlace& place, double seconds,
                           std::span<const TaskId> after) {
  const auto r = static_cast<std::size_t>(rank);
  const TaskId barrier = std::exchange(barrier_[r], -1);
  if (merged_ && after.empty() && barrier < 0 && last_[r] >= 0) {
    graph_.task(last_[r]).seconds += seconds;
    return last_[r];
  }
  ATOLL_ASSERT(barrier < 0 || after.empty());
  if (barrier >= 0) after = std::span(&barrier, 1);
  SimTask task = task_at(place, TaskKind::kCompute, to_string(place.phase));
  task.rank = rank;
  task.seconds = seconds;
  return last_[r] = graph_.add(task, after);
}

void TaskWriter::all_reduce(const PieceCost& piece) {
  SimTask task = task_at(piece.sum_place, TaskKind::kDelay, to_string(piece.sum_place.phase));
  task.seconds = piece.sum_s;
  const TaskId delay = graph_.add(task, last_);
  std::ranges::fill(last_, -1);
  std::ranges::fill(barrier_, delay);
}

// engine/program/network.cpp, run_blocks().
void TaskWriter::add(const BlockCost& block) {
  const std::vector<MessageCost>& begins = block.begins;
  for (int rank = 0; rank < ranks_; ++rank) {
    compute(rank, block.place, block.seconds[static_cast<std::size_t>(rank)],
            waits_ ? arrivals(rank) : std::span<const TaskId>());
  }
  waits_ = false;
  for (const ConversionCost& conversion : block.converts) convert(conversion, block.place);
  if (!begins.empty()) {
    sent_ = begins;
    pieces_begin_ = pieces_end_ = 0;
    if (!setting_->kind.late) departing_.clear();  // nobody asks for them later
    first_ = departing_.size();
    departing_.resize(first_ + packet_place(begins.size(), 0, 0));
  }
  for (std::size_t m = 0; m < begins.size(); ++m) {
    if (sent_[m].travels) begin_messages(m, block.place);
  }
  if (setting_->overlap) {
    if (block.finishes) unpack(block.place, block.finished_pieces);
  } else if (!begins.empty()) {
    unpack(block.place, BlockCost::kAllPieces);
  }
}

void TaskWriter::convert(const ConversionCost& conversion, const PhasePlace& place) {
  const int roles = map_.ranks_per_part();
  SimTask packet = task_at(place, TaskKind::kTransfer, "packet");
  packet.in_group = true;
  for (int part = 0; part < map_.parts(); ++part) {
    const int first = map_.rank_of(part);
    arriving_shares_.assign(static_cast<std::size_t>(roles), {});
    for (int from = first; from < first + roles; ++from) {
      const TaskId copied = last_[static_cast<std::size_t>(from)];
      for (int to = first; to < first + roles; ++to) {
        packet.bytes = from == to ? 0 : conversion.bytes(map_, from, to);
        if (packet.bytes == 0) continue;
        packet.rank = from;
        packet.destination = to;
        arriving_shares_[static_cast<std::size_t>(to - first)].push_back(
            graph_.add(packet, std::span(&copied, 1)));
        cut(from);
      }
    }
    for (int role = 0; role < roles; ++role) {
      // A rank without columns may send and get nothing: the next conversion is behind this one.
      const std::vector<TaskId>& shares = arriving_shares_[static_cast<std::size_t>(role)];
      const bool sent = last_[static_cast<std::size_t>(first + role)] < 0;
      if (sent || !shares.empty()) compute(first + role, place, 0, shares);
    }
  }
}

void TaskWriter::begin_messages(std::size_t m, const PhasePlace& place) {
  const MessageCost& messages = sent_[m];
  const PhasePlace pack{Phase::kPack, place.layer, place.backward};
  const PhasePlace post{Phase::kPost, place.layer, place.backward};
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (messages.late) unpack_late(rank, m);
    if (messages.is_shift) continue;
    packed_[r] = compute(rank, pack, messages.ranks[r].pack_s);
    cut(rank);
  }
  for (int rank = 0; rank < ranks_; ++rank) send(rank, m, post);
  if (messages.is_shift) return;
  for (int rank = 0; rank < ranks_; ++rank) {
    compute(rank, post, messages.ranks[static_cast<std::size_t>(rank)].post_s);
  }
}

void TaskWriter::send(int from, std::size_t m, const PhasePlace& place) {
  const MessageCost& messages = sent_[m];
  if (messages.row_bytes == 0) return;
  SimTask packet = task_at(place, TaskKind::kTransfer, "packet");
  packet.rank = from;
  const int part = map_.part_of(from);
  const int role = map_.role_of(from);
  int before = -1;  // the receiver of the last packet
  for (int other = 0; other < map_.parts(); ++other) {
    const std::int64_t rows = messages.rows(setting_->partition, part, other);
    if (rows == 0) continue;
    const int to = map_.rank_of(other, role);
    const double bytes = static_cast<double>(rows) * messages.row_bytes;
    const int pieces = bytes < kLeastDividedBytes ? 1 : messages.pieces;
    packet.destination = to;
    packet.bytes = bytes / pieces;
    packet.rows =
        messages.is_shift ? 0 : static_cast<double>(rows) * setting_->kind.messages / pieces;
    Packet& own = packet_to(m, from, to);
    const bool joins = before == to - 1 && are_joined(from, before, to) &&
                       packet_to(m, from, before).pieces == pieces;
    if (joins) {
      own = packet_to(m, from, before);
      for (int piece = 0; piece < pieces; ++piece) {
        SimTask& task = graph_.task(own.task(piece));
        task.bytes += packet.bytes;
        task.rows += packet.rows;
        ++task.packets;
      }
    } else {
      own = add_packet(packet, pieces, bytes > kMostEagerBytes);
    }
    before = to;
  }
}

TaskWriter::Packet TaskWriter::add_packet(SimTask& packet, int pieces, bool is_large) {
  const auto from = static_cast<std::size_t>(packet.rank);
  const auto to = static_cast<std::size_t>(packet.destination);
  TaskId alone = -1;
  TaskId& before =
      last_packet_.empty() ? alone : last_packet_[from * static_cast<std::size_t>(ranks_) + to];
  // A large message sets out when its receiver has asked for it, too.
  const std::size_t posts = is_large ? 2 : 1;
  TaskId after[3] = {packed_[from], packed_[to]};
  for (int piece = 0; piece < pieces; ++piece) {
    packet.queues = before >= 0;
    after[posts] = before;
    before = graph_.add(packet, std::span(after, posts + (packet.queues ? 1 : 0)));
  }
  return {before, pieces};
}

void TaskWriter::unpack_late(int rank, std::size_t m) {
  if (arriving_.empty()) return;  // the first epoch
  arrivals_.clear();
  for (int from = 0; from < ranks_; ++from) {
    const Packet& packet = arriving_[first_ + packet_place(m, from, rank)];
    if (packet.last >= 0) arrivals_.push_back(packet.last);
  }
  compute(rank, {Phase::kRest, -1, false}, sent_[m].ranks[static_cast<std::size_t>(rank)].unpack_s,
          arrivals_);
}

bool TaskWriter::are_joined(int from, int a, int b) const {
  const auto host = [&](int rank) { return topology_.device(rank).host; };
  if (!joins_packets_ || a < 0 || host(a) != host(b)) return false;
  return host(from) != host(a) && topology_.link(from, a) == topology_.link(from, b);
}

std::span<const TaskId> TaskWriter::arrivals(int rank) {
  arrivals_.clear();
  for (std::size_t m = 0; m < sent_.size(); ++m) {
    if (sent_[m].late) continue;
    for (int from = 0; from < ranks_; ++from) {
      const Packet& packet = packet_to(m, from, rank);
      const int end = std::min(pieces_end_, packet.pieces);
      if (packet.last >= 0 && end > pieces_begin_) arrivals_.push_back(packet.task(end - 1));
    }
  }
  return arrivals_;
}

double TaskWriter::share_finished(const MessageCost& messages) const {
  const int begin = std::min(pieces_begin_, messages.pieces);
  return (std::min(pieces_end_, messages.pieces) - begin) / static_cast<double>(messages.pieces);
}

void TaskWriter::unpack(PhasePlace place, int pieces) {
  pieces_begin_ = std::exchange(pieces_end_, pieces);
  place.phase = Phase::kUnpack;
  const bool unpacks = std::ranges::any_of(sent_, [&](const MessageCost& messages) {
    return messages.unpacks && share_finished(messages) > 0;
  });
  const bool late = std::ranges::any_of(sent_, &MessageCost::late);
  waits_ = !unpacks && !late;
  for (int rank = 0; rank < ranks_; ++rank) {
    MessageCost::Seconds all;
    for (const MessageCost& messages : sent_) {
      const MessageCost::Seconds& seconds = messages.ranks[static_cast<std::size_t>(rank)];
      const double share = share_finished(messages);
      if (!messages.late) all.unpack_s += share * seconds.unpack_s;
      all.deliver_s += share * seconds.deliver_s;
    }
    if (unpacks) compute(rank, place, all.unpack_s, arrivals(rank));
    if ((late && pieces_begin_ == 0) || all.deliver_s > 0) {
      compute(rank, {Phase::kRest, -1, false}, all.deliver_s,
              late ? arrivals(rank) : std::span<const TaskId>());
    }
  }
}

}  // namespace atl
