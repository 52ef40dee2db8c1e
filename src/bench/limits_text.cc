#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/limits.h"
#include "bench/machine_text.h"
#include "bench/text_table.h"
#include "text/json_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

std::string Giga(double rate) {
  return fmt::format("{:.1f}", rate * 1e-9);
}

std::string Percent(double share) {
  return fmt::format("{:.0f}%", 100 * share);
}

Json RateJson(const LimitRate& rate) {
  return {{"median", rate.median}, {"best", rate.best}, {"spread", rate.spread}};
}

}  // namespace

std::string LimitsAsText(const LimitsReport& report, size_t columns) {
  std::string text = MachineAsText(report.machine, columns) + "\n";
  TextTable arithmetic({"arithmetic", ">threads", ">f32 fma, GMAC/s", ">best", ">spread",
                        ">int8, GMAC/s", ">best", ">spread"},
                       /*num_keys=*/2);
  for (const ArithmeticLimit& limit : report.arithmetic) {
    arithmetic.AddRow({std::string(IsaName(limit.isa)), std::to_string(limit.num_threads),
                       Giga(limit.float_rate.median), Giga(limit.float_rate.best),
                       Percent(limit.float_rate.spread), Giga(limit.integer_rate.median),
                       Giga(limit.integer_rate.best), Percent(limit.integer_rate.spread)});
  }
  TextTable reads({"reading from", ">threads", ">KiB", ">GB/s", ">best", ">spread"},
                  /*num_keys=*/3);
  for (const ReadLimit& limit : report.reads) {
    reads.AddRow({limit.from, std::to_string(limit.num_threads), std::to_string(limit.bytes >> 10),
                  Giga(limit.rate.median), Giga(limit.rate.best), Percent(limit.rate.spread)});
  }
  text += arithmetic.ToText(columns) + "\n" + reads.ToText(columns);
  return text + ReportNotes(report.notes, columns);
}

std::string LimitsAsJson(const LimitsReport& report) {
  Json arithmetic = Json::array();
  for (const ArithmeticLimit& limit : report.arithmetic) {
    arithmetic.push_back({{"isa", IsaName(limit.isa)},
                          {"threads", limit.num_threads},
                          {"f32_macs_per_second", RateJson(limit.float_rate)},
                          {"int8_macs_per_second", RateJson(limit.integer_rate)}});
  }
  Json reads = Json::array();
  for (const ReadLimit& limit : report.reads) {
    reads.push_back({{"from", limit.from},
                     {"bytes", limit.bytes},
                     {"threads", limit.num_threads},
                     {"bytes_per_second", RateJson(limit.rate)}});
  }
  const Json json = {{"machine", MachineAsJson(report.machine)},
                     {"arithmetic", arithmetic},
                     {"reads", reads},
                     {"notes", report.notes}};
  return JsonText(json);
}

}  // namespace baton
