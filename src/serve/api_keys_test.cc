#include "serve/api_keys.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baton {
namespace {

// A text that counts how often its bytes are looked at.
class CountingText {
 public:
  CountingText(std::string text, int64_t& count) : text_(std::move(text)), count_(&count) {}
  size_t size() const { return text_.size(); }
  char operator[](size_t i) const {
    ++*count_;
    return text_[i];
  }

 private:
  std::string text_;
  int64_t* count_;
};

TEST(ApiKeysTest, EveryByteOfEveryKeyIsLookedAt) {
  const std::vector<std::string> key_texts = {"secret-0001", "secret-0002", "other"};
  std::vector<int64_t> counts;
  for (const std::string given : {"secret-0001", "Xecret-0001", "secret-000X", "secret-0002"}) {
    int64_t count = 0;
    std::vector<CountingText> keys;
    for (const std::string& key : key_texts) keys.emplace_back(key, count);
    const bool found = IsAnyOf(CountingText(given, count), keys);
    EXPECT_EQ(found, given == "secret-0001" || given == "secret-0002") << given;
    counts.push_back(count);
  }
  // Both texts of the first two pairs (11 bytes), and of the third 11 given and 5 of the key.
  for (const int64_t count : counts) EXPECT_EQ(count, 2 * 11 + 2 * 11 + 11 + 5);
}

TEST(ApiKeysTest, KeysOfAFile) {
  const auto keys = ParseApiKeys("# ours\n one \n\ntwo\r\nthree");
  ASSERT_TRUE(keys);
  EXPECT_EQ(*keys, (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_FALSE(ParseApiKeys(""));
  EXPECT_FALSE(ParseApiKeys("\n  \n# none\n"));
  EXPECT_FALSE(ParseApiKeys("two words\n"));
  EXPECT_FALSE(ParseApiKeys("caf\xc3\xa9\n"));
}

HttpRequest With(std::vector<HttpField> fields) {
  return {.method = "GET",
          .target = "/",
          .is_http_1_0 = false,
          .fields = std::move(fields),
          .body = {}};
}

TEST(ApiKeysTest, OneBearerIsWanted) {
  const std::vector<std::string> keys = {"key-1", "key-2"};
  const auto allowed = [&](const std::string& value) {
    return IsAuthorized(With({{.name = "authorization", .value = value}}), keys);
  };
  EXPECT_TRUE(allowed("Bearer key-1"));
  EXPECT_TRUE(allowed("bearer key-2"));
  for (const char* wrong : {"", "key-1", "Bearer", "Bearer ", "Bearer key-3", "Bearer key-1 ",
                            "Bearer  key-1", "Bearer Key-1", "Basic key-1", "Bearer key-1,key-2",
                            "Bearer key-", "Bearer key-11", "Bearer\tkey-1"}) {
    EXPECT_FALSE(allowed(wrong)) << wrong;
  }
  EXPECT_FALSE(IsAuthorized(With({}), keys));
  EXPECT_FALSE(IsAuthorized(With({{.name = "Authorization", .value = "Bearer key-1"},
                                  {.name = "Authorization", .value = "Bearer key-1"}}),
                            keys));
  EXPECT_TRUE(IsAuthorized(With({}), {}));
}

}  // namespace
}  // namespace baton
