// Random numbers, seeded: what is drawn without a seed is never the same again.
#include "stretto/ir/cases/table.h"

namespace stretto::ir::cases {
namespace {

void source(CaseDraw& d, bool shaped) {
  d.text("dtype", "", {"float32", "float64"});
  d.set("seed", static_cast<double>(d.between(0, 3)));
  d.integer("node", 0, {1});  // means nothing beside a seed
  const Shape shape = d.shape(0, 3);
  if (shaped) {
    d.set("shape", shape);
  } else {
    d.typed_input(DType::kFloat32, shape);
  }
}

void normal(CaseDraw& d, bool shaped) {
  d.number("mean", 0, {1.5, -3});
  d.number("scale", 1, {0.25, 0, -2});
  source(d, shaped);
}

void uniform(CaseDraw& d, bool shaped) {
  d.number("low", 0, {-1, 3});
  d.number("high", 1, {2.5, 3});
  source(d, shaped);
}

}  // namespace

void random_normal(CaseDraw& d) { normal(d, true); }
void random_normal_like(CaseDraw& d) { normal(d, false); }
void random_uniform(CaseDraw& d) { uniform(d, true); }
void random_uniform_like(CaseDraw& d) { uniform(d, false); }

}  // namespace stretto::ir::cases
