/* Trains on several ranks, one process each: every rank has its own share of the data, and all
 * ranks update their weights with the average of their gradients.
 *
 *   stretto run -n 3 ./train_c
 *
 * or by hand: for r in 0 1 2; do
 *   STRETTO_RANK=$r STRETTO_SIZE=3 STRETTO_ADDRESS=127.0.0.1:29500 ./train_c & done; wait */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "stretto/stretto_c.h"

enum { kLayers = 2, kLayer = 64, kWeights = kLayers * kLayer, kSamples = 256, kSteps = 200 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, stretto_last_error());
  return 1;
}

/* Small numbers that look random, the same everywhere. */
static float noise(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / (float)(1u << 24) - 0.5f;
}

/* Least squares: y = x . weights. Returns the mean loss. */
static float gradients(const float* weights, const float* x, const float* y, float* gradient) {
  float loss = 0;
  for (int i = 0; i < kWeights; ++i) gradient[i] = 0;
  for (int s = 0; s < kSamples; ++s) {
    const float* sample = x + (size_t)s * kWeights;
    float error = -y[s];
    for (int i = 0; i < kWeights; ++i) error += weights[i] * sample[i];
    loss += error * error / kSamples;
    for (int i = 0; i < kWeights; ++i) gradient[i] += 2 * error * sample[i] / kSamples;
  }
  return loss;
}

int main(void) {
  stretto_comm* comm = stretto_comm_from_environment();
  if (!comm) return failed("comm");
  const int32_t rank = stretto_comm_rank(comm), size = stretto_comm_size(comm);

  /* Rank 0 decides where to begin; the truth and the data follow from seeds. */
  float weights[kWeights], truth[kWeights], gradient[kWeights];
  uint32_t seed = 7;
  for (int i = 0; i < kWeights; ++i) truth[i] = noise(&seed);
  for (int i = 0; i < kWeights; ++i) weights[i] = rank == 0 ? noise(&seed) : 0;
  if (stretto_broadcast(comm, "float32", 0, weights, kWeights, NULL)) return failed("broadcast");
  float* x = malloc(sizeof(float) * kSamples * kWeights);
  float* y = malloc(sizeof(float) * kSamples);
  if (!x || !y) return 1;
  seed = 1000u + (uint32_t)rank;
  for (int s = 0; s < kSamples; ++s) {
    y[s] = 0;
    for (int i = 0; i < kWeights; ++i) {
      x[(size_t)s * kWeights + i] = noise(&seed);
      y[s] += x[(size_t)s * kWeights + i] * truth[i];
    }
  }

  float loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    static const char* names[kLayers] = {"layer0", "layer1"};
    stretto_handle handles[kLayers];
    loss = gradients(weights, x, y, gradient);
    /* All layers' averages are under way at once. */
    for (int l = kLayers - 1; l >= 0; --l)
      if (stretto_all_reduce(comm, names[l], "float32", STRETTO_AVERAGE, gradient + l * kLayer,
                             gradient + l * kLayer, kLayer, &handles[l]))
        return failed("all_reduce");
    for (int l = kLayers - 1; l >= 0; --l)
      if (stretto_wait(comm, handles[l], NULL)) return failed("wait");
    for (int i = 0; i < kWeights; ++i) weights[i] -= 2.0f * gradient[i];
  }

  /* The mean loss, and whether all ranks have the same weights, to the bit. */
  float most[kWeights], least[kWeights];
  if (stretto_all_reduce(comm, "loss", "float32", STRETTO_AVERAGE, &loss, &loss, 1, NULL) ||
      stretto_all_reduce(comm, NULL, "float32", STRETTO_MAX, weights, most, kWeights, NULL) ||
      stretto_all_reduce(comm, NULL, "float32", STRETTO_MIN, weights, least, kWeights, NULL))
    return failed("all_reduce");
  int same = 1;
  for (int i = 0; i < kWeights; ++i) same &= most[i] == least[i];
  if (rank == 0)
    printf("%d ranks, loss %s, weights %s\n", size, loss < 1e-3f ? "below 0.001" : "too large",
           same ? "the same" : "different");
  free(x);
  free(y);
  stretto_comm_free(comm);
  return same && loss < 1e-3f ? 0 : 1;
}
