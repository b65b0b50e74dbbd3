// What links between the ranks of a group cost, for those who plan what to send: the codec `mixed`
// and segments. The engine chooses algorithms and units with the same LinkModel.
#pragma once

#include <cstdint>

#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/tuning/link_observer.h"
#include "stretto/comm/tuning/segment.h"

namespace stretto::comm {

struct GroupLinks {
  LinkCosts known{};  // as measured; 0: not known
  LinkModel model;    // the defaults, with what is known
  // Whether the costs that decide how long an all-reduce takes are known: those between hosts, or
  // of a group on one host those inside it.
  bool measured = false;
  LinkCost all_reduce;  // what an all-reduce takes without a codec, by `model`
  // Bytes through the busiest network card per byte of a long all-reduce with a codec; 0: all ranks
  // are on one host. Does not depend on `known`, so all ranks have the same.
  double coded_share = 0;
};

GroupLinks group_links(const Placement& placement, const LinkCosts& known, int64_t chunk_bytes);

}  // namespace stretto::comm
