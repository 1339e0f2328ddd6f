// Which row of the runtime an atom of LAMMPS has, and the pairs within the cutoff.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "cliffordstf.h"

namespace cstf_lammps {

// Rows are those of owned atoms, in LAMMPS's order, then of ghosts that other ranks own. A periodic image of an atom of this
// rank has its owner's row: nothing is sent for it. Atoms of types that are not ours have none.
class Rows {
  public:
    // Owned atoms first; `elements` by type, 0 for types that are not ours.
    void add_owned(int64_t count, const int* types, const std::vector<int32_t>& elements) {
        row_of.clear(), numbers.clear();
        for (int64_t i = 0; i < count; ++i) add(elements[types[i]]);
        owned = all();
    }
    // Then ghosts: their owner, by its index, if this rank owns it, or -1.
    void add_ghost(int type, const std::vector<int32_t>& elements, int64_t owner) {
        if (owner >= 0) row_of.push_back(row_of[owner]);
        else add(elements[type]);
    }

    int64_t atoms() const { return owned; }
    int64_t all() const { return static_cast<int64_t>(numbers.size()); }
    int64_t row(int64_t index) const { return row_of[index]; }
    // A ghost with a row of its own.
    bool is_sent(int64_t index) const { return row_of[index] >= owned; }
    const std::vector<int32_t>& elements() const { return numbers; }

  private:
    std::vector<int64_t> row_of;
    std::vector<int32_t> numbers;
    int64_t owned = 0;

    void add(int32_t element) {
        row_of.push_back(element ? all() : -1);
        if (element) numbers.push_back(element);
    }
};

// Pairs within the cutoff, each once.
struct Pairs {
    std::vector<int64_t> receivers, senders;
    std::vector<double> vectors;  // from receiver to sender

    void clear() { receivers.clear(), senders.clear(), vectors.clear(); }
    void add(int64_t receiver, int64_t sender, const double* d) {
        receivers.push_back(receiver), senders.push_back(sender);
        vectors.insert(vectors.end(), d, d + 3);
    }
    bool connects_as(const Pairs& other) const { return receivers == other.receivers && senders == other.senders; }

    cstf_neighbours neighbours(const Rows& rows) const {
        return {rows.atoms(), rows.all() - rows.atoms(), rows.elements().data(), 1, nullptr,
                static_cast<int64_t>(receivers.size()), receivers.data(), senders.data()};
    }
};

// Rows that are being exchanged, as the runtime gives them.
struct ExchangedRows {
    char* rows = nullptr;
    int64_t width = 0;
    int bytes = 8;

    // Numbers of LAMMPS's buffers that a row takes.
    int size() const { return static_cast<int>((width * bytes + 7) / 8); }
    void put(int64_t row, double* buffer) const { std::memcpy(buffer, rows + row * width * bytes, width * bytes); }
    void take(int64_t row, const double* buffer) const { std::memcpy(rows + row * width * bytes, buffer, width * bytes); }
    void add(int64_t row, const double* buffer) const {
        if (bytes == 8) add_as<double>(row, buffer);
        else add_as<float>(row, buffer);
    }

  private:
    template <class T>
    void add_as(int64_t row, const double* buffer) const {
        T* to = reinterpret_cast<T*>(rows) + row * width;
        const T* from = reinterpret_cast<const T*>(buffer);
        for (int64_t k = 0; k < width; ++k) to[k] += from[k];
    }
};

}  // namespace cstf_lammps
