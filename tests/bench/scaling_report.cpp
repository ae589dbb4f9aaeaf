// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/scaling_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "grouping/table.h"

namespace shampoo::test {
namespace {

using Json = nlohmann::ordered_json;

std::string fixed(double number, int decimals) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", decimals, number);
  return text;
}

std::string milliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  return fixed(ms, ms < 9.95 ? 2 : ms < 99.5 ? 1 : 0);
}

std::string mebibytes(std::int64_t bytes) { return fixed(static_cast<double>(bytes) / 0x1p20, 1); }

std::string count(std::int64_t number, const char* noun) {
  return grouping::count_text(number) + " " + noun + (number == 1 ? "" : "s");
}

std::int64_t block_count(const Job& job) {
  std::int64_t blocks = 0;
  for (const grouping::PlannedParameter& parameter : planned_group(job).parameters)
    blocks += static_cast<std::int64_t>(parameter.blocks.size());
  return blocks;
}

grouping::Rows forecast_rows(const std::vector<Forecast>& forecasts) {
  grouping::Rows rows{{"ranks", "cost /mean", "/bound", "bytes /mean", "/bound", "state /mean",
                       "/bound", "state MiB", "received MiB", "padding %", "exchange ms",
                       "plain ms", "refresh ms", "mean ms"}};
  for (const Forecast& f : forecasts) {
    std::vector<std::string> row{std::to_string(f.ranks)};
    for (const Balance& balance : {f.cost, f.bytes, f.state}) {
      row.push_back(fixed(balance.over_mean, 3));
      row.push_back(fixed(balance.over_bound, 3));
    }
    for (const std::string& cell :
         {mebibytes(f.state.largest), mebibytes(f.received_bytes), fixed(100 * f.padding, 1),
          milliseconds(f.exchange), milliseconds(f.plain), milliseconds(f.refresh),
          milliseconds(f.mean)})
      row.push_back(cell);
    rows.push_back(row);
  }
  return rows;
}

grouping::Rows validation_rows(const std::vector<Validation>& validations) {
  grouping::Rows rows{{"model", "GFLOP/s", "of roots", "GB/s", "step", "predicted ms", "fastest ms",
                       "median ms", "predicted / fastest"}};
  for (const Validation& v : validations)
    for (const bool refresh : {false, true}) {
      const StepTime& measured = refresh ? v.refresh : v.plain;
      const double predicted = refresh ? v.predicted.refresh : v.predicted.plain;
      rows.push_back({v.model, fixed(v.rates.gflops, 1), fixed(v.rates.eigen_gflops, 1),
                      fixed(v.rates.gbytes, 1), refresh ? "refresh" : "plain",
                      milliseconds(predicted), milliseconds(measured.fastest),
                      milliseconds(measured.median), fixed(predicted / measured.fastest, 2)});
    }
  return rows;
}

Json json_of_balance(const Balance& balance) {
  return {{"largest", balance.largest},
          {"over_mean", balance.over_mean},
          {"over_bound", balance.over_bound}};
}

Json json_of_forecast(const Forecast& f) {
  return {{"ranks", f.ranks},
          {"cost", json_of_balance(f.cost)},
          {"bytes", json_of_balance(f.bytes)},
          {"state", json_of_balance(f.state)},
          {"received_bytes", f.received_bytes},
          {"padding", f.padding},
          {"exchange_ms", 1e3 * f.exchange},
          {"plain_ms", 1e3 * f.plain},
          {"refresh_ms", 1e3 * f.refresh},
          {"mean_ms", 1e3 * f.mean}};
}

