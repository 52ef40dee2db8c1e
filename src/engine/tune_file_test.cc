#include "engine/tune_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "engine/loaded_model.h"
#include "engine/prompt_policy.h"
#include "engine/test_tiny_file.h"
#include "kernels/sparse_policy_text.h"

namespace baton {
namespace {

using testing::HasSubstr;

// A tiny model, and its tune file, which goes with it.
class TuneFileTest : public testing::Test {
 protected:
  TuneFileTest() : path_(file_.path() + ".tune.json") {
    const Result<GgufFile> gguf = GgufFile::Open(file_.path());
    CHECK(gguf.has_value());
    CHECK(TunePathOf(*gguf) == path_);
    fingerprint_ = FingerprintOf(*gguf);
    tuning_.path = path_;
    tuning_.policy = DefaultSparsePolicy();
    tuning_.policy.dense_heads = {{.layer = 1, .kv_head = 0}};
    tuning_.break_even_tokens = 100;
  }
  ~TuneFileTest() override {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

  void Write() {
    const Result<> written = WriteTuneFile(
        {.tuning = tuning_, .fingerprint = fingerprint_, .measured = R"({"kl": 0.01})"});
    ASSERT_TRUE(written.has_value()) << written.error().message;
  }
  nlohmann::json Read() const {
    std::ifstream in(path_);
    return nlohmann::json::parse(in);
  }
  void Put(const std::string& text) const { std::ofstream(path_) << text; }

  Result<LoadedModel> Load(TunedPrefill tuned) const { return Load(tuned, std::nullopt); }
  Result<LoadedModel> Load(TunedPrefill tuned, std::optional<std::string> tune_file) const {
    return LoadModel({.path = file_.path(),
                      .isa = BestIsa(),
                      .context_tokens = 448,
                      .chunk_tokens = 128,
                      .tuned_prefill = tuned,
                      .tune_file = std::move(tune_file)},
                     nullptr);
  }
  std::string Refusal(TunedPrefill tuned) const {
    const Result<LoadedModel> model = Load(tuned);
    return model ? std::string() : model.error().message;
  }

  const TinyFile file_{TinyModel{.layers = 2}};
  const std::string path_;
  Hash128 fingerprint_;
  Tuning tuning_;
};

TEST_F(TuneFileTest, IsUsedByAutoAndBySparse) {
  Write();
  const Result<LoadedModel> by_auto = Load(TunedPrefill::kAuto);
  ASSERT_TRUE(by_auto.has_value()) << by_auto.error().message;
  SparsePolicy expected = tuning_.policy;
  EXPECT_EQ(by_auto->tuning->policy, expected);
  expected.min_prompt_tokens = 100;
  EXPECT_EQ(by_auto->options.prefill_policy, expected);
  const Result<LoadedModel> by_sparse = Load(TunedPrefill::kSparse);
  EXPECT_EQ(by_sparse->options.prefill_policy, tuning_.policy);
  const Result<LoadedModel> dense = Load(TunedPrefill::kNone);
  EXPECT_EQ(dense->options.prefill_policy, std::nullopt);
  EXPECT_TRUE(dense->tuning.has_value());
}

TEST_F(TuneFileTest, AutoIsDenseUpToTheBreakEven) {
  Write();
  const Result<LoadedModel> model = Load(TunedPrefill::kAuto);
  ASSERT_TRUE(model.has_value());
  const auto used = [&](PrefillMode mode, int64_t num_tokens) {
    return *PolicyOfPrompt({.mode = mode}, num_tokens, *model);
  };
  EXPECT_EQ(used(PrefillMode::kDefault, 100), std::nullopt);
  EXPECT_EQ(used(PrefillMode::kDefault, 101), tuning_.policy);
  EXPECT_EQ(used(PrefillMode::kAuto, 100), std::nullopt);
  EXPECT_EQ(used(PrefillMode::kSparse, 100), tuning_.policy);
  EXPECT_EQ(used(PrefillMode::kDense, 400), std::nullopt);
  // What auto and sparse leave in the cache is the same; what is dense is not.
  EXPECT_EQ(SaltOfPrompt({}, used(PrefillMode::kAuto, 101)),
            SaltOfPrompt({}, used(PrefillMode::kSparse, 50)));
  EXPECT_NE(SaltOfPrompt({}, used(PrefillMode::kAuto, 101)),
            SaltOfPrompt({}, used(PrefillMode::kAuto, 100)));
  EXPECT_NE(SaltOfPrompt({.low = 1}, tuning_.policy), SaltOfPrompt({}, tuning_.policy));
}

TEST_F(TuneFileTest, WithoutABreakEvenAutoIsDense) {
  tuning_.break_even_tokens = std::nullopt;
  Write();
  const Result<LoadedModel> model = Load(TunedPrefill::kAuto);
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->tuning->break_even_tokens, std::nullopt);
  EXPECT_EQ(*PolicyOfPrompt({}, 448, *model), std::nullopt);
}

TEST_F(TuneFileTest, WithoutAFileAutoSaysWhatToDoAndSparseTakesTheDefault) {
  EXPECT_THAT(Refusal(TunedPrefill::kAuto), HasSubstr("baton tune " + file_.path()));
  const Result<LoadedModel> model = Load(TunedPrefill::kSparse);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->options.prefill_policy, DefaultSparsePolicy());
}

// Of a model in a folder that cannot be written the file lies elsewhere. It must be there, and fit;
// what lies beside the model plays no part.
TEST_F(TuneFileTest, AnotherFileCanBeNamed) {
  const std::string named = testing::TempDir() + "elsewhere of " + std::to_string(::getpid());
  const auto refusal = [&](TunedPrefill tuned) {
    const Result<LoadedModel> model = Load(tuned, named);
    return model ? std::string() : model.error().message;
  };
  Write();
  const std::string again =
      "baton tune " + file_.path() + " --text FILE --tune-file '" + named + "'";
  const std::string elsewhere =
      "name another, or make one with: baton tune " + file_.path() + " --text FILE --tune-file NEW";
  for (const TunedPrefill tuned :
       {TunedPrefill::kAuto, TunedPrefill::kSparse, TunedPrefill::kNone}) {
    EXPECT_EQ(refusal(tuned), named + ": there is no such file; make it with: " + again);
  }
  Put("{}");
  tuning_.path = named;
  tuning_.policy.share = 0.5;
  Write();
  const Result<LoadedModel> model = Load(TunedPrefill::kSparse, named);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->options.prefill_policy, tuning_.policy);
  EXPECT_EQ(model->tuning->path, named);
  fingerprint_.low ^= 1;
  Write();
  for (const TunedPrefill tuned : {TunedPrefill::kAuto, TunedPrefill::kNone}) {
    EXPECT_EQ(refusal(tuned), named + ": tuned for another model file; " + elsewhere);
  }
  std::ofstream(named) << "{\"recipe\": 1}";
  EXPECT_EQ(refusal(TunedPrefill::kAuto),
            named + ": is not a tune file: it does not begin as one; " + elsewhere);
  std::filesystem::remove(named);
  std::filesystem::create_directory(named);
  EXPECT_EQ(refusal(TunedPrefill::kAuto), named + ": is a folder, not a tune file; " + elsewhere);
  std::filesystem::remove(named);
}

