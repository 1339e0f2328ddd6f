// The safetensors format: eight bytes with the length of a JSON header, the header, the numbers. Every offset and shape is
// checked before anything is read.
#pragma once

#include <cstring>
#include <fstream>
#include <limits>

#include "json.h"

namespace cstf {

struct Array {
    std::string type;            // F32, F64, I32 or I64
    std::vector<int64_t> shape;
    std::vector<char> bytes;

    int64_t size() const {
        int64_t result = 1;
        for (const int64_t n : shape) result *= n;
        return result;
    }

    template <class To>
    std::vector<To> as() const {
        if (type == "F32") return converted<float, To>();
        if (type == "F64") return converted<double, To>();
        if (type == "I32") return converted<int32_t, To>();
        return converted<int64_t, To>();
    }

  private:
    template <class From, class To>
    std::vector<To> converted() const {
        std::vector<To> result(static_cast<size_t>(size()));
        for (size_t i = 0; i < result.size(); ++i) {
            From value;
            std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof value);
            result[i] = static_cast<To>(value);
        }
        return result;
    }
};

class Archive {
  public:
    static Archive read(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        if (!file) throw std::runtime_error("it cannot be opened");
        std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        return Archive(content.data(), content.size());
    }

    Archive(const char* data, size_t size) {
        uint64_t length = 0;
        if (size < sizeof length) throw std::runtime_error("it is too short to be a model");
        std::memcpy(&length, data, sizeof length);
        if (length > size - sizeof length || length > LONGEST_HEADER) throw std::runtime_error("it is cut off or no model");
        const Json header = Json::parse(std::string(data + sizeof length, length));
        const char* numbers = data + sizeof length + length;
        for (const auto& [name, entry] : header.entries()) {
            if (name == "__metadata__") {
                for (const auto& [key, value] : entry.entries()) metadata[key] = value.text();
            } else {
                arrays[name] = taken(entry, numbers, size - sizeof length - length);
            }
        }
    }

    const std::string& note(const std::string& name) const {
        const auto found = metadata.find(name);
        if (found == metadata.end()) throw std::runtime_error("it is no exported model (no '" + name + "' in its header)");
        return found->second;
    }
    bool has(const std::string& name) const { return arrays.count(name) > 0; }
    const Array& array(const std::string& name) const {
        const auto found = arrays.find(name);
        if (found == arrays.end()) throw std::runtime_error("it lacks the numbers '" + name.substr(0, 60) + "'");
        return found->second;
    }

  private:
    static constexpr uint64_t LONGEST_HEADER = 100'000'000;
    std::map<std::string, std::string> metadata;
    std::map<std::string, Array> arrays;

    static Array taken(const Json& entry, const char* numbers, size_t room) {
        constexpr int64_t most = std::numeric_limits<int32_t>::max();
        Array result;
        result.type = entry["dtype"].text();
        const bool is_wide = result.type == "F64" || result.type == "I64";
        if (!is_wide && result.type != "F32" && result.type != "I32") throw std::runtime_error("it has numbers of an unknown type");
        uint64_t bytes = is_wide ? 8 : 4;
        for (const Json& n : entry["shape"].list()) {
            result.shape.push_back(n.whole(0, most));
            bytes *= static_cast<uint64_t>(result.shape.back());
            if (bytes > room) throw std::runtime_error("it is cut off: numbers lie beyond its end");
        }
        const std::vector<Json>& offsets = entry["data_offsets"].list();
        if (offsets.size() != 2) throw std::runtime_error("its header has offsets of the wrong number");
        const uint64_t first = static_cast<uint64_t>(offsets[0].whole(0, int64_t(1) << 52));
        const uint64_t last = static_cast<uint64_t>(offsets[1].whole(0, int64_t(1) << 52));
        if (first > last || last > room || last - first != bytes)
            throw std::runtime_error("it is cut off or damaged: numbers lie beyond its end or have the wrong size");
        result.bytes.assign(numbers + first, numbers + last);
        return result;
    }
};

}  // namespace cstf
