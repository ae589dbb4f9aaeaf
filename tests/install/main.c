/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <shampoo/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { rows = 12, columns = 7, layers = 3, vector = 5, steps = 40, at_save = 17 };
enum { matrix = rows * columns, elements = layers * (matrix + vector) };

static float values[elements], gradients[elements];
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

static void train(shampoo_optimizer* optimizer, int from, int to) {
  int step;
  for (step = from; step < to; ++step) {
    find_gradients(step);
    CHECK(shampoo_set_rate(optimizer, 1, "learning_rate", 0.05 / (1 + step)));
    CHECK(shampoo_step(optimizer));
  }
}

static shampoo_optimizer* create(shampoo_backend* backend, shampoo_communicator* ranks) {
  const int64_t matrix_shape[] = {rows, columns}, vector_shape[] = {vector};
  shampoo_slab slab = {0};
  shampoo_setup* setup = NULL;
  shampoo_optimizer* optimizer = NULL;
  slab.values = values;
  slab.value_type = SHAMPOO_FLOAT32;
  slab.gradients = gradients;
  slab.gradient_type = SHAMPOO_FLOAT32;
  CHECK(shampoo_setup_create(&setup));
  CHECK(shampoo_begin_group(
      setup, "matrices", "recipe(refresh=refresh(every=4, first=4), blocking=blocking(size=8))"));
  CHECK(shampoo_setup_rate(setup, "learning_rate", 0.05));
  CHECK(shampoo_add_stacked(setup, "h.%d.weight", 2, matrix_shape, &slab, 0, matrix, layers));
  CHECK(shampoo_begin_group(setup, "vectors", "adamw"));
  CHECK(shampoo_add_stacked(setup, "h.%d.bias", 1, vector_shape, &slab, layers * matrix, vector,
                            layers));
  CHECK(shampoo_clip(setup, SHAMPOO_CLIP_GLOBAL_NORM, 2.5));
  CHECK(shampoo_optimizer_create(backend, ranks, setup, &optimizer));
  shampoo_setup_free(setup);
  return optimizer;
}

static void find_errors(shampoo_communicator* ranks, shampoo_optimizer* optimizer) {
  double rate = 0;
  const shampoo_span odd = {values, elements, (shampoo_type)9};
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
  shampoo_backend* backend = NULL;
  shampoo_communicator* ranks = NULL;
  shampoo_optimizer* optimizer;
  double norm = 0, factor = 0;
  int applied = 0, i;
  CHECK(shampoo_cpu_backend(0, &backend));
  CHECK(shampoo_join(backend, &ranks));
  EXPECT(shampoo_rank(ranks) == 0 && shampoo_size(ranks) == 1);
  optimizer = create(backend, ranks);
  EXPECT(strstr(shampoo_describe(optimizer), "vectors") != NULL);
  find_errors(ranks, optimizer);
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
    optimizer = create(backend, ranks);
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
  for (i = 0; i < elements; ++i) printf("%a\n", (double)values[i]);
  shampoo_optimizer_free(optimizer);
  shampoo_communicator_free(ranks);
  shampoo_backend_free(backend);
  return 0;
}
