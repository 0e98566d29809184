// Halo exchange: the rows that cross the cut, in either direction. Both directions pull: forward
// fetches rows of remote in-neighbours, backward fetches gradient rows of remote out-neighbours.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "engine/exchange/distributed_operator.hpp"
#include "engine/exchange/rank.hpp"
#include "kernels/wire.hpp"

namespace atl {

// All messages of one halo operation.
struct Channel {
  // The place of the halo operation among those of the forward pass, in their order; that of its
  // gradient has the same number. It keys rounding noise, which has room for kMostChannels numbers.
  int number = 0;
  int layer = 0;  // that it belongs to, for people
  Direction direction = Direction::kForward;
  // The messages never change and are kept once received: they travel exactly in every mode.
  bool constant = false;

  // Number of the channel among those of both directions, the same on all ranks.
  int slot() const { return 2 * number + (direction == Direction::kBackward ? 1 : 0); }
  bool operator==(const Channel&) const = default;
};
constexpr int kMostChannels = 256;

// How messages travel; the same on every rank.
struct ExchangeReport {
  struct Messages {
    Channel channel;
    std::int64_t columns = 0;
    std::int64_t rows = 0;                                       // of all ranks
    std::int64_t bytes = 0;                                      // the same
    std::array<std::int64_t, kWireBits.size()> rows_of_width{};  // by place in kWireBits
    // Those that are sent in one of so many epochs, more than one; `bytes` are then a mean.
    std::map<int, std::int64_t> rows_of_period = {};
    bool as_rows = false;  // where a mode sends differences otherwise
    bool operator==(const Messages&) const = default;
  };
  // The effort of choosing widths by their cost, and how good they are.
  struct Choice {
    double solver_ms = 0;  // slowest rank
    double gap = 0;        // of the worst channel, against the bound
    struct Times {
      double wire_ms = 0;     // expected, of the slowest link
      double central_ms = 0;  // of central work that hides it
      double error = 0;       // V over its unit
      bool operator==(const Times&) const = default;
    };
    std::map<int, Times> channels;  // by Channel::slot()
  };

  double mean_bits = 0;  // over the values of all messages
  std::vector<Messages> channels;
  std::optional<Choice> choice;  // none: widths were not chosen by their cost
};

// One exchange under way.
class PendingExchange {
 public:
  virtual ~PendingExchange() = default;
  // Returns when work queued afterwards will find the halo rows there. May be called again: does
  // nothing then.
  virtual void finish() = 0;
  // The same of the halo rows that the groups of marginal rows up to this one need, which are those
  // of so many pieces of each packet: others may still be written. A mode that can't see pieces
  // come waits for all.
  virtual void finish_groups(int /*last*/) { finish(); }
};

class NothingPending final : public PendingExchange {
 public:
  void finish() override {}
};

// Rows of x are those of op, halo included. Where there are halo rows they lie as those of a
// Tensor, because exact messages are received in place, padding included, and any mode may send
// those.
inline void check_rows(const DistributedOperator& op, ConstMatrixView x) {
  ATOLL_ASSERT(x.rows == op.with_halo(), "{} rows, {} expected", x.rows, op.with_halo());
  ATOLL_ASSERT(x.stride == padded_columns(x.cols) || op.halo.halo_rows() == 0,
               "stride {}, {} columns", x.stride, x.cols);
}

inline constexpr int kAlwaysSettled = std::numeric_limits<int>::max();

inline constexpr const char* kExchangeState = "atoll exchange";

// A way for messages to travel (an exchange mode). Every mode writes all halo
// rows each time: between two exchanges their memory serves other values.
class HaloExchange {
 public:
  virtual ~HaloExchange() = default;
  virtual std::string name() const = 0;
  // True if halo rows are always those of their owners, to the bit and of this epoch.
  virtual bool is_exact() const { return false; }
  // Packs the rows of x that other ranks need, times op.message_scale, and posts the transfer.
  // x [inner + halo, F], as check_rows() asks: inner rows that are sent must be final; halo rows
  // are written until finish() returns. One exchange per channel may be under way.
  virtual std::unique_ptr<PendingExchange> begin(const DistributedOperator& op, MatrixView x,
                                                 Channel channel, const Round& round) = 0;
  // Owner of the memory that every x lies in. Should an error abandon an exchange, the transport
  // holds on to it, so that a late message can't land in memory that was given back.
  virtual void keep_alive(std::shared_ptr<const void> memory) = 0;
  // At most so many bytes of buffers begin() will hold for rows of `columns` elements in direction
  // of `op`.
  virtual std::int64_t buffer_bytes(const DistributedOperator& op, std::int64_t columns,
                                    DType dtype) const = 0;

