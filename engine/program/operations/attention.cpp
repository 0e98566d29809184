// Attention of nodes over their in-neighbours (kernels/attention.hpp), and what it is made of.
#include <fmt/format.h>

#include "engine/program/operations/neighbourhood.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

std::size_t input_of_forward(Part part) {
  switch (part) {
    case Part::kTargets:
      return 2;  // dy, coefficients
    case Part::kHalo:
      return 3;  // dy, coefficients, targets
    case Part::kSources:
      return 4;  // halo, dy, coefficients, targets
    default:
      return 0;
  }
}

// Values that forward reads, as each of the parts finds it.
struct AttendInputs {
  Value z = kNoValue;
  Value t = kNoValue;
  Value source_scores = kNoValue;  // additive: of rows of z
  Value edge_scores = kNoValue;    // additive: of edges, if they have scores

  explicit AttendInputs(const Operation& op) {
    const std::size_t first = input_of_forward(op.rule->part);
    z = op.inputs[first];
    t = op.inputs[first + 1];
    if (op.as<AttentionOptions>().score != AttentionScore::kAdditive) return;
    source_scores = op.inputs[first + 3];
    if (op.inputs.size() > first + 4) edge_scores = op.inputs[first + 4];
  }
};

// True if it multiplies features of edges itself.
bool multiplies_edge_features(const Operation& op) {
  return op.as<AttentionOptions>().score == AttentionScore::kGatv2 && op.second_parameter >= 0;
}

bool reads_edges(const AttentionOptions& options, GraphData data) {
  return data == GraphData::kEdgeFeatures ||
         (data == GraphData::kMeanEdgeFeatures && options.with_self);
}

bool attend_reads(const Operation& op, GraphData data) {
  return multiplies_edge_features(op) && reads_edges(op.as<AttentionOptions>(), data);
}

// Edges that have coefficients.
MatrixView places(const Views& views, Value of_edges) {
  const bool with_self = views.op().as<AttentionOptions>().with_self;
  const RankRows& rows = views.rows();
  return views.whole(of_edges).rows_in({0, rows.edges + (with_self ? rows.of_part() : 0)});
}

AttentionSpec attention_spec(const Views& views, const AttendInputs& inputs) {
  const Operation& op = views.op();
  const auto& options = op.as<AttentionOptions>();
  AttentionSpec spec;
  spec.score = options.score;
  spec.heads = options.heads;
  spec.with_self = options.with_self;
  if (op.parameter >= 0) spec.vector = views.row_parameter(op.parameter);
  if (multiplies_edge_features(op)) {
    const EdgeFeatureViews edges = views.edge_features();
    spec.edges = {edges.features, spec.with_self ? edges.means : std::span<const float>{},
                  views.edge_parameter(op.second_parameter)};
  }
  if (inputs.source_scores != kNoValue) spec.source_scores = views.whole(inputs.source_scores);
  if (inputs.edge_scores != kNoValue) spec.edge_scores = places(views, inputs.edge_scores);
  spec.dropout = views.dropout_of_edges(options);
  return spec;
}

// Where the gradient of the vector of scores of this kind goes; absent of other kinds.
MatrixView vector_gradient(const Views& views, AttentionScore score) {
  const Operation& op = views.op();
  return op.as<AttentionOptions>().score == score ? views.row_gradient(op.parameter) : MatrixView{};
}

void lower_attend(const Views& views, Requests& requests) {
  const AttendInputs inputs(views.op());
  const AttentionSpec spec = attention_spec(views, inputs);
  const RankRows& rows = views.rows();
  const MatrixView z = views.whole(inputs.z);
  // Marginal rows come when halo rows are there.
  const bool has_halo = views.call_rows().reads_halo() && rows.forward_halo > 0;
  if (inputs.source_scores != kNoValue && has_halo) {
    const RowRange halo{rows.of_part(), rows.of_part() + rows.forward_halo};
    requests.take(kernels::HeadDots{z.rows_in(halo), spec.vector,
                                    views.whole(inputs.source_scores).rows_in(halo)});
  }
  requests.take(kernels::Attend{views.matrix(), views.range(), z, views.inner(inputs.t), spec,
                                views.inner(views.value()), views.epilogue()});
}

