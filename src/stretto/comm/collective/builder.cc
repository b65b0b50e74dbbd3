#include "stretto/comm/collective/builder.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto::comm {

int64_t cut_at(Part whole, int64_t parts, int64_t index, int64_t align) {
  const int64_t cells = (whole.count() + align - 1) / align;
  return std::min(whole.end, whole.begin + cells * index / parts * align);
}

Part cut(Part whole, int parts, int index, int64_t align) {
  return {cut_at(whole, parts, index, align), cut_at(whole, parts, index + 1, align)};
}

Place Builder::scratch(int64_t count) {
  const Place place{Buffer::kScratch, schedule_.scratch_elements};
  schedule_.scratch_elements += count;
  return place;
}

Place Builder::slot(int64_t count) {
  schedule_.coded_slots.push_back(count);
  return {Buffer::kCoded, static_cast<int64_t>(schedule_.coded_slots.size()) - 1};
}

int32_t Builder::add(Step step, std::span<const Source> sources, Waits waits) {
  step.first_source = static_cast<int32_t>(schedule_.sources_of_steps.size());
  step.source_count = static_cast<int32_t>(sources.size());
  schedule_.sources_of_steps.insert(schedule_.sources_of_steps.end(), sources.begin(),
                                    sources.end());
  step.first_wait = static_cast<int32_t>(schedule_.waits_of_steps.size());
  for (const int32_t wait : waits)
    if (wait >= 0) schedule_.waits_of_steps.push_back(wait);
  step.wait_count = static_cast<int32_t>(schedule_.waits_of_steps.size()) - step.first_wait;
  schedule_.steps.push_back(step);
  return static_cast<int32_t>(schedule_.steps.size()) - 1;
}

int32_t Builder::send(int peer, int tag, Place from, int64_t count, Waits waits) {
  if (count == 0) return -1;
  return add({.action = Action::kSend, .peer = peer, .tag = tag, .count = count, .place = from}, {},
             waits);
}

int32_t Builder::receive(int peer, int tag, Place to, int64_t count) {
  if (count == 0) return -1;
  return add({.action = Action::kReceive, .peer = peer, .tag = tag, .count = count, .place = to},
             {}, {});
}

int32_t Builder::copy(Place from, Place to, int64_t count, Waits waits) {
  if (count == 0) return -1;
  const Source source{from};
  return add({.action = Action::kCopy, .count = count, .place = to}, {&source, 1}, waits);
}

int32_t Builder::reduce(std::span<const Source> sources, Place to, int64_t count, bool last,
                        Waits waits) {
  if (count == 0) return -1;
  return add({.action = Action::kReduce, .last = last, .count = count, .place = to}, sources,
             waits);
}

int32_t Builder::encode(Place from, Place slot, int64_t count, bool result, Waits waits) {
  if (count == 0) return -1;
  const Source source{from};
  return add({.action = Action::kEncode, .result = result, .count = count, .place = slot},
             {&source, 1}, waits);
}

int32_t Builder::encode_sum(Place from, Place slot, int64_t count, bool result, int exponent,
                            Waits waits) {
  if (count == 0) return -1;
  const Source source{.place = from, .exponent = static_cast<int8_t>(exponent)};
  return add({.action = Action::kEncode,
              .result = result,
              .adds_loss = true,
              .count = count,
              .place = slot},
             {&source, 1}, waits);
}

int32_t Builder::decode(Place slot, Place to, int64_t count, Waits waits) {
  if (count == 0) return -1;
  const Source source{slot};
  return add({.action = Action::kDecode, .count = count, .place = to}, {&source, 1}, waits);
}

int32_t Builder::signal(int peer, int tag, Waits waits) {
  return add({.action = Action::kSend, .peer = peer, .tag = tag}, {}, waits);
}

int32_t Builder::await(int peer, int tag) {
  return add({.action = Action::kReceive, .peer = peer, .tag = tag}, {}, {});
}

std::vector<int> Builder::others(int self, int count) {
  std::vector<int> result;
  for (int i = 1; i < count; ++i) result.push_back((self + i) % count);
  return result;
}

}  // namespace stretto::comm
