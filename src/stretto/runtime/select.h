// Which row runs a problem: forced > tuning cache > measured now > the family's own order.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "stretto/base/team.h"
#include "stretto/kernels/family.h"
#include "stretto/tune/tuning_cache.h"

namespace stretto::runtime {

struct Alternative {
  std::string kernel;
  double seconds = 0;  // best measured; 0 when not measured
  std::string reason;  // why it was not measured or not allowed
};

struct Selection {
  const kernels::Family* family = nullptr;
  int row = -1;
  int panel_width = 0;  // of Target, if not that of the problem
  double seconds = 0;   // measured now or earlier; 0 when neither
  double estimate = 0;  // seconds expected from the row's own expectation
  std::string why;      // for people
  std::vector<Alternative> alternatives;

  double cost() const { return tune::quantise_seconds(seconds > 0 ? seconds : estimate); }
};

struct SelectOptions {
  double budget_s = 0;    // for measuring all problems together; 0: never measure
  bool thorough = false;  // also measure rows that expect to be far behind
  std::map<std::string, std::string> forced;  // family name -> row name
  tune::TuningCache known;                    // choices that are taken without measuring
  // Choices made on another machine: they stand in where nothing is known and nothing is measured.
  tune::TuningCache advice;
};

struct SelectCounts {
  int measured = 0, known = 0, by_order = 0;
};

class Selector {
 public:
  explicit Selector(SelectOptions options);

  bool measures() const { return options_.budget_s > 0; }

  // Measures all problems whose choice is not known, within the budget, those first from which most
  // is expected: that take long, that several requests share, and whose candidates expect to take
  // about as long as each other. Problems are addresses of the family's problem type. Candidates
  // whose results disagree with the reference are excluded, and Selection::alternatives gives that
  // as the reason.
  struct Request {
    const kernels::Family* family;
    const void* problem;
    double likely = 1;  // from 0 to 1: that the problem will be run at all
  };
  void measure(const std::vector<Request>& requests,
               const std::function<void(std::string_view, double)>& progress);

  // The selection for a problem. Throws Unsupported or InvalidArgument when a forced row does not
  // fit.
  const Selection& select(const kernels::Family& family, const void* problem);

  // What measure() found: what a tuning cache has to remember.
  const tune::TuningCache& found() const { return found_; }
  // Every problem selected so far with its row and cost: with these known, the same selections and
  // so the same layouts come out again.
  tune::TuningCache used() const;
  SelectCounts counts() const;

 private:
  struct Task;
  Selection decide(const kernels::Family& family, const void* problem,
                   const std::string& key) const;
  std::vector<Task> plan(const std::vector<Request>& requests) const;
  Selection measure_one(const Task& task, double budget_s);
  SelectOptions options_;
  tune::TuningCache found_;
  std::map<std::string, Selection> selections_;  // by problem key
  std::map<int, std::unique_ptr<ThreadTeam>> teams_;
};

// Seconds the row's expectation stands for: work over expected rate, plus a dispatch overhead.
double estimate_seconds(const kernels::Family& family, const void* problem, double expected);

// Error relative to the largest output that a candidate may show against the reference.
double allowed_error(kernels::Accuracy accuracy);

}  // namespace stretto::runtime
