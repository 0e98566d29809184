// Parts of a cut graph and the engine's halo exchange for atoll.torch: packets and their widths are
// made here, and a function of Python carries them from rank to rank.
#include "python/bridge.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/philox.hpp"
#include "datasets/partition_folder.hpp"
#include "engine/comm/transport.hpp"
#include "engine/exchange/halo_exchange.hpp"
#include "engine/exchange/halo_return.hpp"
#include "kernels/registry.hpp"

namespace nb = nanobind;

namespace atl {
namespace {

using FloatRows = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using NodeIds = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::object memory_view(const std::byte* data, std::size_t size) {
  // PyTorch makes tensors of writable memory only; it does not write to what is sent.
  auto* bytes = const_cast<char*>(reinterpret_cast<const char*>(data));
  return nb::steal(PyMemoryView_FromMemory(bytes, static_cast<Py_ssize_t>(size), PyBUF_WRITE));
}

// A transfer that Python has under way: an object with wait(rank) and wait_all().
class CarriedTransfer final : public PendingTransfer {
 public:
  CarriedTransfer(nb::object carried, const std::vector<std::span<std::byte>>& receives,
                  std::shared_ptr<const void> keep_alive)
      : carried_(std::move(carried)), keep_alive_(std::move(keep_alive)) {
    for (std::size_t peer = receives.size(); peer-- > 0;) {
      if (!receives[peer].empty()) unreported_.push_back(static_cast<int>(peer));
    }
  }
  ~CarriedTransfer() override {
    if (finished_ || std::uncaught_exceptions() > 0) return;
    try {
      wait_all();
    } catch (const std::exception&) {  // the next transfer fails, too, and says why
    }
  }

  // By rank: which of two packets came first is not to be had from torch.distributed.
  int wait_any() override {
    if (unreported_.empty()) return -1;
    const int peer = unreported_.back();
    carried_.attr("wait")(peer);
    unreported_.pop_back();
    return peer;
  }
  void wait_all() override {
    if (std::exchange(finished_, true)) return;
    carried_.attr("wait_all")();
    unreported_.clear();
  }
  void wait_pieces(int /*last*/) override { wait_all(); }
  std::vector<PacketTimes> packet_times() const override { return {}; }

 private:
  nb::object carried_;
  std::shared_ptr<const void> keep_alive_;
  std::vector<int> unreported_;  // ranks, the next one last
  bool finished_ = false;
};

// carry(sends, receives): lists with the memory for each rank, or None, gives such an object.
class CarriedTransport final : public Transport {
 public:
  CarriedTransport(int rank, int size, nb::callable carry)
      : rank_(rank), size_(size), carry_(std::move(carry)) {
    set_group(RankGroup::whole_job(size));
  }
  std::string name() const override { return "torch"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  // A rank of atoll.torch that fails ends the job by itself (python/atoll/torch/_watch.py).
  void abort(int /*exit_code*/) noexcept override {}

 private:
  std::unique_ptr<PendingTransfer> do_all_to_all_v(std::vector<std::span<const std::byte>> sends,
                                                   std::vector<std::span<std::byte>> receives,
                                                   const OperationLabel& /*label*/,
                                                   std::shared_ptr<const void> keep_alive,
                                                   const PacketPieces& /*pieces*/) override {
    nb::list out;
    nb::list in;
    for (std::size_t peer = 0; peer < sends.size(); ++peer) {
      out.append(sends[peer].empty() ? nb::none()
                                     : memory_view(sends[peer].data(), sends[peer].size()));
      in.append(receives[peer].empty() ? nb::none()
                                       : memory_view(receives[peer].data(), receives[peer].size()));
    }
    return std::make_unique<CarriedTransfer>(carry_(out, in), receives, std::move(keep_alive));
  }
  std::unique_ptr<Transport> do_split(int, std::shared_ptr<const RankGroup>, int) override {
    fail(ErrorKind::kCommunication, "groups of ranks need another transport than torch");
  }

  int rank_;
  int size_;
  nb::callable carry_;
};

// One part of a partition.
class ShardPart {
 public:
  ShardPart(const std::string& partition, int part, const std::string& checksum)
      : shard_(open_shard(partition, part, checksum)) {
    shard_.release_features();
  }
  const LocalGraphView& graph() const { return shard_.graph(); }

 private:
  Shard shard_;
};

// One for all exchanges of the process, with the threads that the first one asks for.
Backend& shared_backend(int threads) {
  static const std::unique_ptr<Backend> backend = make_backend("cpu", {.threads = threads});
  return *backend;
}

// The exchange of one rank. Messages of both directions are those of the forward one: rows of inner
// nodes go to their readers, and what these have summed up for them comes back.
class Exchange {
 public:
  Exchange(const ShardPart& part, const std::string& bits, std::uint64_t seed, int threads,
           nb::callable carry)
      : backend_(shared_backend(threads)),
        queue_(backend_.make_queue()),
        transport_(part.graph().part, part.graph().parts, std::move(carry)),
        trace_(part.graph().part),
        reducer_(backend_, *queue_, transport_, nullptr, trace_),
        rank_{.backend = backend_,
              .queue = *queue_,
              .transport = transport_,
              .device = nullptr,
              .trace = trace_,
              .reducer = reducer_,
              .inner_ids = part.graph().inner_ids,
              .nodes = part.graph().global_nodes,
              .seed = seed},
        operators_(backend_, *queue_, part.graph(), Normalisation::kEdges),
        exchange_(make_exchange(options(bits), rank_)) {}

