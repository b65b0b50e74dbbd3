// Cases of matrix products, attention and einsum.
#include <map>
#include <string>

#include "stretto/ir/cases/table.h"

namespace stretto::ir::cases {

namespace {

void draw_matmul(CaseDraw& d, bool fused) {
  const int64_t m = d.dim(17), n = d.dim(19), k = d.dim(17);
  const bool transposed = fused && d.toggle("trans_b");
  if (fused) d.number("scale", 1, {0.5, -2});
  const Shape batch = d.shape(0, 2, 4);
  Shape a = d.maybe() ? d.partner(batch) : batch, b = d.maybe() ? d.partner(batch) : batch;
  if (!a.empty() || !d.rarely()) a.push_back(m);
  a.push_back(k);
  if (b.empty() && d.rarely()) {
    b = {k};
  } else {
    b.push_back(transposed ? n : k);
    b.push_back(transposed ? k : n);
  }
  d.input(a);
  d.either(b);
}

}  // namespace

void matmul(CaseDraw& d) { draw_matmul(d, false); }
void fused_matmul(CaseDraw& d) { draw_matmul(d, true); }

void gemm(CaseDraw& d) {
  const int64_t m = d.rarely() ? 0 : d.dim(17), n = d.dim(33), k = d.dim(33);
  const bool a = d.toggle("transA"), b = d.toggle("transB");
  d.number("alpha", 1, {0.5, -2});
  d.number("beta", 1, {0.5, 0});
  d.input(a ? Shape{k, m} : Shape{m, k});
  d.either(b ? Shape{n, k} : Shape{k, n});
  d.maybe() ? d.either(d.partner({m, n})) : d.absent();
}

void attention(CaseDraw& d) {
  const int64_t heads = d.one_of<int64_t>({1, 2, 3}), dim = d.one_of<int64_t>({1, 4, 8, 5, 17});
  const int64_t batch = d.between(1, 2), sq = d.dim(9), sk = d.dim(9), columns = heads * dim;
  d.set("heads", heads);
  d.set("head_dim", dim);
  d.number("scale", 0, {0.5, 1});
  d.toggle("masked_zero");
  // Whether what is not finite reaches queries whose masks hide it differs between kernels.
  constexpr Fill kSeen = Fill::kTame;
  if (d.rarely()) {  // keys and values as caches hold them
    const int64_t offset = d.integer("q_offset", 0, {columns});
    const Shape cache{batch, heads == 3 ? d.one_of<int64_t>({1, 3}) : heads, sk, dim};
    d.input({batch, sq, columns + offset});
    d.input(cache, kSeen);
    d.input(cache, kSeen);
    d.maybe() ? d.input(d.partner({batch, heads, sq, sk})) : d.absent();
    return;
  }
  if (d.rarely()) {  // samples of several lengths one behind the other
    std::vector<int64_t> starts{0};
    int64_t longest = 1;
    for (int64_t i = d.between(1, 4); i > 0; --i) {
      const int64_t length = d.one_of<int64_t>({1, 0, 5, 17, 33});
      longest = std::max(longest, length);
      starts.push_back(starts.back() + length);
    }
    const int64_t rows = starts.back() + d.between(0, 2);
    d.set("longest", longest + d.between(0, 1));
    const int64_t offset = d.integer("k_offset", 0, {columns});
    d.input({1, rows, columns});
    d.input({1, rows, columns + offset}, kSeen);
    d.input({1, rows, columns}, kSeen);
    d.absent();
    d.fixed(starts);
    return;
  }
  const int64_t before[3] = {d.integer("q_offset", 0, {columns}),
                             d.integer("k_offset", 0, {columns}),
                             d.integer("v_offset", 0, {2 * columns})};
  d.input({batch, sq, columns + before[0]});
  d.input({batch, sk, columns + before[1] + d.between(0, 1)}, kSeen);
  d.input({batch, sk, columns + before[2]}, kSeen);
  d.maybe() ? d.input(d.partner({batch, heads, sq, sk})) : d.absent();
}

// Every label of the equation gets a size; the ellipsis stands for two axes.
void einsum(CaseDraw& d) {
  const std::string equation(
      d.one_of<std::string_view>({"ij,jk->ik", "ij->ji", "i,i->", "i,j->ij", "ii->i", "ijk->",
                                  "bij,bjk->bik", "bhqd,bhkd->bhqk", "...ij,...jk->...ik",
                                  "...i->...", "ij,jk", "ba", "i,ij,j->", "abc,cd,de->abe"}));
  d.set("equation", equation);
  std::map<char, int64_t> size;
  const int64_t dots[2] = {d.dim(3), d.dim(3)};
  Shape shape;
  for (size_t at = 0; at <= equation.size(); ++at) {
    const char letter = at < equation.size() ? equation[at] : '-';
    if (letter == '.') {
      shape.insert(shape.end(), std::begin(dots), std::end(dots));
      at += 2;
    } else if (letter == ',' || letter == '-') {
      d.input(shape);
      shape.clear();
      if (letter == '-') break;
    } else {
      const auto [found, fresh] = size.try_emplace(letter, 1);
      if (fresh) found->second = d.dim(7);
      shape.push_back(found->second);
    }
  }
}

}  // namespace stretto::ir::cases
