// How atoms are dealt to threads: in chunks that do not depend on the number of threads, so that results do not either.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cstf {

constexpr int EDGES = 8;  // edges in a block

// Edges in CSR form, and which of them make a pair: an edge and its reverse. Pairs are in the order of their straight edges,
// so those whose straight edge reaches a range of atoms are a range too.
struct Graph {
    int64_t atoms;
    const int64_t* row_pointers;  // (atoms + 1)
    const int64_t* senders;       // (edges)
    const int64_t* receivers;     // (edges)
    int64_t pairs;
    const int64_t* pair_edges;    // (pairs, 2): the straight edge and the other one

    int64_t edges(int64_t begin, int64_t end) const { return row_pointers[end] - row_pointers[begin]; }
    int64_t sender(int64_t pair) const { return senders[pair_edges[2 * pair]]; }
    int64_t receiver(int64_t pair) const { return receivers[pair_edges[2 * pair]]; }

    // The first pair whose straight edge reaches this atom or a later one.
    int64_t first_pair(int64_t atom) const {
        int64_t low = 0, high = pairs;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (pair_edges[2 * middle] < row_pointers[atom]) low = middle + 1;
            else high = middle;
        }
        return low;
    }
};

// Atoms whose sums are taken together, by one thread.
struct Chunk {
    int64_t begin, end;
    bool holds(int64_t atom) const { return begin <= atom && atom < end; }
};

inline std::vector<Chunk> equal_parts(int64_t begin, int64_t end, int64_t parts) {
    parts = std::max<int64_t>(1, parts);
    std::vector<Chunk> chunks;
    for (int64_t q = 0; q < parts; ++q)
        chunks.push_back({begin + (end - begin) * q / parts, begin + (end - begin) * (q + 1) / parts});
    return chunks;
}

// Parts with about as many pairs each; fewer if some would be empty.
inline void add_parts(const Graph& graph, const Chunk& whole, int64_t parts, std::vector<Chunk>& chunks) {
    const int64_t first = graph.first_pair(whole.begin), last = graph.first_pair(whole.end);
    int64_t begin = whole.begin;
    for (int64_t q = 1; q < parts && first < last; ++q) {
        const int64_t end = graph.receiver(first + (last - first) * q / parts);
        if (end <= begin) continue;
        chunks.push_back({begin, end});
        begin = end;
    }
    chunks.push_back({begin, whole.end});
}

// About `most` chunks of whole structures, so that no pair lies in two of them; parts of them where they are large. None for
// fewer than four structures, which would keep too few threads busy.
inline std::vector<Chunk> whole_structures(const Graph& graph, int64_t most) {
    most = std::max<int64_t>(1, most);
    const int64_t edges = graph.edges(0, graph.atoms);
    if (edges == 0) return {};
    std::vector<Chunk> structures;
    int64_t begin = 0, reach = 0;
    for (int64_t i = 0; i < graph.atoms; ++i) {
        for (int64_t e = graph.row_pointers[i]; e < graph.row_pointers[i + 1]; ++e)
            reach = std::max(reach, graph.senders[e]);
        // No edge leaves this range; very small ones are joined.
        const bool is_long = graph.edges(begin, i + 1) * most >= edges;
        if (reach > i || (!is_long && i + 1 < graph.atoms)) continue;
        structures.push_back({begin, i + 1});
        begin = i + 1;
    }
    const int64_t count = static_cast<int64_t>(structures.size());
    if (count < 4) return {};
    std::vector<Chunk> chunks;
    for (const Chunk& structure : structures)
        add_parts(graph, structure, std::min(most, edges / 1024) / count, chunks);
    return chunks;
}

constexpr int64_t FEW_PARTS = 16, ATOMS_A_PART = 256, ROWS_AN_ATOM = 8;

// Whole structures where there are enough of them, else parts. The larger a part, the fewer of its pairs lead out of it, and the
// fewer threads have work: at most 16 below 4,352 atoms.
inline std::vector<Chunk> dealt(const Graph& graph, int64_t most) {
    const std::vector<Chunk> structures = whole_structures(graph, most);
    if (!structures.empty()) return structures;
    const int64_t large = std::max(FEW_PARTS, graph.atoms / ATOMS_A_PART);
    std::vector<Chunk> chunks;
    add_parts(graph, {0, graph.atoms}, std::min({most, graph.atoms, large}), chunks);
    return chunks;
}

// Where chunks sum what they add to atoms of others: each has a row of its own for each of these, so that no two threads write
// to one place. The rows of an atom are added in the order of the chunks.
class Borders {
  public:
    Borders(const Graph& graph, const std::vector<Chunk>& chunks) : first_pairs{0}, first_rows{0}, atoms(graph.atoms) {
        std::vector<int64_t> known(chunks.size() > 1 ? atoms : 0, -1), owners;
        if (chunks.size() > 1) places.resize(graph.pairs);
        for (const Chunk& chunk : chunks) {
            first_pairs.push_back(graph.first_pair(chunk.end));
            for (int64_t p = first_pairs.end()[-2]; p < first_pairs.back() && !places.empty(); ++p) {
                const int64_t atom = places[p] = graph.sender(p);
                if (chunk.holds(atom)) continue;
                if (known[atom] < first_rows.back()) {
                    known[atom] = static_cast<int64_t>(owners.size());
                    owners.push_back(atom);
                }
                places[p] = atoms + known[atom];
            }
            first_rows.push_back(static_cast<int64_t>(owners.size()));
        }
        if (owners.empty()) places.clear();
        else sort(owners);
    }

    int64_t first_pair(size_t chunk) const { return first_pairs[chunk]; }
    int64_t first_row(size_t chunk) const { return first_rows[chunk]; }
    int64_t rows() const { return first_rows.back(); }

    // Where the sum of a pair's sender is: at an atom, or in a row behind the atoms.
    int64_t place(int64_t pair, int64_t sender) const { return places.empty() ? sender : places[pair]; }

    // Call `f` with every row of an atom.
    template <class F>
    void over_rows(int64_t atom, F&& f) const {
        if (places.empty()) return;
        for (int64_t k = pointers[atom]; k < pointers[atom + 1]; ++k) f(sorted[k]);
    }

    // Atoms in an order that has nothing to do with where they are have neighbours in every chunk; then fewer chunks have to do.
    bool are_too_many() const { return rows() > ROWS_AN_ATOM * atoms; }

  private:
    std::vector<int64_t> first_pairs, first_rows;  // (chunks + 1)
    std::vector<int64_t> places;                   // (pairs); empty if no pair leaves its chunk
    std::vector<int64_t> pointers, sorted;         // (atoms + 1), (rows): rows by atom
    int64_t atoms;

    void sort(const std::vector<int64_t>& owners) {
        pointers.assign(atoms + 1, 0);
        for (const int64_t atom : owners) ++pointers[atom + 1];
        for (int64_t i = 0; i < atoms; ++i) pointers[i + 1] += pointers[i];
        std::vector<int64_t> next(pointers.begin(), pointers.end() - 1);
        sorted.resize(owners.size());
        for (size_t row = 0; row < owners.size(); ++row) sorted[next[owners[row]]++] = static_cast<int64_t>(row);
    }
};

// Chunks and what leads out of them.
struct Dealt {
    std::vector<Chunk> chunks;
    Borders borders;

    Dealt(const Graph& graph, int64_t most) : chunks(dealt(graph, most)), borders(graph, chunks) {
        while (borders.are_too_many()) {
            chunks = dealt(graph, static_cast<int64_t>(chunks.size()) / 2);
            borders = Borders(graph, chunks);
        }
    }
};

}  // namespace cstf