  void fetch(const FloatRows& rows, std::int64_t columns, int channel, int epoch) {
    exchange(operators_.forward(), Direction::kForward, rows, columns, channel, epoch);
  }
  void give_back(const FloatRows& rows, std::int64_t columns, int channel, int epoch) {
    exchange(operators_.halo_return()->messages(), Direction::kBackward, rows, columns, channel,
             epoch);
  }
  // None if messages travelled as in the epoch before, else how.
  nb::object end_epoch(int epoch) {
    const auto news = exchange_->end_epoch({.epoch = epoch, .overlap = false});
    trace_.clear();
    if (!news) return nb::none();
    nb::dict report;
    nb::dict widths;
    for (const ExchangeReport::Messages& messages : news->channels) {
      for (std::size_t w = 0; w < kWireBits.size(); ++w) {
        const nb::int_ width(kWireBits[w]);
        const auto before = widths.contains(width) ? nb::cast<std::int64_t>(widths[width]) : 0;
        widths[width] = before + messages.rows_of_width[w];
      }
    }
    report["mean_bits"] = news->mean_bits;
    report["messages"] = widths;
    report["gap"] = news->choice ? nb::cast(news->choice->gap) : nb::none();
    return report;
  }
  std::int64_t bytes_sent() const { return transport_.bytes_sent(); }

 private:
  static ExchangeOptions options(const std::string& bits) {
    ExchangeOptions options{.mode = kModeOfBits};
    options.message_bits.bits = parse_bits(bits);
    return options;
  }

  void exchange(const DistributedOperator& op, Direction direction, const FloatRows& rows,
                std::int64_t columns, int channel, int epoch) {
    const auto count = static_cast<std::int64_t>(rows.shape(0));
    const auto stride = static_cast<std::int64_t>(rows.shape(1));
    if (count != op.with_halo() || stride != padded_columns(columns)) {
      fail_input("{} x {} rows; {} x {} are expected", count, stride, op.with_halo(),
                 padded_columns(columns));
    }
    if (channel >= kMostChannels) {
      fail_input(
          "{} exchanges in one epoch; allowed are {}. Call end_epoch() of the exchange, or "
          "sum_gradients(), after every step",
          channel + 1, kMostChannels);
    }
    const MatrixView view{rows.data(), count, columns, stride, DType::kF32};
    exchange_
        ->begin(op, view, {.number = channel, .layer = channel, .direction = direction},
                {.epoch = epoch, .overlap = false})
        ->finish();
  }

  Backend& backend_;
  std::unique_ptr<Queue> queue_;
  CarriedTransport transport_;
  TraceRecorder trace_;
  Reducer reducer_;
  Rank rank_;
  GraphOperators operators_;
  std::unique_ptr<HaloExchange> exchange_;
};

// Factors of dropout, 0 or what keeps the expectation, for rows of these nodes.
void dropout_factors(const NodeIds& ids, const FloatRows& factors, double rate, std::uint64_t seed,
                     int layer, std::uint32_t epoch) {
  const RandomKey key{.seed = seed,
                      .stream = RandomStream::kDropout,
                      .layer = static_cast<std::uint8_t>(layer),
                      .epoch = epoch};
  const DropoutThreshold threshold = dropout_threshold(rate);
  const auto columns = static_cast<std::uint32_t>(factors.shape(1));
  const auto rows = static_cast<std::int64_t>(factors.shape(0));
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto node = static_cast<std::uint64_t>(ids.data()[i]);
    float* row = factors.data() + i * static_cast<std::int64_t>(columns);
    for (std::uint32_t first = 0; first < columns; first += 8) {
      const PhiloxBlock block = random_block(key, node, first / 8);
      const std::uint32_t count = std::min(8U, columns - first);
      for (std::uint32_t lane = 0; lane < count; ++lane) {
        const bool kept = dropout_half_word(block, lane) < threshold.threshold;
        row[first + lane] = kept ? threshold.scale : 0.0F;
      }
    }
  }
}

// Errors of the engine become what atoll._errors makes of its exit codes.
void raise_error(const std::exception_ptr& pointer, void* /*payload*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const nb::object made =
        nb::module_::import_("atoll._errors").attr("failure")(error.what(), error.exit_code());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  }
}

}  // namespace
}  // namespace atl

void add_bridge(nb::module_& module) {
  using atl::Exchange;
  using atl::ShardPart;
  nb::register_exception_translator(atl::raise_error);
  nb::class_<ShardPart>(module, "Part", "One part of a partition, whose files have been checked.")
      .def(nb::init<const std::string&, int, const std::string&>(), nb::arg("partition"),
           nb::arg("part"), nb::arg("checksum"), nb::call_guard<nb::gil_scoped_release>());
  nb::class_<Exchange>(module, "Exchange", "Messages of `bits` bits between the parts of a graph.")
      .def(nb::init<const ShardPart&, const std::string&, std::uint64_t, int, nb::callable>(),
           nb::arg("part"), nb::arg("bits"), nb::arg("seed"), nb::arg("threads"), nb::arg("carry"),
           nb::keep_alive<1, 2>())
      .def("fetch", &Exchange::fetch, nb::arg("rows"), nb::arg("columns"), nb::arg("channel"),
           nb::arg("epoch"),
           "Fills the halo rows behind the inner ones with those of their owners.")
      .def("give_back", &Exchange::give_back, nb::arg("rows"), nb::arg("columns"),
           nb::arg("channel"), nb::arg("epoch"),
           "Fills the rows behind the halo rows with what other ranks give back.")
      .def("end_epoch", &Exchange::end_epoch, nb::arg("epoch"))
      .def("bytes_sent", &Exchange::bytes_sent);
  module.def("dropout_factors", &atl::dropout_factors, nb::arg("ids"), nb::arg("factors"),
             nb::arg("rate"), nb::arg("seed"), nb::arg("layer"), nb::arg("epoch"),
             nb::call_guard<nb::gil_scoped_release>());
}