  // Collective, at the end of every epoch of training, when all queued work has run: a mode may
  // check what travelled, and decide how messages travel from the next epoch on. Returns how they
  // travelled from this epoch on, or nothing if that is no news. Throws Error{kInput} for messages
  // that can't be sent.
  virtual std::optional<ExchangeReport> end_epoch(const Round& /*round*/) { return std::nullopt; }
  // Where the next step is on another graph, in place of end_epoch() and when all queued work has
  // run: checks what travelled, and forgets all that it knows of the messages. Throws as
  // end_epoch().
  virtual void leave_graph(const Round& /*round*/) {}
  // For how many epochs, `epoch` and those behind it, packets keep their sizes and places: so long
  // a recording of one of them is good for the others. 1: end_epoch() of this one may change them.
  virtual int settled_epochs(int /*epoch*/) const { return kAlwaysSettled; }
  // The state that this rank needs to go on after a checkpoint as if nothing had happened, and
  // back; "" if nothing. In modes that keep rows it is a safetensors file with these rows, whose
  // metadata have kExchangeState. state: between epochs, on all ranks, because it waits for
  // messages that are under way from one epoch to the next. load_state: before the first exchange.
  // Throws Error{kInput} naming `place`.
  virtual std::string state() { return ""; }
  virtual void load_state(const std::string& /*state*/, const std::string& /*place*/) {}
  // Measured times that choices were made by, the same on every rank; null: none (yet).
  virtual Json calibration() const { return nullptr; }
};

// How the noise of a message weighs: by the coefficients alpha with which the receiver's inner rows
// add it up.
enum class Sensitivity : std::uint8_t {
  kVariance,    // sum alpha^2: the variance that the aggregated rows receive
  kUpperBound,  // (sum |alpha|)^2, an upper bound of it: AdaQP, section 4.1
};
const char* to_string(Sensitivity sensitivity);  // "variance", "upper-bound"

// Where the bits per value of a message come from.
struct BitChoice {
  enum class By : std::uint8_t {
    kAdaptive,  // the exact assignment of AdaQP's trade of variance against time
    kRandom,    // each message draws 2, 4 or 8
    kFixed,     // one of `widths`
  };
  By by = By::kAdaptive;
  std::vector<int> widths = {};  // of kWireBits: one for all messages, or one per layer
  bool operator==(const BitChoice&) const = default;
};
std::string to_string(const BitChoice& choice);  // "adaptive", "random", "8" or "8,4,32"
// The reverse. Throws Error{kOption} for a width that is not one of kWireBits.
BitChoice parse_bits(const std::string& text);
// Widths with commas between them. Throws Error{kOption} naming `option`, and what is `allowed`,
// for one that is none.
std::vector<int> parse_widths(const std::string& text, std::string_view option,
                              const std::string& allowed);
std::vector<std::string> bit_names();  // what parse_bits() reads, but for lists

struct BitOptions {
  BitChoice bits;
  double lambda = 0.5;      // adaptive: weight of variance against time, in [0, 1]
  int reassign_every = 10;  // epochs between assignments
  Sensitivity sensitivity = Sensitivity::kVariance;
  Json calibration;                                 // of an earlier run, or null: measured
  std::string calibration_place = "--calibration";  // names it in errors
};

// Which messages are sent in an epoch. What stands for one that isn't: see MessageRule.
enum class MessagesSent : std::uint8_t {
  kAll,
  kSampled,   // each with probability `rate`, as 1 / rate of its row
  kPeriodic,  // all in one of `every` epochs, or a part in each of them
  kDrifted,   // those whose row has moved
  kByCost,    // each in one of so many epochs, as its cost says
  kNone,
};

// When messages are used: in the epoch that sends them, or in the next one.
enum class MessageSchedule : std::uint8_t { kAuto, kSynchronous, kPipelined };
const char* to_string(
    MessageSchedule schedule);  // "auto" (the mode's), "synchronous" or "pipelined"

// An exchange mode: presets of what may differ from one to the other.
struct ExchangeMode {
  const char* name;
  MessagesSent sent = MessagesSent::kAll;
  // --bits unless it is given; null: rows travel as they are stored, and --bits has no say.
  const char* usual_bits = nullptr;
  // Forward the differences to rows of before are sent, backward rows with what was lost before.
  bool differences = false;
  bool pipelined = false;