// Reads dy, coefficients.
void lower_attend_targets(const Views& views, Requests& requests) {
  const Operation& op = views.op();
  const AttendInputs inputs(op);
  requests.take(kernels::AttendBackwardTargets{
      views.matrix(), views.range(), views.whole(inputs.z), views.inner(inputs.t),
      views.inner(views.input(0)), attention_spec(views, inputs), views.inner(views.value()),
      places(views, views.input(1)), vector_gradient(views, AttentionScore::kGatv2),
      multiplies_edge_features(op) ? views.edge_gradient(op.second_parameter) : MatrixView{}});
}

// Reads dy, coefficients, and the targets' half for these, which it has filled.
void send_attention(const Views& views, const Sources& sources, Requests& requests) {
  const AttendInputs inputs(views.op());
  requests.take(kernels::AttendBackwardSources{
      views.matrix(), views.source_edges(), sources.rows, views.whole(inputs.z),
      views.inner(inputs.t), views.inner(views.input(sources.first)),
      places(views, views.input(sources.first + 1)), attention_spec(views, inputs), sources.to,
      vector_gradient(views, AttentionScore::kAdditive)});
}

// The half along the in-edges, which comes first whichever is asked for first.
Value through_targets(Gradients& gradients, Value reader) {
  if (const Value made = gradients.once(reader); made != kNoValue) return made;
  const Operation attend = gradients.at(reader);
  Operation room = part_of(attend, rules::kCoefficients);
  room.parameter = room.second_parameter = -1;
  room.columns = 2 * std::int64_t{attend.as<AttentionOptions>().heads};
  room.wide = true;
  const Value coefficients = gradients.append(room);
  Operation targets = part_of(attend, rules::kAttendTargets);
  const Operation t = gradients.at(attend.inputs[1]);
  targets.columns = t.columns;
  targets.wide = t.wide;
  targets.inputs = with_inputs_of(attend, {gradients.of(reader), coefficients});
  return gradients.once(reader) = gradients.append(targets);
}

Value coefficients_of(Gradients& gradients, Value targets) {
  return gradients.at(targets).inputs[1];
}

// The gradient of the scores of sources is in that of z.
Value through_attend(Gradients& gradients, Value reader, std::size_t i) {
  if (i > 1) return kNoValue;
  const Value targets = through_targets(gradients, reader);
  if (i == 1) return targets;
  const Operation attend = gradients.at(reader);
  return append_sources(
      gradients, attend, rules::kAttendHalo, rules::kAttendSources,
      with_inputs_of(attend, {gradients.of(reader), coefficients_of(gradients, targets), targets}));
}

void add_edge_score_gradient(Gradients& gradients, Value v) {
  const Operation attend = gradients.at(v);
  const Value scores = AttendInputs(attend).edge_scores;
  if (scores == kNoValue) return;
  const Value targets = through_targets(gradients, v);
  gradients.append({.rule = &rules::kEdgeScoresGradient,
                    .inputs = {coefficients_of(gradients, targets), targets},
                    .columns = attend.as<AttentionOptions>().heads,
                    .parameter = gradients.at(scores).parameter,
                    .attributes = attend.attributes});
}

void print_attend(const Operation& op, std::string& text) {
  const auto& options = op.as<AttentionOptions>();
  text += fmt::format(" {} heads {}", to_string(options.score), options.heads);
  print_channel(op, text);
  if (options.dropout > 0) text += fmt::format(" dropout {}", options.dropout);
}

// --- scores of edges ---------------------------------------------------------------------------

// Asks for a product with the features of the call's edges, and with the means that its rows have
// with themselves. product: of features with the rows of `of_edges` that belong to them.
template <typename ProductOf>
void for_edges(const Views& views, MatrixView of_edges, const ProductOf& product) {
  const auto ask = [&](ConstMatrixView features, RowRange rows, std::int64_t first) {
    if (rows.size() == 0) return;
    product(features.rows_in(rows), of_edges.rows_in({first + rows.begin, first + rows.end}));
  };
  const EdgeFeatureViews edges = views.edge_features();
  const RowRange rows = views.range();
  const RankShape& shape = views.shape();
  ask(edges.feature_matrix, {shape.first_edge(rows.begin), shape.first_edge(rows.end)}, 0);
  if (views.op().as<AttentionOptions>().with_self) ask(edges.mean_matrix, rows, shape.rows.edges);
}

