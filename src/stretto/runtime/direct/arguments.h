// What one call of an operator is given, and the bytes by which a compiled one is found again.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/fork.h"
#include "stretto/import/onnx/signature.h"
#include "stretto/ops.h"
#include "stretto/runtime/shared_weights.h"

namespace stretto {

struct ops::Constant::State {
  Tensor tensor;
  uint64_t id = 0;  // no two of one process have the same

  // What is made of it, for all operators that use it: anew in a forked child.
  struct Made {
    const uint64_t forks = stretto::forks();
    runtime::SharedWeights packed;  // by kernels
    std::mutex mutex;
    Tensor wide;  // of halves: the values as float32
  };
  Made& made() const;
  // The values as float32, which are converted once. Only of halves.
  const Tensor& wide() const;

  State() = default;
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

 private:
  mutable std::atomic<Made*> made_ = nullptr;
};

namespace runtime::direct {

// How many constants have gone since the process started.
uint64_t constants_gone();

// An operator as calls see it: one row each, whose address is its name in keys.
struct DirectOperator {
  const onnx::Signature* signature;
  uint64_t by_value = 0;  // bit i: input i must be known when the operator is compiled
  // Bit i: a plain number for input i is known then, because kernels take it only so.
  uint64_t number_by_value = 0;

  bool reads_value(size_t i) const { return i < 64 && (by_value >> i & 1) != 0; }
  bool reads_number(size_t i) const {
    return i < 64 && ((by_value | number_by_value) >> i & 1) != 0;
  }
};

std::span<const DirectOperator> direct_operators();
// Throws InvalidArgument for a name that is none, with names that are like it.
const DirectOperator& direct_operator(std::string_view op);

enum class ArgumentKind : uint8_t { kAbsent, kArray, kValue, kConstant };

// One input. Nothing is owned: it is for the time of one call.
struct Argument {
  ArgumentKind kind = ArgumentKind::kAbsent;
  DType dtype = DType::kUndefined;
  std::span<const int64_t> shape;
  const void* data = nullptr;  // dense row-major
  const std::shared_ptr<const ops::Constant::State>* constant = nullptr;

  int64_t bytes() const {
    auto count = static_cast<int64_t>(dtype_bytes(dtype));
    for (int64_t size : shape) count *= size;
    return count;
  }
};

// The bytes of a key. Most calls fit into the first buffer, so that nothing is allocated.
class Key {
 public:
  Key(const DirectOperator& op, int outputs, int64_t opset) {
    const DirectOperator* address = &op;
    add(address);
    add(static_cast<int16_t>(outputs));
    add(static_cast<int16_t>(opset));
  }
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;

  std::string_view bytes() const { return {data(), size_}; }

  // Inputs in order, all of them before the first attribute.
  void add(const Argument& argument) {
    add(static_cast<uint8_t>(argument.kind));
    if (argument.kind == ArgumentKind::kAbsent) return;
    if (argument.kind == ArgumentKind::kConstant) return add((*argument.constant)->id);
    add(static_cast<uint8_t>(argument.dtype));
    add(static_cast<uint8_t>(argument.shape.size()));
    write(argument.shape.data(), argument.shape.size_bytes());
    if (argument.kind == ArgumentKind::kValue) {
      write(argument.data, static_cast<size_t>(argument.bytes()));
    }
  }

  // Attributes in the order of the signature, each after its index there. The mark is no kind of
  // argument, so that no inputs and attributes together look like other ones.
  void attribute(int index) {
    add('@');
    add(static_cast<int16_t>(index));
  }
  void named_attribute(std::string_view name) {  // of an older opset
    attribute(-1);
    value(name);
  }
  void value(int64_t number) { tagged('i', number); }
  void value(double number) { tagged('f', number); }
  void value(std::string_view text) {
    tagged('s', text.size());
    write(text.data(), text.size());
  }
  // Before the elements of a list, which are added by value().
  void list(size_t size) { tagged('l', size); }
  template <typename T>
  void value(const std::vector<T>& values) {
    list(values.size());
    for (const T& one : values) value(one);
  }
  void value(const Tensor& tensor);

  // Lets every kValue of `arguments`, which were added in this order, read its copy in the key:
  // nobody else can change that.
  void own_values(std::span<Argument> arguments) const;

  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void add(const T& item) { write(&item, sizeof item); }

 private:
  template <typename T>
  void tagged(char tag, const T& item) {
    add(tag);
    add(item);
  }
  char* data() { return long_.empty() ? short_ : long_.data(); }
  const char* data() const { return long_.empty() ? short_ : long_.data(); }
  void write(const void* from, size_t size) {
    if (size == 0) return;
    if (size_ + size > capacity_) grow(size);
    std::memcpy(data() + size_, from, size);
    size_ += size;
  }
  void grow(size_t more);

  size_t size_ = 0, capacity_ = sizeof short_;
  char short_[512];
  std::vector<char> long_;
};

// Adds attributes that are known by name, as a call from C++ has them. Names that the signature
// lacks are taken when `opset` is an older one. Throws InvalidArgument.
void add_attributes(Key& key, const DirectOperator& op, const ir::Attributes& attributes,
                    int64_t opset);

// The attributes as ONNX has them: names of element types become numbers.
ir::Attributes with_type_numbers(const ir::Attributes& attributes);

// Throws InvalidArgument: Conv has no attribute "stride"; it has ...
void check_attribute(const DirectOperator& op, std::string_view name, int64_t opset);

}  // namespace runtime::direct
}  // namespace stretto
