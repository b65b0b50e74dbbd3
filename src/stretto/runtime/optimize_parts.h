// What optimising a straight-line model and one that runs in stages have in common.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/other_work.h"
#include "stretto/ir/graph.h"
#include "stretto/runtime/measure_model.h"
#include "stretto/runtime/tuning.h"
#include "stretto/stretto.h"

namespace stretto::runtime {

// Rules that make operators fewer: without them, the graph runs one kernel per operator, which is
// what "before" means in the report.
const std::set<std::string>& fusions();

struct TuningBudget {
  double seconds = 0;
  bool thorough = false;
};

// Throw InvalidArgument naming the option.
TuningBudget parse_tuning(const std::string& tuning);
kernels::Target make_target(const OptimizeOptions& options);
TuningOptions tuning_options(const OptimizeOptions& options, const TuningBudget& budget,
                             const ir::Graph& graph);
bool is_family(std::string_view name);

// Seconds per stage of the work, in order.
class Stages {
 public:
  explicit Stages(const OptimizeOptions& options) : options_(options) {}
  template <typename F>
  auto operator()(const char* name, F&& f) {
    if (options_.progress) options_.progress(name, 0);
    const double start = now_s();
    struct Stop {
      nlohmann::json& seconds;
      const char* name;
      double start;
      ~Stop() { seconds[name] = seconds.value(name, 0.0) + now_s() - start; }
    } stop{seconds_, name, start};
    return f();
  }
  nlohmann::json finish() {
    seconds_["total"] = now_s() - begin_;
    return seconds_;
  }
  OtherWork other_work() const { return meter_.read(); }

 private:
  const OptimizeOptions& options_;
  const double begin_ = now_s();
  const OtherWorkMeter meter_;
  nlohmann::json seconds_ = nlohmann::json::object();
};

// What a rounding of stored values can move, in units of the largest value.
double storage_error(const ir::Graph& graph);

struct Verified {
  std::vector<Tensor> expected;
  std::vector<OutputError> errors;
  double bound = 0;
};

// Compares with the double-precision reference. Throws InternalError when an output is off by more
// than its accuracy class and the inputs' conditioning allow, InvalidArgument when these inputs
// check nothing.
Verified verified(const ir::Graph& original, const Program& program,
                  const std::vector<Tensor>& inputs, const std::string& file,
                  nlohmann::json& notes);

}  // namespace stretto::runtime
