// For tests: the files of tests/data/flashprefill (their README.md tells the format).
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/sparse_policy.h"
#include "kernels/test_sparse_problem.h"

namespace baton {

// The directory of the files: that of the repository, or of the test program's --vectors.
std::string VectorsDirectory();

struct VectorFile {
  nlohmann::json json;
  SparseInputs inputs;  // q of the call's rows only
  int64_t prompt = 0;
  int64_t first_position = 0;
  int64_t num_queries = 0;
  AttentionLayer layer;     // without places
  SparsePolicy policy;      // blocks that are no multiple of 64 are in it, too
  bool checks_out = false;  // the inputs are those of input_check

  std::string name() const { return json.at("name").get<std::string>(); }
  double tolerance(const char* what) const { return json.at("tolerance").at(what).get<double>(); }
};

// Numbers as the files draw them.
class VectorGenerator {
 public:
  explicit VectorGenerator(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 33;
  }
  int64_t Draw(int64_t amplitude) {
    return static_cast<int64_t>(Next() % (2 * static_cast<uint64_t>(amplitude) + 1)) - amplitude;
  }

 private:
  uint64_t state_;
};

struct VectorIntegers {
  std::vector<int64_t> q, k, v;
};

inline VectorIntegers GenerateVectors(const nlohmann::json& json) {
  const nlohmann::json& in = json.at("inputs");
  const nlohmann::json& shape = json.at("shape");
  const auto number = [&](const nlohmann::json& of, const char* name) {
    return of.at(name).get<int64_t>();
  };
  const int64_t tokens = number(shape, "prompt");
  const int64_t heads = number(shape, "heads_q");
  const int64_t kv_heads = number(shape, "heads_kv");
  const int64_t d = number(shape, "d");
  const int64_t topics = number(in, "topics");
  const int64_t run = number(in, "run");
  VectorGenerator generator(in.at("seed").get<uint64_t>());
  std::vector<int64_t> of_topic(static_cast<size_t>(topics * kv_heads * d));
  for (int64_t& x : of_topic) x = generator.Draw(number(in, "topic_amp"));
  std::vector<int64_t> key_topics(static_cast<size_t>((tokens + run - 1) / run));
  std::vector<int64_t> query_topics(key_topics.size());
  for (int64_t& z : key_topics) z = static_cast<int64_t>(generator.Next()) % topics;
  for (int64_t& z : query_topics) z = static_cast<int64_t>(generator.Next()) % topics;
  const auto topic = [&](int64_t z, int64_t h, int64_t c) {
    return of_topic[static_cast<size_t>((z * kv_heads + h) * d + c)];
  };
  VectorIntegers result;
  for (const bool is_key : {true, false}) {
    const int64_t noise = number(in, is_key ? "k_noise" : "v_noise");
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t h = 0; h < kv_heads; ++h) {
        for (int64_t c = 0; c < d; ++c) {
          const int64_t z = key_topics[static_cast<size_t>(t / run)];
          const int64_t x = topic(z, h, is_key ? c : d - 1 - c) + generator.Draw(noise);
          (is_key ? result.k : result.v).push_back(x);
        }
      }
    }
  }
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < heads; ++i) {
      for (int64_t c = 0; c < d; ++c) {
        const int64_t z = query_topics[static_cast<size_t>(t / run)];
        result.q.push_back(number(in, "q_gain") * topic(z, i / (heads / kv_heads), c) +
                           generator.Draw(number(in, "q_noise")));
      }
    }
  }
  const auto cut = [](std::vector<int64_t>& all, int64_t begin, int64_t end) {
    all = std::vector<int64_t>(all.begin() + begin, all.begin() + end);
  };
  const int64_t end = number(shape, "n_kv");
  cut(result.q, number(shape, "p0") * heads * d, end * heads * d);
  cut(result.k, 0, end * kv_heads * d);
  cut(result.v, 0, end * kv_heads * d);
  return result;
}

inline bool ChecksOut(const std::vector<int64_t>& x, const nlohmann::json& check) {
  int64_t sum = 0;
  int64_t weighted = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += x[i];
    weighted += x[i] * static_cast<int64_t>(i % 1009 + 1);
  }
  const auto first = check.at("first").get<std::vector<int64_t>>();
  const auto last = check.at("last").get<std::vector<int64_t>>();
  return sum == check.at("sum").get<int64_t>() && weighted == check.at("weighted").get<int64_t>() &&
         std::equal(first.begin(), first.end(), x.begin()) &&
         std::equal(last.rbegin(), last.rend(), x.rbegin());
}

inline VectorFile ReadVectorFile(const std::filesystem::path& path) {
  VectorFile file;
  std::ifstream stream(path);
  file.json = nlohmann::json::parse(stream);
  const nlohmann::json& shape = file.json.at("shape");
  const nlohmann::json& params = file.json.at("params");
  const nlohmann::json& in = file.json.at("inputs");
  VectorIntegers integers;
  if (in.at("kind") == "lcg") {
    integers = GenerateVectors(file.json);
  } else {
    integers = {in.at("q").get<std::vector<int64_t>>(), in.at("k").get<std::vector<int64_t>>(),
                in.at("v").get<std::vector<int64_t>>()};
  }
  const nlohmann::json& check = file.json.at("input_check");
  file.checks_out = ChecksOut(integers.q, check.at("q")) && ChecksOut(integers.k, check.at("k")) &&
                    ChecksOut(integers.v, check.at("v"));
  const float divisor = in.at("divisor").get<float>();
  const auto divide = [&](const std::vector<int64_t>& from) {
    std::vector<float> to;
    for (const int64_t x : from) to.push_back(static_cast<float>(x) / divisor);
    return to;
  };
  file.inputs = {.shape = {.num_heads = shape.at("heads_q").get<int>(),
                           .num_kv_heads = shape.at("heads_kv").get<int>(),
                           .head_dim = shape.at("d").get<int>()},
                 .q = divide(integers.q),
                 .k = divide(integers.k),
                 .v = divide(integers.v)};
  file.prompt = shape.at("prompt").get<int64_t>();
  file.first_position = shape.at("p0").get<int64_t>();
  file.num_queries = shape.at("n_q").get<int64_t>();
  file.layer = {.scale = params.at("scale").get<float>(),
                .soft_cap = params.at("softcap").get<float>(),
                .sliding_window = params.at("sliding").get<int64_t>()};
  const int block = params.at("block").get<int>();
  file.policy = {.alpha = params.at("alpha").get<float>(),
                 .block_tokens = block,
                 .tile_positions = params.at("tile").get<int>(),
                 .sink_tokens = params.at("sink").get<int64_t>() * block,
                 .window_tokens = params.at("window").get<int64_t>() * block,
                 .last_tiles = params.at("last_n").get<int64_t>(),
                 .has_sparse_windows = true};
  return file;
}

inline std::vector<std::filesystem::path> VectorPaths() {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(VectorsDirectory(), error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace baton
