// A strict reader of JSON for the headers of model files. Whatever the text, it returns a value or throws `std::runtime_error`.
#pragma once

#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace cstf {

class Json {
  public:
    enum Type { NOTHING, BOOLEAN, NUMBER, TEXT, LIST, OBJECT };

    static Json parse(const std::string& text) {
        Parser parser{text.data(), text.data() + text.size()};
        Json result = parser.value(0);
        parser.skip();
        if (parser.at != parser.end) fail("text behind its end");
        return result;
    }

    bool is_nothing() const { return type == NOTHING; }
    bool has(const std::string& name) const { return type == OBJECT && members.count(name) > 0; }

    const Json& operator[](const std::string& name) const {
        if (!has(name)) fail("no entry '" + name.substr(0, 40) + "'");
        return members.at(name);
    }
    const std::map<std::string, Json>& entries() const {
        need(OBJECT, "an object");
        return members;
    }
    const std::vector<Json>& list() const {
        need(LIST, "a list");
        return items;
    }
    const std::string& text() const {
        need(TEXT, "a text");
        return words;
    }
    double number() const {
        need(NUMBER, "a number");
        return amount;
    }
    // A whole number from `least` to `most`.
    int64_t whole(int64_t least, int64_t most) const {
        const double value = number();
        if (!(value >= static_cast<double>(least) && value <= static_cast<double>(most)) || value != std::floor(value))
            fail("a number that is not whole or out of range");
        return static_cast<int64_t>(value);
    }

  private:
    static constexpr int DEEPEST = 32;
    Type type = NOTHING;
    double amount = 0;
    std::string words;
    std::vector<Json> items;
    std::map<std::string, Json> members;

    [[noreturn]] static void fail(const std::string& what) { throw std::runtime_error("its header has " + what); }
    void need(Type wanted, const char* what) const {
        if (type != wanted) fail(std::string("something else where ") + what + " should be");
    }

    struct Parser {
        const char *at, *end;

        void skip() {
            while (at != end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) ++at;
        }
        bool takes(char c) {
            skip();
            if (at == end || *at != c) return false;
            ++at;
            return true;
        }
        void expect(char c) {
            if (!takes(c)) fail("a syntax error");
        }
        bool word(const char* w) {
            const char* p = at;
            for (; *w; ++w, ++p)
                if (p == end || *p != *w) return false;
            at = p;
            return true;
        }

        Json value(int depth) {
            if (depth > DEEPEST) fail("too many levels");
            skip();
            if (at == end) fail("an early end");
            Json result;
            if (*at == '{') object(result, depth);
            else if (*at == '[') sequence(result, depth);
            else if (*at == '"') result.type = TEXT, result.words = string();
            else if (word("true")) result.type = BOOLEAN, result.amount = 1;
            else if (word("false")) result.type = BOOLEAN;
            else if (!word("null")) result.type = NUMBER, result.amount = number();
            return result;
        }

        void object(Json& result, int depth) {
            result.type = OBJECT;
            expect('{');
            if (takes('}')) return;
            do {
                skip();
                const std::string name = string();
                expect(':');
                if (!result.members.emplace(name, value(depth + 1)).second) fail("an entry twice");
            } while (takes(','));
            expect('}');
        }

        void sequence(Json& result, int depth) {
            result.type = LIST;
            expect('[');
            if (takes(']')) return;
            do result.items.push_back(value(depth + 1));
            while (takes(','));
            expect(']');
        }

        double number() {
            const char* start = at;
            while (at != end && (std::isdigit(static_cast<unsigned char>(*at)) || *at == '-' || *at == '+' || *at == '.' ||
                                 *at == 'e' || *at == 'E'))
                ++at;
            const std::string digits(start, at);
            char* stop = nullptr;
            const double result = std::strtod(digits.c_str(), &stop);
            if (digits.empty() || *stop || !std::isfinite(result)) fail("a syntax error");
            return result;
        }

        std::string string() {
            expect('"');
            std::string result;
            while (at != end && *at != '"') {
                if (static_cast<unsigned char>(*at) < 0x20) fail("a control character");
                if (*at != '\\') {
                    result += *at++;
                    continue;
                }
                if (++at == end) break;
                escape(result);
            }
            if (at == end) fail("an early end");
            ++at;
            return result;
        }

        void escape(std::string& result) {
            const char c = *at++;
            static const std::string known = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
            const size_t place = known.find(c);
            if (place != std::string::npos) {
                result += meant[place];
                return;
            }
            if (c != 'u' || end - at < 4) fail("a syntax error");
            const std::string digits(at, at + 4);
            if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) fail("a syntax error");
            const unsigned long code = std::strtoul(digits.c_str(), nullptr, 16);
            at += 4;
            // Texts of ours are ASCII; anything else needs no more than to be told apart.
            result += code < 0x80 ? static_cast<char>(code) : '?';
        }
    };
};

}  // namespace cstf
