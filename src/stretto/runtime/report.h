// Collects what optimize() did and measured into the report JSON (docs/formats/report.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "stretto/base/other_work.h"
#include "stretto/passes/pipeline.h"
#include "stretto/runtime/compile.h"
#include "stretto/runtime/measure_model.h"
#include "stretto/runtime/model_state.h"
#include "stretto/runtime/sample_inputs.h"

namespace stretto::runtime {

nlohmann::json machine_json(const kernels::Target& target);
nlohmann::json other_work_json(const OtherWork& work);
nlohmann::json options_json(const OptimizeOptions& options, const kernels::Target& target);
nlohmann::json inputs_json(const ir::Graph& graph, const std::vector<SampleInput>& samples);
nlohmann::json latency_json(const Latency& latency);
// Time, kernel, reason and alternatives of every instruction; times may be empty.
nlohmann::json operators_json(const Compiled& compiled, const std::vector<double>& ms);
// Times of a program summed by operator, slowest first.
nlohmann::json operator_sums_json(const Program& program, const std::vector<double>& ms);
nlohmann::json passes_json(const std::vector<passes::Fired>& fired);
// What comes before the program of a model that takes pictures, timed if `timed`.
nlohmann::json preprocess_json(const Model::State& model, bool timed);
nlohmann::json errors_json(const std::vector<OutputError>& errors, double bound);

}  // namespace stretto::runtime
