#include "stretto/kernels/recurrent/problem.h"

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// Sums of up to 100 products, whose errors the state carries from step to step.
constexpr double kTolerance = 2e-5;

constexpr RecurrentCell kCells[] = {RecurrentCell::kRnn, RecurrentCell::kGru, RecurrentCell::kLstm};

// ONNX's functions where it says nothing else.
RecurrentProblem layer(RecurrentCell cell, int64_t steps, int64_t batch, int64_t inputs,
                       int64_t hidden, int threads = 1) {
  RecurrentProblem p{.target = {.threads = threads},
                     .steps = steps,
                     .batch = batch,
                     .inputs = inputs,
                     .hidden = hidden,
                     .cell = cell,
                     .bias = 1};
  for (auto& functions : p.functions) {
    if (cell != RecurrentCell::kRnn) functions[0].activation = Activation::kSigmoid;
  }
  return p;
}

TEST(Recurrent, EdgesOfBlocksTilesAndTeams) {
  for (const RecurrentCell cell : kCells) {
    for (int threads : {1, 2, 3}) {
      for (int64_t hidden : {1, 7, 16, 33, 70}) {
        for (int64_t batch : {1, 5, 17}) {
          EXPECT_GT(check_rows(kRecurrent, layer(cell, 3, batch, 9, hidden, threads), kTolerance),
                    0);
        }
      }
    }
  }
}

// More sums than a thread keeps at a time; and a few panels of several rows before their gates.
TEST(Recurrent, ManyRowsAndGroupsOfPanels) {
  for (const RecurrentCell cell : kCells) {
    for (int threads : {1, 2}) {
      EXPECT_GT(check_rows(kRecurrent, layer(cell, 2, 300, 5, 40, threads), kTolerance), 0);
      EXPECT_GT(check_rows(kRecurrent, layer(cell, 3, 40, 5, 70, threads), kTolerance), 0);
    }
  }
}

// Every combination of what a problem may have.
TEST(Recurrent, EveryOption) {
  for (const RecurrentCell cell : kCells) {
    for (int options = 0; options < 1 << 12; options += 61) {
      const auto bit = [&](int i) { return static_cast<uint8_t>(options >> i & 1); };
      RecurrentProblem p = layer(cell, 5, 3, 6, 19, 2);
      const bool is_lstm = cell == RecurrentCell::kLstm;
      p.directions = static_cast<uint8_t>(1 + bit(0));
      p.reverse[0] = static_cast<uint8_t>(bit(1) && !bit(0));
      p.batch_first = bit(2);
      p.lengths = bit(3);
      p.initial_h = bit(4);
      p.initial_c = static_cast<uint8_t>(bit(5) && is_lstm);
      p.bias = bit(6);
      p.peephole = static_cast<uint8_t>(bit(7) && is_lstm);
      p.y_h = bit(8);
      p.y_c = static_cast<uint8_t>(bit(9) && is_lstm);
      p.y = static_cast<uint8_t>(bit(10) || !(p.y_h || p.y_c));
      p.input_forget = static_cast<uint8_t>(bit(11) && is_lstm);
      p.linear_before_reset = static_cast<uint8_t>(bit(11) && cell == RecurrentCell::kGru);
      p.clips = static_cast<uint8_t>(bit(5) && bit(7));
      p.clip = p.clips ? 0.6f : 0;
      EXPECT_GT(check_rows(kRecurrent, p, kTolerance), 0);
    }
  }
}

TEST(Recurrent, Functions) {
  for (const RecurrentCell cell : kCells) {
    for (const Activation activation : activations()) {
      RecurrentProblem p = layer(cell, 4, 2, 6, 20, 2);
      p.directions = 2;
      for (int i = 0; i < p.function_count(); ++i) {
        p.functions[0][i] = {.activation = activation, .alpha = 0.2f, .beta = 0.6f};
      }
      EXPECT_GT(check_rows(kRecurrent, p, kTolerance), 0);
    }
  }
}

TEST(Recurrent, LengthsAreBoundedAndValuesSpecial) {
  RecurrentProblem p = layer(RecurrentCell::kLstm, 5, 6, 4, 11, 2);
  p.lengths = p.y_h = p.y_c = 1;
  p.directions = 2;
  check_rows(kRecurrent, p, kTolerance, [](Workbench& b) {
    const int32_t lengths[] = {-3, 0, 1, 5, 6, 1 << 30};
    std::memcpy(b.input(1).data(), lengths, sizeof(lengths));
    sprinkle_specials(b, 0);
  });
}

}  // namespace
}  // namespace stretto::kernels
