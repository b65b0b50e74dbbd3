// Which row runs a problem: forced > recorded > measured now > the family's own order.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "stretto/base/team.h"
#include "stretto/kernels/family.h"
#include "stretto/tune/record.h"

namespace stretto::runtime {

struct Alternative {
  std::string kernel;
  double seconds = 0;  // best measured; 0 when not measured
  std::string reason;  // why it was not measured or not allowed
};

struct Selection {
  const kernels::Family* family = nullptr;
  int row = -1;
  double seconds = 0;   // measured or recorded; 0 when neither
  double estimate = 0;  // seconds expected from the row's own expectation
  std::string why;      // for people
  std::vector<Alternative> alternatives;

  double cost() const { return tune::quantise_seconds(seconds > 0 ? seconds : estimate); }
};

struct SelectOptions {
  double budget_s = 0;    // for measuring all problems together; 0: never measure
  bool thorough = false;  // also measure rows that expect to be far behind
  std::map<std::string, std::string> forced;  // family name -> row name
  tune::Record record;                        // consulted first; results are added
  // Made elsewhere: used for what is neither recorded nor measured here.
  tune::Record advice;
};

struct SelectCounts {
  int measured = 0, recorded = 0, by_order = 0;
};

class Selector {
 public:
  explicit Selector(SelectOptions options);

  bool measures() const { return options_.budget_s > 0; }

  // Measures all problems that no record knows, within the budget, most expensive first. Problems
  // are addresses of the family's problem type. Candidates whose results disagree with the
  // reference are struck out and said so.
  struct Request {
    const kernels::Family* family;
    const void* problem;
  };
  void measure(std::vector<Request> requests,
               const std::function<void(std::string_view, double)>& progress);

  // The selection for a problem. Throws Unsupported or InvalidArgument when a forced row does not
  // fit.
  const Selection& select(const kernels::Family& family, const void* problem);

  const tune::Record& record() const { return options_.record; }
  // Every problem selected so far with its row and cost: with this record, the same selections and
  // so the same layouts come out again.
  tune::Record used() const;
  SelectCounts counts() const;

 private:
  Selection decide(const kernels::Family& family, const void* problem) const;
  SelectOptions options_;
  std::map<std::string, Selection> selections_;  // by problem key
  std::map<int, std::unique_ptr<ThreadTeam>> teams_;
};

// Seconds the row's expectation stands for: work over expected rate, plus a dispatch overhead.
double estimate_seconds(const kernels::Family& family, const void* problem, double expected);

// Error relative to the largest output that a candidate may show against the reference.
double allowed_error(kernels::Accuracy accuracy);

}  // namespace stretto::runtime