void lower_edge_scores(const Views& views, Requests& requests) {
  const ConstMatrixView weight = views.edge_parameter(views.op().parameter);
  for_edges(views, views.whole(views.value()), [&](ConstMatrixView x, MatrixView scores) {
    requests.take(kernels::Gemm{Transpose::kNo, x, Transpose::kNo, weight, 0, scores});
  });
}

void lower_edge_scores_gradient(const Views& views, Requests& requests) {
  const MatrixView gradient = views.edge_gradient(views.op().parameter);
  if (gradient.cols == 0) return;  // no head of it is this rank's
  for_edges(views, views.whole(views.input(0)), [&](ConstMatrixView x, MatrixView coefficients) {
    // The gradients of scores lie behind the coefficients themselves.
    const ConstMatrixView slopes = coefficients.columns_in(gradient.cols, gradient.cols);
    requests.take(kernels::Gemm{Transpose::kYes, x, Transpose::kNo, slopes, 1, gradient});
  });
}

// --- heads -------------------------------------------------------------------------------------

Value through_head_dots(Gradients& gradients, Value reader, std::size_t /*i*/) {
  const Operation op = gradients.at(reader);
  return gradients.append({.rule = &rules::kHeadDotsBackward,
                           .inputs = {gradients.of(reader), op.inputs[0], op.inputs[1]},
                           .columns = gradients.columns(op.inputs[0]),
                           .parameter = op.parameter});
}

Value through_head_mean(Gradients& gradients, Value reader, std::size_t /*i*/) {
  const Operation op = gradients.at(reader);
  return gradients.append({.rule = &rules::kHeadMeanBackward,
                           .inputs = {gradients.of(reader)},
                           .columns = gradients.columns(op.inputs[0])});
}

}  // namespace

constinit const Rule rules::kHeadDots{
    .name = "head dots",
    .lower =
        [](const Views& views, Requests& requests) {
          requests.take(kernels::HeadDots{views.in(0), views.row_parameter(views.op().parameter),
                                          views.out()});
        },
    .through = through_head_dots,
    .parameters = on_the_way};
constinit const Rule rules::kHeadDotsBackward{
    .name = "head dots backward",
    .sums = true,
    .lower = [](const Views& views, Requests& requests) {
      const int parameter = views.op().parameter;
      requests.take(kernels::HeadDotsBackward{views.in(0), views.in(1),
                                              views.row_parameter(parameter), views.out(),
                                              views.row_gradient(parameter)});
    }};
constinit const Rule rules::kHeadMean{
    .name = "head mean",
    .lower =
        [](const Views& views, Requests& requests) {
          requests.take(kernels::HeadMean{views.in(0), views.out()});
        },
    .through = through_head_mean};
constinit const Rule rules::kHeadMeanBackward{
    .name = "head mean backward", .lower = [](const Views& views, Requests& requests) {
      requests.take(kernels::HeadMeanBackward{views.in(0), views.out()});
    }};

constinit const Rule rules::kEdgeScores{
    .name = "edge scores",
    .rows_of = RowsOf::kEdges,
    .is_product = true,
    .reads = [](const Operation& op,
                GraphData data) { return reads_edges(op.as<AttentionOptions>(), data); },
    .lower = lower_edge_scores};
constinit const Rule rules::kEdgeScoresGradient{.name = "edge scores gradient",
                                                .reach = Reach::kSum,
                                                .has_rows = false,
                                                .lower = lower_edge_scores_gradient};

constinit const Rule rules::kAttend{
    .name = "attend",
    .reach = Reach::kHalo,
    .part = Part::kForward,
    .takes_tail = true,
    .keeps_halo = true,
    .fills_halo = [](const Operation& op) { return AttendInputs(op).source_scores; },
    .reads = attend_reads,
    .lower = lower_attend,
    .through = through_attend,
    .parameters = add_edge_score_gradient,
    .print = print_attend};
constinit const Rule rules::kCoefficients{.name = "coefficients", .rows_of = RowsOf::kEdges};
constinit const Rule rules::kAttendTargets{.name = "attend backward, targets",
                                           .part = Part::kTargets,
                                           .sums = true,
                                           .lower = lower_attend_targets};
constinit const Rule rules::kAttendHalo = halo_rule<send_attention>("attend backward, halo rows");
constinit const Rule rules::kAttendSources =
    sources_rule<send_attention>("attend backward, sources");

}  // namespace atl
