// Which dimensions of an ONNX model stay open: what the file says, narrowed by what the caller
// asks.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/import/onnx/import.h"
#include "stretto/runtime/programs_by_shape.h"
#include "stretto/stretto.h"

namespace stretto::runtime {

struct Opening {
  std::vector<OpenInput> inputs;
  std::vector<Shape> first;  // to optimise for: given inputs, else the largest or likely sizes
  std::vector<Shape> other;  // with other sizes of whatever is open
  // With twice the sizes where the file gives no end. What halves its maps takes them, but not one
  // more.
  std::vector<Shape> doubled;
  bool asked = false;  // the caller gave a range; else all comes from the file
  // Inputs whose shapes had to be guessed, and how to say them.
  struct Guess {
    size_t input;
    std::string advice;
  };
  std::vector<Guess> guesses;

  bool fixed() const;                                        // no dimension is open
  std::string text(const std::vector<Shape>& shapes) const;  // "x 1x3, mask 1x3"
};

// Dimensions, as input and axis, that change together: those of one name, or one that stands alone.
using OpenPlaces = std::vector<std::pair<size_t, size_t>>;
// All open ones, batches last.
std::vector<OpenPlaces> open_places(const Opening& opening);
// With these fixed at their first sizes.
Opening with_fixed(Opening opening, const OpenPlaces& places);

// Nothing when nobody says how many dimensions an input has. Throws InvalidArgument naming the
// input where ranges contradict the file, a given array or each other.
// Sizes that have to be guessed are at most `most_guessed`.
std::optional<Opening> find_opening(const std::vector<onnx::DeclaredInput>& declared,
                                    const std::string& source, const OptimizeOptions& options,
                                    int64_t most_guessed = Dimension::kAny);

// What is guessed where a model refuses likely sizes: it may have a table of 77 places. Not 1,
// which suits many a model that takes one larger size only.
inline constexpr int64_t kSmallerGuesses[] = {64, 16, 4};

// Shapes between the least and the largest sizes, others for every `i`, evenly in their logarithms,
// because kernels are chosen by orders of magnitude. A model need not take them. Nothing where a
// range has no end, or sizes depend on each other.
std::optional<std::vector<Shape>> shapes_between(const Opening& opening, int i);

// What to say where the model needs too much memory: the advice of the largest guess; empty: none.
std::string memory_advice(const Opening& opening);

// Makes inputs of those with an initialiser for which the options have an array or a shape.
void feed_named(onnx::Reader& reader, const OptimizeOptions& options);

struct FirstImport {
  std::optional<Opening> opening;
  ImportedModel model;
};

// Sizes that have to be guessed are at most `most`, because larger ones were refused with `why`.
struct Guessing {
  int64_t most = Dimension::kAny;
  std::string why;
};

// The model with the first shapes of its opening; without one, with what `options` says. Guesses
// that it refuses become smaller, which a note says. Throws SampleRefused with advice where it
// takes none of them, and what find_opening() throws.
FirstImport import_first(onnx::Reader& reader, const std::vector<onnx::DeclaredInput>& declared,
                         const std::string& source, const OptimizeOptions& options,
                         const Guessing& guessing = {});

// What optimize() would import of this file.
ImportedModel import_to_look_at(const std::string& onnx_path, const OptimizeOptions& options);

}  // namespace stretto::runtime
