/* Loads an artefact, runs it on made-up data, prints the largest value of each output:
 * classify_c model.stretto. Takes models with float32 inputs and outputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stretto/stretto_c.h"

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, stretto_last_error());
  return 1;
}

static float* ramp(int64_t bytes) {
  float* values = malloc((size_t)bytes);
  for (int64_t i = 0; values && i < bytes / (int64_t)sizeof(float); ++i) {
    values[i] = (float)(i % 17) / 17.0f;
  }
  return values;
}

/* Memory for every input (filled) or output; NULL on failure. */
static float** make_tensors(const stretto_model* model, int32_t count, int outputs) {
  float** tensors = calloc((size_t)count + 1, sizeof(float*));
  for (int32_t i = 0; tensors && i < count; ++i) {
    stretto_tensor_spec spec;
    if ((outputs ? stretto_output : stretto_input)(model, i, &spec) != STRETTO_OK) return NULL;
    if (strcmp(spec.dtype, "float32") != 0) {
      fprintf(stderr, "%s is %s, this example takes float32\n", spec.name, spec.dtype);
      return NULL;
    }
    tensors[i] = ramp(spec.bytes);
  }
  return tensors;
}

static void free_tensors(float** tensors, int32_t count) {
  for (int32_t i = 0; tensors && i < count; ++i) free(tensors[i]);
  free(tensors);
}

static void print_largest(const stretto_model* model, int32_t index, const float* values) {
  stretto_tensor_spec spec;
  stretto_output(model, index, &spec);
  const int64_t count = spec.bytes / (int64_t)sizeof(float);
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i) {
    if (values[i] > values[best]) best = i;
  }
  if (count > 0) printf("%s[%lld] = %.6g\n", spec.name, (long long)best, values[best]);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: classify_c model.stretto\n");
    return 2;
  }
  stretto_model* model = stretto_load(argv[1], NULL);
  if (!model) return failed(argv[1]);
  for (int32_t i = 0; i < stretto_note_count(model); ++i) {
    fprintf(stderr, "%s: %s\n", argv[1], stretto_note(model, i));
  }
  stretto_session* session = stretto_session_new(model, 0);
  if (!session) return failed("session");

  const int32_t input_count = stretto_input_count(model);
  const int32_t output_count = stretto_output_count(model);
  float** inputs = make_tensors(model, input_count, 0);
  float** outputs = make_tensors(model, output_count, 1);
  if (!inputs || !outputs) return failed("tensors");
  if (stretto_run(session, (const void* const*)inputs, (void* const*)outputs) != STRETTO_OK) {
    return failed("run");
  }
  for (int32_t i = 0; i < output_count; ++i) print_largest(model, i, outputs[i]);

  free_tensors(inputs, input_count);
  free_tensors(outputs, output_count);
  stretto_session_free(session);
  stretto_model_free(model);
  return 0;
}
