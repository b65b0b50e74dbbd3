// Sequences of tensors whose length is known when the model is read: a name then stands for a list
// of values, and nothing of the sequence is left in the graph. Whatever only a run can know throws
// NotStraight, so that the operators of ir/host do it between stages.
#include <algorithm>

#include "stretto/import/onnx/builder.h"
#include "stretto/import/onnx/compose.h"
#include "stretto/ir/not_straight.h"

namespace stretto::onnx {
namespace {

// Copies of longer lists in all, or pieces of one tensor: stages take less memory for them.
constexpr int64_t kMostItems = 200'000, kMostPieces = 4096;

}  // namespace

Builder::KnownSequence Builder::copied(const KnownSequence& sequence) {
  sequence_items_ += static_cast<int64_t>(sequence.count) + 1;
  if (sequence_items_ > kMostItems) {
    ir::throw_not_straight("{}: its sequences are too long to be expanded", source_.name);
  }
  const auto values = sequence.values();
  return {.items = std::make_shared<std::vector<ir::ValueId>>(values.begin(), values.end()),
          .count = sequence.count};
}

ir::ValueId Builder::add_known(KnownSequence sequence) {
  sequences_.push_back(std::move(sequence));
  return kFirstSequence - static_cast<ir::ValueId>(sequences_.size() - 1);
}

bool Builder::add_known_sequence(Scope& scope, const WireNode& node) {
  if (!node.domain.empty() || node.outputs.size() != 1 || node.outputs[0].empty()) return false;
  const auto later = [&](std::string_view why) {
    ir::throw_not_straight("{}: {} \"{}\": {}", source_.name, node.op, node.name, why);
  };
  const auto has = [&](size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); };
  const auto tensor = [&](size_t i) {
    if (!has(i)) later("an input is missing");
    const ir::ValueId id = use(scope, node.inputs[i], &node);
    if (id == ir::kNone) later("an input is missing");
    return id;
  };
  const auto sequence = [&]() -> const KnownSequence& {
    const ir::ValueId id = has(0) ? use_any(scope, node.inputs[0], &node) : ir::kNone;
    if (id > kFirstSequence) later("its sequence is known only when the model runs");
    return sequences_[static_cast<size_t>(kFirstSequence - id)];
  };
  // The position that input `i` names, from 0 to `most`; negative ones count from `size`.
  const auto place = [&](size_t i, size_t size, int64_t most) {
    const ir::Value& value = emitter_.value(tensor(i));
    if (!value.is_constant() || value.constant.count() != 1) later("its position is not known");
    int64_t at = value.constant.as_int64s()[0];
    if (at < 0) at += static_cast<int64_t>(size);
    if (at < 0 || at > most) later("its position is outside of the sequence");
    return static_cast<size_t>(at);
  };
  const auto expect_alike = [&](const KnownSequence& all, ir::ValueId id) {
    if (all.count > 0 && emitter_.value(all.values()[0]).dtype != emitter_.value(id).dtype) {
      later("its tensors have different types");
    }
  };
  const auto finish = [&](ir::ValueId id) { define(scope, node.outputs[0], id, node.position); };

