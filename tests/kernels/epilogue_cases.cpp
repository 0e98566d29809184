// Epilogues of every combination of parts, and the operation that applies nothing else.
#include "tests/kernels/operations.hpp"

namespace atl {

using namespace std::string_literals;

Epilogue make_epilogue(Harness& h, std::int64_t rows, std::int64_t cols, EpilogueParts parts) {
  Epilogue epilogue;
  if (parts.norm) {
    epilogue.mean = h.input_span(random_doubles(cols, 31));
    epilogue.inv_std = h.input_span(random_doubles(cols, 32, 1.5));
  }
  if (parts.gamma) epilogue.gamma = h.input<float>(1, cols, random_floats(cols, 33));
  if (parts.beta) epilogue.beta = h.input<float>(1, cols, random_floats(cols, 34));
  epilogue.function = parts.function;
  if (parts.dropout == Dropout::kNone) return epilogue;
  std::vector<GlobalId> ids;
  for (std::int64_t i = 0; i < rows; ++i) ids.push_back(GlobalId{5'000'000'000 + 7 * i});
  epilogue.dropout = {
      {12345678901234ULL, RandomStream::kDropout, 2, 9}, dropout_threshold(0.3), h.input_span(ids)};
  if (parts.dropout == Dropout::kState) {
    epilogue.dropout.state = h.epoch_state({.epoch = 10});
  }
  return epilogue;
}

std::string label(EpilogueParts parts) {
  std::string text;
  if (parts.norm) text += "norm ";
  if (parts.gamma) text += "gamma ";
  if (parts.beta) text += "beta ";
  if (parts.function != ActivationFunction::kNone) text += to_string(parts.function) + " "s;
  if (parts.dropout == Dropout::kKey) text += "dropout ";
  if (parts.dropout == Dropout::kState) text += "dropout of the state's epoch ";
  return text.empty() ? "identity" : text.substr(0, text.size() - 1);
}

std::vector<EpilogueParts> all_epilogues() {
  std::vector<EpilogueParts> all;
  for (const Dropout dropout : {Dropout::kNone, Dropout::kKey, Dropout::kState}) {
    for (int bits = 0; bits < 16; ++bits) {
      const auto function = (bits & 8) != 0 ? ActivationFunction::kRelu : ActivationFunction::kNone;
      all.push_back({(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, function, dropout});
    }
    for (const ActivationFunction function : kCurvedFunctions) {
      all.push_back({.function = function, .dropout = dropout});
      all.push_back({true, true, true, function, dropout});
    }
  }
  return all;
}

Outputs run_apply_epilogue(Harness& h, std::int64_t rows, std::int64_t cols, EpilogueParts parts,
                           bool in_place) {
  const Epilogue epilogue = make_epilogue(h, rows, cols, parts);
  const auto values = random_floats(rows * cols, 5);
  const MatrixView y = in_place ? h.matrix(rows, cols, Use::kInOut, values) : h.output(rows, cols);
  const ConstMatrixView x = in_place ? ConstMatrixView(y) : h.input(rows, cols, values);
  h.backend().run(h.queue(), kernels::ApplyEpilogue{x, epilogue, y});
  return {h.result(y)};
}

}  // namespace atl
