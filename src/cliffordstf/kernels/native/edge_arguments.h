// What the edge operator with a small matrix for every path takes.
#pragma once

#include "chunks.h"
#include "path.h"

namespace cstf {

struct EdgeArgs {
    // The plan.
    int64_t paths, matrix, source, edge, target, rows;
    const Path* path;
    const int32_t* matrix_pointers;  // (matrix + 1): entries of each element of M
    const int32_t* entry_edge;       // component of Y
    const void* entry_value;         // coefficient
    const int32_t* path_pointers;    // (paths + 1): first of each path's components of Y in the next two
    const int32_t* transposed_edge;  // component of Y
    const int32_t* transposed_pointers;  // its entries in the next two
    const int32_t* transposed_matrix;    // element of M, relative to the path
    const void* transposed_value;        // coefficient
    // The edges.
    int64_t atoms, edges, channels;
    const int64_t* row_pointers;     // (atoms + 1)
    const int64_t* neighbours;       // (edges): senders
    const int64_t* receivers;        // (edges)
    const int64_t* reverse;          // (edges): the edge the other way round
    int64_t pairs;
    const int64_t* pair;             // (edges)
    const int64_t* pair_edges;       // (pairs, 2)
    // Operands, cotangents and results.
    const void *h, *w, *f, *Y, *g;
    const void *uh, *uw, *uf, *uY;
    void *out, *dh, *dw, *df, *dY;
    int64_t add_h;                   // whether the gradient of h is added to what is there
    int64_t chunks, threads;
};

}  // namespace cstf
