// Walks several rows through one tree, or one row through several trees, at once: a walk is a chain
// of dependent loads, and eight chains keep the loads of a core busy. No step branches on data: a
// child is the first one plus the outcome of the comparison, and leaves lead to themselves.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "stretto/kernels/packing.h"
#include "stretto/kernels/trees/candidates.h"

namespace stretto::kernels::trees {
namespace {

constexpr int64_t kLanes = 8;
// Rows that walk through one tree before the next tree: their features stay in L1.
constexpr int64_t kBlock = 128;

// A leaf leads to itself, and its `split` is its weight where all have one entry, else the place of
// its entries, as bits.
template <typename T>
struct Node {
  T split;
  uint32_t first;    // child
  uint32_t feature;  // << kShift, and flags
};
constexpr uint32_t kBranch = 1, kShift = 3;
constexpr int kEqualBit = 1, kMissingBit = 2;

template <typename T>
struct Entry {
  uint32_t target;  // in front of a leaf's entries: how many there are
  T weight;
};

// Parts of the packed memory, in this order: nodes, entries, roots.
template <typename T>
struct Parts {
  explicit Parts(const TreesProblem& p)
      : entries(static_cast<size_t>(p.nodes) * sizeof(Node<T>)),
        roots(entries +
              (p.single != 0 ? 0 : static_cast<size_t>(p.nodes + p.entries) * sizeof(Entry<T>))),
        bytes(roots + static_cast<size_t>(p.trees) * sizeof(uint32_t)) {}
  size_t entries, roots, bytes;
};

template <typename T>
struct Model {
  Model(const TreesProblem& p, const std::byte* packed) {
    const Parts<T> parts(p);
    nodes = reinterpret_cast<const Node<T>*>(packed);
    entries = reinterpret_cast<const Entry<T>*>(packed + parts.entries);
    roots = reinterpret_cast<const uint32_t*>(packed + parts.roots);
  }
  const Node<T>* nodes;
  const Entry<T>* entries;
  const uint32_t* roots;
};

uint32_t below(int64_t value, int64_t limit) {
  return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, limit - 1));
}

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Whatever the constants are: a walk must not leave the nodes, nor a row its features.
template <typename T>
void pack_as(const TreesProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const Parts<T> parts(p);
  std::memset(packed, 0, parts.bytes);
  const auto splits = constants[0].values<T>();
  const auto links = constants[1].values<int32_t>();
  const auto ends = constants[3].values<int32_t>();
  const auto targets = constants[4].values<int32_t>();
  const auto weights = constants[5].values<T>();
  auto* nodes = reinterpret_cast<Node<T>*>(packed);
  auto* entries = reinterpret_cast<Entry<T>*>(packed + parts.entries);
  size_t next = 0;
  int64_t begin = 0;
  for (int64_t n = 0; n < p.nodes; ++n) {
    const auto at = static_cast<size_t>(n);
    const int64_t end = std::clamp<int64_t>(ends[at], begin, p.entries);
    if (links[2 * at] != n) {
      const int32_t link = links[2 * at + 1];
      nodes[n].split = splits[at];
      nodes[n].first = below(links[2 * at], p.nodes - 1);
      nodes[n].feature = below(link >> kTreeFeatureShift, p.features) << kShift | kBranch |
                         ((link & kTreeEqual) != 0 ? 1u << kEqualBit : 0u) |
                         ((link & kTreeMissing) != 0 ? 1u << kMissingBit : 0u);
    } else if (p.single != 0) {
      nodes[n] = {weights[below(end - 1, p.entries)], static_cast<uint32_t>(n), 0};
    } else {
      nodes[n] = {std::bit_cast<T>(static_cast<Bits<T>>(next)), static_cast<uint32_t>(n), 0};
      entries[next++].target = static_cast<uint32_t>(end - begin);
      for (auto e = static_cast<size_t>(begin); e < static_cast<size_t>(end); ++e) {
        entries[next].target = below(targets[e], p.targets);
        entries[next++].weight = weights[e];
      }
    }
    begin = end;
  }
  auto* roots = reinterpret_cast<uint32_t*>(packed + parts.roots);
  for (int64_t t = 0; t < p.trees; ++t) {
    roots[t] = below(constants[2].values<int32_t>()[static_cast<size_t>(t)], p.nodes);
  }
}

// Eight walks from `at`, each with a row of its own; they end where `at` is then.
template <typename T, bool kEqual, bool kMissing>
void walk(const Node<T>* nodes, int64_t depth, const T* const (&rows)[kLanes],
          uint32_t (&at)[kLanes]) {
  for (int64_t step = 0; step < depth; ++step) {
    uint32_t moved = 0;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const Node<T>& node = nodes[at[lane]];
      const T x = rows[lane][node.feature >> kShift];
      uint32_t second = static_cast<uint32_t>(x <= node.split) & node.feature & kBranch;
      if constexpr (kEqual) {
        second &= (~node.feature >> kEqualBit & 1) | static_cast<uint32_t>(x == node.split);
      }
      if constexpr (kMissing) {
        second |= static_cast<uint32_t>(x != x) & (node.feature >> kMissingBit & 1);
      }
      const uint32_t next = node.first + second;
      moved |= next ^ at[lane];
      at[lane] = next;
    }
    if (moved == 0) return;
  }
}

