// Walks several rows through one tree, or one row through several trees, at once: a walk is a chain
// of dependent loads, and eight chains keep the loads of a core busy. No step branches on data: a
// child is the first one plus the outcome of the comparison, and leaves lead to themselves.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "stretto/kernels/packing.h"
#include "stretto/kernels/trees/candidates.h"

namespace stretto::kernels::trees {
namespace {

constexpr int64_t kLanes = 8;
// Rows that walk through one tree before the next tree: their features stay in L1.
constexpr int64_t kBlock = 128;

template <typename T>
struct Node {
  T split;
  uint32_t first;    // child
  uint32_t feature;  // and flags
};

// Parts of the packed memory, in this order.
template <typename T>
struct Parts {
  explicit Parts(const TreesProblem& p)
      : roots(static_cast<size_t>(p.nodes) * sizeof(Node<T>)),
        ends(roots + static_cast<size_t>(p.trees) * 4),
        targets(ends + static_cast<size_t>(p.nodes + 1) * 4),
        weights((targets + static_cast<size_t>(p.entries) * 4 + 7) / 8 * 8),
        bytes(weights + static_cast<size_t>(p.entries) * sizeof(T)) {}
  size_t roots, ends, targets, weights, bytes;
};

template <typename T>
struct Model {
  Model(const TreesProblem& p, const std::byte* packed) {
    const Parts<T> parts(p);
    nodes = reinterpret_cast<const Node<T>*>(packed);
    roots = reinterpret_cast<const uint32_t*>(packed + parts.roots);
    ends = reinterpret_cast<const uint32_t*>(packed + parts.ends);
    targets = reinterpret_cast<const uint32_t*>(packed + parts.targets);
    weights = reinterpret_cast<const T*>(packed + parts.weights);
  }
  const Node<T>* nodes;
  const uint32_t* roots;
  const uint32_t* ends;  // entries of node n: [ends[n], ends[n + 1])
  const uint32_t* targets;
  const T* weights;
};

// Whatever the constants are: a walk must not leave the nodes, nor a row its features.
template <typename T>
void pack_as(const TreesProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const Parts<T> parts(p);
  std::memset(packed, 0, parts.bytes);
  const auto below = [](int64_t value, int64_t limit) {
    return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, limit - 1));
  };
  const auto splits = constants[0].values<T>();
  const auto links = constants[1].values<int32_t>();
  auto* nodes = reinterpret_cast<Node<T>*>(packed);
  for (int64_t n = 0; n < p.nodes; ++n) {
    const auto at = static_cast<size_t>(n);
    const int32_t flags = links[2 * at + 1] & ((1 << kTreeFeatureShift) - 1);
    const bool leaf = std::isnan(splits[at]) && links[2 * at] == n;
    nodes[n].split = splits[at];
    nodes[n].first = leaf ? static_cast<uint32_t>(n) : below(links[2 * at], p.nodes - 1);
    nodes[n].feature = below(links[2 * at + 1] >> kTreeFeatureShift, p.features)
                           << kTreeFeatureShift |
                       static_cast<uint32_t>(flags);
  }
  auto* roots = reinterpret_cast<uint32_t*>(packed + parts.roots);
  for (int64_t t = 0; t < p.trees; ++t) {
    roots[t] = below(constants[2].values<int32_t>()[static_cast<size_t>(t)], p.nodes);
  }
  auto* ends = reinterpret_cast<uint32_t*>(packed + parts.ends);
  for (int64_t n = 0; n < p.nodes; ++n) {
    ends[n + 1] = below(constants[3].values<int32_t>()[static_cast<size_t>(n)], p.entries + 1);
  }
  auto* targets = reinterpret_cast<uint32_t*>(packed + parts.targets);
  for (int64_t e = 0; e < p.entries; ++e) {
    targets[e] = below(constants[4].values<int32_t>()[static_cast<size_t>(e)], p.targets);
  }
  if (p.entries > 0) {
    std::memcpy(packed + parts.weights, constants[5].data(),
                static_cast<size_t>(p.entries) * sizeof(T));
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
      const T x = rows[lane][node.feature >> kTreeFeatureShift];
      uint32_t second = x <= node.split;
      if constexpr (kEqual) {
        second &= static_cast<uint32_t>((node.feature & kTreeEqual) == 0) |
                  static_cast<uint32_t>(x == node.split);
      }
      if constexpr (kMissing) {
        second |= static_cast<uint32_t>(x != x) &
                  static_cast<uint32_t>((node.feature & kTreeMissing) != 0);
      }
      const uint32_t next = node.first + second;
      moved |= next ^ at[lane];
      at[lane] = next;
    }
    if (moved == 0) return;
  }
}

template <typename T, TreeSum kSum>
void give(const Model<T>& model, uint32_t leaf, T* y) {
  for (uint32_t e = model.ends[leaf]; e < model.ends[leaf + 1]; ++e) {
    T& score = y[model.targets[e]];
    const T weight = model.weights[e];
    if constexpr (kSum == TreeSum::kLeast) {
      score = weight < score ? weight : score;
    } else if constexpr (kSum == TreeSum::kMost) {
      score = weight > score ? weight : score;
    } else {
      score += weight;
    }
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
          give<T, kSum>(model, at[lane], y + (row + lane) * p.targets);
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
        give<T, kSum>(model, at[lane], y + row * p.targets);
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
