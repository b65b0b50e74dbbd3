// What codecs with error feedback left out of operations that have no residual of their own, to be
// added to the next operation of the same name.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "stretto/comm/engine/engine.h"

namespace stretto::comm {

class NamedResiduals {
 public:
  // `count` floats, which begin as zeros.
  float* of(Group group, const std::string& name, int64_t count) {
    std::vector<float>& kept = kept_[{group, name, count}];
    kept.resize(static_cast<size_t>(count));
    return kept.data();
  }

  void drop(Group group) {
    const auto first = kept_.lower_bound({group, "", std::numeric_limits<int64_t>::min()});
    auto last = first;
    while (last != kept_.end() && std::get<0>(last->first) == group) ++last;
    kept_.erase(first, last);
  }

 private:
  std::map<std::tuple<Group, std::string, int64_t>, std::vector<float>> kept_;
};

}  // namespace stretto::comm
