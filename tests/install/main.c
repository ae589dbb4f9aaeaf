/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <shampoo/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { rows = 12, columns = 7, layers = 3, vector = 5, steps = 40, at_save = 17 };
enum { elements = layers * (rows * columns + vector) };

static const shampoo_entry entries[] = {{"h.%d.weight", 2, {rows, columns}, layers},
                                        {"h.%d.bias", 1, {vector}, layers}};
static float values[elements], gradients[elements];
static shampoo_slab slab = {values, SHAMPOO_FLOAT32, NULL, SHAMPOO_FLOAT32};
static double first_distance, last_distance;

static void check(shampoo_status status, int line) {
  if (status == SHAMPOO_OK) return;
  fprintf(stderr, "line %d: status %d: %s\n", line, (int)status, shampoo_last_error());
  exit(1);
}
#define CHECK(call) check(call, __LINE__)

static void expect(int condition, int line) {
  if (condition) return;
  fprintf(stderr, "line %d: not as expected\n", line);
  exit(1);
}
#define EXPECT(condition) expect(condition, __LINE__)

/* The gradient of half the squared distance from ones. */
static void find_gradients(int step) {
  int i;
  last_distance = 0;
  for (i = 0; i < elements; ++i) {
    gradients[i] = values[i] - 1.0f;
    last_distance += (double)gradients[i] * (double)gradients[i];
  }
  if (step == 0) first_distance = last_distance;
}

static double factor_of_rate(int64_t step, void* half) {
  return 1 / (1 + (double)step / *(const double*)half);
}

static shampoo_optimizer* create(void) {
  static double half = 10;
  shampoo_setup* setup = NULL;
  shampoo_optimizer* optimizer = NULL;
  int64_t covered = 0;
  CHECK(shampoo_setup_create(&setup));
  CHECK(shampoo_setup_rate(setup, "learning_rate", 0.05));
  CHECK(shampoo_setup_rate(setup, "weight_decay", 0.1));
  CHECK(shampoo_setup_schedule(setup, "learning_rate", factor_of_rate, &half));
  CHECK(shampoo_add_slab(setup, &slab, entries, 2, &covered));
  CHECK(
      shampoo_route(setup, "recipe(refresh=refresh(every=4, first=4), blocking=blocking(size=8))"));
  CHECK(shampoo_clip(setup, SHAMPOO_CLIP_GLOBAL_NORM, 2.5));
  CHECK(shampoo_optimizer_create(NULL, NULL, setup, &optimizer));
  shampoo_setup_free(setup);
  EXPECT(covered == elements);
  return optimizer;
}

static void train(shampoo_optimizer* optimizer, int from, int to) {
  int step;
  for (step = from; step < to; ++step) {
    find_gradients(step);
    slab.gradients = gradients; /* as of a trainer that allocates them in its first backward pass */
    CHECK(shampoo_set_gradients(optimizer, &slab));
    CHECK(shampoo_average_gradients(optimizer));
    CHECK(shampoo_step(optimizer));
  }
}

static void find_errors(shampoo_optimizer* optimizer) {
  shampoo_communicator* const ranks = shampoo_optimizer_ranks(optimizer);
  double rate = 0;
  const shampoo_span odd = {values, elements, (shampoo_type)9};
  EXPECT(shampoo_rank(ranks) < shampoo_size(ranks));
  EXPECT(shampoo_average(ranks, &odd, 1, NULL) == SHAMPOO_INVALID_ARGUMENT);
  EXPECT(strstr(shampoo_last_error(), "spans.type: must be SHAMPOO_FLOAT64, ") != NULL);
  EXPECT(shampoo_get_rate(optimizer, 1, "learning_rat", &rate) == SHAMPOO_INVALID_ARGUMENT);
  EXPECT(strstr(shampoo_last_error(), "'learning_rat'") != NULL);
  EXPECT(shampoo_get_rate(optimizer, 2, "beta1", &rate) == SHAMPOO_INVALID_ARGUMENT);
  EXPECT(shampoo_step(NULL) == SHAMPOO_INVALID_ARGUMENT);
  EXPECT(strcmp(shampoo_last_error(), "optimizer: must not be NULL") == 0);
  CHECK(shampoo_get_rate(optimizer, 1, "beta3", &rate));
  EXPECT(isnan(rate));
}

/* With an argument, a folder for a checkpoint: the run is broken off and goes on from there. Prints
 * the values. */
int main(int count, char** arguments) {
  shampoo_optimizer* optimizer = create();
  const int is_first = shampoo_rank(shampoo_optimizer_ranks(optimizer)) == 0;
  double norm = 0, factor = 0;
  int applied = 0, i;
  EXPECT(strstr(shampoo_describe(optimizer), "vectors") != NULL);
  find_errors(optimizer);
  if (count > 1) {
    shampoo_user_state* user = NULL;
    int64_t step = 0;
    CHECK(shampoo_user_state_create(&user));
    CHECK(shampoo_user_state_add_values(user, optimizer));
    CHECK(shampoo_resume(optimizer, arguments[1], user, &step));
    EXPECT(step == -1);
    train(optimizer, 0, at_save);
    CHECK(shampoo_save(optimizer, arguments[1], user, 1));
    shampoo_optimizer_free(optimizer);
    memset(values, 0, sizeof values);
    optimizer = create();
    CHECK(shampoo_resume(optimizer, arguments[1], user, &step));
    EXPECT(step == at_save);
    shampoo_user_state_free(user);
    train(optimizer, at_save, steps);
  } else {
    train(optimizer, 0, steps);
    EXPECT(last_distance < 0.3 * first_distance);
  }
  CHECK(shampoo_latest_step(optimizer, &applied, &norm, &factor));
  EXPECT(applied == 1 && norm > 0 && factor <= 1);
  for (i = 0; i < elements && is_first; ++i) printf("%a\n", (double)values[i]);
  shampoo_optimizer_free(optimizer);
  return 0;
}