TEST_F(TuneFileTest, OfAnotherModelIsRefused) {
  fingerprint_.low ^= 1;
  Write();
  for (const TunedPrefill tuned : {TunedPrefill::kAuto, TunedPrefill::kSparse}) {
    EXPECT_THAT(Refusal(tuned), HasSubstr("tuned for another model file"));
  }
  EXPECT_EQ(Refusal(TunedPrefill::kNone), "");
}

TEST_F(TuneFileTest, NewerOnesAreRefused) {
  Write();
  nlohmann::json json = Read();
  json["baton_tune"] = 2;
  Put(json.dump());
  EXPECT_THAT(Refusal(TunedPrefill::kAuto), HasSubstr("version 2"));
}

TEST_F(TuneFileTest, DamageIsRefusedWithTheField) {
  Write();
  const nlohmann::json whole = Read();
  const auto refusal_with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json json = whole;
    json[key] = value;
    Put(json.dump());
    return Refusal(TunedPrefill::kAuto);
  };
  EXPECT_THAT(refusal_with("policy", 5), HasSubstr("'policy'"));
  EXPECT_THAT(refusal_with("policy", "rule=share:2"), HasSubstr("share"));
  EXPECT_THAT(refusal_with("policy", "dense-layers=2"), HasSubstr("0..1"));
  EXPECT_THAT(refusal_with("break_even_tokens", -1), HasSubstr("'break_even_tokens'"));
  EXPECT_THAT(refusal_with("break_even_tokens", 1.5), HasSubstr("'break_even_tokens'"));
  EXPECT_THAT(refusal_with("baton_tune", "1"), HasSubstr("'baton_tune'"));
  EXPECT_THAT(refusal_with("baton_tune", 0), HasSubstr("'baton_tune'"));
  EXPECT_THAT(refusal_with("model", nullptr), HasSubstr("'model'"));
  for (const std::string& text :
       {std::string(), std::string("["), std::string("[]"), whole.dump().substr(0, 60),
        std::string(200'000, '['), std::string(300'000, ' '),
        whole.dump() + std::string(300'000, ' ')}) {
    Put(text);
    const Result<LoadedModel> model = Load(TunedPrefill::kAuto);
    ASSERT_FALSE(model.has_value());
    EXPECT_EQ(model.error().code, ErrorCode::kCorrupt);
    // What it says to do, works.
    const bool is_replaced = CheckTunePath(path_).has_value();
    EXPECT_THAT(model.error().message,
                HasSubstr(is_replaced ? "; make it anew with: baton tune"
                                      : "; move it away, and make one with: baton tune"));
  }
}

// Opening a pipe would wait for a writer. Whoever reads densely is not bothered.
TEST_F(TuneFileTest, WhatIsNoFileIsRefused) {
  const auto refuses_both = [&](const std::string& what) {
    for (const TunedPrefill tuned : {TunedPrefill::kAuto, TunedPrefill::kSparse}) {
      EXPECT_THAT(Refusal(tuned), testing::StartsWith(path_ + ": is " + what));
      EXPECT_THAT(Refusal(tuned), HasSubstr("; move it away, and make one with: baton tune"));
    }
    EXPECT_EQ(Refusal(TunedPrefill::kNone), "");
    std::filesystem::remove(path_);
  };
  std::filesystem::create_directory(path_);
  refuses_both("a folder, not a tune file");
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  refuses_both("a pipe, not a tune file");
  std::filesystem::create_symlink("/dev/null", path_);
  refuses_both("a device or socket, not a tune file");
}

// Only tune files are replaced.
TEST_F(TuneFileTest, ForeignFilesStay) {
  Put("{\"recipe\": 1}");
  const Result<> checked = CheckTunePath(path_);
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
  EXPECT_FALSE(WriteTuneFile({.tuning = tuning_, .fingerprint = fingerprint_, .measured = "{}"}));
  EXPECT_EQ(Read()["recipe"], 1);
  std::filesystem::remove(path_);
  Write();
  EXPECT_TRUE(CheckTunePath(path_).has_value());
  Write();
}

}  // namespace
}  // namespace baton
