// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/prediction/prediction_report.h"

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

namespace shampoo::test {

namespace {

using Json = nlohmann::ordered_json;

/// The plain step's, and the products that the roots of this step take, all by 16 bits.
Json floor_of(const PredictionQuery& query, const PredictedStep& step) {
  const DeviceFloor plain = device_floor(query.model, query.block, query.type, query.machine.rates);
  double flops = 0;
  for (const PredictedLine& line : step.lines)
    if (line.range == "roots") flops += line.cost.flops;
  const double roots = flops / (query.machine.rates.tensor_teraflops * 1e9);
  return {{"elementwise", plain.elementwise},
          {"factors", plain.factors},
          {"gram", plain.gram},
          {"precondition", plain.precondition},
          {"roots", roots},
          {"total", plain.total() + roots}};
}

Json step_of(const PredictionQuery& query, const std::vector<Launch>& launches) {
  const PredictedStep step = predicted_step(launches, query.machine);
  Json lines = Json::array(), phases = Json::object();
  for (const PredictedLine& line : step.lines) {
    lines.push_back({{"phase", line.range},
                     {"kernel", line.kernel},
                     {"launches", line.launches},
                     {"blocks", line.blocks},
                     {"megabytes", line.cost.bytes / 1e6},
                     {"gigaflops", line.cost.flops / 1e9},
                     {"unit", name_of(line.unit)},
                     {"ms", line.ms},
                     {"assumption", line.assumption}});
    phases[line.range] = phases.value(line.range, 0.0) + line.ms;
  }
  Json result = {{"lines", lines},
                 {"phases_ms", phases},
                 {"ms", step.ms()},
                 {"launches", step.launches()},
                 {"complete", step.is_complete()}};
  if (std::holds_alternative<RootInverse>(query.recipe.recipe.preconditioner))
    result["floor_ms"] = floor_of(query, step);
  return result;
}

/// What a part of the floor bounds.
struct Part {
  const char* name;
  std::vector<const char*> phases, floors;
};

double sum_of(const Json& step, const char* sums, const std::vector<const char*>& names) {
  double sum = 0;
  for (const char* name : names) sum += step[sums].value(name, 0.0);
  return sum;
}

void print_floor(const char* what, const Json& step) {
  static const std::vector<Part> parts = {
      {"passes over elements", {"scan", "filter", "update", "apply"}, {"elementwise"}},
      {"factors", {"factors"}, {"factors", "gram"}},
      {"roots", {"roots"}, {"roots"}},
      {"precondition", {"precondition"}, {"precondition"}}};
  const auto print = [](const char* name, double ms, double floor) {
    if (floor > 0) std::printf("| %s | %.3f | %.3f | %.2f |\n", name, ms, floor, ms / floor);
  };
  std::printf("\n| %s | ms | floor ms | ms / floor |\n|---|---|---|---|\n", what);
  for (const Part& part : parts)
    print(part.name, sum_of(step, "phases_ms", part.phases), sum_of(step, "floor_ms", part.floors));
  print("step", step["ms"].get<double>(), step["floor_ms"]["total"].get<double>());
}

void print_step(const char* what, const Json& step) {
  std::printf("| %s: phase | kernel | launches | MB | GFLOP | unit | ms | assumed |\n", what);
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (const Json& line : step["lines"]) {
    const auto text = line["assumption"].get<std::string>();
    std::printf("| %s | `%s` | %d | %.1f | %.1f | %s | %.3f | %s |\n",
                line["phase"].get<std::string>().c_str(), line["kernel"].get<std::string>().c_str(),
                line["launches"].get<int>(), line["megabytes"].get<double>(),
                line["gigaflops"].get<double>(), line["unit"].get<std::string>().c_str(),
                line["ms"].get<double>(),
                text.empty() ? "nothing: only its launch is counted" : text.c_str());
  }
  std::printf("\n%s: %s%.3f ms in %d launches\n", what,
              step["complete"].get<bool>() ? "" : "more than ", step["ms"].get<double>(),
              step["launches"].get<int>());
  if (step.contains("floor_ms")) print_floor(what, step);
  std::printf("\n");
}

}  // namespace

Json prediction_of(const PredictionQuery& query) {
  const auto [steps, state_bytes, workspace_bytes] =
      planned_run(query.model, query.recipe, query.type, 2 * query.frequency, query.options);
  Json result = {{"machine", query.machine.name},
                 {"state_bytes", state_bytes},
                 {"workspace_bytes", workspace_bytes}};
  // The first step after a refresh; where every step has one, there is no other kind.
  if (query.frequency > 1)
    result["plain"] = step_of(query, steps[static_cast<std::size_t>(query.frequency)]);
  result["refresh"] = step_of(query, steps.back());
  return result;
}

void print_prediction(const Json& prediction, bool json) {
  if (json) {
    std::printf("%s\n", prediction.dump().c_str());
    return;
  }
  for (const char* what : {"plain", "refresh"})
    if (prediction.contains(what)) print_step(what, prediction[what]);
  const auto state = prediction["state_bytes"].get<double>();
  const auto workspace = prediction["workspace_bytes"].get<double>();
  std::printf("state: %.0f MiB; workspace: %.0f MiB, %.3f of it\n", state / 0x1p20,
              workspace / 0x1p20, workspace / state);
}

}  // namespace shampoo::test
