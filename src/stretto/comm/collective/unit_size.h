// How large units are before tuning. A unit is cut into parts that are sent on their own, so many
// ranks need larger units: the time per message must be small beside that of its bytes. On links
// that carry more bytes in the time of their latency, parts and units are larger.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/comm/collective/algorithm.h"

namespace stretto::comm {

// Into how many parts the algorithms of the group's order cut a unit, about: one for every rank, or
// in the tree of hosts one for every rank of a host and level.
int64_t parts_per_unit(const Problem& problem);

// Bytes of a unit for an operation of so many bytes. `chunk_bytes`: the least part that is worth a
// message on links of LinkModel's defaults (Options::chunk_bytes). All ranks pass the same link.
// The engine must allow at least two such units under way.
int64_t default_unit_bytes(const Problem& problem, int64_t chunk_bytes, int64_t operation_bytes,
                           const LinkModel& link = {});

// Sets the problem's unit for elements of so many bytes, in the engine as in the simulator; a
// barrier has none. The problem is complete but for that. unit_bytes 0: the default for this link;
// all ranks must cut alike, so it depends on the size of the operation only in an all-reduce, whose
// ranks have the same count, and with a codec, whose results may depend on units, not on the link.
void set_unit(Problem* problem, int64_t element_bytes, int64_t chunk_bytes, const LinkModel& link,
              int64_t unit_bytes = 0);

// Sizes to try when steps are tuned, ascending: powers of two around the default of a large
// operation on default links, and the default of small groups.
std::vector<int64_t> unit_sizes_to_try(const Problem& problem, int64_t chunk_bytes);

}  // namespace stretto::comm
