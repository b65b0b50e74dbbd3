// libFuzzer target for artefacts. Bytes that are changed at random break a checksum or the JSON, so
// this target changes what they say instead: one value of the description becomes another, or some
// bytes of a section change, and sizes and checksums are made to fit. What loads has to run.
// Seeds: tests/fuzz/artefact.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "stretto/ir/operator.h"
#include "stretto/runtime/artefact_file.h"
#include "stretto/runtime/load_and_run.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace stretto::runtime {
namespace {

using nlohmann::json;
using Random = std::minstd_rand;

constexpr int64_t kNumbers[] = {-9223372036854775807 - 1,
                                -1,
                                0,
                                1,
                                2,
                                3,
                                7,
                                8,
                                15,
                                16,
                                17,
                                64,
                                255,
                                1000,
                                1 << 15,
                                1 << 16,
                                1 << 30,
                                2147483647,
                                int64_t{1} << 32,
                                int64_t{1} << 40,
                                9223372036854775807};

template <typename List>
const auto& pick(const List& list, Random& random) {
  return list[random() % std::size(list)];
}

// Every value below `j`, itself included.
void collect(json& j, std::vector<json*>& all) {
  all.push_back(&j);
  if (!j.is_structured()) return;
  for (json& item : j) collect(item, all);
}

void change_number(json& j, Random& random) {
  const int64_t old = j.is_number_integer() ? j.get<int64_t>() : 0;
  switch (random() % 4) {
    case 0:
      j = pick(kNumbers, random);
      break;
    case 1:
      j = static_cast<int64_t>(static_cast<uint64_t>(old) + 1);
      break;
    case 2:
      j = static_cast<int64_t>(static_cast<uint64_t>(old) - 1);
      break;
    case 3:
      j = static_cast<int64_t>(static_cast<uint64_t>(old) * (2 + random() % 15));
      break;
  }
}

void change_text(json& j, const std::vector<json*>& all, Random& random) {
  static constexpr const char* kTypes[] = {"float32", "float64", "float16", "int32",
                                           "int64",   "uint8",   "bool",    "int8"};
  const json& other = *pick(all, random);
  switch (random() % 4) {
    case 0:
      j = std::string(pick(ir::operators(), random)->name);
      break;
    case 1:
      j = pick(kTypes, random);
      break;
    case 2:
      if (other.is_string()) j = json(other);
      break;
    case 3: {
      std::string text = j.get<std::string>();
      text.resize(text.size() + 8);
      text.resize(
          LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), text.size() - 8, text.size()));
      j = text;
      break;
    }
  }
}

void change_list(json& j, const std::vector<json*>& all, Random& random) {
  const json other = *pick(all, random);
  if (j.is_array() && !j.empty() && random() % 2 == 0) {
    j.erase(random() % j.size());
  } else if (j.is_array()) {
    j.insert(j.begin() + static_cast<std::ptrdiff_t>(random() % (j.size() + 1)),
             j.empty() || random() % 4 == 0 ? other : json(pick(j, random)));
  } else if (!j.empty() && random() % 4 == 0) {
    j.erase(std::next(j.begin(), static_cast<std::ptrdiff_t>(random() % j.size())).key());
  } else {
    j = other;
  }
}

void change_description(std::string& text, Random& random) {
  json description = json::parse(text, nullptr, false);
  if (description.is_discarded()) return;
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
    std::vector<json*> all;
    collect(description, all);
    json& victim = *pick(all, random);
    if (victim.is_string()) {
      change_text(victim, all, random);
    } else if (victim.is_structured()) {
      change_list(victim, all, random);
    } else {
      change_number(victim, random);
    }
  }
  text = description.dump(-1, ' ', false, json::error_handler_t::replace);
}

void change_bytes(std::string& section, Random& random) {
  if (section.empty()) return;
  const size_t at = random() % section.size(), left = section.size() - at;
  const size_t room = std::min<size_t>(left, 16);
  LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(section.data()) + at, room, room);
}

std::string text_of(const SectionView& section) {
  return {reinterpret_cast<const char*>(section.bytes.data()), section.bytes.size()};
}

}  // namespace
}  // namespace stretto::runtime

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using namespace stretto::runtime;
  Random random(seed);
  std::vector<std::byte> file(reinterpret_cast<std::byte*>(data),
                              reinterpret_cast<std::byte*>(data) + size);
  repair_checksums(file);
  ArtefactSections sections;
  try {
    const ArtefactView view = open_artefact(file, "artefact");
    sections = {text_of(view.description), text_of(view.constants), text_of(view.packed),
                text_of(view.report)};
  } catch (const stretto::FormatError&) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  switch (random() % 16) {
    case 0:
      return LLVMFuzzerMutate(data, size, max_size);
    case 1:
      change_bytes(sections.constants, random);
      break;
    case 2:
      change_bytes(sections.packed, random);
      break;
    case 3:
      change_bytes(sections.report, random);
      break;
    default:
      change_description(sections.description, random);
  }
  const std::string changed = assemble_artefact(sections, stretto::kAlignment);
  if (changed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> file(reinterpret_cast<const std::byte*>(data),
                              reinterpret_cast<const std::byte*>(data) + size);
  stretto::runtime::repair_checksums(file);
  stretto::runtime::load_and_run(file);
  return 0;
}
