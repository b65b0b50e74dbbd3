// LabelEncoder of ai.onnx.ml: a table from keys to values.
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "stretto/base/error.h"
#include "stretto/ir/host/host.h"

namespace stretto::ir {
namespace {

// A list of keys or values in one of the ways that the operator has: `prefix`_strings,
// _int64s, _floats, or _tensor.
AnyValue list_of(const HostCall& call, const std::string& prefix) {
  const Attributes& a = call.attributes;
  if (const Attribute* found = a.find(prefix + "_strings")) {
    const auto& list = std::get<std::vector<std::string>>(*found);
    return Strings{{static_cast<int64_t>(list.size())}, list};
  }
  if (a.has(prefix + "_int64s")) return Tensor::int64s(a.integers(prefix + "_int64s", {}));
  if (a.has(prefix + "_floats")) {
    const std::vector<double> numbers = a.numbers(prefix + "_floats", {});
    const std::vector<float> floats(numbers.begin(), numbers.end());
    return Tensor::of<float>({static_cast<int64_t>(floats.size())}, floats);
  }
  if (const Attribute* found = a.find(prefix + "_tensor")) {
    if (const auto* list = std::get_if<std::vector<std::string>>(found)) {
      return Strings{{static_cast<int64_t>(list->size())}, *list};
    }
    return *a.tensor(prefix + "_tensor");
  }
  call.fail(fmt::format("attribute {}_* is missing", prefix));
}

// The bits of a number as a key that compares as the operator asks: NaN equals NaN, -0 is 0.
uint64_t key_of(double value) {
  if (std::isnan(value)) return 0x7ff8000000000000;
  return std::bit_cast<uint64_t>(value == 0 ? 0.0 : value);
}

}  // namespace

void host_label_encoder(HostCall& call) {
  const AnyValue keys = list_of(call, "keys"), values = list_of(call, "values");
  const auto count = [](const AnyValue& v) {
    return v.is_strings() ? v.strings().values.size() : static_cast<size_t>(v.tensor().count());
  };
  if (count(keys) != count(values)) call.fail("there are more keys than values, or fewer");
  const AnyValue& x = call.input(0);
  if (x.is_strings() != keys.is_strings()) {
    call.fail(fmt::format("the keys are {}, the input is {}", keys.kind(), x.kind()));
  }
  // The place of the value of each element; that behind the last stands for the default.
  std::vector<size_t> places;
  const size_t none = count(values);
  Shape shape;
  if (x.is_strings()) {
    std::map<std::string_view, size_t> table;
    const Strings& names = keys.strings();
    for (size_t i = 0; i < names.values.size(); ++i) table.try_emplace(names.values[i], i);
    for (const std::string& text : x.strings().values) {
      const auto at = table.find(text);
      places.push_back(at == table.end() ? none : at->second);
    }
    shape = x.strings().shape;
  } else {
    const bool whole = !is_float(keys.tensor().dtype());
    const auto numbers = [&](const Tensor& tensor) {
      std::vector<uint64_t> bits;
      if (whole) {
        for (int64_t v : tensor.as_int64s()) bits.push_back(static_cast<uint64_t>(v));
      } else {
        for (double v : tensor.as_doubles()) bits.push_back(key_of(v));
      }
      return bits;
    };
    if (whole == is_float(x.tensor().dtype())) {
      call.fail(fmt::format("the keys are {}, the input is {}", keys.kind(), x.kind()));
    }
    std::map<uint64_t, size_t> table;
    const std::vector<uint64_t> names = numbers(keys.tensor());
    for (size_t i = 0; i < names.size(); ++i) table.try_emplace(names[i], i);
    for (uint64_t bits : numbers(x.tensor())) {
      const auto at = table.find(bits);
      places.push_back(at == table.end() ? none : at->second);
    }
    shape = x.tensor().shape();
  }
  const Attribute* given = call.attributes.find("default_tensor");
  if (values.is_strings()) {
    std::string missing = call.attributes.text("default_string", "_Unused");
    if (given != nullptr) {
      const auto* list = std::get_if<std::vector<std::string>>(given);
      if (list == nullptr || list->size() != 1) call.fail("default_tensor: expected one string");
      missing = list->front();
    }
    Strings out{shape, {}};
    for (size_t at : places) {
      out.values.push_back(at == none ? missing : values.strings().values[at]);
    }
    call.outputs[0] = std::move(out);
    return;
  }
  const Tensor* fallback = call.attributes.tensor("default_tensor");
  const Tensor& numbers = values.tensor();
  Tensor missing = fallback != nullptr ? *fallback
                   : is_float(numbers.dtype())
                       ? Tensor::scalar(call.attributes.number("default_float", -0.0))
                       : Tensor::scalar(call.attributes.integer("default_int64", -1));
  if (missing.count() != 1) call.fail("default_tensor: expected one value");
  missing = missing.converted(numbers.dtype());
  Tensor out(numbers.dtype(), shape);
  const size_t size = dtype_bytes(numbers.dtype());
  auto* to = static_cast<std::byte*>(out.mutable_data());
  for (size_t at : places) {
    const auto* from = static_cast<const std::byte*>(at == none ? missing.data() : numbers.data());
    std::memcpy(to, from + (at == none ? 0 : at * size), size);
    to += size;
  }
  call.outputs[0] = std::move(out);
}

}  // namespace stretto::ir