template <typename T, TreeSum kSum>
void add(T& score, T weight) {
  if constexpr (kSum == TreeSum::kLeast) {
    score = weight < score ? weight : score;
  } else if constexpr (kSum == TreeSum::kMost) {
    score = weight > score ? weight : score;
  } else {
    score += weight;
  }
}

template <typename T, TreeSum kSum>
void give(const TreesProblem& p, const Model<T>& model, uint32_t leaf, T* y) {
  const T held = model.nodes[leaf].split;
  if (p.single != 0) return add<T, kSum>(*y, held);
  // A walk of made-up constants may end at a branch, which gives nothing.
  if ((model.nodes[leaf].feature & kBranch) != 0) return;
  const Entry<T>* entry = model.entries + std::bit_cast<Bits<T>>(held);
  for (uint32_t left = entry->target; left > 0; --left) {
    ++entry;
    add<T, kSum>(y[entry->target], entry->weight);
  }
}

template <typename T, TreeSum kSum, bool kEqual, bool kMissing>
void rows_of(const TreesProblem& p, const Args& args, int64_t begin, int64_t end) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  constexpr T kStart = kSum == TreeSum::kLeast ? kInf : kSum == TreeSum::kMost ? -kInf : 0;
  const Model<T> model(p, args.packed);
  const T* x = static_cast<const T*>(args.inputs[0]) + begin * p.features;
  T* y = static_cast<T*>(args.outputs[0]) + begin * p.targets;
  const int64_t count = end - begin, together = count / kLanes * kLanes;
  std::fill(y, y + count * p.targets, kStart);
  const T* rows[kLanes];
  uint32_t at[kLanes];
  for (int64_t block = 0; block < together; block += kBlock) {
    const int64_t block_end = std::min(block + kBlock, together);
    for (int64_t tree = 0; tree < p.trees; ++tree) {
      for (int64_t row = block; row < block_end; row += kLanes) {
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          rows[lane] = x + (row + lane) * p.features;
          at[lane] = model.roots[tree];
        }
        walk<T, kEqual, kMissing>(model.nodes, p.depth, rows, at);
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          give<T, kSum>(p, model, at[lane], y + (row + lane) * p.targets);
        }
      }
    }
  }
  for (int64_t row = together; row < count; ++row) {
    std::fill(rows, rows + kLanes, x + row * p.features);
    for (int64_t tree = 0; tree < p.trees; tree += kLanes) {
      const int64_t some = std::min(kLanes, p.trees - tree);
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        at[lane] = model.roots[tree + std::min(lane, some - 1)];
      }
      walk<T, kEqual, kMissing>(model.nodes, p.depth, rows, at);
      for (int64_t lane = 0; lane < some; ++lane) {
        give<T, kSum>(p, model, at[lane], y + row * p.targets);
      }
    }
  }
  for (int64_t i = 0; i < count * p.targets; ++i) {
    if constexpr (kSum == TreeSum::kAverage) y[i] /= static_cast<T>(p.trees);
    if constexpr (kStart != 0) y[i] = std::isinf(y[i]) ? 0 : y[i];
  }
}

template <typename T, TreeSum kSum>
void run_as(const TreesProblem& p, const Args& args, const Worker& worker) {
  const Range range = split(p.rows, worker, kLanes);
  if (range.begin >= range.end) return;
  if (p.equal != 0) return rows_of<T, kSum, true, true>(p, args, range.begin, range.end);
  if (p.missing != 0) return rows_of<T, kSum, false, true>(p, args, range.begin, range.end);
  rows_of<T, kSum, false, false>(p, args, range.begin, range.end);
}

template <typename T>
void run_type(const TreesProblem& p, const Args& args, const Worker& worker) {
  switch (p.sum) {
    case TreeSum::kAverage:
      return run_as<T, TreeSum::kAverage>(p, args, worker);
    case TreeSum::kSum:
      return run_as<T, TreeSum::kSum>(p, args, worker);
    case TreeSum::kLeast:
      return run_as<T, TreeSum::kLeast>(p, args, worker);
    case TreeSum::kMost:
      return run_as<T, TreeSum::kMost>(p, args, worker);
  }
}

bool is_float(const TreesProblem& p) { return p.dtype == DType::kFloat32; }

Fit fits(const TreesProblem&) { return Fit::yes(0.05); }

size_t packed_bytes(const TreesProblem& p) {
  return is_float(p) ? Parts<float>(p).bytes : Parts<double>(p).bytes;
}

void pack(const TreesProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  is_float(p) ? pack_as<float>(p, constants, packed) : pack_as<double>(p, constants, packed);
}

std::string packing(const TreesProblem&) { return packing_text("trees_walk", 1, 1); }

void run(const TreesProblem& p, const Args& args, const Worker& worker) {
  is_float(p) ? run_type<float>(p, args, worker) : run_type<double>(p, args, worker);
}

}  // namespace

const Row kWalk{.name = "walk",
                .fits = fits,
                .packed_bytes = packed_bytes,
                .pack = pack,
                .packing = packing,
                .run = run};

}  // namespace stretto::kernels::trees
