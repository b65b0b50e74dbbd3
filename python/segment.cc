// Cuts of gradients for Python: what stretto/torch/_segments.py measures goes in.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "comm.h"
#include "stretto/comm/tuning/segment.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

using namespace stretto::comm;

using Rows = std::vector<std::tuple<std::string, int64_t, double>>;  // name, bytes, ready_s

std::vector<Gradient> gradients_of(const Rows& rows) {
  std::vector<Gradient> gradients;
  for (const auto& [name, bytes, ready_s] : rows) gradients.push_back({name, bytes, ready_s});
  return gradients;
}

std::pair<double, double> fit(const std::vector<std::pair<double, double>>& measured) {
  std::vector<Transfer> transfers;
  for (const auto& [bytes, seconds] : measured) transfers.push_back({bytes, seconds});
  const LinkCost link = fit_link(transfers);
  return {link.alpha_s, link.beta_s_per_byte};
}

nb::list splits(const Rows& rows, double alpha_s, double beta_s_per_byte, int candidates,
                int max_segments) {
  nb::list result;
  for (const Split& split :
       best_splits(gradients_of(rows), {alpha_s, beta_s_per_byte}, candidates, max_segments))
    result.append(nb::make_tuple(split.ends, split.finish_s, split.tail_s));
  return result;
}

nb::dict plan(const Rows& rows, double alpha_s, double beta_s_per_byte) {
  const std::vector<Gradient> gradients = gradients_of(rows);
  const LinkCost link{alpha_s, beta_s_per_byte};
  const BucketPlan found = plan_ddp_buckets(gradients, link);
  nb::dict result;
  result["first_cap_mib"] = found.first_cap_mib;
  result["cap_mib"] = found.cap_mib;
  result["ends"] = found.split.ends;
  result["tail_s"] = found.split.tail_s;
  result["default_tail_s"] = ddp_split(gradients, link, 1, 25).tail_s;
  result["text"] = describe(found, gradients, link);
  return result;
}

}  // namespace

void bind_segments(nb::module_& m) {
  m.def("comm_fit_link", &fit, "transfers"_a);
  m.def("comm_best_splits", &splits, "gradients"_a, "alpha_s"_a, "beta_s_per_byte"_a,
        "candidates"_a = 3, "max_segments"_a = 64);
  m.def("comm_plan_buckets", &plan, "gradients"_a, "alpha_s"_a, "beta_s_per_byte"_a);
}

}  // namespace stretto::python
