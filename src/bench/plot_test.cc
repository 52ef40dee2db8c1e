#include "bench/plot.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <vector>

namespace baton {
namespace {

// A reader of the XML that this document may use: elements, attributes in double quotes, text with
// the five named entities. Says what is wrong, or nothing.
class XmlChecker {
 public:
  static std::optional<std::string> Check(std::string_view text) {
    XmlChecker checker(text);
    if (!checker.Element()) return checker.what_ + " at byte " + std::to_string(checker.at_);
    while (checker.at_ < text.size() && text[checker.at_] == '\n') ++checker.at_;
    if (checker.at_ != text.size()) return "text behind the root element";
    return std::nullopt;
  }

 private:
  explicit XmlChecker(std::string_view text) : text_(text) {}

  bool Wrong(const std::string& what) {
    if (what_.empty()) what_ = what;
    return false;
  }
  bool Take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return Wrong("no '" + std::string(word) + "'");
    at_ += word.size();
    return true;
  }
  std::string_view Name() {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (isalnum(text_[at_]) != 0 || text_[at_] == '-' || text_[at_] == ':'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  // Characters up to one of `ends`.
  bool Characters(std::string_view ends) {
    while (at_ < text_.size() && ends.find(text_[at_]) == std::string_view::npos) {
      if (static_cast<unsigned char>(text_[at_]) < 0x20 && text_[at_] != '\n') {
        return Wrong("control byte");
      }
      if (text_[at_] == '&') {
        const std::string_view entity = text_.substr(at_, text_.find(';', at_) - at_ + 1);
        if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") {
          return Wrong("bad entity");
        }
      }
      ++at_;
    }
    return at_ < text_.size() || Wrong("end of text");
  }
  bool Element() {
    if (!Take("<")) return false;
    const std::string_view name = Name();
    if (name.empty()) return Wrong("no name");
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
      if (Name().empty() || !Take("=\"") || !Characters("<\"") || !Take("\"")) {
        return Wrong("bad attribute");
      }
    }
    if (text_.substr(at_, 2) == "/>") return Take("/>");
    if (!Take(">")) return false;
    while (true) {
      if (!Characters("<")) return false;
      if (text_.substr(at_, 2) == "</") break;
      if (!Element()) return false;
    }
    return Take("</") && (Name() == name || Wrong("wrong end")) && Take(">");
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string what_;
};

Plot OnePanel(std::vector<PlotSeries> series) {
  return {.title = "A title",
          .subtitle = "below it",
          .panels = {{.title = "Panel",
                      .x_label = "x",
                      .y_label = "y",
                      .is_log_x = false,
                      .series = std::move(series)}}};
}

size_t Count(std::string_view text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(PlotTest, CheckerSeesWhatIsWrong) {
  EXPECT_FALSE(XmlChecker::Check("<a b=\"c\"><d/>x &amp; y</a>\n").has_value());
  EXPECT_TRUE(XmlChecker::Check("<a><b></a></b>").has_value());
  EXPECT_TRUE(XmlChecker::Check("<a>x & y</a>").has_value());
  EXPECT_TRUE(XmlChecker::Check("<a b=\"<\"/>").has_value());
  EXPECT_TRUE(XmlChecker::Check("<a>\x01</a>").has_value());
}

TEST(PlotTest, HasALineAndMarksForEachSeries) {
  const std::string svg = PlotAsSvg(OnePanel(
      {{.label = "one", .points = {{.x = 1, .y = 5, .limit = 9}, {.x = 2, .y = 6, .limit = 9}}},
       {.label = "two", .points = {{.x = 1, .y = 8}, {.x = 2, .y = 7}, {.x = 3, .y = 1}}}}));
  EXPECT_EQ(XmlChecker::Check(svg), std::nullopt) << svg;
  EXPECT_EQ(Count(svg, "<polyline class=\"line"), 2u);
  EXPECT_EQ(Count(svg, "<polyline class=\"limit"), 1u);
  EXPECT_EQ(Count(svg, "<circle"), 5u + 2u);  // and one each in the legend
  for (const char* word : {">A title<", ">below it<", ">Panel<", ">one<", ">two<", ">x<", ">y<"}) {
    EXPECT_EQ(Count(svg, word) >= 1, true) << word;
  }
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
}

// Points in any order are joined from left to right; higher numbers stand higher.
TEST(PlotTest, PointsStandWhereTheyBelong) {
  const std::string svg = PlotAsSvg(OnePanel(
      {{.label = "s", .points = {{.x = 30, .y = 10}, {.x = 10, .y = 0}, {.x = 20, .y = 5}}}}));
  const size_t begin = svg.find("class=\"line s0\" points=\"");
  double x[3], y[3];
  ASSERT_EQ(std::sscanf(svg.c_str() + begin, "class=\"line s0\" points=\"%lf,%lf %lf,%lf %lf,%lf",
                        &x[0], &y[0], &x[1], &y[1], &x[2], &y[2]),
            6);
  EXPECT_LT(x[0], x[1]);
  EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.11);
  EXPECT_GT(y[0], y[1]);
  EXPECT_NEAR(y[0] - y[1], y[1] - y[2], 0.11);
}

TEST(PlotTest, EqualFactorsAreEqualDistancesOnALogarithmicAxis) {
  Plot plot =
      OnePanel({{.label = "s", .points = {{.x = 1, .y = 1}, {.x = 4, .y = 1}, {.x = 16, .y = 1}}}});
  plot.panels[0].is_log_x = true;
  const std::string svg = PlotAsSvg(plot);
  const size_t begin = svg.find("class=\"line s0\" points=\"");
  double x[3], y[3];
  ASSERT_EQ(std::sscanf(svg.c_str() + begin, "class=\"line s0\" points=\"%lf,%lf %lf,%lf %lf,%lf",
                        &x[0], &y[0], &x[1], &y[1], &x[2], &y[2]),
            6);
  EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.11);
}

TEST(PlotTest, AnyTextMakesADocument) {
  Plot plot = OnePanel({{.label = "a<b & \"c\">", .points = {{.x = 1, .y = 1}}}});
  plot.title = "bytes \x01\xff\xc3\x28\xed\xa0\x80\xef\xbf\xbf and \xc3\xa9";
  const std::string svg = PlotAsSvg(plot);
  EXPECT_EQ(XmlChecker::Check(svg), std::nullopt) << svg;
  EXPECT_NE(svg.find("a&lt;b &amp; &quot;c&quot;&gt;"), std::string::npos);
  EXPECT_NE(svg.find("bytes ( and \xc3\xa9"), std::string::npos);
}

TEST(PlotTest, NothingToShowIsADocumentToo) {
  EXPECT_EQ(XmlChecker::Check(PlotAsSvg(OnePanel({}))), std::nullopt);
  EXPECT_EQ(XmlChecker::Check(PlotAsSvg({})), std::nullopt);
  EXPECT_EQ(XmlChecker::Check(PlotAsSvg(OnePanel({{.label = "s", .points = {{.x = 0, .y = 0}}}}))),
            std::nullopt);
}

}  // namespace
}  // namespace baton
