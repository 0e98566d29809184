// Carries packets that lie in the memory of a backend to the other ranks: as they lie where the
// host or a DeviceTransport can reach them, else through staging memory.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/exchange/rank.hpp"

namespace atl {

// The packets of one exchange under way.
class PendingPackets {
 public:
  virtual ~PendingPackets() = default;
  // Lets packets set out that wait for the host to have queued other work first. finish() does it,
  // too: for packets that are not waited for soon.
  virtual void post() {}
  // Returns when work queued afterwards on the compute queue will see all received packets. May be
  // called again: does nothing then.
  virtual void finish() = 0;
  // The same for the pieces of packets up to this one, alone where the host sees them come.
  virtual void finish_pieces(int /*last*/) { finish(); }
  // Times of each packet; call after finish(). Empty for a DeviceTransport, which knows only when
  // the exchange as a whole was done.
  virtual std::vector<PacketTimes> packet_times() const { return {}; }
};

// Records a span "packet" for each packet that this rank received, from its posting here until it
// was seen to have arrived, and a span "send" for each that it sent, under the ranks of the job.
// tag: epoch and layer. what: of spans.
void record_packets(const Rank& rank, const std::vector<PacketTimes>& packets, TraceTag tag,
                    const char* direction, const char* what = "");

class PacketTransfer {
 public:
  explicit PacketTransfer(const Rank& rank);
  ~PacketTransfer();

  // The queue on which packets are made, ordered after everything queued so far for computing.
  Queue& packing_queue();
  // Computing that is queued from now on waits for what that queue has so far: for packets that are
  // finished later than the rows that they are made of change.
  void finish_packing();
  // Tells when work on that queue ran; null where it is the queue of everything else.
  SpanClock* packing_clock() const { return packing_clock_.get(); }

  // Sends sends[r] to rank r, received as receives[r] there: memory of the backend, filled by the
  // packing queue. `slot` names the exchange: one per slot is under way at a time, and its staging
  // memory is kept. keep_alive, pieces: see Transport::all_to_all_v.
  std::unique_ptr<PendingPackets> begin(int slot, std::vector<std::span<const std::byte>> sends,
                                        std::vector<std::span<std::byte>> receives,
                                        const OperationLabel& label,
                                        std::shared_ptr<const void> keep_alive,
                                        PacketPieces pieces = {});

 private:
  struct Staging;
  const Rank& rank_;
  std::unique_ptr<Queue> staging_queue_;
  std::unique_ptr<SpanClock> packing_clock_;
  std::map<int, std::shared_ptr<Staging>> staging_;
};

}  // namespace atl
