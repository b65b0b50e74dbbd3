#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

struct Case {
  std::string_view equation;
  std::vector<std::string_view> shapes;
  std::string_view products;  // "MatMul", "Mul" or neither
};

const Case kCases[] = {
    {"ij,jk->ik", {"[3, 4]", "[4, 5]"}, "MatMul"},
    {"bhld,lrd->bhlr", {"[2, 3, 4, 5]", "[4, 6, 5]"}, "MatMul"},
    {"...ij,...jk->...ik", {"[2, 3, 4, 5]", "[2, 3, 5, 6]"}, "MatMul"},
    {"...ij,...jk", {"[2, 3, 4, 5]", "[1, 3, 5, 6]"}, "MatMul"},  // an axis that is stretched
    {"bnhd,bmhd->bhnm", {"[2, 4, 3, 5]", "[2, 6, 3, 5]"}, "MatMul"},
    {"ik,jk->ji", {"[3, 4]", "[5, 4]"}, "MatMul"},
    {"abcd,bcd->a", {"[2, 3, 4, 5]", "[3, 4, 5]"}, "MatMul"},
    {"ab,cb,ad->cd", {"[2, 3]", "[4, 3]", "[2, 5]"}, "MatMul"},
    {"i,j->ij", {"[3]", "[4]"}, "Mul"},
    {"bi,bj->bij", {"[2, 3]", "[2, 4]"}, "Mul"},
    {"abc,b->cab", {"[2, 3, 4]", "[3]"}, "Mul"},
    {"abc->ca", {"[2, 3, 4]"}, ""},
    {"abc->", {"[2, 3, 4]"}, ""},
    {"abx,bc->ac", {"[2, 3, 4]", "[3, 5]"}, "MatMul"},  // x is summed before
};

TEST(EinsumProducts, AreWhatTheEquationSays) {
  for (const Case& c : kCases) {
    std::string text = "graph g\n", names;
    for (size_t i = 0; i < c.shapes.size(); ++i) {
      text += fmt::format("input x{}: float32{}\n", i, c.shapes[i]);
      names += fmt::format("{}x{}", i == 0 ? "" : ", ", i);
    }
    text += fmt::format("y = Einsum({}) {{equation = \"{}\"}}\noutput y", names, c.equation);
    const auto r = rewrite(text, {&kEinsumProducts});
    EXPECT_EQ(r.times("einsum"), 1) << c.equation;
    EXPECT_EQ(r.nodes("Einsum"), 0) << c.equation;
    if (!c.products.empty()) {
      EXPECT_GE(r.nodes(c.products), 1) << c.equation;
    }
  }
}

TEST(EinsumProducts, WhereTheOutputSaysSoTheOperandsChangePlaces) {
  const auto r = rewrite(R"(graph g
    input x: float32[3, 4]
    input y: float32[4, 5]
    z = Einsum(x, y) {equation = "ij,jk->ki"}
    output z)",
                         {&kEinsumProducts});
  EXPECT_EQ(*r.graph.value(r.node("MatMul").outputs[0]).shape, (Shape{5, 3}));
}

TEST(EinsumProducts, DiagonalsAndIntegersStay) {
  EXPECT_EQ(rewrite(R"(graph g
    input x: float32[3, 3]
    y = Einsum(x) {equation = "ii->i"}
    output y)",
                    {&kEinsumProducts})
                .nodes("Einsum"),
            1);
  EXPECT_EQ(rewrite(R"(graph g
    input x: int32[3, 3]
    input z: int32[3, 3]
    y = Einsum(x, z) {equation = "ij,jk->ik"}
    output y)",
                    {&kEinsumProducts})
                .nodes("Einsum"),
            1);
}

}  // namespace
}  // namespace stretto::passes
