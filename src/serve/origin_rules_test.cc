#include "serve/origin_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baton {
namespace {

HttpRequest Ask(const std::string& host, const std::string& origin) {
  HttpRequest request{.method = "POST",
                      .target = "/",
                      .is_http_1_0 = false,
                      .fields = {{.name = "Host", .value = host}},
                      .body = {}};
  if (!origin.empty()) request.fields.push_back({.name = "Origin", .value = origin});
  return request;
}

TEST(OriginRulesTest, NoForeignPageByDefault) {
  const OriginRules rules;
  const auto judge = [&](const char* host, const char* origin) {
    return JudgeOrigin(rules, Ask(host, origin));
  };
  EXPECT_EQ(judge("127.0.0.1:8080", ""), OriginVerdict::kPlain);
  EXPECT_EQ(judge("localhost:8080", "http://localhost:8080"), OriginVerdict::kPlain);
  EXPECT_EQ(judge("[::1]:8080", "http://[::1]:8080"), OriginVerdict::kPlain);
  EXPECT_EQ(judge("127.0.0.1:8080", "http://127.0.0.1:9090"), OriginVerdict::kForeign);
  EXPECT_EQ(judge("127.0.0.1:8080", "https://other.example"), OriginVerdict::kForeign);
  EXPECT_EQ(judge("127.0.0.1:8080", "null"), OriginVerdict::kForeign);
  // A page whose name was made to resolve to this machine.
  EXPECT_EQ(judge("evil.example:8080", "http://evil.example:8080"), OriginVerdict::kWrongHost);
  EXPECT_EQ(judge("evil.example", ""), OriginVerdict::kWrongHost);
  EXPECT_EQ(judge("127.0.0.1.evil.example", ""), OriginVerdict::kWrongHost);
  EXPECT_EQ(judge("localhost.evil.example", ""), OriginVerdict::kWrongHost);
}

TEST(OriginRulesTest, ConfiguredOnesExactly) {
  const OriginRules rules{.origins = {"https://chat.example"}, .hosts = {"llm.example"}};
  EXPECT_EQ(JudgeOrigin(rules, Ask("localhost", "https://chat.example")), OriginVerdict::kAllowed);
  for (const char* origin : {"http://chat.example", "https://chat.example:444",
                             "https://chat.example.evil", "https://evilchat.example"}) {
    EXPECT_EQ(JudgeOrigin(rules, Ask("localhost", origin)), OriginVerdict::kForeign) << origin;
  }
  EXPECT_EQ(JudgeOrigin(rules, Ask("LLM.example:80", "")), OriginVerdict::kPlain);
  // On other addresses nobody knows the names; pages of others stay out.
  const OriginRules wide{.origins = {}, .hosts = {}, .is_loopback = false};
  EXPECT_EQ(JudgeOrigin(wide, Ask("any.example", "")), OriginVerdict::kPlain);
  EXPECT_EQ(JudgeOrigin(wide, Ask("any.example", "https://other.example")),
            OriginVerdict::kForeign);
}

TEST(OriginRulesTest, PreflightSaysNothingToOthers) {
  const HttpRequest request = Ask("localhost", "https://chat.example");
  const HttpResponse allowed = PreflightResponse(OriginVerdict::kAllowed, request, "GET");
  EXPECT_EQ(allowed.status, 204);
  EXPECT_EQ(allowed.fields[0].name, "Access-Control-Allow-Origin");
  EXPECT_EQ(allowed.fields[0].value, "https://chat.example");
  EXPECT_EQ(allowed.fields[2], (HttpField{.name = "Allow", .value = "GET"}));
  for (const HttpField& field : PreflightResponse(OriginVerdict::kForeign, request, "GET").fields) {
    EXPECT_FALSE(field.name.starts_with("Access-Control")) << field.name;
  }
  for (const HttpField& field : allowed.fields) {
    EXPECT_NE(field.name, "Access-Control-Allow-Credentials");
  }
}

TEST(OriginRulesTest, AnAllowedPageMaySendTheFieldsItAsksFor) {
  const auto allowed = [](const std::string& wanted) {
    HttpRequest request = Ask("localhost", "https://chat.example");
    request.fields.push_back({.name = "Access-Control-Request-Headers", .value = wanted});
    for (const HttpField& field :
         PreflightResponse(OriginVerdict::kAllowed, request, "POST").fields) {
      if (field.name == "Access-Control-Allow-Headers") return field.value;
    }
    return std::string("none");
  };
  const std::string wanted = "authorization,content-type,x-stainless-lang,x-stainless-retry-count";
  EXPECT_EQ(allowed(wanted), wanted);
  for (const char* odd : {"", "x\"y", "a;b", "\x80"}) {
    EXPECT_EQ(allowed(odd), "authorization, content-type") << odd;
  }
}

TEST(OriginRulesTest, AllowedHostsAreNames) {
  EXPECT_EQ(*ParseAllowedHost("llm.example"), "llm.example");
  EXPECT_EQ(*ParseAllowedHost("fd00::1"), "fd00::1");
  EXPECT_EQ(*ParseAllowedHost("[fd00::1]"), "fd00::1");
  const OriginRules rules{.origins = {}, .hosts = {*ParseAllowedHost("[fd00::1]")}};
  EXPECT_EQ(JudgeOrigin(rules, Ask("[fd00::1]:80", "")), OriginVerdict::kPlain);
  for (const char* given : {"", "llm.example:8443", "[fd00::1]:80", "https://llm.example", "*",
                            "*.example", "a b", "[]", "llm.example/"}) {
    EXPECT_FALSE(ParseAllowedHost(given)) << given;
  }
}

TEST(OriginRulesTest, OriginsAreChecked) {
  const auto valid = [](const char* origin) {
    return Validate(OriginRules{.origins = {origin}, .hosts = {}}).has_value();
  };
  EXPECT_TRUE(valid("https://chat.example"));
  EXPECT_TRUE(valid("http://localhost:3000"));
  for (const char* origin : {"*", "", "chat.example", "https://", "https://chat.example/",
                             "https://*.example", "null", "ftp://x"}) {
    EXPECT_FALSE(valid(origin)) << origin;
  }
}

}  // namespace
}  // namespace baton
