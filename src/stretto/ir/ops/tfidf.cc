// TfIdfVectorizer on integers: how often each listed n-gram occurs, weighted. The elements of an
// n-gram may lie up to max_skip_count elements apart, all equally far.
#include <algorithm>
#include <cmath>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kIndexTypes}};
constexpr Port kOutputs[] = {{"Y", type_bit(DType::kFloat32)}};
constexpr AttributeSpec kAttributes[] = {
    {"max_gram_length", AttributeKind::kInt, true}, {"max_skip_count", AttributeKind::kInt, true},
    {"min_gram_length", AttributeKind::kInt, true}, {"mode", AttributeKind::kString, true},
    {"ngram_counts", AttributeKind::kInts, true},   {"ngram_indexes", AttributeKind::kInts, true},
    {"pool_int64s", AttributeKind::kInts},          {"weights", AttributeKind::kFloats}};

struct Gram {
  std::vector<int64_t> items;
  int64_t column = 0;
  double weight = 1;
};

struct Plan {
  std::vector<Gram> grams;  // of the lengths that count
  int64_t columns = 0, rows = 0, length = 0, skips = 0;
  bool counts = true;  // or only whether it occurs
};

Plan plan_of(const Attributes& attributes, const Shape& x) {
  const std::string mode = attributes.text("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") {
    throw_invalid("mode: expected TF, IDF or TFIDF, got {}", mode);
  }
  if (x.empty() || x.size() > 2) {
    throw_invalid("X: expected one or two dimensions, got shape {}", shape_text(x));
  }
  const std::vector<int64_t> pool = attributes.integers("pool_int64s", {});
  if (pool.empty()) throw_unsupported("only integers are supported: pool_int64s is missing");
  const std::vector<int64_t> starts = attributes.integers("ngram_counts", {});
  const std::vector<int64_t> columns = attributes.integers("ngram_indexes", {});
  const std::vector<double> weights = attributes.numbers("weights", {});
  const int64_t least = attributes.integer("min_gram_length", 1);
  const int64_t most = attributes.integer("max_gram_length", 1);
  Plan plan{.rows = x.size() == 2 ? x[0] : 1,
            .length = x.back(),
            .skips = attributes.integer("max_skip_count", 0),
            .counts = mode != "IDF"};
  if (least < 1 || most < least || plan.skips < 0) {
    throw_invalid("min_gram_length, max_gram_length, max_skip_count: {}, {} and {} do not fit",
                  least, most, plan.skips);
  }
  const auto size = static_cast<int64_t>(pool.size());
  size_t gram = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto n = static_cast<int64_t>(i) + 1;
    const int64_t begin = starts[i], end = i + 1 < starts.size() ? starts[i + 1] : size;
    if (begin < 0 || end < begin || end > size || (end - begin) % n != 0) {
      throw_invalid("ngram_counts: {} to {} holds no {}-grams of the pool", begin, end, n);
    }
    for (int64_t at = begin; at < end; at += n, ++gram) {
      if (gram >= columns.size() || columns[gram] < 0 || columns[gram] > kMaxElements) {
        throw_invalid("ngram_indexes: expected a column for each n-gram, got {}", columns.size());
      }
      plan.columns = std::max(plan.columns, columns[gram] + 1);
      if (n < least || n > most) continue;
      const auto column = static_cast<size_t>(columns[gram]);
      const bool weighted = mode != "TF" && !weights.empty();
      if (weighted && column >= weights.size()) {
        throw_invalid("weights: expected one for each column, got {}", weights.size());
      }
      plan.grams.push_back({.items = {pool.begin() + at, pool.begin() + at + n},
                            .column = columns[gram],
                            .weight = weighted ? weights[column] : 1});
    }
  }
  return plan;
}

void infer(Inference& c) {
  const Plan plan = plan_of(c.attributes(), c.shape(0));
  c.set_output(0, DType::kFloat32,
               c.rank(0) == 2 ? Shape{plan.rows, plan.columns} : Shape{plan.columns});
}

int64_t occurrences(const Gram& gram, const int64_t* row, const Plan& plan) {
  const auto n = static_cast<int64_t>(gram.items.size());
  int64_t count = 0;
  // Distances make no difference to a single element.
  const int64_t most = n == 1 ? 1 : std::min(plan.skips + 1, plan.length);
  for (int64_t distance = 1; distance <= most; ++distance) {
    for (int64_t start = 0; start + (n - 1) * distance < plan.length; ++start) {
      bool same = true;
      for (int64_t i = 0; same && i < n; ++i) same = row[start + i * distance] == gram.items[i];
      count += same ? 1 : 0;
    }
  }
  return count;
}

void evaluate(Evaluation& c) {
  const Plan plan = plan_of(c.attributes, c.inputs[0].shape());
  const std::vector<int64_t> x = c.inputs[0].as_int64s();
  float* y = data_of<float>(c.make_output(0));
  for (int64_t row = 0; row < plan.rows; ++row) {
    for (const Gram& gram : plan.grams) {
      const auto found = static_cast<double>(occurrences(gram, x.data() + row * plan.length, plan));
      float& out = y[row * plan.columns + gram.column];
      if (plan.counts) {
        out += static_cast<float>(gram.weight * found);
      } else if (found > 0) {
        out = static_cast<float>(gram.weight);
      }
    }
  }
}

}  // namespace

const Operator kTfIdfVectorizer{.name = "TfIdfVectorizer",
                                .inputs = kInputs,
                                .outputs = kOutputs,
                                .attributes = kAttributes,
                                .infer = infer,
                                .evaluate = evaluate};

}  // namespace stretto::ir::ops
