#include "launch/pyg_model.hpp"

#include <fmt/format.h>

namespace atl {

namespace {

// Names of the layer's own parameters, as "weight" of "layers.0.weight".
Json parameters_of(const Program& program, std::size_t layer) {
  const std::string prefix = fmt::format("layers.{}.", layer);
  Json names = Json::array();
  for (const DeclaredParameter& parameter : program.parameters) {
    if (parameter.name.starts_with(prefix)) names.push_back(parameter.name.substr(prefix.size()));
  }
  return names;
}

}  // namespace

Json pyg_description(const ModelConfig& model) {
  const Program program = model_program(model, Pass::kEvaluation);
  Json json = {{"features", model.features},
               {"outputs", model.outputs},
               {"relations", model.relations},
               {"edge-features", model.edge_features},
               {"node-types", model.node_types},
               {"trained-nodes", model.trains_nodes() ? model.nodes : 0},
               {"input-dropout", model.input_dropout},
               {"decoder", to_string(model.decoder)},
               {"decoder-layers", model.decoder_layers},
               {"decoder-dropout", model.decoder_dropout}};
  const ModelDescription described = describe(model);
  json.update(description_json(described));
  int number = 0;  // in the stretch of layers with the same convolution
  for (std::size_t l = 0; l < described.layers.size(); ++l) {
    const bool goes_on =
        l > 0 && described.layers[l].convolution == described.layers[l - 1].convolution;
    number = goes_on ? number + 1 : 1;
    Json& layer = json["layer"][l];
    layer["number"] = number;
    layer["columns"] = program.at(program.layers[l].output).columns;
    layer["parameters"] = parameters_of(program, l);
  }
  return json;
}

}  // namespace atl
