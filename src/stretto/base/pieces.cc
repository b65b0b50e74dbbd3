#include "stretto/base/pieces.h"

#include <algorithm>
#include <utility>

namespace stretto {

void Pieces::append(std::string_view view) {
  if (view.empty()) return;
  views_.push_back(view);
  size_ += view.size();
}

void Pieces::add(std::string text) {
  own_.push_back(std::make_unique<const std::string>(std::move(text)));
  append(*own_.back());
}

void Pieces::add(Pieces others) {
  add_views(others);
  for (auto& text : others.own_) own_.push_back(std::move(text));
}

void Pieces::add_view(std::span<const std::byte> bytes) {
  append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void Pieces::add_views(const Pieces& others) {
  for (std::string_view view : others.views_) append(view);
}

void Pieces::align(size_t alignment) {
  static constexpr char kZeros[4096] = {};
  size_t missing = (alignment - size_ % alignment) % alignment;
  while (missing > 0) {
    const size_t count = std::min(missing, sizeof(kZeros));
    append({kZeros, count});
    missing -= count;
  }
}

std::string Pieces::joined() const {
  std::string all;
  all.reserve(size_);
  for (std::string_view view : views_) all += view;
  return all;
}

}  // namespace stretto