Json json_of_validation(const Validation& v) {
  return {{"model", v.model},
          {"workers", v.rates.workers},
          {"gflops", v.rates.gflops},
          {"gbytes_per_second", v.rates.gbytes},
          {"eigen_gflops", v.rates.eigen_gflops},
          {"predicted_plain_ms", 1e3 * v.predicted.plain},
          {"plain_ms", 1e3 * v.plain.median},
          {"plain_ms_fastest", 1e3 * v.plain.fastest},
          {"predicted_refresh_ms", 1e3 * v.predicted.refresh},
          {"refresh_ms", 1e3 * v.refresh.median},
          {"refresh_ms_fastest", 1e3 * v.refresh.fastest}};
}

}  // namespace

std::vector<std::string> assumptions(const Report& report) {
  const KernelRates& rates = report.rates;
  const Recipe& recipe = report.job.recipe;
  const double replicated = replicated_bytes(report.job) / 1e9;
  return {
      report.model + ": " + count(report.job.model.numel(), "value") + " of type " +
          std::string(name_of(report.job.type)) + " in " + count(block_count(report.job), "block") +
          " with sides up to " + grouping::count_text(recipe.blocking.size),
      "one step in " + grouping::count_text(recipe.refresh.every) + " recomputes all roots",
      "products at " + fixed(rates.gflops, 1) +
          " GFLOP/s a rank, whatever the sides; factors need half of a symmetric product",
      "roots at " + fixed(rates.eigen_gflops, 1) +
          " GFLOP/s a rank, whatever the sides; one of side n counts 7 n^3",
      "memory at " + fixed(rates.gbytes, 1) +
          " GB/s a rank; every array of a phase comes from memory and goes back there",
      "these rates: " + report.rates_source + "; all ranks are equal",
      "a rank has " + count(rates.workers, "worker") +
          ", each with its share of the rates, for whole blocks and whole roots, the longest first",
      "every rank looks at all gradients and applies all updates: " + fixed(replicated, 1) +
          " GB a step, for any number of ranks",
      "exchange by one ring all-gather: (ranks - 1) x " + fixed(report.link.latency_us, 1) +
          " us + bytes received / " + fixed(report.link.gbytes, 1) + " GB/s, on idle links",
      "segments have a header of 64 bytes",
      "products, roots, memory and exchange take turns; starting kernels and host work take no "
      "time",
      "not counted: forward, backward, the average of the gradients, noise",
  };
}

std::string text_of(const Report& report) {
  std::string text = "assumptions\n";
  for (const std::string& assumption : assumptions(report)) text += "  " + assumption + "\n";
  text +=
      "\nper rank: largest over mean, and over what no placement gets below; the largest rank's "
      "state; bytes\nreceived in a step; padding of equal segments; then the slowest rank's step "
      "(mean: over an interval)\n";
  text += grouping::table(forecast_rows(report.forecasts));
  if (!report.validations.empty())
    text += "\none rank with " + count(report.validations.front().rates.workers, "thread") +
            ": rates at the model's block size, the step predicted from them, and steps taken\n" +
            grouping::table(validation_rows(report.validations));
  return text;
}

std::string json_of(const Report& report) {
  Json json;
  json["model"] = report.model;
  json["parameters"] = report.job.model.numel();
  json["type"] = name_of(report.job.type);
  json["blocks"] = block_count(report.job);
  json["block_size"] = report.job.recipe.blocking.size;
  json["frequency"] = report.job.recipe.refresh.every;
  json["workers"] = report.rates.workers;
  json["gflops"] = report.rates.gflops;
  json["gbytes_per_second"] = report.rates.gbytes;
  json["eigen_gflops"] = report.rates.eigen_gflops;
  json["link_latency_us"] = report.link.latency_us;
  json["link_gbytes_per_second"] = report.link.gbytes;
  json["assumptions"] = assumptions(report);
  json["forecasts"] = Json::array();
  for (const Forecast& f : report.forecasts) json["forecasts"].push_back(json_of_forecast(f));
  if (!report.validations.empty()) json["validations"] = Json::array();
  for (const Validation& v : report.validations)
    json["validations"].push_back(json_of_validation(v));
  return json.dump();
}

}  // namespace shampoo::test
