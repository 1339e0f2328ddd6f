// How atoms are dealt to threads: in chunks that do not depend on the number of threads, so that results do not either.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cstf {

constexpr int EDGES = 8;  // edges in a block

// Edges in CSR form.
struct Graph {
    int64_t atoms;
    const int64_t* row_pointers;  // (atoms + 1)
    const int64_t* neighbours;    // (edges)

    int64_t edges(int64_t begin, int64_t end) const { return row_pointers[end] - row_pointers[begin]; }
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

// About `most` chunks of whole structures, so that every edge finds its reverse in its chunk; parts of them where they are
// large. None for fewer than four structures, which would keep too few threads busy.
inline std::vector<Chunk> whole_structures(const Graph& graph, int64_t most) {
    most = std::max<int64_t>(1, most);
    const int64_t edges = graph.edges(0, graph.atoms);
    std::vector<Chunk> structures;
    int64_t begin = 0, reach = 0;
    for (int64_t i = 0; i < graph.atoms; ++i) {
        for (int64_t e = graph.row_pointers[i]; e < graph.row_pointers[i + 1]; ++e)
            reach = std::max(reach, graph.neighbours[e]);
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
        for (const Chunk& part : equal_parts(structure.begin, structure.end, std::min(most, edges / 1024) / count))
            chunks.push_back(part);
    return chunks;
}

constexpr int64_t FEW_PARTS = 16, ATOMS_A_PART = 256;

// Whole structures where there are enough of them, else equal parts. The larger a part, the more of its edges find their
// reverse in it, and the fewer threads have work: at most 16 below 4,352 atoms.
inline std::vector<Chunk> dealt(const Graph& graph, int64_t most) {
    const std::vector<Chunk> structures = whole_structures(graph, most);
    if (!structures.empty()) return structures;
    const int64_t large = std::max(FEW_PARTS, graph.atoms / ATOMS_A_PART);
    return equal_parts(0, graph.atoms, std::min({most, graph.atoms, large}));
}

}  // namespace cstf
