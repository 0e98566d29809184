#include "engine/training/run_trace.hpp"

#include "engine/models/model_options.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/option_table.hpp"

namespace atl {

namespace {

// Facts that a simulation of this run needs beside its spans: see docs/formats.md.
Json trace_metadata(RankJob& job, const TrainOptions& options, const MessageRecord& messages,
                    const Transport& transport) {
  const ModelConfig& model = job.trainer().model();
  const auto sent = messages.mean();
  Json layers = Json::array();
  for (const ProgramLayer& layer : job.trainer().network().training().layers) {
    layers.push_back({{"order", to_string(layer.algebra.order)},
                      {"cached_aggregate", layer.algebra.cache_aggregate},
                      {"bits", messages.layer_bits(static_cast<int>(layers.size()), options)}});
  }
  return {{"format", "atoll trace"},
          {"version", 1},
          {"ranks", transport.size()},
          {"ranks_per_part", job.map().ranks_per_part()},
          {"model", trace_json(model)},
          {"layers", layers},
          {"exchange", exchange_json(options)},
          {"share_sent", sent ? Json(sent->share) : Json()},
          {"overlap", options.overlap},
          {"by_arrival", !job.trainer().network().shape().groups.empty()},
          {"recomputation", to_json(model.recomputation)},
          {"gradient_sum", to_json(job.trainer().gradient_sum())},
          {"partition", job.partition_quality()}};
}

}  // namespace

void write_trace(RankJob& job, const TrainOptions& options, const MessageRecord& messages,
                 Transport& transport, const RunFolder& folder) {
  const std::string mine = job.trainer().trace().chrome_events(job.trainer().all_spans());
  const std::vector<std::string> all = gather_texts(transport, mine, {"trace"});
  on_all_ranks(transport, [&] {
    if (!folder.active()) return;
    const Json metadata = trace_metadata(job, options, messages, transport);
    std::string text = fmt::format("{{\"metadata\": {},\n\"traceEvents\": [", metadata.dump());
    for (std::size_t r = 0; r < all.size(); ++r) {
      text += r == 0 ? "\n" : ",\n";
      text += all[r];
    }
    folder.write("trace.json", text + "\n]}\n");
  });
}

}  // namespace atl