  bool takes_bits() const { return usual_bits != nullptr; }
  // Whether every message is sent in every epoch.
  bool sends_all() const { return sent == MessagesSent::kAll; }
};
// The mode of --bits without --exchange.
inline constexpr const char* kModeOfBits = "quantized";
inline constexpr const char* kExactMode = "exact";
// All of them, kExactMode first.
std::vector<std::string> exchange_modes();
// Null if there is none of this name.
const ExchangeMode* find_exchange_mode(std::string_view name);
// Throws Error{kOption} listing the valid modes.
const ExchangeMode& exchange_mode(const std::string& name);

inline constexpr int kOldestMessage = 64;  // epochs that --oldest may say

struct SendOptions {
  double rate = 0.1;          // kSampled: share of messages that are sent, in (0, 1]
  int every = 10;             // kPeriodic: epochs
  bool stagger = false;       // kPeriodic: 1 / every of the messages in each epoch
  double bound = 0.05;        // kDrifted: |m - h| / |m| from which on a row is sent
  int oldest = 8;             // kDrifted, kByCost: epochs after which it is sent all the same
  double drift_limit = 0.05;  // kByCost: see docs/exchange.md
  // kByCost: of the square of a lag against that of noise, and of noise against what comes later.
  double staleness_weight = 10;
  bool shift = false;  // kept rows follow their mean: MessageRule::shifts
  MessageSchedule schedule = MessageSchedule::kAuto;
  int synchronous_every = 0;  // pipelined: every so many epochs messages are waited for; 0: never
};

struct ExchangeOptions {
  std::string mode = kExactMode;
  BitOptions message_bits = {};
  SendOptions sending = {};

  bool pipelined() const {
    return sending.schedule == MessageSchedule::kAuto
               ? exchange_mode(mode).pipelined
               : sending.schedule == MessageSchedule::kPipelined;
  }
  // Whether receivers keep rows from one epoch to the next.
  bool keeps_rows() const;
  // Whether every message travels in every epoch and is used there as it came: what plans,
  // predictions of traces and recordings count on.
  bool is_plain() const;
};
// Throws Error{kOption} for values that are not allowed, or not together.
void check_exchange(const ExchangeOptions& options);

// `rank` must outlive it. Throws Error{kOption} as check_exchange() does.
std::unique_ptr<HaloExchange> make_exchange(const ExchangeOptions& options, const Rank& rank);

std::unique_ptr<HaloExchange> make_exact_exchange(const Rank& rank);
std::unique_ptr<HaloExchange> make_message_exchange(const ExchangeOptions& options,
                                                    const Rank& rank);

}  // namespace atl