  if (node.op == "Identity") {
    if (!has(0)) return false;
    const ir::ValueId id = use_any(scope, node.inputs[0], &node);
    if (id > kFirstSequence) return false;
    finish(id);
  } else if (node.op == "SequenceEmpty" || node.op == "SequenceConstruct") {
    KnownSequence made = copied({});
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ir::ValueId id = tensor(i);
      expect_alike(made, id);
      made.items->push_back(id);
      ++made.count;
    }
    finish(add_known(std::move(made)));
  } else if (node.op == "SequenceInsert") {
    KnownSequence all = sequence();
    const ir::ValueId id = tensor(1);
    expect_alike(all, id);
    const size_t at = has(2) ? place(2, all.count, static_cast<int64_t>(all.count)) : all.count;
    // Loops append: then the longer list shares the memory of the shorter one.
    if (at < all.count || all.items->size() > all.count) all = copied(all);
    all.items->insert(all.items->begin() + static_cast<std::ptrdiff_t>(at), id);
    ++all.count;
    finish(add_known(std::move(all)));
  } else if (node.op == "SequenceErase") {
    KnownSequence all = copied(sequence());
    if (all.count == 0) later("the sequence is empty");
    const auto last = static_cast<int64_t>(all.count) - 1;
    const size_t at = has(1) ? place(1, all.count, last) : all.count - 1;
    all.items->erase(all.items->begin() + static_cast<std::ptrdiff_t>(at));
    --all.count;
    finish(add_known(std::move(all)));
  } else if (node.op == "SequenceAt") {
    const KnownSequence& all = sequence();
    finish(all.values()[place(1, all.count, static_cast<int64_t>(all.count) - 1)]);
  } else if (node.op == "SequenceLength") {
    const auto count = static_cast<int64_t>(sequence().count);
    finish(emitter_.add_constant(scope.prefix + std::string(node.outputs[0]),
                                 Tensor::scalar<int64_t>(count)));
  } else if (node.op == "ConcatFromSequence" || node.op == "SplitToSequence") {
    PendingNode pending{
        .emitter = emitter_,
        .source = source_,
        .opset = scope.opset,
        .op = std::string(node.op),
        .name = scope.prefix + std::string(node.name.empty() ? node.outputs[0] : node.name),
        .output_count = 1,
        .attributes = read_attributes(source_, node, scope.attributes, tensors_).plain};
    const size_t first_new = emitter_.graph().values.size();
    if (node.op == "ConcatFromSequence") {
      const ir::ValueId id = joined(pending, sequence());
      finish(id);
      adopt_name(scope, node.outputs[0], id, first_new);
    } else {
      pending.inputs = {tensor(0), has(1) ? tensor(1) : ir::kNone};
      finish(add_known(split(pending)));
    }
  } else {
    return false;
  }
  return true;
}

ir::ValueId Builder::joined(PendingNode& node, const KnownSequence& sequence) {
  Parts parts(node);
  if (sequence.count == 0) node.not_straight("the sequence is empty");
  std::vector<ir::ValueId> all(sequence.values().begin(), sequence.values().end());
  const bool fresh = node.attributes.integer("new_axis", 0) != 0;
  const auto rank = static_cast<int64_t>(parts.shape(all[0]).size()) + (fresh ? 1 : 0);
  const int64_t axis = normalize_axis(node.attributes.integer("axis", 0), rank, node.op + ": axis");
  if (fresh) {
    for (ir::ValueId& id : all) id = parts.op("Unsqueeze", {id, parts.integers({axis})});
  }
  return parts.concat(std::move(all), axis);
}

Builder::KnownSequence Builder::split(PendingNode& node) {
  Parts parts(node);
  const ir::ValueId x = node.inputs[0];
  const Shape shape = parts.shape(x);
  const int64_t axis = normalize_axis(node.attributes.integer("axis", 0),
                                      static_cast<int64_t>(shape.size()), node.op + ": axis");
  const int64_t size = shape[static_cast<size_t>(axis)];
  const bool one_each = !node.has_input(1);
  std::vector<int64_t> sizes;
  if (!one_each) {
    const Tensor* given = node.constant(1);
    if (given == nullptr) node.not_straight("its sizes are known only when the model runs");
    sizes = given->as_int64s();
    if (given->rank() == 0) {
      const int64_t step = sizes[0];
      if (step < 1 || size / step >= kMostPieces) node.not_straight("its size is no usual one");
      sizes.clear();
      for (int64_t at = 0; at < size; at += step) sizes.push_back(std::min(step, size - at));
    }
  } else if (size <= kMostPieces) {
    sizes.assign(static_cast<size_t>(size), 1);
  }
  int64_t sum = 0;
  for (const int64_t part : sizes) {
    if (part < 0 || part > size - sum) node.not_straight("its sizes do not add up to the axis");
    sum += part;
  }
  if (sum != size || static_cast<int64_t>(sizes.size()) > kMostPieces) {
    node.not_straight("its sizes do not add up to the axis, or are too many");
  }
  KnownSequence made = copied({});
  int64_t at = 0;
  for (const int64_t part : sizes) {
    const bool keeps = !one_each || node.attributes.integer("keepdims", 1) != 0;
    ir::ValueId id = ir::kNone;
    if (keeps) {
      id = parts.slice(x, axis, at, at + part);
    } else {
      const ir::ValueId here = parts.constant(Tensor::scalar<int64_t>(at));
      id = parts.op("Gather", {x, here}, attribute("axis", axis));
    }
    made.items->push_back(id);
    ++made.count;
    at += part;
  }
  return made;
}

}  // namespace stretto::onnx
